"""SBJ: by rules, by a server that is asked until its reply can be used, and by a model; a rerun asks nothing."""

import pytest

from tests.rewriting import context, perturbed, rows, server
from tests.small_server import serving
from tests.tiny_models import tiny_llm

NAME = "sbj"
QUESTIONS = ["What color is the red cube?", "How many spheres are there?", "Who is that?"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_rules_know_their_own_questions_only():
    made, given = perturbed(NAME, QUESTIONS)
    assert all(m.endswith("?") and m != q for m, q in zip(made[:2], QUESTIONS, strict=False)) and made[2] is None
    assert "red cube" in made[0] and "spheres" in made[1]
    assert dict(given.dropped) == {"no rule for it": 1}
    assert perturbed(NAME, QUESTIONS)[0] == made


def test_a_server_is_asked_with_the_question_alone_until_its_reply_can_be_used():
    def script(body, nth):
        (turn,) = body["messages"]
        assert isinstance(turn["content"], str)  # no picture is sent
        asked = turn["content"].rsplit("## Question", 1)[1].strip()
        if asked == QUESTIONS[0]:
            return ["Here you are:\n\nWhy?", '"Is it loud or is it red?"'][min(nth, 1)]
        return QUESTIONS[1].lower() if asked == QUESTIONS[1] else "I cannot say."

    with serving(script) as running:
        made, given = perturbed(NAME, QUESTIONS, generator=server(running.url))
        assert made == ["Is it loud or is it red?", None, None]
        assert dict(given.dropped) == {"same question": 1, "not a question": 1}
        assert len(running.bodies) == 2 + 4 + 4  # the first try and three more
        assert {b["temperature"] for b in running.bodies} == {0.7}
        assert len({b["seed"] for b in running.bodies}) == 10
        again, _ = perturbed(NAME, QUESTIONS, generator=server(running.url))
        assert again == made and len(running.bodies) == 10


def test_a_local_model_writes_the_same_whatever_is_asked_beside_it(tmp_path):
    folder = tiny_llm(tmp_path / "llm")
    by = {"plugin": "hf", "args": {"artifact": str(folder), "dtype": None}}
    made, given = perturbed(NAME, QUESTIONS, generator=by, retries=0, max_new_tokens=8)
    assert made == [None] * 3 and sum(given.dropped.values()) == 3  # random weights write no questions
    alone, _ = perturbed(NAME, QUESTIONS[:1], generator=by, retries=0, max_new_tokens=8)
    assert alone == made[:1]


def test_a_prompt_of_ones_own(tmp_path):
    (tmp_path / "mine.md").write_text("Twist: {question}")
    with serving(lambda body, nth: body["messages"][0]["content"].replace("Twist: ", "Or not: ")) as running:
        made, _ = perturbed(NAME, QUESTIONS, generator=server(running.url), prompt=str(tmp_path / "mine.md"))
    assert made == [f"Or not: {q}" for q in QUESTIONS]


def test_one_sample_has_one_reply_in_any_batch():
    with serving(lambda body, nth: f"Is {body['seed']} it?") as running:
        by = server(running.url)
        made, _ = perturbed(NAME, QUESTIONS, generator=by)
        assert perturbed(NAME, QUESTIONS[:1], generator=by)[0] == made[:1]
        other, _ = perturbed(NAME, QUESTIONS, context(rows(QUESTIONS), label="another variant"), generator=by)
    assert len({*made, *other}) == 6
