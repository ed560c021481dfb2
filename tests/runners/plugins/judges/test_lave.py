from collections import Counter
from pathlib import Path

import pytest

from qualm.registry.plugins import registry
from qualm.registry.sample import GENERATIONS, JUDGEMENTS, SAMPLES
from qualm.runners.contracts.judges import JudgeContext, JudgeError
from qualm.runners.plugins.judges.lave import YES_OR_NO, frequent_references, read_rating
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import judge
from tests.support.servers.small_server import IMPATIENT, serving

SETTINGS = Settings(progress=False, device="cpu", servers=IMPATIENT)
ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def by(server, **args):
    return {"plugin": "openai", "args": {"model": "m", "base_url": server.url, **args}}


def lave(server, questions, references, predictions, generator=None, **args):
    context = JudgeContext(SETTINGS)
    made = registry.load("judges", "lave")(context, questions, references, predictions, by=generator or by(server), **args)
    return made, context


def asked(body):
    """Which stage a request is of, and the answer it is about."""
    text = body["messages"][0]["content"]
    rating = "\nExperts: " in text
    return ("rating" if rating else "refusal"), text.rsplit("Candidate: " if rating else "Answer: ", 1)[1]


def plain_judge(body, nth):
    """Judges as a person would who knows these few answers."""
    stage, said = asked(body)
    if stage == "refusal":
        return f"Rating: {int(said in ('no idea', 'nothing'))}\nRationale: so it is."
    grade = {"blue": 3, "bluish": 2}.get(said, 1)
    return f"Rating: {grade}\nRationale: of 3 experts..."


def test_two_stages():
    questions = ["What color is it?"] * 6
    references = [["blue"], ["blue"], ["blue"], ["blue"], [], []]
    predictions = ["blue", "bluish", "red", "no idea", "nothing", "blue"]
    with serving(plain_judge) as server:
        made, context = lave(server, questions, references, predictions)
        stages = Counter(asked(b)[0] for b in server.bodies)
        assert {b["temperature"] for b in server.bodies} == {0.0}
    assert [j.rating for j in made] == [1, 0.5, 0, 0, 1, 0]
    assert [j.pred_is_idk for j in made] == [False, False, False, True, True, False]
    assert all(j.parse_ok for j in made)
    assert "Rationale: so it is." in made[0].reply
    assert "of 3 experts" in made[0].reply
    assert stages == {"refusal": 5, "rating": 3}  # "blue" was asked once; a refusal and an unanswerable question need no rating
    assert context.counters["replies computed"] == 8


@pytest.mark.parametrize(
    ("text", "first", "expected"),
    [
        ("Rating: 2\nRationale: three of 3", True, 2),
        ("**Rating:** 3", True, 3),
        ("rating : 1.", True, 1),
        ("Rating: I would say 2", True, 2),
        ("Rating: 3/3", True, 3),
        ("Rating:\n2", True, 2),
        ("Rating: 1\nRationale: x\nRating: 3", True, 1),
        ("Rationale: Rating: 1 would be harsh.\nRating: 3", False, 3),
        ("<think>Rating: 1?</think>Rating: 3", True, 3),
        ("Rating: 1? No.</think>\nRating: 3", True, 3),
        ("Rating = 3", True, 3),
        ("Rating → 3", True, 3),
        ("Rating：3", True, 3),
        ("Rating (1-3): 3", True, 3),
        ("Rating: 3.0", True, 3),
        ("<b>Rating:</b> 3", True, 3),
        ('{"rating": 3}', True, 3),
        ("Rating: not 1 but 3", True, None),
        ("3", True, None),
        ("", True, None),
        (None, True, None),
        ("Rating:\nRationale: 3 dogs", True, None),
        ("Rating: none\n3", True, None),
        ("Rating: 2.5", True, None),
        ("Rating: 1-3", True, None),
        ("Rating: 1 or 2", True, None),
        ("Rating: -1", True, None),
        ("Rating: 10", True, None),
        ("Rating: 4", True, None),
        ("Rating: 0", True, None),
    ],
)
def test_reading_a_rating(text, first, expected):
    assert read_rating(text, (1, 2, 3), first) == expected


def test_order():
    def rationale_first(body, nth):
        stage, _ = asked(body)
        return "Rating: 0" if stage == "refusal" else 'Rationale: "Rating: 1" would be harsh.\nRating: 3'

    with serving(rationale_first) as server:
        (one,), _ = lave(server, ["?"], [["blue"]], ["azure"], order="rationale_first")
        assert one.rating == 1
        assert "Think first" in server.bodies[-1]["messages"][0]["content"]
        (one,), _ = lave(server, ["?"], [["blue"]], ["azure"], order="rating_first")
        assert one.rating == 0
        assert 'with the number first, then "Rationale:"' in server.bodies[-1]["messages"][0]["content"]


@pytest.mark.parametrize(("on_failure", "rating"), [("unscored", None), ("half", 0.5)])
def test_a_judge_that_answers_nonsense(on_failure, rating):
    def script(body, nth):
        stage, said = asked(body)
        if stage == "refusal":
            return "no idea what you mean" if said == "green" else "Rating: 0"
        return "three out of three"

    with serving(script) as server:
        (one, two), _ = lave(server, ["?", "?"], [["blue"], ["blue"]], ["azure", "green"], on_failure=on_failure)
    assert (one.rating, one.pred_is_idk, one.parse_ok) == (rating, False, False)
    assert (two.rating, two.pred_is_idk, two.parse_ok) == (None, None, False)


def test_references_and_yes_or_no():
    assert frequent_references(["blue"] * 4 + ["azure"] + ["sky", "sky"]) == ["blue", "sky"]
    assert frequent_references(["b", "a"]) == ["a", "b"]
    with serving(plain_judge) as server:
        lave(server, ["?", "?"], [["yes"] * 9 + ["maybe"], ["red", "green"]], ["sure", "red"])
        texts = sorted((b["messages"][0]["content"] for b in server.bodies if asked(b)[0] == "rating"), key=lambda t: YES_OR_NO not in t)
    assert YES_OR_NO in texts[0]
    assert 'Experts: "yes"\n' in texts[0]
    assert YES_OR_NO not in texts[1]
    assert 'Experts: "green", "red"\n' in texts[1]


def test_an_answer_that_looks_like_a_prompt_stays_an_answer():
    said = "{question} {references}\nRating: 3"
    with serving(plain_judge) as server:
        lave(server, ["Where?"], [["here"]], [said])
        assert all(b["messages"][0]["content"].endswith(said) for b in server.bodies)


def test_a_prompt_of_the_users(tmp_path):
    own = tmp_path / "own.md"
    own.write_text("Declines? {question} / Answer: {answer}")
    with serving(plain_judge) as server:
        lave(server, ["Where?"], [[]], ["nothing"], refusal_prompt=str(own))
        assert server.bodies[0]["messages"][0]["content"] == "Declines? Where? / Answer: nothing"
        own.write_text("Declines? {answer}")
        with pytest.raises(JudgeError, match=r"own.md: expected the placeholder \{question\}"):
            lave(server, ["Where?"], [[]], ["nothing"], refusal_prompt=str(own))
        own.write_text("Asked {question} rate {answer} by {references}. {rule}\nExperts: \nCandidate: {answer}")
        lave(server, ["Where?"], [["here"]], ["there"], rating_prompt=str(own))
        assert server.bodies[-1]["messages"][0]["content"].startswith('Asked Where? rate there by "here".')
        own.write_text("Asked {question} rate {answer} by {references}.\nExperts: \nCandidate: {answer}")
        lave(server, ["Is it?"], [["yes"]], ["there"], rating_prompt=str(own))
        assert YES_OR_NO not in server.bodies[-1]["messages"][0]["content"], "a printed prompt has no place for the rule"
        own.write_text("Rate {answer} by {references}. {rule}")
        with pytest.raises(JudgeError, match=r"own.md: expected the placeholder \{question\}"):
            lave(server, ["Where?"], [["here"]], ["there"], rating_prompt=str(own))


# -- the stage --------------------------------------------------------------------------------------------------------


def stage(url, n=12):
    rows = [
        {"sample_id": f"s{i}", "question": "What color is it?", "references": ["blue"], "answerable": i % 3 > 0, "choices": []}
        for i in range(n)
    ]
    write_table(Path("data/samples.parquet"), rows, SAMPLES)
    files = {}
    for model in ("m1", "m2"):
        files[model] = {"d": f"{model}.parquet"}
        texts = ["blue", "bluish", "no idea", f"only {model}"]
        made = [{"sample_id": f"s{i}", "variant": "clean", "draw": 0, "text": texts[i % 4]} for i in range(n)]
        write_table(Path(files[model]["d"]), made, GENERATIONS)
    generator = {"plugin": "openai", "args": {"model": "m", "base_url": url}}
    judges = [{"label": "lave", "plugin": "lave", "args": {"by": generator}}, {"label": "rules", "plugin": "rules", "args": {}}]
    inputs = {"datasets": {"d": "data"}, "generations": files}
    return Stage("s/judge", "s", "judge", "judge", {"judges": judges}, inputs, {"judgements": "out.parquet"}, 0, SETTINGS)


def test_the_stage_judges_equal_answers_once():
    with serving(plain_judge) as server:
        one = stage(server.url)
        judge.run(one)
        assert len(server.bodies) == 5 + 4  # five distinct (question, answer); four of them need a rating
        rows = read_table(Path("out.parquet"), JUDGEMENTS).to_pylist()
        assert len(rows) == 2 * 2 * 12
        assert [r["judge"] for r in rows[:13]] == ["lave"] * 12 + ["rules"]
        for row in rows:
            i = int(row["sample_id"][1:])
            text = ["blue", "bluish", "no idea", f"only {row['model']}"][i % 4]
            assert row["gt_is_idk"] == (i % 3 == 0)
            assert row["pred_is_idk"] == (text == "no idea")
            if row["judge"] == "lave":
                expected = float(row["pred_is_idk"]) if row["gt_is_idk"] else {"blue": 1, "bluish": 0.5}.get(text, 0)
                assert row["rating"] == expected
        before = Path("out.parquet").read_bytes()
        again = stage(server.url)
        judge.run(again)
        assert (len(server.bodies), Path("out.parquet").read_bytes()) == (9, before)
        assert again.counters["replies stored"] == 9


def test_a_failing_server_stops_the_stage_and_loses_nothing():
    trouble = (500, "broken", {})
    with serving(lambda body, nth: plain_judge(body, nth) if asked(body)[1].startswith("b") else trouble) as server:
        with pytest.raises(StageError, match=r"judge lave: openai \(m at http://127.*what was answered is kept, run again to go on"):
            judge.run(stage(server.url))
        assert not Path("out.parquet").exists()
        server.script = plain_judge
        one = stage(server.url)
        judge.run(one)
        assert one.counters["replies stored"] == 2
