"""Against a real server on loopback that speaks OpenAI's protocol, and against a local model with random weights."""

import doctest

import pytest

import qualm.runners.plugins.saliency.question_llm as module
from qualm.runners.contracts.generators import NoPairError
from qualm.runners.contracts.pairs import PairError
from qualm.runners.plugins.saliency.question_llm import question_llm, read_name
from tests.support.data.targets import context
from tests.support.models.tiny_models import tiny_llm
from tests.support.servers.small_server import IMPATIENT, serving


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def row(key, question, answer="red"):
    return {
        "sample_id": key, "image_id": "i", "question": question, "references": [answer] if answer else [], "choices": [],
        "answer_index": None, "answerable": True, "meta": [], "split": "test", "group": "",
    }  # fmt: skip


def generator(server, **more):
    return {"plugin": "openai", "args": {"model": "m", "base_url": server.url, **more}}


ROWS = [
    row("a", "What color is the car?"),
    row("b", "Was it day?", "yes"),
    row("c", "What is it?", None),
    row("d", "Odd?"),
    row("e", "Late?"),
]


def script(body, nth):
    asked = body["messages"][-1]["content"]
    asked = asked if isinstance(asked, str) else asked[-1]["text"]
    asked = asked[asked.rindex("Question: ") :]
    if "car" in asked:
        return "Relevant object: the red car"
    if "day" in asked:
        return "na"
    if "Late" in asked:
        return "Hmm, let me see." if body["seed"] % 2 else "Relevant object: train"
    return "I think it might be the dog or the cat"


def test_docs():
    assert doctest.testmod(module).failed == 0


def test_names_are_read_na_is_dropped_and_what_cannot_be_read_is_asked_again():
    one = context()
    with serving(script) as server:
        found = list(question_llm(one, None, ROWS, generator=generator(server), attempts=21))
        sent = len(server.bodies)
    assert [(t.key, t.thing.name, t.thing.query) for t in found] == [("a", "car", "red car"), ("e", "train", "train")]
    assert (found[0].question, found[0].answer) == ("What color is the car?", "red")
    assert one.dropped == {"no single thing": 1, "no answer": 1, "no part found": 1}
    prompt = server.bodies[0]["messages"][-1]["content"]
    prompt = prompt if isinstance(prompt, str) else prompt[-1]["text"]
    assert prompt.endswith("Answer: red") or (prompt.endswith("Answer: yes") and "{" not in prompt)
    with serving(script) as other:
        again = context()
        chosen = generator(other)
        chosen["args"]["base_url"] = server.url  # the same generator; its server is gone, its replies are not
        assert [t.thing for t in question_llm(again, None, ROWS, generator=chosen, attempts=21)] == [t.thing for t in found]
        assert other.bodies == [] and again.dropped == one.dropped and sent > 4


def test_a_local_model_runs_and_its_noise_is_counted(tmp_path):
    folder = tiny_llm(tmp_path / "llm")
    one = context()
    chosen = {"plugin": "hf", "args": {"artifact": str(folder), "dtype": None}}
    found = list(question_llm(one, None, ROWS[:2], generator=chosen, attempts=2, max_new_tokens=4))
    assert found == [] and sum(one.dropped.values()) == 2 and one.counters["replies computed"] == 4


def test_a_dead_server_and_a_prompt_without_its_place_are_errors(tmp_path):
    chosen = {"plugin": "openai", "args": {"model": "m", "base_url": "http://127.0.0.1:9/v1"}}
    with pytest.raises(PairError, match="saliency question_llm"):
        list(question_llm(context(servers=IMPATIENT), None, ROWS[:1], generator=chosen))
    (tmp_path / "mine.md").write_text("Name the thing in: {question}")
    with pytest.raises(PairError, match=rf"{tmp_path}/mine\.md: expected the placeholder \{{answer\}}"):
        list(question_llm(context(), None, ROWS[:1], generator=chosen, prompt=str(tmp_path / "mine.md")))


@pytest.mark.parametrize(
    ("reply", "name"),
    [
        ("Relevant object: a dog", "dog"),
        ("**Relevant object:** Yamaha bike.", "Yamaha bike"),
        ("relevant object: 'na'", "na"),
        ("  NA.  ", "na"),
        ("Relevant object: na\nReasoning: one can still tell", "na"),
        ("Relevant object: the sign\n\n**Reasoning**: it is read", "sign"),
        ("The question is about a sign.\n\n- Relevant object: the sign", "sign"),
        ("The relevant object is: dog", "dog"),
        ('```json\n{"relevant_object": "dog"}\n```', "dog"),
        ("Object: N/A\r\n", "na"),
        ("na\n\nReason: it is about the whole", "na"),
    ],
)
def test_replies_that_can_be_read(reply, name):
    assert read_name(reply) == name


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "no part found"),
        ("   ", "no part found"),
        ("There is no object.", "no part found"),
        ("dog and cat", "no part found"),
        ("The question asks for the dog.\n\ndog", "no part found"),
        ("I cannot tell", "no part found"),
        ("na\nRelevant object: dog", "several sets of parts"),
        ("Relevant object:", "no part found"),
        ("Relevant object: ...", "empty part"),
        ("Relevant object: dog\nRelevant object: cat", "several sets of parts"),
        ("Relevant object: " + "very " * 20 + "long", "name too long"),
    ],
)
def test_replies_that_cannot(reply, reason):
    with pytest.raises(NoPairError, match=reason):
        read_name(reply)


@pytest.mark.parametrize(
    "reply",
    ["dog", "the dog", "**dog**", "- dog", "1️⃣ dog", "„dog”", "```\ndog\n```", "| dog |", '["dog"]', r"\boxed{dog}",
     "Which is it?</think>dog",
     "The salient object is the dog.", "Sure! The object is dog.",
     'The main object in question is "dog".', "Object:: dog", "**Object** dog"],
)  # fmt: skip
def test_a_reply_that_is_a_name_and_nothing_else_was_paid_for_too(reply):
    assert read_name(reply) == "dog"
