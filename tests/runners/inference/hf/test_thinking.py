"""Reasoning models: each answer thinks for itself, and only what follows its thinking is its answer.

A random model never says `</think>`; so a token that it does say is declared to be the end of its thinking. What the engine makes of it is
held to plain passes, one token at a time, parted by hand.
"""

import json
from dataclasses import replace

import pytest

from qualm.runners.contracts.models import Decoding, ModelContext, ModelError, Request, draw_part
from qualm.runners.inference.hf.sampling import uniforms
from qualm.runners.inference.hf.thinking import SEPARATORS, ThoughtEnds
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import VERIFY, messages
from qualm.runners.prompts.thinking import ANSWERED, CUT, NO_ANSWER, Thinking
from tests.support.models.plain_vlm import Plain, picture, turn
from tests.support.models.tiny_qwens import TEMPLATE, tiny_qwen2_vl

BUDGET, LONGEST, LIMIT = 12, 4, 1e-3
DECODING = Decoding(LONGEST, 0.9)
OPEN = "[T]"
SIGNALS = ("without_image", "without_question", "without_both", "image_divergence", "p_true", "p_true_sampling", "p_yes", "said_confidence")


def template(end):
    return TEMPLATE[: -len("{% endif %}")] + "{% if enable_thinking %}[T]\n{% else %}[T]\n\n" + end + "\n\n{% endif %}{% endif %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_qwen2_vl(tmp_path_factory.mktemp("qwen"))


def ending(folder, options=0):
    """A model whose end of thinking is what the greedy answer to its first question says fourth."""
    probe = hf_vlm(ModelContext("m", folder), template=template("[/T]"), thinking={"tags": [OPEN, "[/T]"], "budget": BUDGET})
    probe.load()
    first = asked(probe, ("answer",), options)[0]
    tokens, _, _, _ = Plain(probe).generate(first.prompt, first.image, BUDGET)
    end = next(t for t in (probe.tokenizer.decode([i]) for i in tokens[3:]) if t.strip() and "<|" not in t and "\ufffd" not in t)
    model = hf_vlm(ModelContext("m", folder), template=template(end), thinking={"tags": [OPEN, end], "budget": BUDGET})
    model.load()
    return model


@pytest.fixture(scope="module")
def model(folder):
    return ending(folder)


def asked(model, parts, options=0):
    questions = [
        "What color is the cube ?",
        "How many cubes are there ?",
        "What shape is the red thing ?",
        "Is the big cube left of the cone ?",
    ]
    images = [picture(1), picture(1), picture(2), None]
    choices = ["red", "blue", "green"][:options]
    rows = zip(questions, images, strict=True)
    return [
        Request(model.render(messages(q, choices, i is not None)), i, options, q, parts, 99 + n, str(id(i)) if i else "")
        for n, (q, i) in enumerate(rows)
    ]


def answers(model, requests):
    pictures = [r for r in requests if r.image is not None]
    return [
        *(model.answer(model.encode(pictures), DECODING) if pictures else []),
        *(p for r in requests if r.image is None for p in model.answer(model.encode([r]), DECODING)),
    ]


def by_hand(model, request, given, choose=lambda step, logits: int(logits.argmax()), longest=LONGEST):
    """Tokens, log-probabilities, how many were thinking, how it ended, of an answer that is followed token by token."""
    plain, end = Plain(model), model.thinking.tags[1]
    tokens, logprobs, _, _ = plain.follow(request.prompt, request.image, given, BUDGET + SEPARATORS + longest, choose)
    thought = None
    for n in range(1, len(tokens) + 1):
        text = model.tokenizer.decode(tokens[:n])
        if (thought is None and end in text) or (
            thought == n - 1 and n > 1 and not text[-1:].strip() and not model.tokenizer.decode(tokens[n - 1 : n]).strip()
        ):
            thought = n
        if thought is None and n == BUDGET:
            return tokens[:n], logprobs[:n], n, NO_ANSWER if tokens[n - 1] in plain.stops else CUT
        if thought is not None and n - thought == longest:
            return tokens[:n], logprobs[:n], thought, ANSWERED
    return tokens, logprobs, len(tokens) if thought is None else thought, NO_ANSWER if thought is None else ANSWERED


def drawn(request, draw):
    numbers = uniforms(request.stream, draw, BUDGET + SEPARATORS + LONGEST)

    def choose(step, logits):
        total = (logits / DECODING.temperature).softmax(0).cumsum(0)
        return int((total <= numbers[step] * total[-1]).sum())

    return choose


def test_answers_and_draws_are_those_of_plain_passes_parted_by_hand(model):
    requests, ends = asked(model, ("answer", *map(draw_part, range(1, 7)))), []
    plain = Plain(model)
    for request, parts in zip(requests, answers(model, requests), strict=True):
        for draw in range(7):
            part = parts[draw_part(draw) if draw else "answer"]
            tokens, logprobs, thought, how = by_hand(model, request, part.tokens, **({"choose": drawn(request, draw)} if draw else {}))
            assert part.tokens == tokens and part.numbers == [thought, how]
            assert part.logprobs == pytest.approx(logprobs, abs=LIMIT) and len(part.entropies) == len(tokens)
            assert part.text == (plain.text(tokens[thought:]) if how == ANSWERED else None)
            ends.append(how)
    assert {ANSWERED, CUT} <= set(ends), "both were seen"


def test_a_prompt_says_whether_it_may_think(model, folder):
    end = model.thinking.tags[1]
    assert model.render(messages("Q")).endswith("assistant\n[T]\n")
    assert model.render(messages("Q"), silent=True).endswith(f"[T]\n\n{end}\n\n")
    assert not hf_vlm(ModelContext("m", folder)).thinks
    assert model.facts["thinking"]["switch"] == "enable_thinking" and model.facts["thinking"]["budget"] == BUDGET


def test_signals_about_an_answer(model):
    """Priors are of all tokens that were written; the model is asked about its answer alone, and answers at once."""
    requests = asked(model, ("answer", *SIGNALS, *map(draw_part, range(1, 4))))
    plain = Plain(model)
    for request, parts in zip(requests, answers(model, requests), strict=True):
        own = parts["answer"]
        prompts = {
            "without_image": ([turn("user", request.question)], None),
            "without_question": ([turn("user", "", request.image is not None)], request.image),
            "without_both": ([turn("user", "")], None),
        }
        for name, (turns, image) in prompts.items():
            assert parts[name].logprobs == pytest.approx(plain.forced(model.render(turns), image, own.tokens), abs=LIMIT), name
        talk = [turn("user", request.question, request.image is not None), turn("assistant", own.text or ""), turn("user", VERIFY)]
        prompt = model.render(talk, silent=True)
        yes, no = (plain.probability(prompt, request.image, [w, w.capitalize(), w.upper()]) for w in ("yes", "no"))
        expected = [] if own.text is None else [pytest.approx(yes / (yes + no), abs=LIMIT)]
        assert parts["p_yes"].numbers == expected


def test_option_logits_are_of_the_first_position_after_the_thinking(folder):
    model = ending(folder, options=3)
    requests = asked(model, ("options",), options=3)
    plain, letters, seen = Plain(model), model.option_ids(3), set()
    for request, parts in zip(requests, answers(model, requests), strict=True):
        part = parts["options"]
        tokens, _, thought, how = by_hand(model, request, part.tokens, longest=1)
        seen.add(how)
        assert part.tokens == tokens
        if how == ANSWERED:
            logits = plain.logits(request.prompt, request.image, tokens[:thought])[-1][letters]
            assert part.numbers == pytest.approx(logits.tolist(), abs=LIMIT) and part.text is not None
        else:
            assert part.numbers is None and part.text is None
    assert ANSWERED in seen


def test_what_is_in_a_batch_does_not_matter(model):
    requests = asked(model, ("answer", "draw 1", "draw 2"))[:3]
    together = model.answer(model.encode(requests), DECODING)
    for request, parts in zip(requests, together, strict=True):
        (alone,) = model.answer(model.encode([replace(request, pixels="")]), DECODING)
        assert {n: (p.text, p.tokens, p.numbers) for n, p in parts.items()} == {n: (p.text, p.tokens, p.numbers) for n, p in alone.items()}


def test_the_digest_holds_what_shapes_answers_alone(folder):
    def digest(**thinking):
        return hf_vlm(ModelContext("m", folder), thinking={"tags": [OPEN, "[/T]"], **thinking}).digest

    assert digest() == digest(of="both") != digest(budget=3) and digest() != hf_vlm(ModelContext("m", folder)).digest
    assert hf_vlm(ModelContext("m", folder), thinking=None).digest == hf_vlm(ModelContext("m", folder)).digest


def test_a_template_without_thinking_must_be_told_the_tags(folder):
    with pytest.raises(ModelError, match=r"^model 'm': thinking: the chat template shows no tags of thinking; name them"):
        hf_vlm(ModelContext("m", folder), thinking=True)
    with pytest.raises(ModelError, match=r"^model 'm': thinking: budget"):
        hf_vlm(ModelContext("m", folder), thinking={"budget": 0})


class Letters:
    """A tokenizer of one token for each character; 0 ends a turn."""

    all_special_ids = (0,)

    def decode(self, ids, skip_special_tokens=True):
        return "".join("$" if i == 0 else chr(i) for i in ids)


@pytest.mark.parametrize(
    ("text", "begun", "thought", "length"),
    [
        ("<t>ab</t>\n yes, so", False, 11, 14),  # white space after it is no answer's
        ("ab</t>yes", True, 6, 9),
        ("no thinking", False, 0, 3),
        ("<tea>", False, 0, 3),  # begins as the tag does
        ("<t>abcdefghijklm", False, None, 10),
        ("ab</t>$", True, 6, 7),
    ],
)
def test_where_a_row_ends(text, begun, thought, length):
    ends = ThoughtEnds(Letters(), Thinking(tags=("<t>", "</t>"), budget=10), [begun], 3)
    ids = [0 if c == "$" else ord(c) for c in text]
    n = next((n for n in range(1, len(ids) + 1) if not ends._goes_on(0, ids[:n])), len(ids))
    assert (ends.thought[0], n) == (thought, length)


@pytest.mark.parametrize(
    ("text", "begun", "thought", "length"),
    [
        ("<t>a<t>b</t>c</t>yes!", False, 17, 20),  # a thought within a thought
        ("<t>ab</t>yes!", True, 9, 12),  # says again what the prompt has opened
        ("a<t>b</t>yes! and no more", True, None, 20),  # one is still open: no answer within the budget
        ("[a</t></t>b", True, 6, 9),  # an end too many is the answer's
    ],
)
def test_thoughts_within_thoughts(text, begun, thought, length):
    ends = ThoughtEnds(Letters(), Thinking(tags=("<t>", "</t>"), budget=20), [begun], 3)
    n = next((n for n in range(1, len(text) + 1) if not ends._goes_on(0, [ord(c) for c in text[:n]])), len(text))
    assert (ends.thought[0], n) == (thought, length)


def test_a_missing_end_within_a_turn_that_is_over():
    """The last closing tag ends it then; a turn that was cut has no answer."""
    ids = [ord(c) for c in "<t>a<t>b</t>yes"] + [0]
    ends = ThoughtEnds(Letters(), Thinking(tags=("<t>", "</t>"), budget=30), [False], 3)
    assert all(ends._goes_on(0, ids[:n]) for n in range(1, len(ids))) and ends.thought == [None]
    assert ends.part(0, ids, [], [], "", False).numbers == [len(ids), CUT]
    ends.record_end(0, ids)
    assert ends.part(0, ids, [], [], "yes", True).numbers == [12, ANSWERED]


def test_a_text_of_what_was_thought(model):
    ids = model.tokenize("Red or blue" + model.thinking.tags[1])
    assert model.thought(ids) == "Red or blue"
    assert json.dumps(model.thinking.answer_settings)
