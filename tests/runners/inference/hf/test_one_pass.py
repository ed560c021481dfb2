"""Every signal of the engine, in mixed padded batches with shared pictures, against plain forward passes one prompt at a time."""

import json
import math
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from qualm.registry.formats.plausible import MIN_LOGPROB
from qualm.runners.contracts.models import PARTS, Decoding, ModelError, Request, draw_part
from qualm.runners.inference.hf import one_pass, rows
from qualm.runners.inference.hf.sampling import uniforms
from qualm.runners.inference.hf.token_numbers import divergences, uniform_divergences
from qualm.runners.prompts.question import CONFIDENCE, VERIFY, messages
from tests.support.models.each_family import EACH_FAMILY
from tests.support.models.plain_vlm import Plain, picture, turn

QUESTIONS = [
    "What color is the cube ?",
    "How many objects are there left of the big red metal sphere in the picture ?",
    "What ?",
    "What color is the big cube ?",
    "Is there a cone ?",
]
PICTURES = [0, 1, 0, 0, 2]
"""Which picture each question is about: three of them about the first."""
SIGNALS = tuple(name for name in PARTS if name != "options")
WANTS_A_PICTURE = ("paligemma",)
DECODING = Decoding(5, 0.9)
LIMIT = 1e-4


@pytest.fixture(scope="module", params=EACH_FAMILY)
def model(request, family_model):
    return family_model(request.param)


def requests(model, parts, image=True, known=True):
    pictures = {i: picture(i, (40 + 30 * i, 40)) for i in set(PICTURES)}
    return [
        Request(
            model.render(messages(q, n_images=image)), pictures[i] if image else None, 0, q, tuple(parts), 1000 + n,
            f"picture {i}" if known and image else "",
        )
        for n, (q, i) in enumerate(zip(QUESTIONS, PICTURES, strict=True))
    ]  # fmt: skip


def answers(model, asked, decoding=DECODING):
    return model.answer(model.encode(asked), decoding)


@pytest.fixture(scope="module")
def said(model):
    """All signals and three draws of all questions from one batch."""
    signals = [s for s in SIGNALS if model.label not in WANTS_A_PICTURE or s not in ("without_image", "without_both", "image_divergence")]
    asked = requests(model, (*signals, *map(draw_part, (1, 2, 3))))
    return asked, answers(model, asked)


@pytest.fixture(scope="module")
def plain_logits(model, said):
    """By plain passes, the logits before each token of every greedy answer."""
    return [Plain(model).logits(request.prompt, request.image, parts["answer"].tokens)[:-1] for request, parts in zip(*said, strict=True)]


def test_pictures_are_shared(model):
    encoded = model.encode(requests(model, ("answer",)))
    assert encoded.notes.apart == (model.label == "paligemma")
    assert len(encoded.tensors["input_ids"]) == (5 if encoded.notes.apart else 3)
    apart = model.encode(requests(model, ("answer",), known=False))
    assert len(apart.tensors["input_ids"]) == 5


def test_prompts_are_the_processor_s_own(model):
    plain = Plain(model)
    for request, ids in zip(requests(model, ("answer",)), model.encode(requests(model, ("answer",))).notes.prompts, strict=True):
        begins = model.tokenizer.bos_token
        special = {"add_special_tokens": False} if begins and request.prompt.startswith(begins) else {}
        own = plain.processor(text=[request.prompt], images=[[request.image]], return_tensors="pt", **special)["input_ids"][0].tolist()
        assert list(ids) == own


def test_prompts_that_differ_for_people_alone(model):
    """A word that the tokenizer does not know is as good as another; one prompt may be the beginning of another."""
    first = requests(model, ("answer", "draw 1"))[0]
    unknown = [replace(first, prompt=first.prompt.replace("cube", word)) for word in ("\u0f00", "\u0f01", "cube cube")]
    together = answers(model, [first, *unknown])
    for request, parts in zip([first, *unknown], together, strict=True):
        (alone,) = answers(model, [request])
        assert parts["answer"].tokens == alone["answer"].tokens and parts["draw 1"].tokens == alone["draw 1"].tokens


def test_greedy_answers(model, said):
    plain = Plain(model)
    for request, parts in zip(*said, strict=True):
        tokens, logprobs, entropies, _ = plain.generate(request.prompt, request.image, 5)
        part = parts["answer"]
        assert part.tokens == tokens and part.text == plain.text(tokens)
        assert part.logprobs == pytest.approx(logprobs, abs=LIMIT)
        assert part.entropies == pytest.approx(entropies, abs=LIMIT)


def test_draws_follow_their_numbers(model, said):
    plain = Plain(model)
    for request, parts in zip(*said, strict=True):
        for draw in (1, 3):
            numbers = uniforms(request.stream, draw, 5)

            def choose(step, logits, numbers=numbers):
                total = (logits / DECODING.temperature).softmax(0).cumsum(0)
                return int((total <= numbers[step] * total[-1]).sum())

            part = parts[draw_part(draw)]
            tokens, logprobs, entropies, _ = plain.follow(request.prompt, request.image, part.tokens, 5, choose)
            assert part.tokens == tokens
            assert part.logprobs == pytest.approx(logprobs, abs=LIMIT)
            assert part.entropies == pytest.approx(entropies, abs=LIMIT)


def test_priors(model, said):
    plain = Plain(model)
    for request, parts in zip(*said, strict=True):
        tokens = parts["answer"].tokens
        prompts = {
            "without_image": ([turn("user", request.question)], None),
            "without_question": ([turn("user", "", True)], request.image),
            "without_both": ([turn("user", "")], None),
        }
        answered = [name for name in prompts if name in parts]
        assert answered
        for name in answered:
            turns, image = prompts[name]
            assert parts[name].logprobs == pytest.approx(plain.forced(plain.render(turns), image, tokens), abs=LIMIT), name


def test_p_true_and_p_yes(model, said):
    plain = Plain(model)
    for request, parts in zip(*said, strict=True):
        answer = parts["answer"].text
        frame = f"Question: {request.question}\nPossible answer: {answer}\nIs the possible answer:\n(A) True\n(B) False\n"
        frame += "The possible answer is:"
        prompt = plain.render([turn("user", frame, True)])
        assert parts["p_true"].numbers == [pytest.approx(plain.probability(prompt, request.image, ["True"]), abs=LIMIT)]
        prompt = plain.render([turn("user", request.question, True), turn("assistant", answer), turn("user", VERIFY)])
        yes, no = (plain.probability(prompt, request.image, [w, w.capitalize(), w.upper()]) for w in ("yes", "no"))
        assert parts["p_yes"].numbers == [pytest.approx(yes / (yes + no), abs=LIMIT)]


def test_p_true_with_all_draws_shown(model, said):
    plain = Plain(model)
    for request, parts in zip(*said, strict=True):
        drawn = "".join(" ".join(parts[draw_part(draw)].text.split()) + "\n" for draw in (1, 2, 3))
        frame = (
            f"Question: {request.question}\nHere are some things that may be the answer:\n{drawn}Possible answer: {parts['answer'].text}\n"
        )
        frame += "Is the possible answer:\n(A) True\n(B) False\nThe possible answer is:"
        prompt = plain.render([turn("user", frame, True)])
        assert parts["p_true_sampling"].numbers == [pytest.approx(plain.probability(prompt, request.image, ["True"]), abs=LIMIT)]
        assert parts["p_true_sampling"].numbers != parts["p_true"].numbers


def test_what_prompts_about_an_answer_begin_with_is_read_once(model, said, monkeypatch):
    asked, _ = said
    names, numbers, read = ("p_true", "p_true_sampling", "p_yes"), [], []
    passed = rows.Rows._run_pass
    monkeypatch.setattr(
        rows.Rows, "_run_pass", lambda self, cache, ids, *rest: read.append(sum(map(len, ids))) or passed(self, cache, ids, *rest)
    )
    totals = []
    for least in (1, 10**6):
        monkeypatch.setattr(one_pass, "_SHARED_TOKENS", least)
        read.clear()
        numbers.append([[parts[name].numbers for name in names] for parts in answers(model, asked)])
        totals.append(sum(read))
    assert totals[0] < totals[1] or model.encode(asked).notes.apart
    for ours, alone in zip(*numbers, strict=True):
        assert ours == [pytest.approx(values, abs=LIMIT) for values in alone]


def test_image_divergence(model, said, plain_logits):
    plain = Plain(model)
    for request, parts, logits in zip(*said, plain_logits, strict=True):
        if "image_divergence" not in parts:
            continue
        tokens = parts["answer"].tokens
        p = logits.log_softmax(1)
        q = plain.logits(plain.render([turn("user", request.question)]), None, tokens)[:-1].log_softmax(1)
        assert parts["image_divergence"].logprobs == pytest.approx((p.exp() * (p - q)).sum(1).tolist(), abs=LIMIT)


def test_uniform_divergence(said, plain_logits):
    for parts, logits in zip(said[1], plain_logits, strict=True):
        p = logits.softmax(1).numpy()
        p = p[:, p.max(0) > 0]  # what a model rules out is no token
        expected = (np.log(1 / p.shape[1]) - np.log(p)).mean(1)
        assert parts["uniform_divergence"].logprobs == pytest.approx(expected.tolist(), abs=LIMIT)


def test_top_logprobs(said, plain_logits):
    for parts, logits in zip(said[1], plain_logits, strict=True):
        p = logits.log_softmax(1)
        (k,) = map(int, parts["top_logprobs"].numbers)
        assert k == min(20, p.shape[1])
        expected = p.sort(descending=True).values[:, :k].clamp(min=MIN_LOGPROB).flatten().tolist()
        assert parts["top_logprobs"].logprobs == pytest.approx(expected, abs=LIMIT)


def test_top_tokens(model, said, plain_logits):
    """The text that the answer would gain, by decoding it whole with each token in place of its own."""
    decode = partial(model.tokenizer.decode, skip_special_tokens=True)
    for parts, logits in zip(said[1], plain_logits, strict=True):
        tokens = parts["answer"].tokens
        texts = json.loads(parts["top_tokens"].text)
        ids = logits.topk(2).indices.tolist()
        assert len(texts) == len(ids) and {len(row) for row in texts} == {int(parts["top_logprobs"].numbers[0])}
        for place, (two, row) in enumerate(zip(ids, texts, strict=True)):
            assert two[0] == tokens[place], "greedy"
            before = decode(tokens[:place]).rstrip("\ufffd")  # half a character
            wholes = [decode([*tokens[:place], token]) for token in two]
            expected = [w.removeprefix(before) if w.startswith(before) else decode([i]) for i, w in zip(two, wholes, strict=True)]
            assert row[:2] == expected


def test_tokens_that_are_ruled_out_are_not_of_the_vocabulary():
    logits = torch.tensor([[[0.25, 0.75, 0.0]]]).log()
    assert uniform_divergences(logits, [[1]]) == [[pytest.approx(-(math.log(0.5) + math.log(1.5)) / 2)]]


def test_what_cannot_come_adds_nothing_to_a_divergence():
    seeing, blind = (torch.tensor([[row]]).log() for row in ([0.0, 0.25, 0.75], [0.5, 0.25, 0.25]))
    assert divergences(seeing, blind, [[1]]) == [[pytest.approx(0.75 * math.log(3))]]
    assert divergences(blind, seeing, [[1]]) == [[math.inf]]


def test_said_confidence(model, said):
    plain = Plain(model)
    for request, parts in zip(*said, strict=True):
        told = [turn("user", request.question, True), turn("assistant", parts["answer"].text), turn("user", CONFIDENCE)]
        tokens, _, _, _ = plain.follow(plain.render(told), request.image, parts["said_confidence"].tokens, 8)
        assert parts["said_confidence"].tokens == tokens and parts["said_confidence"].text == plain.text(tokens)


def test_questions_without_pictures(model):
    plain = Plain(model)
    if model.label in WANTS_A_PICTURE:
        with pytest.raises(ModelError, match=r"its processor refuses the prompt 'What color is the cube \?': `images` are expected"):
            model.encode(requests(model, ("answer",), image=False))
        return
    asked = requests(model, (*SIGNALS, "draw 1"), image=False)
    for request, parts in zip(asked, answers(model, asked), strict=True):
        tokens, logprobs, _, _ = plain.follow(request.prompt, None, parts["answer"].tokens, 5)
        assert parts["answer"].tokens == tokens
        assert parts["answer"].logprobs == pytest.approx(logprobs, abs=LIMIT)
        assert parts["without_image"].logprobs == pytest.approx(logprobs, abs=LIMIT)
        bare = plain.forced(plain.render([turn("user", "")]), None, tokens)
        assert parts["without_question"].logprobs == pytest.approx(bare, abs=LIMIT)
        assert parts["without_both"].logprobs == pytest.approx(bare, abs=LIMIT)


def test_nothing_depends_on_the_batch(model, said):
    asked, together = said
    expected = dict(zip((r.question for r in asked), together, strict=True))
    order = list(asked)
    random.Random(1).shuffle(order)
    for batch in (order[:2], order[2:4], order[4:]):
        for request, parts in zip(batch, answers(model, batch), strict=True):
            for name, part in expected[request.question].items():
                if name == "top_tokens":  # the order of about equally likely ones is rounding's
                    own, known = ([texts[0] for texts in json.loads(of.text)] for of in (parts[name], part))
                    assert own == known
                    continue
                assert (parts[name].text, parts[name].tokens) == (part.text, part.tokens), (name, len(batch))
                # Rounding in single precision grows with what is rounded: divergences of these networks are up to 40 nats.
                values = None if part.logprobs is None else pytest.approx(part.logprobs, abs=LIMIT, rel=1e-5)
                assert parts[name].logprobs == values
                assert parts[name].numbers == (None if part.numbers is None else pytest.approx(part.numbers, abs=LIMIT))


def test_greedy_answers_are_not_read_again_for_their_divergences(model, said, monkeypatch):
    asked, before = said
    if "image_divergence" not in asked[0].parts:
        pytest.skip("it has none")
    monkeypatch.setattr(one_pass, "_answer_logits", lambda *_: pytest.fail("read again"))
    found = answers(model, [replace(r, parts=("answer", "uniform_divergence", "draw 1")) for r in asked])
    for parts, known in zip(found, before, strict=True):
        assert parts["uniform_divergence"].logprobs == pytest.approx(known["uniform_divergence"].logprobs, abs=LIMIT, rel=1e-5)


def test_a_known_answer_is_not_made_again(model, said):
    wanted = ("p_true", "without_question", "draw 4")
    later = [replace(request, parts=wanted, greedy=parts["answer"]) for request, parts in zip(*said, strict=True)]
    for parts, known in zip(answers(model, later), said[1], strict=True):
        assert set(parts) == {"p_true", "without_question", "draw 4"}
        assert parts["p_true"].numbers == pytest.approx(known["p_true"].numbers, abs=LIMIT)
        assert parts["without_question"].logprobs == pytest.approx(known["without_question"].logprobs, abs=LIMIT)


def test_draws_that_are_known_are_shown_beside_those_that_are_made(model, said):
    asked, before = said
    for wanted in (("p_true_sampling",), ("draw 2", "draw 3", "p_true_sampling")):
        known = [{k: parts[draw_part(k)].text for k in (3, 1, 2) if draw_part(k) not in wanted} for parts in before]
        later = [replace(r, parts=wanted, greedy=p["answer"], drawn=d) for r, p, d in zip(asked, before, known, strict=True)]
        for parts, expected in zip(answers(model, later), before, strict=True):
            assert parts["p_true_sampling"].numbers == pytest.approx(expected["p_true_sampling"].numbers, abs=LIMIT)
    with pytest.raises(ModelError, match="neither holds sampled answers nor asks for them"):
        answers(model, [replace(asked[0], parts=("answer", "p_true_sampling"))])


def test_an_answer_that_cannot_be_shown_leaves_what_is_said_of_it_undefined(model, said):
    """It spells the mark of a picture, which is no picture; the others of its batch are as ever."""
    mark = getattr(model.processor, "image_token", None)
    if mark is None:
        pytest.skip("its processor names no mark of pictures")
    asked, before = said
    wanted = [name for name in ("p_true", "p_yes", "p_true_sampling", "said_confidence") if name in asked[0].parts]
    assert wanted
    given = [parts["answer"] for parts in before]
    given[1] = replace(given[1], text=f"a {mark}")
    drawn = [{n: parts[draw_part(n)].text for n in (1, 2, 3)} for parts in before]
    later = [replace(r, parts=tuple(wanted), greedy=g, drawn=d) for r, g, d in zip(asked, given, drawn, strict=True)]
    for n, (parts, expected) in enumerate(zip(answers(model, later), before, strict=True)):
        for name in wanted:
            if n == 1:
                assert not parts[name].numbers and parts[name].text is None, name
            else:
                assert parts[name].text == expected[name].text, name
                assert (parts[name].numbers or []) == pytest.approx(expected[name].numbers or [], abs=LIMIT), name


def test_draws_are_draws(model):
    """The share of each first token is its probability, within four standard errors."""
    (request,) = requests(model, ("answer",))[:1]
    n = 400
    made = answers(model, [replace(request, parts=tuple(map(draw_part, range(1, n + 1))))], Decoding(1, 0.8))[0]
    first = torch.tensor([part.tokens[0] for part in made.values()])
    expected = (Plain(model).logits(request.prompt, request.image)[0] / 0.8).softmax(0)
    for token in (expected > 0.05).nonzero().flatten().tolist():
        p = float(expected[token])
        assert abs(float((first == token).float().mean()) - p) < 4 * (p * (1 - p) / n) ** 0.5 + 1e-9


def test_top_p_and_top_k_leave_the_likeliest(model):
    (request,) = requests(model, ("answer",))[:1]
    drawn = replace(request, parts=("answer", *map(draw_part, range(1, 30))))
    for decoding in (Decoding(3, 5.0, 1e-6), Decoding(3, 5.0, top_k=1)):
        assert len({part.text for part in answers(model, [drawn], decoding)[0].values()}) == 1


def test_draws_that_are_the_same_so_far_are_read_once(model, monkeypatch):
    if not model.network.side_by_side:
        pytest.skip("its answers each have a row of their own")
    widths, inner = [], type(model.network).__call__

    def counted(self, cache, mask, positions, keep, **inputs):
        widths.append(inputs["input_ids"].shape[1])
        return inner(self, cache, mask, positions, keep, **inputs)

    monkeypatch.setattr(type(model.network), "__call__", counted)
    (request,) = requests(model, ("answer",))[:1]
    (made,) = answers(model, [replace(request, parts=("answer", *map(draw_part, range(1, 8))))], Decoding(3, 1e-4))
    assert len({tuple(part.tokens) for part in made.values()}) == 1 and set(widths[1:]) <= {1}
