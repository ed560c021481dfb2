"""What is sent to a server for each part of an answer, field by field, and what is made of what it says."""

import base64
import hashlib
import io
import json
from dataclasses import asdict

import numpy as np
import PIL
import PIL.Image
import pytest

from qualm.runners.contracts.models import Decoding, ModelContext, Part, PartReply, Request
from qualm.runners.plugins.models._served import Content
from qualm.runners.plugins.models.openai import openai
from qualm.runners.prompts.question import Prompt, messages, p_true_prompt, verbalisation, verification
from qualm.runners.prompts.thinking import FILTERED
from qualm.runners.runtime.settings import Settings
from qualm.runners.servers.client import FatalRequestError
from tests.support.servers.small_server import IMPATIENT, completion, serving
from tests.support.servers.toy_server import END, WORDS, Toy, logprobs, toy_serving

NO = (400, '{"error": {"message": "against our rules"}}', {})
DECODING = Decoding(4, 0.5, 0.9)
IMAGE = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8))


def model_of(server, **args):
    return openai(ModelContext("gpt", settings=Settings(progress=False, servers=IMPATIENT)), model="toy", base_url=server.url, **args)


def request(model, *parts, question="What ?", image=None, options=0, **more):
    choices = list("uvwxyz")[:options]
    return Request(model.render(messages(question, choices, image is not None)), image, options, question, parts, 1234, **more)


def replies(model, asked, decoding=DECODING):
    return list(model.parts(asked, decoding))


def user(text):
    return {"role": "user", "content": text}


@pytest.fixture
def server():
    with toy_serving() as running:
        yield running


def test_the_digest_is_over_what_shapes_answers_and_not_over_how_they_are_fetched(server):
    def sha(content, encoder=""):
        material = ["openai", server.url, "toy", asdict(content), encoder]
        return hashlib.sha256(json.dumps(material).encode()).hexdigest()

    usual = Content("", 0, False, False, None, None, True)
    assert model_of(server).digest == sha(usual) == model_of(server, n=False, seeds=False, limit_name="max_completion_tokens").digest
    own = Content("2", 5, True, True, "low", 80, False)
    args = {name: getattr(own, name) for name in ("version", "logprobs", "truncated_entropies", "prompt_logprobs", "detail", "jpeg")}
    assert model_of(server, sampling=False, **args).digest == sha(own, PIL.__version__)


def test_a_rendered_prompt_is_the_conversation_with_the_system_message_before_it(server):
    turns = messages("Ünd?", n_images=True)
    plain = '[{"content":[{"type":"image"},{"text":"Ünd?","type":"text"}],"role":"user"}]'
    assert model_of(server).render(turns) == plain
    system = '[{"content":[{"text":"Be brief.","type":"text"}],"role":"system"},'
    assert model_of(server).render(Prompt(system="Be brief.").messages("Ünd?")) == system + plain[1:]


@pytest.mark.parametrize(
    ("args", "body"),
    [
        ({}, {"max_tokens": 4, "temperature": 0.0}),
        ({"sampling": False}, {"max_tokens": 4}),
        ({"limit_name": "max_completion_tokens"}, {"max_completion_tokens": 4, "temperature": 0.0}),
        ({"logprobs": 7}, {"max_tokens": 4, "temperature": 0.0, "logprobs": True}),
        ({"logprobs": 7, "truncated_entropies": True}, {"max_tokens": 4, "temperature": 0.0, "logprobs": True, "top_logprobs": 7}),
        ({"logprobs": 7, "prompt_logprobs": True}, {"max_tokens": 4, "temperature": 0.0, "logprobs": True, "return_token_ids": True}),
    ],
)
def test_what_is_sent_for_an_answer(server, args, body):
    model = model_of(server, **args)
    replies(model, request(model, "answer"))
    assert server.bodies == [{"model": "toy", "messages": [user("What ?")], **body}]


def test_what_is_sent_with_a_picture(server):
    model = model_of(server, detail="low")
    replies(model, request(model, "answer", image=IMAGE))
    (turn,) = server.bodies[0]["messages"]
    assert turn["content"][1] == {"type": "text", "text": "What ?"}
    assert turn["content"][0]["type"] == "image_url" and turn["content"][0]["image_url"]["detail"] == "low"
    data = base64.b64decode(turn["content"][0]["image_url"]["url"].removeprefix("data:image/png;base64,"))
    assert PIL.Image.open(io.BytesIO(data)).tobytes() == IMAGE.tobytes()
    plain = model_of(server)
    replies(plain, request(plain, "answer", image=IMAGE))
    assert list(server.bodies[1]["messages"][0]["content"][0]["image_url"]) == ["url"]


def test_a_picture_as_jpeg_of_the_quality_that_was_asked_for(server):
    model = model_of(server, jpeg=30)
    replies(model, request(model, "answer", image=IMAGE))
    url = server.bodies[0]["messages"][0]["content"][0]["image_url"]["url"]
    expected = io.BytesIO()
    IMAGE.save(expected, "JPEG", quality=30)
    assert base64.b64decode(url.removeprefix("data:image/jpeg;base64,")) == expected.getvalue()


def said(talk, longest=4):
    words = []
    while len(words) < longest and (not words or words[-1] != END):
        words.append(WORDS[int(logprobs(talk, words).argmax())])
    return words


def test_an_answer_has_its_tokens_and_entropies_only_where_they_were_asked_for(server):
    model = model_of(server)
    (reply,) = replies(model, request(model, "answer"))
    words = said([user("What ?")])
    text = "".join(w for w in words if w != END).strip()
    assert reply == PartReply("answer", Part(text, [WORDS.index(w) for w in words], None, None))
    model = model_of(server, logprobs=20, truncated_entropies=True)
    value = replies(model, request(model, "answer"))[0].value
    rows = [logprobs([user("What ?")], words[:i]) for i in range(len(words))]
    assert value.logprobs == pytest.approx([row.max() for row in rows])
    assert value.entropies == pytest.approx([-(np.exp(row) * row).sum() for row in rows]), "20 of 20 words are all"
    assert model.served == {"toy-1 fp_7": 1}


def test_the_likeliest_tokens_come_with_the_answer_in_one_request(server):
    model = model_of(server, logprobs=5)
    answer, tops = replies(model, request(model, "answer", "top_logprobs"))
    assert [b["top_logprobs"] for b in server.bodies] == [5] and answer.value.entropies is None
    words = said([user("What ?")])
    rows = [np.sort(logprobs([user("What ?")], words[:i]))[::-1][:5] for i in range(len(words))]
    assert tops.part == "top_logprobs" and tops.value.numbers == [5.0]
    assert tops.value.logprobs == pytest.approx(np.concatenate(rows).tolist())
    plain = model_of(server, logprobs=5)
    assert replies(plain, request(plain, "answer"))[0].value == answer.value, "the answer is the same without them"


def test_texts_of_the_likeliest_tokens_come_with_the_answer_too(server):
    model = model_of(server, logprobs=5)
    asked = request(model, "answer", "top_logprobs", "top_tokens")
    answer, tops, texts = replies(model, asked)
    assert len(server.bodies) == 1 and texts.part == "top_tokens"
    words = said([user("What ?")])
    rows = [logprobs([user("What ?")], words[:i]) for i in range(len(words))]
    by_hand = [[WORDS[i] for i in np.argsort(-row)[:5]] for row in rows]
    assert json.loads(texts.value.text) == [["" if word == END else word for word in row] for row in by_hand]
    assert replies(model, request(model, "top_logprobs", "top_tokens", greedy=answer.value)) == [tops, texts] and len(server.bodies) == 2


def test_likeliest_tokens_of_a_stored_answer_are_those_of_the_same_answer_or_undefined(server):
    model = model_of(server, logprobs=5)
    answer, tops = replies(model, request(model, "answer", "top_logprobs"))
    (again,) = replies(model, request(model, "top_logprobs", greedy=answer.value))
    assert again == tops
    (other,) = replies(model, request(model, "top_logprobs", greedy=Part("something else")))
    assert other == PartReply("top_logprobs", Part(), "the server gives another answer now than the stored one")
    few = model_of(server, logprobs=1)
    assert replies(few, request(few, "answer", "top_logprobs"))[1].reason == "the reply shows fewer than two likeliest tokens at a position"


def test_options_are_asked_for_one_token_with_all_that_is_shown(server):
    model = model_of(server, logprobs=20)
    asked = request(model, "options", options=3)
    (reply,) = replies(model, asked)
    (body,) = server.bodies
    assert (body["max_tokens"], body["top_logprobs"], reply.reason, reply.rejected) == (1, 20, "", False)
    first = np.exp(logprobs(body["messages"], []))
    by_hand = [first[WORDS.index("A")] + first[WORDS.index(" A")], first[WORDS.index("B")], first[WORDS.index("C")]]
    assert reply.value.numbers == pytest.approx(np.log(by_hand)) and reply.value.text
    few = model_of(server, logprobs=1)
    (reply,) = replies(few, request(few, "options", options=6))
    assert reply.value.numbers is None and reply.reason.endswith("not among the 1 likeliest first tokens; a larger `logprobs` shows more")
    none = model_of(server)
    (reply,) = replies(none, request(none, "options", options=3))
    assert (reply.value.numbers, reply.reason) == (None, "no log-probabilities were requested from the model") and reply.value.text


def test_signals_are_asked_as_their_conversations_about_the_answer(server):
    model = model_of(server, logprobs=20, partial_p_true=True)
    answer = Part("red", [0])
    asked = request(model, "p_yes", "said_confidence", "p_true", image=IMAGE, greedy=answer)
    yes, confidence, true = replies(model, asked, Decoding(99))
    url = server.bodies[0]["messages"][0]["content"][0]["image_url"]["url"]

    def talk(turns):
        parts = [
            [{"type": "image_url", "image_url": {"url": url}} if p["type"] == "image" else p for p in turn["content"]] for turn in turns
        ]
        texts = [p[0]["text"] if len(p) == 1 and p[0]["type"] == "text" else p for p in parts]
        return [{"role": turn["role"], "content": text} for turn, text in zip(turns, texts, strict=True)]

    talks = [talk(verification("What ?", "red")), talk(verbalisation("What ?", "red")), talk(messages(p_true_prompt("What ?", "red")))]
    assert [body["messages"] for body in server.bodies] == talks
    assert [(b["max_tokens"], b.get("top_logprobs")) for b in server.bodies] == [(1, 20), (8, None), (1, 20)]
    first = np.exp(logprobs(talks[0], []))
    p_yes, p_no = (sum(first[WORDS.index(w)] for w in words) for words in (("yes", " Yes"), ("no", " No")))
    assert yes.value.numbers == pytest.approx([p_yes / (p_yes + p_no)])
    assert confidence.value.text == "".join(w for w in said(talks[1], 8) if w != END).strip()
    assert true.value.numbers == pytest.approx([np.exp(logprobs(talks[2], []))[WORDS.index("True")]])


def test_a_share_that_is_not_shown_is_undefined_with_its_reason(server):
    model = model_of(server, logprobs=1, partial_p_true=True)
    (reply,) = replies(model, request(model, "p_yes", greedy=Part("red")))
    assert reply.value == Part(numbers=[]) and "not among the 1 likeliest first tokens" in reply.reason and not reply.rejected


def test_without_an_answer_there_is_nothing_to_ask_about(server):
    model = model_of(server, logprobs=20)
    for greedy in (None, Part(None)):
        first, second = replies(model, request(model, "p_yes", "said_confidence", greedy=greedy))
        assert first == PartReply("p_yes", Part(numbers=[]), "there is no answer to ask about")
        assert second == PartReply("said_confidence", Part(), "there is no answer to ask about")
    assert server.bodies == []


def test_priors_are_read_from_a_prompt_that_repeats_the_answer(server):
    model = model_of(server, logprobs=20, prompt_logprobs=True)
    answer = Part("red cube", [WORDS.index(w) for w in ("red", " cube", END)])
    parts = ("without_image", "without_question", "without_both")
    found = replies(model, request(model, *parts, image=IMAGE, greedy=answer))
    for body in server.bodies:
        assert body["add_generation_prompt"] is False and body["prompt_logprobs"] == 0 and body["max_tokens"] == 1
        assert body["messages"][-1] == {"role": "assistant", "content": "red cube"}
    firsts = [body["messages"][0]["content"] for body in server.bodies]
    assert firsts[0] == "What ?" and firsts[2] == "" and firsts[1][0]["type"] == "image_url"
    for reply, body in zip(found, server.bodies, strict=True):
        talk, words = body["messages"][:-1], ["red", " cube", END]
        by_hand = [logprobs(talk, words[:i])[WORDS.index(w)] for i, w in enumerate(words)]
        assert reply.value.logprobs == pytest.approx(by_hand) and reply.reason == ""


def test_priors_need_the_answers_tokens_where_they_stand(server):
    model = model_of(server, logprobs=20, prompt_logprobs=True)
    (reply,) = replies(model, request(model, "without_both", greedy=Part("red", None)))
    assert reply.reason == "the server does not show which tokens the answer is made of (vLLM: `return_token_ids`)"
    (reply,) = replies(model, request(model, "without_both", greedy=Part("red", [1, 1])))
    assert (reply.value, reply.reason) == (Part(), "the prompt that repeats the answer splits it into other tokens")
    with toy_serving(scores_prompts=False) as other:
        model = model_of(other, logprobs=20, prompt_logprobs=True)
        (reply,) = replies(model, request(model, "without_both", greedy=Part("red", [0])))
        assert (reply.value, reply.reason) == (Part(), "the reply scores no prompt, which the spec's `prompt_logprobs` asks for")


def test_a_refused_answer_refuses_all_that_is_about_it():
    with serving(lambda body, nth: NO) as server:
        model = model_of(server, logprobs=20)
        found = replies(model, request(model, "answer", "p_yes", "said_confidence", "draw 1", "draw 2"))
        assert len(server.bodies) == 1
    assert [(r.part, r.rejected) for r in found] == [(p, True) for p in ("answer", "p_yes", "said_confidence", "draw 1", "draw 2")]
    assert {r.reason for r in found} == {found[0].reason} and "against our rules" in found[0].reason
    assert [r.value for r in found] == [Part(), Part(numbers=[]), Part(), Part(), Part()]


def test_a_refused_signal_leaves_the_others():
    script = Toy(trouble=lambda body, nth: NO if len(body["messages"]) == 3 and body["max_tokens"] == 1 else None)
    with serving(script) as server:
        model = model_of(server, logprobs=20)
        answer, yes, confidence = replies(model, request(model, "answer", "p_yes", "said_confidence"))
    assert (answer.rejected, yes.rejected, confidence.rejected) == (False, True, False)
    assert yes.value == Part(numbers=[]) and confidence.value.text is not None


def drawn(bodies):
    return [b.get("n", 1) for b in bodies if b.get("temperature") == 0.5]


@pytest.mark.parametrize(("draws", "sent"), [(1, [1]), (2, [2]), (64, [64]), (65, [64, 1]), (66, [64, 2])])
def test_draws_are_asked_for_together_64_at_most(server, draws, sent):
    model = model_of(server)
    found = replies(model, request(model, *(f"draw {k}" for k in range(1, draws + 1))))
    assert [r.part for r in found] == [f"draw {k}" for k in range(1, draws + 1)] and drawn(server.bodies) == sent
    assert all(r.value.text is not None and not r.reason for r in found)
    replies(model, request(model, "draw 1", "draw 2", question="Why ?"))
    assert drawn(server.bodies) == [*sent, 2], "a last draw that is asked for by itself says nothing of `n`"
    assert {(b["temperature"], b["top_p"], b["max_tokens"]) for b in server.bodies} == {(0.5, 0.9, 4)}


def seed(stream, draw):
    return int.from_bytes(hashlib.sha256(f"{stream:032x} {draw}".encode()).digest()[:4], "big") >> 1


def test_draws_one_by_one_have_a_seed_each_from_the_sample_and_their_number(server):
    model = model_of(server, n=False)
    replies(model, request(model, "draw 3", "draw 7"))
    assert [b["seed"] for b in server.bodies] == [seed(1234, 3), seed(1234, 7)] and "n" not in server.bodies[0]
    unseeded = model_of(server, n=False, seeds=False)
    replies(unseeded, request(unseeded, "draw 3"), Decoding(4, 1.0))
    assert "seed" not in server.bodies[-1] and "top_p" not in server.bodies[-1] and server.bodies[-1]["temperature"] == 1.0
    unsampled = model_of(server, n=False, sampling=False)
    replies(unsampled, request(unsampled, "draw 3"))
    assert not {"seed", "temperature", "top_p"} & set(server.bodies[-1])


def test_a_server_that_gives_fewer_than_asked_for_is_asked_for_the_rest():
    def script(body, nth):
        return toy({**body, "n": 2} if body.get("n", 1) > 2 else body, nth)

    toy = Toy()
    with serving(script) as server:
        model = model_of(server)
        found = replies(model, request(model, *(f"draw {k}" for k in range(1, 6))))
        assert [r.part for r in found] == [f"draw {k}" for k in range(1, 6)] and drawn(server.bodies) == [5, 1, 1, 1]
        assert [b.get("seed") for b in server.bodies] == [None, seed(1234, 3), seed(1234, 4), seed(1234, 5)]
        replies(model, request(model, "draw 1", "draw 2"))
        assert drawn(server.bodies)[4:] == [1, 1], "it was found not to take `n`"


def test_a_server_that_gives_more_than_asked_for_is_taken_at_its_word():
    toy = Toy()
    with serving(lambda body, nth: toy({**body, "n": 4}, nth)) as server:
        model = model_of(server)
        assert [r.part for r in replies(model, request(model, "draw 1", "draw 2"))] == ["draw 1", "draw 2"]


def test_a_question_whose_draws_are_refused_is_asked_twice_and_no_more():
    with serving(lambda body, nth: NO) as server:
        model = model_of(server)
        found = replies(model, request(model, "draw 1", "draw 2", "draw 3"))
        assert drawn(server.bodies) == [3, 1]
        replies(model, request(model, "draw 1", "draw 2"))
        assert drawn(server.bodies)[2:] == [2, 1], "it is the question that was refused, not `n`"
    assert [(r.part, r.rejected) for r in found] == [(f"draw {k}", True) for k in (1, 2, 3)] and len({r.reason for r in found}) == 1


def test_a_later_draw_that_is_refused_is_its_own_affair():
    second = seed(1234, 2)
    with serving(Toy(takes_n=False, trouble=lambda body, nth: NO if body.get("seed") == second else None)) as server:
        model = model_of(server)
        found = replies(model, request(model, "draw 1", "draw 2", "draw 3"))
    assert [r.rejected for r in found] == [False, True, False]


def test_a_draw_that_the_filter_holds_back_is_undefined():
    held = completion("", finish="content_filter")
    both = json.loads(completion("red"))
    both["choices"].append({**json.loads(held)["choices"][0], "index": 1})
    with serving(lambda body, nth: (200, json.dumps(both) if "n" in body else held, {})) as server:
        model = model_of(server)
        first, second = replies(model, request(model, "draw 1", "draw 2"))
        (alone,) = replies(model, request(model, "answer"))
    assert (first.value.text, first.rejected) == ("red", False)
    held_back = Part(None, numbers=[0.0, float(FILTERED)])
    assert second == PartReply("draw 2", held_back, "held back by the server's content filter")
    assert alone == PartReply("answer", held_back, "held back by the server's content filter")


@pytest.mark.parametrize(("logprobs_shown", "asked"), [(1, 2), (2, 2), (20, 20)])
def test_the_scale_of_log_probabilities_is_checked_once(server, logprobs_shown, asked):
    model = model_of(server, logprobs=logprobs_shown)
    replies(model, request(model, "draw 1"))
    replies(model, request(model, "draw 1", question="Why ?"))
    checks = [(b["temperature"], b["top_logprobs"], b["max_tokens"]) for b in server.bodies if "top_logprobs" in b]
    assert checks == [(0.0, asked, 1), (0.5, asked, 1)] and len(server.bodies) == 4


def test_no_check_where_there_is_nothing_to_check(server):
    model = model_of(server)
    replies(model, request(model, "draw 1"))
    model = model_of(server, logprobs=20)
    replies(model, request(model, "draw 1"), Decoding(4, 1.0))
    assert not any("top_logprobs" in b for b in server.bodies)


def test_another_scale_stops_the_run():
    with toy_serving(scaled=True) as server:
        model = model_of(server, logprobs=20)
        with pytest.raises(FatalRequestError, match=r"of the softmax at temperature 0\.5, expected those of the model's own"):
            replies(model, request(model, "draw 1"))
        with pytest.raises(FatalRequestError):
            replies(model, request(model, "draw 1"))


def test_ends_that_are_not_shown_are_counted():
    with toy_serving(shows_end=False) as server:
        model = model_of(server, logprobs=20)
        replies(model, request(model, "answer"), Decoding(40))
        assert model.counters == {"answers without the end's log-probability": 1}
