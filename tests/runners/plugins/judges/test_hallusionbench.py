import json
from pathlib import Path

import pytest

from tests.support.servers.asked_judge import ask, prompt_of
from tests.support.servers.small_server import serving

FIXTURE = Path(__file__).resolve().parents[4] / ".." / "shared/fixtures/hallusionbench/HallusionBench_result_sample.head10.json"
SIZE = "The right circle is larger than the left circle."


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def strict_teacher(body, nth):
    answer = prompt_of(body).rsplit("Student: ", 1)[1]
    return {"yes": "Incorrect.", "no": "This is CORRECT", "hm": "unclear"}.get(answer.lower(), "I cannot say.")


def test_codes_and_what_is_right():
    predictions = ["Yes", "No", "hm", "bla"]
    with serving(strict_teacher) as server:
        made, context = ask(server, "hallusionbench", ["Is it the same size?"] * 4, [["no", SIZE]] * 4, predictions)
        assert f"Right answer: {SIZE}\n" in prompt_of(server.bodies[0])
    assert [j.rating for j in made] == [0, 1, 0, None]
    assert [j.marks.get("code") for j in made] == [0, 1, 2, None]
    assert [j.parse_ok for j in made] == [True, True, True, False]
    assert context.counters["replies computed"] == 4


def test_unclear_is_right_where_the_figure_is_not_shown():
    with serving(strict_teacher) as server:
        made, _ = ask(server, "hallusionbench", ["?"] * 2, [["no", SIZE, "unclear"], ["no", SIZE]], ["hm", "hm"])
        official, _ = ask(server, "hallusionbench", ["?"], [["no", SIZE, "unclear"]], ["bla"], on_failure="unclear")
        assert "unclear" not in prompt_of(server.bodies[0]).rsplit("Question:")[1]
    assert [j.rating for j in made] == [1, 0]
    assert (official[0].rating, official[0].marks["code"]) == (1, 2)


def test_no_sentence_and_no_references():
    with serving(strict_teacher) as server:
        made, _ = ask(server, "hallusionbench", ["What color is it?"] * 3, [["no"], [], []], ["No", "I don't know", "red"])
        assert len(server.bodies) == 1 and "Right answer: no\n" in prompt_of(server.bodies[0])
    assert [j.rating for j in made] == [1, 1, 0]


def test_the_released_answers():
    """Answers of the released file, told right by their first word."""
    if not FIXTURE.is_file():
        pytest.skip("no ../shared/fixtures/hallusionbench here")
    records = json.loads(FIXTURE.read_text())

    def teacher(body, nth):
        reference, said = prompt_of(body).split("Right answer: ")[1].split("\nStudent: ")
        return "correct" if said.startswith("Yes" if "is the same size" in reference else "No") else "incorrect"

    columns = ([r["question"] for r in records], [[r["gt_answer_details"]] for r in records], [r["model_prediction"] for r in records])
    with serving(teacher) as server:
        made, _ = ask(server, "hallusionbench", *columns)
    same = ["is the same size" in r["gt_answer_details"] for r in records]
    expected = [r["model_prediction"].startswith("Yes" if yes else "No") for r, yes in zip(records, same, strict=True)]
    assert 0 < sum(expected) < 10
    assert [j.rating for j in made] == [float(e) for e in expected]
