import json
from collections import Counter
from pathlib import Path

import pytest
from statsmodels.stats.proportion import proportion_confint

from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.contracts.judges import Judgement
from qualm.runners.results.judge_reliability import LabelError, LabelledAnswer, read_labels, reliability, reliability_of_judges
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.apply_judge import Answered
from qualm.runners.stages import judge
from tests.support.servers.small_server import serving

REFUSALS = Path(__file__).parents[2] / "data" / "refusals.csv"
SETTINGS = Settings(progress=False)
RULES = {"label": "rules", "plugin": "rules", "args": {}}


def labelled(is_refusal=False, rating=None):
    return LabelledAnswer(Answered("?", ("a",), "b"), is_refusal, rating)


def test_kendall_s_tau_b_of_the_facts():
    people, machine = (0, 0.5, 1, 1, 0, 0.5, 1, 0), (0, 1, 1, 1, 0, 0.5, 0.5, 0)
    labels = [labelled(rating=r) for r in people] + [labelled(rating=None), labelled(rating=1.0)]
    judged = [Judgement(r, False) for r in machine] + [Judgement(1.0, False), Judgement(None, False, parse_ok=False)]
    found = reliability(labels, judged)
    assert found["ratings"]["n"] == 8
    assert found["ratings"]["tau_b"] == pytest.approx(0.761905, abs=1e-6)
    assert found["ratings"]["p"] == pytest.approx(0.0243, abs=5e-5)
    assert found["ratings"]["equal"] == 6 / 8
    assert (found["n"], found["unread"]) == (10, 1)


def test_sensitivity_and_specificity_by_hand():
    people, machine = (1, 1, 1, 0, 0, 0.5, 1), (1, 0, 1, 0, 1, 1, 0.5)
    labels = [labelled(None, rating) for rating in people]
    found = reliability(labels, [Judgement(r, False) for r in machine])
    assert (found["sensitivity"]["n"], found["sensitivity"]["share"]) == (3, pytest.approx(2 / 3)), "halves are left out"
    assert (found["specificity"]["n"], found["specificity"]["share"]) == (2, 0.5)
    ends = proportion_confint(2, 3, method="wilson")
    assert (found["sensitivity"]["low"], found["sensitivity"]["high"]) == pytest.approx(ends)
    assert found["refusals"]["n"] == 0, "people did not say whether they abstain"
    none = reliability(labels[:1], [Judgement(0.0, False)])["specificity"]
    assert none == {"n": 0, "share": None, "low": None, "high": None}


def test_accuracy_on_refusals_by_hand():
    labels = [labelled(True)] * 6 + [labelled(False)] * 5
    said = [True] * 4 + [False, None] + [False] * 3 + [True] * 2
    found = reliability(labels, [Judgement(0.0, s, parse_ok=s is not None) for s in said])["refusals"]
    assert (found["n"], found["accuracy"], found["missed"], found["imagined"]) == (10, 0.7, 1, 2)
    # Wilson, written out
    z, n, p = 1.959963984540054, 10, 0.7
    middle, half = (p + z * z / (2 * n)) / (1 + z * z / n), z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    assert (found["low"], found["high"]) == (pytest.approx(middle - half), pytest.approx(middle + half))


def test_undefined_stays_undefined():
    constant = reliability([labelled(rating=1.0)] * 4, [Judgement(r, False) for r in (0.0, 1.0, 0.5, 1.0)])
    assert constant["ratings"] == {"n": 4, "tau_b": None, "low": None, "high": None, "p": None, "equal": 0.5}
    nothing = reliability([labelled()], [Judgement(None, None, parse_ok=False)])
    assert nothing["refusals"] == {"n": 0, "accuracy": None, "low": None, "high": None, "missed": 0, "imagined": 0}
    assert nothing["unread"] == 1


def test_rules_on_our_own_set():
    found = reliability_of_judges([RULES], read_labels(REFUSALS), SETTINGS, Counter())["rules"]
    assert found["refusals"]["accuracy"] >= 0.97
    assert found["refusals"]["n"] == found["n"] >= 260
    assert found["ratings"]["p"] < 1e-6


HEAD = "question,reference,prediction,is_refusal,rating\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,prediction\n?,b\n", r"labels.csv: expected the columns .*; missing reference, is_refusal, rating"),
        (HEAD + "?,a,b,maybe,1\n", r"labels.csv:2: is_refusal: expected 0, 1 or nothing, got 'maybe'"),
        (HEAD + "?,a,b,0,1\n?,a,b,0,2\n", r"labels.csv:3: rating: expected a number from 0 to 1, or nothing, got '2'"),
        (HEAD, "found none"),
    ],
)
def test_bad_files(tmp_path, text, message):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(LabelError, match=message):
        read_labels(tmp_path)


def test_ratings_may_be_written_in_several_ways(tmp_path):
    written = {"": None, "0": 0.0, "0.0": 0.0, " .5 ": 0.5, "0.5": 0.5, "1": 1.0, "1.0": 1.0}
    (tmp_path / "labels.csv").write_text(HEAD + "".join(f"?,a,b,0,{text}\n" for text in written))
    assert [label.rating for label in read_labels(tmp_path)] == [*written.values()]


def test_several_references(tmp_path):
    (tmp_path / "l.csv").write_text(HEAD + '"Is it, or not?",yes | yes|no,b,0,\n?,,I,1,1\n')
    first, second = read_labels(tmp_path / "l.csv")
    assert (first.answer, first.rating) == (Answered("Is it, or not?", ("yes", "yes", "no"), "b"), None)
    assert (second.answer.references, second.is_refusal, second.rating) == ((), True, 1.0)
    with pytest.raises(LabelError, match="expected a CSV file of labelled answers"):
        read_labels(tmp_path / "nothing.csv")


def test_the_stage_holds_every_judge_to_the_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(
        Path("data/samples.parquet"), [{"sample_id": "s", "question": "?", "references": ["a"], "answerable": True, "choices": []}], SAMPLES
    )
    write_table(Path("g.parquet"), [{"sample_id": "s", "variant": "clean", "draw": 0, "text": "a"}], GENERATIONS)
    Path("labels.csv").write_text(HEAD + "?,a,a,0,1\n?,a,b,0,0\n?,a,I don't know,1,0\n")

    def stage(url):
        by = {"plugin": "openai", "args": {"model": "m", "base_url": url}}
        judges = [RULES, {"label": "lave", "plugin": "lave", "args": {"by": by}}]
        inputs = {"datasets": {"d": "data"}, "generations": {"m": {"d": "g.parquet"}}, "labels": "labels.csv"}
        outputs = {"judgements": "out.parquet", "judging": "judging.json"}
        return Stage("s/judge", "s", "judge", "judge", {"judges": judges}, inputs, outputs, 0, SETTINGS)

    with serving(lambda body, nth: "Rating: 0" if "Experts" not in body["messages"][0]["content"] else "Rating: 3") as server:
        judge.run(stage(server.url))
        found = json.loads(Path("judging.json").read_text())
        assert found["rules"]["refusals"]["accuracy"] == 1
        assert found["rules"]["ratings"]["tau_b"] == 1
        assert found["lave"]["refusals"]["missed"] == 1
        assert found["lave"]["ratings"]["tau_b"] is None
        Path("labels.csv").write_text("nonsense\n")
        with pytest.raises(StageError, match=r"labels.csv: expected the columns"):
            judge.run(stage(server.url))
