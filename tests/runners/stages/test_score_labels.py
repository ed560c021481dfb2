"""Scores corrected by people's labels of a part of the answers."""

import numpy as np
import pytest

from qualm.registry.sample import Sample
from qualm.runners.runtime.stage import StageError
from tests.support.projects.scored import scored
from tests.support.projects.stages import ref

HEAD = "model,dataset,sample_id,prediction,rating\n"
METRICS = [ref("accuracy"), ref("corrected_accuracy"), ref("judge_agreement")]
N = 80
RIGHT = {f"s{i}": i % 4 > 0 for i in range(N)}
"""By people; the judge calls every tenth of them wrong."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(labels, more=(), split=lambda i: "test"):
    samples = [Sample(f"s{i}", "?", None, ("red",), group=f"g{i // 2}", split=split(i)) for i in range(N)]
    texts = {f"s{i}": "red" if RIGHT[f"s{i}"] and i % 10 else "blue" for i in range(N)}
    rows = "".join(f"m,d,{name},{texts[name]},{RIGHT[name] * 1}\n" for name in labels)
    return scored(samples, texts, [ref("rules")], METRICS, labels=HEAD + rows + "".join(more))


def test_accuracy_is_corrected_and_the_judge_held_to_people():
    labelled = [f"s{i}" for i in range(40)]
    found = run(labelled)
    judged = np.array([RIGHT[f"s{i}"] and i % 10 > 0 for i in range(N)])
    people = np.array([RIGHT[name] for name in labelled])
    of_right, of_wrong = people[judged[:40]].mean(), people[~judged[:40]].mean()
    row = found["all", "corrected_accuracy"]
    assert found["all", "accuracy"]["value"] == pytest.approx(judged.mean())
    assert row["value"] == pytest.approx(judged.mean() * of_right + (1 - judged.mean()) * of_wrong)
    assert row["low"] < row["value"] < row["high"] and (row["n"], row["n_groups"], row["interval"]) == (N, 40, "own")
    agreement = found["all", "judge_agreement"]
    assert (agreement["n"], agreement["value"]) == (40, pytest.approx((people == judged[:40]).mean()))


def test_with_few_labels_there_is_no_interval_and_with_stale_ones_no_value():
    row = run([f"s{i}" for i in range(12)])["all", "corrected_accuracy"]
    assert row["value"] is not None and row["why_no_interval"] == "12 labelled answers in 6 groups: an interval needs 30 in 5"
    row = run([f"s{i}" for i in range(40)], ["m,d,s41,green,1\n"])["all", "corrected_accuracy"]
    assert row["value"] is None and "labels.csv:42: 1 of 41 labels are of answers that have changed since" in row["why"]


def test_labels_of_other_models_are_told_of_and_of_none_of_the_spec_an_error(capsys):
    row = run([f"s{i}" for i in range(40)], ["other,d,s1,x,1\n"])["all", "corrected_accuracy"]
    assert row["value"] is not None
    assert "labels.csv:42: the spec has no answers of model 'other' to dataset 'd'; such labels are ignored" in capsys.readouterr().err
    with pytest.raises(StageError, match="no answers of model 'other' to dataset 'd'; expected a model of m and a dataset of d"):
        run([], ["other,d,s1,x,1\n"])


def test_labels_of_unscored_questions_do_not_count():
    row = run([f"s{i}" for i in range(50)], split=lambda i: "val" if i < 10 else "test")["all", "judge_agreement"]
    assert row["n"] == 40
