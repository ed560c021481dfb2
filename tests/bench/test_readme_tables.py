from pathlib import Path

import polars as pl

from qualm.registry.sample import BLAMES
from qualm.runners.runtime.records import write_table
from tests.bench.readme_tables import (
    BY_MODALITY,
    COLUMNS,
    MODALITIES,
    ROWS,
    attribution_sentences,
    certainly_uncertain,
    missing_sentences,
    printed,
    quickstart_sentences,
    rewritten,
    stale,
    table_rows,
    vlm_uqbench,
    wording_sentences,
)
from tests.support.data.score_files import write_scores


def scores(value: float) -> pl.DataFrame:
    one = {"slice": "all", "value": value, "low": value - 0.01, "high": value + 0.01}
    return pl.DataFrame([{"model": m, "dataset": d, "metric": k, **one} for m in ROWS.values() for d, k in COLUMNS])


def test_numbers_as_the_readme_prints_them() -> None:
    assert [printed(v) for v in (-0.1829, 0.5, 1.0, -0.0001)] == ["−.183", ".500", "1.000", ".000"]


def test_a_stale_cell_a_missing_row_and_an_unknown_one_are_named() -> None:
    lines = [f"| {name} | .500 (.490 to .510) |" + " .500 |" * 7 for name in ROWS]
    heads = [f"{metric} of {dataset}" for dataset, metric in COLUMNS]
    expected = certainly_uncertain(scores(0.5))
    readme = "\n".join(["| model | a |", "|---|---|", *lines, "", "| base | .1 |" + " .2 |" * 7])
    assert stale(table_rows(readme, "base", 8), expected, heads) == ([], 8 * len(ROWS))
    other = "\n".join([lines[0].replace(" .500 |", " .501 |", 1), *lines[2:], "| new | 1 |" + " .5 |" * 7])
    differ, right = stale(table_rows(other, "base", 8), expected, heads)
    assert rewritten(other, expected).splitlines() == [lines[0], *other.splitlines()[1:]]
    second = list(ROWS)[1]
    assert differ == [
        f"{second}: no such row",
        "new: a row that this script does not know",
        "base, ece_idk of ours: README has .501, the run .500",
    ]
    assert right == 8 * len(ROWS) - 9


def test_means_by_modality() -> None:
    estimators = ("p_true", "mean_token_entropy", "deg_mat", "pointwise_mutual_information")
    between = {"low": 0.2, "high": 0.9}
    rows = [
        {"metric": f"{metric}[{name}]" if estimator else metric, "variant": modality, "slice": slice_, "value": 0.3 + 0.1 * i, **between}
        for metric, estimator in set(BY_MODALITY.values())
        for i, name in enumerate(estimators if estimator else [""])
        for modality in MODALITIES
        for slice_ in ("changed", "all")
    ]  # fmt: skip
    expected = vlm_uqbench(pl.DataFrame(rows).with_columns(value=pl.when(pl.col("slice") == "all").then(0.0).otherwise("value")))
    first, *_, third_last, _, last = expected.values()
    assert first == [".60 pointwise mutual information (.20 to .90)"] * 3 and last == [".30 (.20 to .90)"] * 3
    assert third_last == [".30 (.20 to .90)"] * 2 + [".30 (.20 to .90) (`clip_mask`)"]


def test_a_sentence_that_the_run_has_otherwise_is_named() -> None:
    readme = "It falls\nfrom .898 to .536, and\nno more."
    assert missing_sentences(readme, ["falls from .898 to .536", "falls from .898 to .537"]) == ["falls from .898 to .537"]


def test_sentences_of_the_quickstart_and_of_attribution(tmp_path: Path) -> None:
    row = {"model": "base", "variant": "clean", "slice": "all", "n": 600, "n_unscored": 0}
    rows = [
        row | {"dataset": name, "metric": metric, "value": value, "low": 0.911334, "high": 0.950173}
        for name, metric, value in (("scenes", "accuracy", 0.933333), ("scenes_mc", "accuracy[split_half]", 0.883333))
    ]
    write_scores(tmp_path / "scores.parquet", rows)
    assert quickstart_sentences(tmp_path) == [
        "answers 93.3% of held-out open-ended questions (interval 91.1 to 95.0) and 88.3% of the multiple-choice test half"
    ]
    blame = {"model": "base", "n": 9, "accuracy": 0.671, "accuracy_low": 0.622, "accuracy_high": 0.719, "floor": 0.5}
    write_table(tmp_path / "blames.parquet", [blame | {"held_out": held} for held in ("group", "group and kind")], BLAMES)
    (said,) = attribution_sentences(tmp_path)
    assert said == "it is named rightly in .67 of cases (.62 to .72), where always naming the same modality gives .50"


def test_how_many_texts_the_held_out_questions_have(tmp_path: Path) -> None:
    rows = [("train", "a", "x/one"), ("test", "a", "x/one"), ("test", "a", "x/two"), ("test", "b", "x/two"), ("test", "c", "x/three")]
    (tmp_path / "data/ours").mkdir(parents=True)
    pl.DataFrame(rows, schema=["split", "question", "category"], orient="row").write_parquet(tmp_path / "data/ours/samples.parquet")
    (sentence,) = wording_sentences(tmp_path)
    assert sentence == (
        "They have 3 distinct texts, asked of pictures that no other split has; 50.0% are worded as in the training split, "
        "namely those of two and one"
    )
