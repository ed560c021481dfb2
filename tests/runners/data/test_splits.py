"""Which rows are asked and which are scored: the rule by hand, and every stage that follows it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import COMPARISONS, CONFORMAL_SETS, GENERATIONS, JUDGEMENTS, SAMPLES
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.splits import SplitRule, choose_per_category, read_scored, split_rule
from qualm.runners.reporting.load import read_report
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.measuring.slices import make_slices
from qualm.runners.scoring.unscored import NO_CONFIDENCE
from qualm.runners.stages import calibrate, judge, score
from tests.support.data.score_files import read_labelled
from tests.support.projects.stages import stage

MIXED = ["train", "val", "test", "test", None]


def scored(splits: list[str | None], rule: SplitRule = SplitRule()) -> list[int]:  # noqa: B008
    return np.flatnonzero(rule.scored("d", pa.chunked_array([pa.array(splits, pa.string())])).to_numpy()).tolist()


def asked(splits: list[str | None], rule: SplitRule) -> list[int]:
    return np.flatnonzero(rule.is_asked("d", pa.table({"split": pa.array(splits, pa.string())})).to_numpy()).tolist()


def test_test_rows_if_there_are_any_else_all_but_train() -> None:
    assert scored(MIXED) == [2, 3]
    assert scored(["train", "val", "dev", None]) == [1, 2, 3]
    assert scored(["minival", "minival"]) == [0, 1]


def test_the_spec_s_own_choice_comes_first() -> None:
    assert scored(MIXED, SplitRule(("val", "train"))) == [0, 1]
    assert split_rule({"splits": {"d": ["val"]}, "also": ["x"]}, "d") == SplitRule(("val",), ("x",))
    assert split_rule({}, "d") == split_rule({"splits": {"e": ["val"]}}, "d") == SplitRule()


def test_validation_rows_are_asked_and_not_scored_where_thresholds_need_them() -> None:
    assert asked(MIXED, SplitRule(also=("val",))) == [1, 2, 3]
    assert asked(["test"], SplitRule(also=("val",))) == [0]
    assert asked(MIXED, SplitRule()) == scored(MIXED)


def test_a_choice_that_leaves_nothing_is_named() -> None:
    with pytest.raises(StageError) as caught:
        scored(["train", "train"])
    assert str(caught.value) == (
        "dataset d: all its rows are in the split 'train'; to have them answered all the same, write `splits: [train]`"
    )
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
    """A dataset of 20 train, 20 val and 40 test rows; models answered val and test, right on test alone."""
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


def run_all(world: dict, **more: object) -> tuple[Stage, dict]:
    params = {
        "metrics": [{"label": "accuracy", "plugin": "accuracy", "args": {}}], "slices": ["category"], "judge": "rules",
        "interval": {"bootstrap": 10, "level": 0.9}, "confidence": "sequence", "baseline": None, **more,
    }  # fmt: skip
    calibrate.run(stage("calibrate", {"settings": [SETTING], **more}, world, ["sets", "thresholds"]))
    judge.run(stage("judge", {"judges": [ref]}, world, ["judgements"]))
    inputs = world | {n: f"results/{n}" for n in ("sets", "judgements")}
    score.run(stage("score", params, inputs, ["scores", "metrics", "reliability", "risk_coverage", "set_sizes"]))
    found = read_labelled(Path("results/scores")).to_pylist()
    return stage("report", params, inputs | {"scores": "results/scores"}, []), {(r["dataset"], r["slice"]): r for r in found}


def test_validation_answers_are_judged_and_counted_nowhere(world: dict) -> None:
    report, scores = run_all(world)
    assert len(read_table(Path("results/judgements"), JUDGEMENTS)) == 60, "val and test: thresholds may be chosen on val"
    assert len(read_table(Path("results/sets"), CONFORMAL_SETS)) == 40
    for name, n in (("open", 40), ("choice", 20)):  # half of the options' rows calibrate
        row = scores[name, "all"]
        assert (row["value"], row["n"], row["n_unscored"]) == (1.0, n, 0)
    results = read_report(report)
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


def contrastive(pairs: int = 30, categories: tuple[str, ...] = ("a", "b"), split: str = "test") -> pa.Table:
    """Pairs of two rows, then rows without a partner, of each category."""
    rows = [
        {"sample_id": f"{c}{k}{side}", "pair_id": f"{c}{k}" if k < pairs else None, "category": c, "split": split}
        for c in categories
        for k in range(pairs + 3)
        for side in ("yn" if k < pairs else "s")
    ]
    return pa.Table.from_pylist(rows)


def test_a_part_has_so_many_of_each_category_and_whole_pairs() -> None:
    table = pa.concat_tables([contrastive(), contrastive(split="val")])
    chosen = table.filter(pa.array(choose_per_category("d", table, 9, 7))).to_pylist()
    for split in ("test", "val"):
        for category in "ab":
            of = [r for r in chosen if (r["split"], r["category"]) == (split, category)]
            assert len(of) in (8, 9), "an odd one stays free where no single row fits"
            members = [r["pair_id"] for r in of if r["pair_id"]]
            assert all(members.count(p) == 2 for p in members)
    few = choose_per_category("d", contrastive(2), 100, 7)
    assert few.all(), "no more than there are"


def test_a_part_follows_from_seed_and_name_and_grows() -> None:
    table = contrastive()
    small, large = (choose_per_category("d", table, n, 7) for n in (8, 20))
    assert small.sum() == 16 and not (small & ~large).any()
    assert (choose_per_category("d", table.take(np.arange(len(table))[::-1]), 8, 7)[::-1] == small).all(), "whatever the order"
    assert (choose_per_category("d", table, 8, 8) != small).any() and (choose_per_category("e", table, 8, 7) != small).any()


def test_a_part_is_asked_within_the_splits_that_are() -> None:
    table = pa.concat_tables([contrastive(), contrastive(split="train")])
    asked = split_rule({"subset": {"per_category": 4, "seed": 7}}, "d").is_asked("d", table)
    assert set(table.filter(asked)["split"].to_pylist()) == {"test"} and sum(asked.to_pylist()) == 8


def test_a_model_asked_a_part_is_scored_on_it_and_compared_on_what_both_were_asked(world: dict) -> None:
    """Two models give the same answers; the dear one gave those of 3 questions per category, and no confidence."""
    part = {"per_category": 3, "seed": 7}
    whole = DatasetFolder("open", Path("data/open"), SplitRule())
    asked = set(DatasetFolder("open", Path("data/open"), split_rule({"subset": part}, "open")).table["sample_id"].to_pylist())
    assert (len(whole), len(asked)) == (40, 12)
    said = read_table(Path("said/open.parquet"), GENERATIONS).to_pylist()
    write_table(Path("said/all.parquet"), [{**r, "p_yes": 0.75} for r in said], GENERATIONS)
    write_table(Path("said/dear.parquet"), [r for r in said if r["sample_id"] in asked], GENERATIONS)
    inputs = {"datasets": {"open": "data/open"}, "generations": {"m": {"open": "said/all.parquet"}, "dear": {"open": "said/dear.parquet"}}}
    metrics = [{"label": m, "plugin": m, "args": {}} for m in ("lave_idk_accuracy", "confidence_weighted_accuracy")]
    params = {
        "metrics": metrics, "slices": [], "judge": "rules", "interval": {"bootstrap": 10, "level": 0.9}, "confidence": "verify",
        "compare": {"baseline": "m", "pairs": [], "margin": None, "correction": "none", "family": "study"}, "subsets": {"dear": part},
    }  # fmt: skip
    judge.run(stage("judge", {"judges": [ref]}, inputs, ["judgements"]))
    outputs = ["scores", "metrics", "reliability", "risk_coverage", "set_sizes", "comparisons"]
    score.run(stage("score", params, inputs | {"judgements": "results/judgements"}, outputs))
    rows = {(r["model"], r["metric"]): r for r in read_labelled(Path("results/scores")).to_pylist()}
    accuracy, weighted = (rows["dear", m["label"]] for m in metrics)
    assert (accuracy["value"], accuracy["n"], accuracy["n_unscored"]) == (1.0, 12, 0)
    assert (weighted["value"], weighted["n"], weighted["n_unscored"], weighted["why"]) == (None, 0, 12, NO_CONFIDENCE)
    assert (rows["m", "lave_idk_accuracy"]["n"], rows["m", "confidence_weighted_accuracy"]["value"]) == (40, 0.75)
    tests = {t["metric"]: t for t in read_table(Path("results/comparisons"), COMPARISONS).to_pylist()}
    assert (tests["lave_idk_accuracy"]["n"], tests["lave_idk_accuracy"]["difference"]) == (12, 0.0)
    assert (tests["confidence_weighted_accuracy"]["n"], tests["confidence_weighted_accuracy"]["difference"]) == (0, None)
