"""Accuracy of sampled answers, by hand and through the stages; `test_sampling_share` has its split."""

from pathlib import Path

import numpy as np
import pytest

from qualm.registry.sample import GENERATIONS, JUDGEMENTS
from qualm.runners.plugins.metrics.sampled_accuracy import sampled_accuracy
from qualm.runners.plugins.metrics.sampling_share import sampling_share
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.stages import judge, score
from tests.runners.stages.test_score import OUTPUTS, SCORE, World, stage
from tests.support.projects.stages import ref

ONE = np.ones((1, 3))


def columns(ratings):
    """(n,) mean rating of each question and the variance of that mean."""
    ratings = np.asarray(ratings, dtype=np.float64)
    return ratings.mean(axis=1), ratings.var(axis=1, ddof=1) / ratings.shape[1]


def test_by_hand():
    """Ratings 11, 10, 00: means 1, .5, 0 with variance .25 between; s^2 / k is .5 / 2 for one of three questions."""
    mean, variance = columns([[1, 1], [1, 0], [0, 0]])
    assert sampled_accuracy(mean, ONE) == pytest.approx([0.5])
    assert sampling_share(mean, variance, ONE) == pytest.approx([(0.25 / 3) / 0.25])


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return World()


def add_draws(world, texts):
    """Give every clean open answer of m1 three sampled answers, by question."""
    path = Path(world.inputs["generations"]["m1"]["open"])
    greedy = read_table(path, GENERATIONS).to_pylist()
    drawn = [
        {**row, "draw": draw, "text": text}
        for row in greedy
        if row["variant"] == "clean"
        for draw, text in enumerate(texts(row["sample_id"]), 1)
    ]
    write_table(path, [*greedy, *drawn], GENERATIONS)
    return {row["sample_id"] for row in greedy}


def run(world, unread="bounds"):
    judge.run(stage("judge", {"judges": [ref("rules")], "draws": True}, world.inputs, ["judgements"]))
    metrics = [ref("sampled_accuracy"), ref("sampling_share"), ref("accuracy")]
    params = SCORE | {"metrics": metrics, "unread": unread, "slices": ["category"]}
    score.run(stage("score", params, world.inputs | {"judgements": "results/judgements"}, OUTPUTS))
    return world.scores()


def test_sampled_answers_are_judged_and_scored(world):
    rng = np.random.default_rng(1)
    said = {f"s{i}": rng.choice(["red", "blue", "I don't know"], 3).tolist() for i in range(len(world.open))}
    before = {key: row["value"] for key, row in run(world).items() if key[-1] == "accuracy"}
    answered = add_draws(world, said.get)
    scores = run(world)
    assert {key: row["value"] for key, row in scores.items() if key[-1] == "accuracy"} == before, "the greedy answer's"
    rows = read_table(Path("results/judgements"), JUDGEMENTS).to_pylist()
    assert sum(row["draw"] > 0 for row in rows) == 3 * len(answered)
    right = {s["sample_id"]: "red" if s["answerable"] else "I don't know" for s in world.open}
    ratings = np.array([[text == right[name] for text in said[name]] for name in sorted(answered)])
    row = scores["m1", "open", "clean", "all", "sampled_accuracy"]
    assert row["value"] == pytest.approx(ratings.mean(), abs=1e-9) and row["low"] < row["value"] < row["high"]
    assert (row["n"], row["n_unscored"]) == (len(answered), len(world.open) - len(answered))
    share = scores["m1", "open", "clean", "all", "sampling_share"]
    assert share["value"] == pytest.approx(sampling_share(*columns(ratings), np.ones((1, len(answered))))[0], abs=1e-9)
    assert share["why_no_interval"].startswith("it describes")
    (other,) = [row for (model, name, _, _, label), row in scores.items() if (model, name, label) == ("m2", "open", "sampled_accuracy")]
    assert other["value"] is None and other["why"] == "no sampled answers, or one that the judge could not rate"


def test_a_question_with_an_unread_sampled_answer_is_unscored_or_counts_it_as_wrong(world):
    answered = add_draws(world, lambda name: ["red", "red", None if name == "s1" else "red"])
    assert "s1" in answered and world.open[1]["answerable"]
    plain, wrong = (run(world, unread)["m1", "open", "clean", "all", "sampled_accuracy"] for unread in ("bounds", "wrong"))
    assert (plain["n"], wrong["n"]) == (len(answered) - 1, len(answered))
    rated = sorted(answered - {"s1"})
    right = [float(world.open[int(name[1:])]["answerable"]) for name in rated]
    assert plain["value"] == pytest.approx(np.mean(right), abs=1e-9)
    assert wrong["value"] == pytest.approx(np.mean([*right, 2 / 3]), abs=1e-9)
