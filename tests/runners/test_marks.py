"""What judges measure beside their ratings, from the judge to the scores."""

import pytest

from qualm.registry.sample import Sample
from qualm.runners.runtime.settings import Settings
from qualm.runners.scoring.apply_judge import Answered, judge
from tests.support.projects.scored import asking, judgements, scored
from tests.support.projects.stages import ref
from tests.support.servers.asked_judge import prompt_of
from tests.support.servers.small_server import serving

METRICS = [
    ref("yes_no_f1", judge="pope", positive="yes", convention="exact"),
    ref("yes_rate", judge="amber"),
    ref("group_accuracy", by="group", of="rated_by_amber"),
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_marks_of_every_judge_are_columns():
    samples = [Sample(f"s{i}", "Is it?", references=("yes" if i < 3 else "no",), group=f"g{i // 2}") for i in range(6)]
    texts = dict(zip((s.sample_id for s in samples), ["Yes", "no", "Yes.", "Yes", "No"], strict=False))
    found = scored(samples, texts, [ref("pope"), ref("amber", match="exact")], METRICS)
    assert found["all", "yes_no_f1"]["value"] == pytest.approx(2 * 2 / (3 + 3))
    assert (found["all", "yes_no_f1"]["n"], found["all", "yes_no_f1"]["n_unscored"]) == (5, 1), "one was not answered"
    assert found["all", "yes_rate"]["value"] == pytest.approx(2 / 5)
    assert (found["all", "group_accuracy"]["value"], found["all", "group_accuracy"]["n_unscored"]) == (0, 2)
    assert dict(judgements()["amber", "s1"]["marks"]) == {"said": -1, "truth": 1}


def test_a_data_set_with_judges_of_its_own():
    samples = [Sample(f"s{i}", "Is it?", references=("yes",)) for i in range(4)]
    texts = {s.sample_id: text for s, text in zip(samples, ["Yes", "Yes.", "yes", "No"], strict=True)}
    judges = [ref("pope"), ref("amber", match="exact"), ref("mme")]
    everybody = scored(samples, texts, judges, [ref("accuracy"), *METRICS[:2]])
    assert (everybody["all", "accuracy"]["value"], len(judgements())) == (0.75, 12)
    of_scores = ref("yes_rate", "rate", judge="")
    assert scored(samples, texts, judges, [of_scores])["all", "rate"]["value"] == 0.75
    found = scored(samples, texts, judges, [ref("accuracy"), of_scores, *METRICS[:2]], own=["amber", "mme"])
    assert found["all", "accuracy"]["value"] == 0.25, "the first of its own is scored"
    assert found["all", "rate"]["value"] == 0.25
    assert {judge for judge, _ in judgements()} == {"amber", "mme"}
    row = found["all", "yes_no_f1"]
    assert (row["value"], row["n"], row["why"]) == (None, 0, "judge 'pope' rated none of these answers")
    assert found["all", "yes_rate"]["value"] == 0.25


def test_ratings_of_the_judge_that_is_scored():
    """A metric that names no judge reads the one that `accuracy` does."""
    samples = [Sample(f"s{i}", "Is it?", references=("yes",), category="existence", group=f"g{i}") for i in range(4)]
    texts = {s.sample_id: text for s, text in zip(samples, ["Yes", "Yes.", "yes", "No"], strict=True)}
    judges = [ref("pope"), ref("amber", match="exact")]
    score = ref("mme_score", judge="", picture="group", subtask="category")
    assert scored(samples, texts, judges, [score])["all", "mme_score"]["value"] == 2 * 75
    assert scored(samples, texts, judges, [score], own=["amber"])["all", "mme_score"]["value"] == 2 * 25


def test_of_two_judges_of_options_the_first_is_scored():
    samples = [Sample("s", "Which?", choices=("red", "blue"), answer_index=1)]
    for judges, rating in ((["option_match", "first_character"], 1), (["first_character", "option_match"], 0)):
        found = scored(samples, {"s": "Actually blue"}, [ref(name) for name in judges], [ref("accuracy")])
        assert found["all", "accuracy"]["value"] == rating
        assert {name: judgements()[name, "s"]["rating"] for name in judges} == {"option_match": 1, "first_character": 0}


def test_a_data_set_that_is_not_of_yes_and_no_has_no_such_score():
    samples = [Sample("s", "What?", references=("red",))]
    assert scored(samples, {"s": "red"}, [ref("pope")], METRICS[:1])["all", "yes_no_f1"]["value"] is None


def test_evidence_reaches_the_judge_that_asks_for_it():
    samples = [Sample(f"s{i}", "What?", references=("A cat.",), meta={"evidence": seen}) for i, seen in enumerate(["Cat", "Lynx"])]
    with serving(lambda body, nth: f"Rating: {5 if 'picture: Cat' in prompt_of(body) else 2}") as server:
        metrics = [ref("mmhal_score", judge="mmhal"), ref("mmhal_hallucination_rate", judge="mmhal")]
        found = scored(samples, {"s0": "A cat.", "s1": "A cat."}, [asking(server, "mmhal"), ref("rules")], metrics)
    assert found["all", "mmhal_score"]["value"] == 3.5
    assert found["all", "mmhal_hallucination_rate"]["value"] == 0.5
    assert judgements()["rules", "s0"]["rating"] == 1 and judgements()["rules", "s0"]["marks"] is None


def test_equal_answers_are_given_once_unless_their_evidence_is_read():
    from collections import Counter

    answers = [Answered("What?", ("red",), "red", evidence=seen) for seen in ("a", "b")]
    counters = Counter()
    judge(ref("rules"), answers, Settings(), counters)
    assert counters["same as another"] == 1
