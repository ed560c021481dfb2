"""Published tables beside ours: what counts as equal, what is said about the rest, and where a difference comes from."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qualm.runners.reporting.load import read_report
from qualm.runners.reporting.sections import published
from qualm.runners.runtime.precision import round_result
from qualm.runners.runtime.stage import StageError
from tests.runners.reporting.held import held

SETTINGS = ("published", "published_standard_quantile", "ours")
FIXTURE = Path(__file__).parents[4].parent / "shared" / "fixtures" / "vlm_uncertainty_bench" / "tables"


def factors(label: str, quantile: str, split: str) -> dict[str, Any]:
    return {"label": label, "scores": [], "quantile": quantile, "calibration": {"fraction": 0.5, "seed": 42, "split": split}}


GIVEN = [
    factors("published", "numpy_higher", "rows"),
    factors("published_standard_quantile", "standard", "rows"),
    factors("ours", "standard", "groups"),
]


def written(fabric: Any, folder: Path, tables: dict[str, str], **instead: float) -> Path:
    """Tables in the authors' layout that hold the fabric's own values, but for `instead` (table=offset)."""
    folder.mkdir()
    cells = {(r["model"], r["dataset"], r["metric"]): r["value"] for r in fabric.scores if (r["slice"], r["variant"]) == ("all", "clean")}
    for table, metric in tables.items():
        with (folder / f"{table}.csv").open("w", newline="") as handle:
            writer = csv.writer(handle)
            writer.writerow(["", "model_name", "choice", "elsewhere", "avg"])
            for i, model in enumerate(("LARGE", "small", "unknown")):
                value = cells.get((model.lower(), "choice", metric), 0.5) + instead.get(table, 0.0)
                writer.writerow([i, model, repr(round_result(value)), "0.1", "0.2"])
    return folder


TABLES = {"acc": "accuracy[published]", "set_sizes": "set_size[published/mean]", "ece": "ece[published]"}


def test_equal_cells_are_counted_and_the_largest_difference_named(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    fabric = fabricate(settings=SETTINGS)
    folder = written(fabric, tmp_path / "tables", TABLES, set_sizes=0.01, acc=5e-7)
    found = published.compare_with_published(read_report(fabric.stage(published=str(folder))))
    assert not found.agrees
    assert found.verdict.startswith("4 of 6 compared cells agree to 1e−6; the largest absolute difference is 0.0100 (")
    assert "set size mean)" in found.verdict
    assert [p.kind for p in found.recomputed[0].rows[0][1]] == ["same", "differs", "same"]
    assert "The published tables hold 3 models and 2 datasets; 2 and 1 of them are in this run." in found.notes


def test_a_published_mean_is_compared_where_the_run_has_exactly_its_datasets(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    fabric = fabricate(settings=SETTINGS, datasets=("choice", "choice-2"))
    values = {(r["model"], r["dataset"]): r["value"] for r in fabric.scores if r["metric"] == "accuracy[published]" and r["slice"] == "all"
              and r["variant"] == "clean"}  # fmt: skip
    mean = (values["large", "choice"] + values["large", "choice-2"]) / 2
    fabric.scores.append({**fabric.scores[0], "metric": "accuracy[published]", "dataset": "macro:datasets", "value": mean})
    line = [repr(round_result(values["large", name])) for name in ("choice", "choice-2")]
    for columns, found in (("choice,choice-2,avg", 3), ("choice,choice-2,more,avg", 2)):
        cells = [*line, *(["0.5"] if "more" in columns else []), repr(mean)]
        (tmp_path / "acc.csv").write_text(f",model_name,{columns}\n0,large,{','.join(cells)}\n")
        compared = published.compare_with_published(read_report(fabric.stage(published=str(tmp_path))))
        assert compared.agrees and compared.verdict.startswith(f"{found} of {found} compared cells agree")
    assert len(compared.recomputed) == 2


@pytest.mark.parametrize(("off", "verdict", "kind", "shown"), [(1e-6, "2 of 2", "same", "0"), (1.1e-6, "0 of 2", "differs", "0.0000")])
def test_a_millionth_is_the_most_that_counts_as_equal(
    fabricate: Callable[..., Any], tmp_path: Path, off: float, verdict: str, kind: str, shown: str
) -> None:
    fabric = fabricate(settings=SETTINGS)
    for row in fabric.scores:
        if row["metric"] in ("ece[published]", "ece[ours]"):
            row["value"] = off if row["metric"] == "ece[ours]" else 0.0
    folder = written(fabric, tmp_path / "tables", {"ece": "ece[published]"}, ece=off)
    found = published.compare_with_published(read_report(fabric.stage(published=str(folder))))
    assert found.verdict.startswith(f"{verdict} compared cells agree") and [p.kind for p in found.recomputed[0].rows[0][1]] == [kind]
    assert found.ours[0].rows[0][1][-1].lower == found.sources[0].rows[-1][1][-1].upper == shown and found.ours[0].columns[-1] == "ECE"


def test_steps_change_one_factor_each_and_end_in_the_total(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    fabric = fabricate(settings=SETTINGS)
    folder = written(fabric, tmp_path / "tables", TABLES)
    found = published.compare_with_published(read_report(fabric.stage(published=str(folder), settings=GIVEN)))
    assert found.agrees and found.verdict.endswith("the largest absolute difference is 0.")
    assert [text for text, _ in found.sources[0].rows] == [
        "quantile: numpy higher → standard",
        "calibration split: rows → groups",
        "total: published to ours",
    ]
    coverage = found.sources[0].columns.index("coverage LAC") if "coverage LAC" in found.sources[0].columns else None
    steps = [float(cells[coverage or 0].upper.replace("−", "-")) for _, cells in found.sources[0].rows]
    assert steps[0] + steps[1] == pytest.approx(steps[2], abs=2e-4)
    assert not [note for note in found.notes if "step by step" in note]


def test_without_steps_the_total_alone_is_shown_and_said_so(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    fabric = fabricate(settings=("ours", "published"))
    folder = written(fabric, tmp_path / "tables", TABLES)
    found = published.compare_with_published(read_report(fabric.stage(published=str(folder))))
    assert [text for text, _ in found.sources[0].rows] == ["total: published to ours"]
    assert [note for note in found.notes if "step by step" in note]


def test_steps_are_the_smallest_there_are_and_name_every_factor(fabricate: Callable[..., Any]) -> None:
    def ties(rule: str) -> list[dict[str, Any]]:
        return [{"label": "aps", "plugin": "aps", "args": {"ties": rule}}]

    given = [g | {"scores": ties("together" if g["label"] == "ours" else "sorted")} for g in GIVEN]
    steps = published._steps(read_report(fabricate(settings=SETTINGS).stage(settings=given)))
    assert [text for text, _, _ in steps] == [
        "quantile: numpy higher → standard",
        "calibration split: rows → groups; aps ties: sorted → together",
    ]


@pytest.mark.parametrize("given", [GIVEN[:2], GIVEN[1:], []])
def test_steps_without_the_definition_of_either_end_are_named_by_their_settings(
    fabricate: Callable[..., Any], given: list[dict[str, Any]]
) -> None:
    steps = published._steps(read_report(fabricate(settings=SETTINGS).stage(settings=given)))
    assert steps == [("published → published standard quantile", ("published", "all"), ("published_standard_quantile", "all"))]


def test_arguments_tell_metrics_of_one_name_apart(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    fabric = fabricate(settings=SETTINGS)
    for row in list(fabric.scores):
        if row["metric"].startswith("ece["):
            setting = row["metric"].removeprefix("ece")
            fabric.scores.append({**row, "metric": f"ece@rows=all{setting}", "value": 0.5})
            row["metric"] = f"ece@rows=test{setting}"
    folder = written(fabric, tmp_path / "tables", {"ece": "ece@rows=all[published]"})
    results = read_report(fabric.stage(published=str(folder), settings=GIVEN))
    assert published.compare_with_published(results).agrees
    steps = [text for text, _, _ in published._steps(results)]
    assert steps[-1] == "calibration error on: all → test rows"


@pytest.mark.parametrize(
    ("params", "settings", "why"),
    [
        ({"published": "tables"}, ("ours",), "no conformal setting of this spec is called 'published'"),
        ({"published": "tables"}, SETTINGS, "holds none of"),
    ],
)
def test_says_why_there_is_nothing_to_compare(
    fabricate: Callable[..., Any], params: dict[str, Any], settings: tuple[str, ...], why: str
) -> None:
    Path("tables").mkdir()
    found = published.compare_with_published(read_report(fabricate(settings=settings).stage(**params)))
    assert found is not None and why in found.missing


def test_a_spec_that_names_no_tables_has_no_such_section(fabricate: Callable[..., Any]) -> None:
    assert published.compare_with_published(read_report(fabricate(settings=SETTINGS).stage())) is None


def test_a_cell_that_is_no_number_names_its_place(tmp_path: Path) -> None:
    (tmp_path / "acc.csv").write_text(",model_name,mmbench\n0,m,high\n")
    with pytest.raises(StageError, match=r"acc\.csv:2: mmbench: expected a number, got 'high'"):
        published.read_tables(tmp_path)
    (tmp_path / "acc.csv").write_text("a,b\n1,2\n")
    with pytest.raises(StageError, match="expected a column 'model_name', found a, b"):
        published.read_tables(tmp_path)


def test_tables_from_a_spreadsheet(tmp_path: Path) -> None:
    (tmp_path / "acc.csv").write_bytes("\ufeffmodel_name,mmbench,avg\r\nModèle,0.5,0.25\r\nshort\r\n".encode())
    assert published.read_tables(tmp_path) == {"acc": {("modle", "mmbench"): 0.5, ("modle", "macrodatasets"): 0.25}}
    (tmp_path / "acc.csv").write_bytes("model_name,mmbench\nModèle,0.5\n".encode("latin-1"))
    with pytest.raises(StageError, match=r"acc\.csv: line 2: not UTF-8: byte 0xe8"):
        published.read_tables(tmp_path)
    (tmp_path / "acc.csv").write_text("model_name;mmbench\nm;0,5\n")
    with pytest.raises(StageError, match=r"acc\.csv: line 1: its columns are parted by semicolons"):
        published.read_tables(tmp_path)


def test_reads_the_released_tables_whole() -> None:
    if not FIXTURE.is_dir():
        pytest.skip(f"{FIXTURE} is not here")
    tables = published.read_tables(FIXTURE)
    assert set(tables) == set(published.TABLES)
    assert {len(t) for t in tables.values()} == {26 * (5 + 1)}
    means = {
        (name, model): value for name, table in tables.items() for (model, dataset), value in table.items() if dataset == "macrodatasets"
    }
    assert len(means) == len(published.TABLES) * 26
    for (name, model), value in means.items():
        values = [v for (of, dataset), v in tables[name].items() if of == model and dataset != "macrodatasets"]
        assert value == pytest.approx(sum(values) / 5, abs=1e-6), "their Avg. is our mean over datasets"
    assert tables["acc"][published.match_key("MoE-LLaVA-Phi2-2.7B-4e"), "mmbench"] == 0.7373229785290086


def test_all_that_is_shown(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    """Two tables agree, one is off by a rounding and one by more; of one model a value is undefined."""
    fabric = fabricate(models=("large", "small", "tiny"), datasets=("choice", "open", "choice2"), settings=SETTINGS)
    for row in fabric.scores:
        if row["metric"] == "set_size[ours/lac]" and row["model"] == "small":
            row["value"] = None
    tables = {**TABLES, "coverage_rate": "coverage[published/mean]", "uacc": "uncertainty_aware_accuracy[published/mean]"}
    folder = written(fabric, tmp_path / "tables", tables, set_sizes=0.01, acc=5e-7, ece=-2e-6)
    held("published", published.compare_with_published(read_report(fabric.stage(published=str(folder), settings=GIVEN))), tmp_path)
