"""Which rows are asked and which are scored: the rule by hand, and every stage that follows it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import CONFORMAL_SETS, GENERATIONS, JUDGEMENTS, SAMPLES, SCORES
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.splits import SplitRule, read_scored, rule
from qualm.runners.reporting.load import read_results
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import calibrate, judge, score
from qualm.runners.stages.score import make_slices

MIXED = ["train", "val", "test", "test", None]


def scored(splits: list[str | None], rule: SplitRule = SplitRule()) -> list[int]:  # noqa: B008
    return np.flatnonzero(rule.scored("d", pa.chunked_array([pa.array(splits, pa.string())])).to_numpy()).tolist()


def asked(splits: list[str | None], rule: SplitRule) -> list[int]:
    return np.flatnonzero(rule.asked("d", pa.chunked_array([pa.array(splits, pa.string())])).to_numpy()).tolist()


def test_test_rows_if_there_are_any_else_all_but_train() -> None:
    assert scored(MIXED) == [2, 3]
    assert scored(["train", "val", "dev", None]) == [1, 2, 3]
    assert scored(["minival", "minival"]) == [0, 1]


def test_the_spec_s_own_choice_comes_first() -> None:
    assert scored(MIXED, SplitRule(("val", "train"))) == [0, 1]
    assert rule({"splits": {"d": ["val"]}, "also": ["x"]}, "d") == SplitRule(("val",), ("x",))
    assert rule({}, "d") == rule({"splits": {"e": ["val"]}}, "d") == SplitRule()


def test_validation_rows_are_asked_and_not_scored_where_thresholds_need_them() -> None:
    assert asked(MIXED, SplitRule(also=("val",))) == [1, 2, 3]
    assert asked(["test"], SplitRule(also=("val",))) == [0]
    assert asked(MIXED, SplitRule()) == scored(MIXED)


def test_a_choice_that_leaves_nothing_is_named() -> None:
    with pytest.raises(StageError) as caught:
        scored(["train", "train"])
    assert str(caught.value) == ("dataset d: all its rows are of the split 'train'; to be answered nonetheless it needs `splits: [train]`")
    with pytest.raises(StageError) as caught:
        scored(["train", "test"], SplitRule(("tets",)))
    assert str(caught.value) == "dataset d: splits: it has no rows of 'tets'; its splits are 'test', 'train'"


ref = {"label": "rules", "plugin": "rules", "args": {}}
SETTING = {
    "label": "ours", "scores": [{"label": "lac", "plugin": "lac", "args": {}}], "alpha": 0.2, "quantile": "standard",
    "empty_set": "argmax", "calibration": {"fraction": 0.5, "seed": 1, "split": "groups"},
}  # fmt: skip
CATEGORIES = ["epistemic/knowledge", "epistemic/complexity", "aleatoric/temporal", "other"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    """A data set of 20 train, 20 val and 40 test rows; models answered val and test, right on test alone."""
    monkeypatch.chdir(tmp_path)
    splits = ["train"] * 20 + ["val"] * 20 + ["test"] * 40
    inputs: dict = {"datasets": {}, "generations": {"m": {}}}
    for name, choices in (("open", []), ("choice", ["a", "b", "c"])):
        rows = [
            {
                "sample_id": f"s{i}", "question": "?", "references": ["red"], "choices": choices, "answer_index": 0 if choices else None,
                "category": CATEGORIES[i % 4], "answerable": True, "split": split, "group": f"g{i}",
            }
            for i, split in enumerate(splits)
        ]  # fmt: skip
        write_table(Path("data") / name / "samples.parquet", rows, SAMPLES)
        said = [
            {
                "sample_id": f"s{i}", "variant": "clean", "draw": 0, "text": None if choices else "red" if split == "test" else "blue",
                "token_logprobs": [-0.5], "option_logits": [1.0 * (split == "test"), 0.5, i / 100] if choices else None,
            }
            for i, split in enumerate(splits)
            if split != "train"
        ]  # fmt: skip
        write_table(Path("said") / f"{name}.parquet", said, GENERATIONS)
        inputs["datasets"][name] = f"data/{name}"
        inputs["generations"]["m"][name] = f"said/{name}.parquet"
    return inputs


def stage(kind: str, params: dict, inputs: dict, outputs: list[str]) -> Stage:
    return Stage(f"s/{kind}", "s", kind, kind, params, inputs, {o: f"results/{o}" for o in outputs}, 7, Settings())


def run_all(world: dict, **more: object) -> tuple[Stage, dict]:
    params = {
        "metrics": [{"label": "accuracy", "plugin": "accuracy", "args": {}}], "slices": ["category"], "judge": "rules",
        "interval": {"bootstrap": 10, "level": 0.9}, "confidence": "sequence", "baseline": None, **more,
    }  # fmt: skip
    calibrate.run(stage("calibrate", {"settings": [SETTING], **more}, world, ["sets", "thresholds"]))
    judge.run(stage("judge", {"judges": [ref]}, world, ["judgements"]))
    inputs = world | {n: f"results/{n}" for n in ("sets", "judgements")}
    score.run(stage("score", params, inputs, ["scores", "metrics", "reliability", "risk_coverage", "set_sizes"]))
    found = read_table(Path("results/scores"), SCORES).to_pylist()
    return stage("report", params, inputs | {"scores": "results/scores"}, []), {(r["dataset"], r["slice"]): r for r in found}


def test_validation_answers_are_judged_and_counted_nowhere(world: dict) -> None:
    report, scores = run_all(world)
    assert len(read_table(Path("results/judgements"), JUDGEMENTS)) == 60, "val and test: thresholds may be chosen on val"
    assert len(read_table(Path("results/sets"), CONFORMAL_SETS)) == 40
    for name, n in (("open", 40), ("choice", 20)):  # half of the options' rows calibrate
        row = scores[name, "all"]
        assert (row["value"], row["n"], row["n_unscored"]) == (1.0, n, 0)
    results = read_results(report)
    assert {name: frame.height for name, frame in results.samples.items()} == {"open": 40, "choice": 40}
    assert results.answers.height == 80


def test_the_spec_can_have_another_split_scored(world: dict) -> None:
    _, scores = run_all(world, splits={"open": ["val"], "choice": ["test", "val"]})
    assert (scores["open", "all"]["value"], scores["open", "all"]["n"]) == (0.0, 20)
    assert (scores["choice", "all"]["value"], scores["choice", "all"]["n"]) == (pytest.approx(2 / 3, abs=0.2), 30)


def test_a_model_is_asked_what_the_rule_says(world: dict) -> None:
    folder = Path("data/open")
    assert len(DatasetFolder("open", folder)) == 80
    assert len(DatasetFolder("open", folder, SplitRule())) == 40
    assert len(DatasetFolder("open", folder, SplitRule(also=("val",)))) == 60


def test_slices_of_a_category_come_with_those_above_it_parents_first(world: dict) -> None:
    samples = read_scored(stage("score", {}, world, []), "open", "data/open")
    slices = make_slices(samples, ["category"], 10, 0)
    assert [(s.label, len(s.rows)) for s in slices] == [
        ("all", 40),
        ("category=aleatoric", 10),
        ("category=aleatoric/temporal", 10),
        ("category=epistemic", 20),
        ("category=epistemic/complexity", 10),
        ("category=epistemic/knowledge", 10),
        ("category=other", 10),
    ]
    _, scores = run_all(world)
    assert scores["open", "category=epistemic"]["n"] == 20
