"""The section on perturbations: its numbers are the tables', undefined is said with the reason, negative looks negative."""

from __future__ import annotations

import csv
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from qualm.registry.sample import ATTRIBUTIONS, BLAMES, EFFECTS, LABELLED_SCORES, MODALITY_COMPARISONS, RANK_STABILITY
from qualm.runners.reporting.heat import count_runs, shade
from qualm.runners.reporting.load import read_report
from qualm.runners.reporting.sections.perturbed import perturbed
from qualm.runners.reporting.sections.research_questions import UNCHECKED
from qualm.runners.results.attribution import MEASURES
from qualm.runners.results.perturbation import FIELDS
from qualm.runners.runtime.records import write_table
from qualm.runners.stages import report
from tests.runners.reporting.conftest import Fabric
from tests.runners.reporting.held import held, rows_of_drawings
from tests.support.data.score_files import write_scores
from tests.support.processes.chromium import Chromium

HOSTILE = "<script>alert(1)</script>\u202e"
VARIANTS = [
    {"variant": "blur@radius=10.0", "plugin": "blur", "modality": "image", "args": {"radius": 10.0}},
    {"variant": "blur@radius=2.0", "plugin": "blur", "modality": "image", "args": {"radius": 2.0}},
    {"variant": "typos@p=0.1", "plugin": "typos", "modality": "text", "args": {"p": 0.1}},
]
VALUES = {"urr": (0.9, 0.6, 0.1), "hcc": (-0.4, 0.3, None)}
METRICS = {"urr": "uncertainty_reflection_rate", "hcc": "hallucination_change_correlation"}
BESIDE = {"urr": ("tie_rate", 0.2), "hcc": ("hallucination_rate", 0.05)}


def study(fabric: Any, truth: str | None = "image", estimators: tuple[str, ...] = ("perplexity", HOSTILE), low: float = 0.55) -> Any:
    """The files of the study beside a made-up spec's; its stage."""
    folder: Path = fabric.root / "study"
    folder.mkdir()
    where = {"model": "large", "dataset": "choice"}
    for name, values in VALUES.items():
        rows = []
        for estimator in estimators:
            for variant, value in zip(VARIANTS, values, strict=True):
                known = {"value": value, "low": value - 0.1, "high": value + 0.1} if value is not None else {}
                row = where | {
                    "variant": variant["variant"],
                    "modality": variant["modality"],
                    "metric": METRICS[name],
                    "estimator": estimator,
                }
                row |= known | {"n": 120, "n_unscored": 0, BESIDE[name][0]: BESIDE[name][1], "p_adjusted": 0.01 if value else ""}
                rows.append(row | {"why": "" if known else "no answer became wrong"})
        _csv(folder, name, rows, fabric)
    swept = []
    for metric, names in (("accuracy", ("",)), ("mean_uncertainty", estimators), (METRICS["urr"], estimators)):
        for estimator in names:
            for strength in (2.0, 10.0):
                row = where | {"perturbation": "blur", "modality": "image", "parameter": "radius", "strength": strength, "clean": 0.9}
                row |= {"variant": f"blur@radius={strength}", "metric": metric, "estimator": estimator, "value": 1 / strength}
                swept.append(row | {"low": 0.0, "high": 0.6, "n": 120, "n_unscored": 0})
    _csv(folder, "sweeps", swept, fabric)
    blamed = ("image", "image", "text", "image", "text", "text", "text", None)
    moved = {"image": 0.75, "text": 0.25, "cross": None}
    attributions = [
        {"model": "large", "dataset": "choice", "sample_id": f"s{i}", "blamed": b, "truth": truth if i < 4 else None} | moved
        for i, b in enumerate(blamed if truth else ())
    ]
    limits = {f"{m}{end}": value for m in MEASURES for end, value in (("", 0.75), ("_low", low), ("_high", 0.95))}
    blames = [{"model": "large", "held_out": "group", "n": 4, "floor": 0.5} | limits] if truth else []
    auroc = {"metric_a": "auroc", "model_a": "large", "dataset_a": "choice", "metric_b": "auroc", "model_b": "small", "dataset_b": "choice"}
    ranks = [auroc | {"n_estimators": 2, "tau_b": None}, auroc | {"n_estimators": 5, "tau_b": -0.2, "low": -0.6, "high": 0.4}]
    means = [
        where
        | {
            "variant": v,
            "slice": "all",
            "metric": metric,
            "value": value,
            "low": value - 0.05,
            "high": value + 0.05,
            "n": 60,
            "n_unscored": 0,
        }
        for v, metric, value in (
            ("clean", "coverage[ours/lac]", 0.8),
            ("image", "coverage[ours/lac]", 0.8),
            ("image", "auroc_perturbed[perplexity]", 0.7),
            ("image", f"auroc_perturbed[{HOSTILE}]", 0.4),
            ("text", "auroc_perturbed[perplexity]", 0.5),
            ("text", f"auroc_perturbed[{HOSTILE}]", 0.55),
            ("image", "uncertainty_reflection_rate[perplexity]", 0.6),
            ("text", "uncertainty_reflection_rate[perplexity]", 0.5),
            ("image", f"uncertainty_reflection_rate[{HOSTILE}]", 0.9),
            ("text", f"uncertainty_reflection_rate[{HOSTILE}]", 0.1),
            ("image", "hallucination_rate", 0.25),
        )
    ]
    tests = [
        {**where, "slice": "all", "metric": f"uncertainty_reflection_rate[{name}]", "a": "image", "b": "text", "value_a": a, "value_b": b}
        | {"difference": b - a, "low": b - a - 0.05, "high": b - a + 0.05, "p": 0.01, "p_adjusted": p, "n": 60}
        for name, a, b, p in (("perplexity", 0.6, 0.5, 0.01), (HOSTILE, 0.9, 0.1, 0.5))
    ]
    for name, rows, schema in (
        ("attributions", attributions, ATTRIBUTIONS),
        ("blames", blames, BLAMES),
        ("rank_stability", ranks, RANK_STABILITY),
        ("modality_scores", means, LABELLED_SCORES),
        ("modality_comparisons", tests, MODALITY_COMPARISONS),
    ):
        if schema is LABELLED_SCORES:
            write_scores(folder / f"{name}.parquet", rows)
        else:
            write_table(folder / f"{name}.parquet", rows, schema)
        fabric.inputs[name] = str(folder / f"{name}.parquet")
    rate = {"model": "large", "dataset": "choice", "variant": "blur@radius=2.0", "metric": "hallucination_rate", "n": 40, "n_unscored": 0}
    for part, value in (("all", 0.1), ("category=counting", 0.25), (f"category={HOSTILE}", None)):
        fabric.scores.append(rate | {"slice": part, "value": value, "low": value, "high": value})
    return fabric.stage(variants=VARIANTS)


def _csv(folder: Path, name: str, rows: list[dict[str, Any]], fabric: Any) -> None:
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, FIELDS[name], restval="")
        writer.writeheader()
        writer.writerows(rows)
    fabric.inputs[name] = str(path)


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("section")
    with chdir(folder):
        found = perturbed(read_report(study(Fabric(folder))))
    assert found is not None
    return found


@pytest.mark.slow
def test_a_spec_without_perturbations_has_no_such_section(fabricate: Callable[..., Any]) -> None:
    stage = fabricate().stage()
    assert perturbed(read_report(stage)) is None
    assert b'id="perturbations"' not in report.render(read_report(stage))
    open_ended = fabricate(datasets=("open",)).stage(variants=VARIANTS[2:])
    assert perturbed(read_report(open_ended)) is None, "no metric, no conformal set, nothing answered that could be shown"


def test_each_question_is_answered_from_the_grids(section: dict[str, Any]) -> None:
    captured, reacts, warns, blame = (text for _, text in section["answers"])
    assert (
        "image: perplexity of large, 0.70 (0.65 – 0.75); text: " in captured
        and "of large, 0.55 (0.50 – 0.60). They are the best of many" in captured
    )
    told = (
        "text above image for 0, below for 1; the others are statistically tied. Largest significant difference: "
        "perplexity (large on choice), image 0.600"
    )
    assert f"of 2 estimators: {told} against text 0.500: +0.10 (+0.05 to +0.15), corrected p = 0.0100." in reacts
    assert warns.startswith(
        "Share of questions whose right answer becomes wrong: image 0.250; by kind of question: counting 0.250 (means over pert"
    )
    assert reacts.startswith(
        "In 4 of 6 combinations of model, dataset, estimator and perturbation, uncertainty rises in more samples than it falls "
        "(p < .05), in 2 it falls in more."
    )
    assert "perplexity under blur@radius=10.0 (large on choice), 0.90 (" in reacts
    assert "), ties 0.200. These intervals are not selection-adjusted" in reacts
    assert (
        "In 2 of 4 combinations of model, dataset, estimator and perturbation, uncertainty rises where answers become wrong "
        "(p < .05, and an interval without 0), in 2 it "
        "falls there; 2 are" in warns
    )
    assert blame == (
        "Validated: for large, the known modality is named for 0.8 (0.6 – 0.9) of samples of unseen scenes or images, n = 4; "
        "the majority baseline has 0.500. Of 3 other samples: text 100%."
    )


def test_estimators_against_modalities(section: dict[str, Any]) -> None:
    (grid,) = section["modalities"]
    assert grid.caption == "large · choice" and grid.groups == [("AUROC, perturbed from clean", 2), ("URR", 2)]
    assert [c[0] for c in grid.columns] == ["image", "text"] * 2
    values = [[c.value for c in cells[:2]] for _, cells in grid.rows]
    assert values == [["0.70", "0.50"], ["0.40", "0.55"]]
    tones = [[(c.tone, c.heat > 0) for c in cells[:2]] for _, cells in grid.rows]
    assert tones == [[("up", True), ("up", False)], [("down", True), ("up", True)]], "half is chance"


def test_labelled_questions_answer_the_first_question_before_perturbed_ones_do(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate()
    study(fabric)
    row = {"model": "large", "dataset": "choice", "variant": "clean", "slice": "all", "n": 40, "n_unscored": 0, "low": None, "high": None}
    fabric.scores += [row | {"metric": f"auroc_uncertain[{e}]", "value": v} for e, v in (("perplexity", 0.61), ("luq", 0.66))]
    found = perturbed(read_report(fabric.stage(variants=VARIANTS)))
    assert found is not None
    assert (
        found["answers"][0][1]
        == "Highest AUROC for separating uncertain from clear questions (0.5 is chance): on choice: LUQ of large, 0.660."
    )


def test_negative_is_red_undefined_has_a_reason_and_ties_stand_below(section: dict[str, Any]) -> None:
    (hcc,), (urr,) = section["hcc"], section["urr"]
    assert [c[1] for c in hcc.columns] == ["radius=10.0", "radius=2.0", "p=0.1"] and hcc.groups == [("image", 2), ("text", 1)]
    negative, positive, undefined = hcc.rows[0][1]
    assert (negative.value, negative.tone, positive.tone) == ("−0.40", "down", "up") and negative.heat > positive.heat
    assert (undefined.value, undefined.small, undefined.undefined) == ("undefined", "no answer became wrong", True)
    assert urr.rows[0][1][0].small == "ties 0.200" and "0.80 – 1.00" in urr.rows[0][1][0].title and urr.rows[0][1][0].strong


def test_table_5_has_perturbations_against_models_and_kinds_in_fractions(section: dict[str, Any]) -> None:
    (table,) = section["kinds"]
    assert table.groups == [("large", 3)] and [c[0] for c in table.columns][1:] == ["counting", "all questions"]
    ((name, cells),) = table.rows
    assert name == "blur radius=2.0" and [c.value for c in cells][1:] == ["0.250", "0.100"] and cells[0].undefined


@pytest.mark.parametrize(
    ("ends", "value", "starred", "why"),
    [
        ({"low": 0.1, "high": 0.5}, "0.3", "*", ""),
        ({"low": -0.1, "high": 0.5}, "0.3", "", "not significant, since its interval contains 0"),
        ({"low": None, "high": None}, "0.300", "", "not significant, since it has no interval"),
    ],
)
def test_a_star_needs_the_test_and_the_interval(
    fabricate: Callable[..., Any], ends: dict[str, float | None], value: str, starred: str, why: str
) -> None:
    found = perturbed(read_report(_with(study(fabricate()), "hcc", **ends)))
    assert found is not None
    cell = found["hcc"][0].rows[0][1][1]
    assert (cell.value, cell.mark, cell.strong) == (value, starred, bool(starred))
    assert why in cell.title and ("not significant" in cell.title) != bool(starred)


def test_unchanged_inputs_and_collapses_are_told_where_they_are(fabricate: Callable[..., Any]) -> None:
    changed = {"unchanged_rate": 0.5, "value_changed": 0.8, "low_changed": 0.7, "high_changed": 0.9, "n_changed": 60}
    stage = _with(study(fabricate()), "urr", **changed, collapsed="its accuracy is at most 0.010")
    found = perturbed(read_report(stage))
    assert found is not None
    (urr,) = found["urr"]
    assert urr.columns[0] == ("blur", "radius=10.0 · 50% unchanged · collapse")
    cell = urr.rows[0][1][0]
    assert (cell.small, cell.heat, cell.mark) == ("0.800 of changed", 0, "")
    assert "of 60 changed inputs 0.80 (0.70 – 0.90); its accuracy is at most 0.010" in cell.title
    assert found["answers"][1][1].startswith("All cells are undefined")


def test_each_column_has_the_share_of_its_own_variant(fabricate: Callable[..., Any]) -> None:
    stage = study(fabricate())
    path = Path(stage.inputs["urr"])
    with path.open() as handle:
        rows = list(csv.DictReader(handle))
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, FIELDS["urr"])
        writer.writeheader()
        writer.writerows(row | {"unchanged_rate": (variants.index(row["variant"]) + 1) / 10} for row in rows)
    found = perturbed(read_report(stage))
    assert found is not None and len(variants) > 1
    shares = [column[1].rpartition("· ")[2] for column in found["urr"][0].columns]
    assert sorted(shares) == [f"{10 * (k + 1)}% unchanged" for k in range(len(variants))]


def test_a_grid_has_the_variants_that_were_measured_and_no_others(fabricate: Callable[..., Any]) -> None:
    stage = study(fabricate())
    path = Path(stage.inputs["urr"])
    with path.open() as handle:
        rows = list(csv.DictReader(handle))
    first = rows[0]["variant"]
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, FIELDS["urr"])
        writer.writeheader()
        writer.writerows(row for row in rows if row["variant"] == first)
    found = perturbed(read_report(stage))
    assert found is not None and len({row["variant"] for row in rows}) > 1
    (grid,) = found["urr"]
    assert len(grid.columns) == 1 and all(len(cells) == 1 for _, cells in grid.rows)


def _with(stage: Any, name: str, **fields: Any) -> Any:
    """The stage with other fields in every row of one of the files."""
    path = Path(stage.inputs[name])
    with path.open() as handle:
        rows = [row | fields for row in csv.DictReader(handle)]
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, FIELDS[name])
        writer.writeheader()
        writer.writerows(rows)
    return stage


def test_the_confusion_is_by_what_is_known(section: dict[str, Any]) -> None:
    (grid,) = section["blame"]
    assert grid.groups == [("attributed to", 2)] and [c[0] for c in grid.columns] == ["image", "text"]
    assert [name for name, _ in grid.rows] == ["choice: image", "choice: unknown"]
    assert [[(c.value, c.strong) for c in cells] for _, cells in grid.rows] == [
        [("75%", True), ("25%", False)],
        [("0%", False), ("100%", False)],
    ]
    assert section["blamed"].rows[0][2:] == ["0.8 (0.6 – 0.9)"] * 3 + ["0.500", "4"]


def test_nothing_is_said_of_other_samples_where_the_floor_is_not_beaten(fabricate: Callable[..., Any]) -> None:
    found = perturbed(read_report(study(fabricate(), low=0.45)))
    assert found is not None and found["answers"][3][1].startswith("Not validated, so other samples are not attributed: for large, ")
    assert [name for name, _ in found["blame"][0].rows] == ["choice: image"] and "Of 3 other" not in found["answers"][3][1]


def test_without_labels_nothing_is_attributed(fabricate: Callable[..., Any]) -> None:
    found = perturbed(read_report(study(fabricate(), truth=None)))
    assert found is not None and found["blamed"] is None and found["blame"] == []
    assert found["unanswered"][-1][1] == UNCHECKED


def test_strength_rank_and_coverage(section: dict[str, Any]) -> None:
    titles = [f.title for f in section["sweeps"]]
    assert titles[:2] == ["Accuracy against strength: choice", "URR against strength: large on choice"] and len(titles) == 4
    assert [len(f.panels) for f in section["sweeps"]] == [1, 1, 1, 1]
    assert [f.folded for f in section["sweeps"]] == [False, False, True, True], "one figure per estimator would bury what follows"
    assert [row[3] for row in section["stability"].rows] == ["undefined", "−0.20"]
    (coverage,) = section["coverage"]
    assert len(coverage.panels) == 3 and "of 12 perturbed cells" in coverage.caption
    assert section["means"].header == ["model · dataset · metric", "clean", "image"]


def test_means_over_all_and_over_changed_inputs_are_rows_of_their_own(fabricate: Callable[..., Any]) -> None:
    stage = study(fabricate())
    rate = {"model": "large", "dataset": "choice", "variant": "image", "metric": "hallucination_rate", "n_unscored": 0}
    means = [rate | {"slice": part, "value": value, "n": n} for part, value, n in (("all", 0.25, 60), ("changed", 0.5, 30))]
    write_scores(Path(stage.inputs["modality_scores"]), means)
    section = perturbed(read_report(stage))
    assert section is not None and section["means"].rows == [
        ["large · choice · hallucination_rate", "0.250"], ["large · choice · hallucination_rate · changed inputs", "0.500"],
    ]  # fmt: skip


@pytest.mark.slow
def test_perturbations_without_such_metrics_leave_only_what_was_measured(fabricate: Callable[..., Any]) -> None:
    found = perturbed(read_report(fabricate().stage(variants=VARIANTS)))
    assert found is not None and not found["urr"] and found["coverage"]
    assert found["answers"] == [] and found["sweeps"] == []
    page = report.render(read_report(fabricate().stage(variants=VARIANTS))).decode()
    assert '<dl class="asked">' not in page and "against strength" not in page and "coverage (mean), target" in page


def test_a_question_that_is_not_answered_says_what_it_takes(fabricate: Callable[..., Any]) -> None:
    stage = study(fabricate())
    for missing in ("hcc", "attributions", "blames", "modality_scores"):
        Path(stage.inputs[missing]).unlink()
        del stage.inputs[missing]
    found = perturbed(read_report(stage))
    assert found is not None
    ((_, reacts),), (captured, warns, blame) = found["answers"], (text for _, text in found["unanswered"])
    assert captured == "there is no value of auroc_uncertain or auroc_perturbed."
    assert reacts.startswith("In 4 of 6 combinations of model, dataset, estimator and perturbation, uncertainty rises")
    assert warns == "the spec does not name hallucination_change_correlation."
    assert blame == UNCHECKED


def test_answers_are_held_to_no_warning_where_nothing_is_right_or_wrong(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate()
    study(fabric)
    found = perturbed(read_report(fabric.stage(variants=VARIANTS, unscored=[v["variant"] for v in VARIANTS])))
    assert found is not None and found["hcc"] == []
    assert "not answered: under all of these perturbations, correctness is undefined (the old answer" in found["answers"][2][1]


TESTS = {"correction": "holm", "family": "metric"}


@pytest.mark.slow
def test_what_is_clear_of_chance_is_starred_and_counted(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate()
    study(fabric)
    same = {"model": "large", "dataset": "choice", "slice": "all", "n": 120}
    rows = [
        same | {"variant": v, "metric": m, "value": value, "reference": 0.5, "p": p, "p_adjusted": p}
        for v, m, value, p in (
            ("blur@radius=10.0", "uncertainty_reflection_rate[perplexity]", 0.9, 0.002),
            ("blur@radius=10.0", "uncertainty_reflection_rate[luq]", 0.1, 0.03),
            ("blur@radius=10.0", "hallucination_change_correlation[luq]", 0.6, 0.5),
            ("blur@radius=2.0", "uncertainty_reflection_rate[luq]", 0.6, None),
            ("blur@radius=2.0", "hallucination_rate", 0.6, 0.0004),
        )
    ]
    rows.append(rows[-1] | {"slice": "category=counting", "p_adjusted": 0.2})
    fabric._table("effects", rows, EFFECTS)
    fabric.scores += [{**fabric.scores[-1], "slice": "all", "metric": r["metric"], "variant": r["variant"], "value": 0.1} for r in rows[:4]]
    found = perturbed(read_report(fabric.stage(variants=VARIANTS, tests=TESTS)))
    assert found is not None
    sheet = found["tests"]
    assert [g[0] for g in sheet.groups] == ["", "URR", "HCC", "hallucination rate"]
    assert sheet.rows == [
        ["blur@radius=10.0", "image", "1 ↑ 1 ↓ of 2", "0.0020**", "0 of 1", "0.5000", "–", "–"],
        ["blur@radius=2.0", "image", "undefined", "–", "–", "–", "1 ↑ of 1", "0.0004***"],
    ]
    assert (
        "Two-sided t tests over whole groups" in sheet.note
        and "corrected by Holm's method over the tests of one metric on one dataset and slice." in sheet.note
    )
    assert "effects.parquet" in sheet.note and "to find anything" not in sheet.note
    ((_, of_kinds),) = found["kinds"][0].rows
    cells = {head: cell for (head, _), cell in zip(found["kinds"][0].columns, of_kinds, strict=True)}
    assert (cells["all questions"].mark, cells["all questions"].strong, cells["counting"].mark) == ("***", True, "")
    assert found["urr"][0].rows[0][1][0].mark == "*"
    assert b"<sup>***</sup>" in report.render(read_report(fabric.stage(variants=VARIANTS, tests=TESTS)))


@pytest.mark.slow
def test_where_another_question_is_asked_right_and_wrong_are_left_out(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate()
    study(fabric)
    found = perturbed(read_report(fabric.stage(variants=VARIANTS, unscored=["typos@p=0.1"])))
    assert found is not None
    assert len(found["urr"][0].columns) == 3 and [c[1] for c in found["hcc"][0].columns] == ["radius=10.0", "radius=2.0"]
    assert found["unscored"].startswith("Left out: typos@p=0.1, under which correctness is undefined (the old answer need not")
    assert "; 2 are undefined" not in found["answers"][2][1]
    page = report.render(read_report(fabric.stage(variants=VARIANTS, unscored=["blur@radius=2.0"]))).decode()
    assert page.count("Left out: blur@radius=2.0") == 2 and "Correctness is undefined under blur@radius=2.0" in page


@pytest.mark.slow
def test_what_is_not_shown_is_said(fabricate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qualm.runners.reporting.sections.perturbed.MAX_GRIDS", 1)
    fabric = fabricate()
    found = perturbed(read_report(study(fabric)))
    assert found is not None and len(found["modalities"]) == 1
    assert found["rest"] == {"modalities": "", "urr": "", "hcc": "", "kinds": ""}
    monkeypatch.setattr("qualm.runners.reporting.sections.perturbed.MAX_GRIDS", 0)
    found = perturbed(read_report(fabric.stage(variants=VARIANTS)))
    assert found is not None
    assert found["rest"]["modalities"] == f"The first 0 of 1 grids are shown. All are in {fabric.inputs['modality_scores']}."
    monkeypatch.setattr("qualm.runners.reporting.figures.MAX_ROWS", 2)
    page = report.render(read_report(fabric.stage(variants=VARIANTS))).decode()
    assert "rows are shown; all are in" in page


def test_shades_and_groups() -> None:
    assert shade(0.0, 1.0) == (0, "up") and shade(-9.0, 1.0) == (52, "down")
    assert count_runs(["image", "text", "image"]) == [("image", 1), ("text", 1), ("image", 1)]


def test_in_a_browser_nothing_overflows_and_nothing_runs(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    page = report.render(read_report(study(fabricate())))
    assert b"<script>alert" not in page and "\u202e".encode() not in page
    file = tmp_path / "page.html"
    file.write_bytes(page)
    with Chromium(tmp_path / "profile") as tab:
        for width in (1280, 400):
            tab.size(width)
            tab.open(file.as_uri())
            assert tab.run("document.documentElement.scrollWidth") <= width
        behind = "getComputedStyle(document.querySelectorAll('#perturbations .heat td.{}')[0]).backgroundColor"
        assert tab.run(behind.format("down")) != tab.run(behind.format("up"))
        assert not tab.complaints


def test_all_that_is_shown(fabricate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows_of_drawings(monkeypatch)
    shown = perturbed(read_report(study(fabricate(), estimators=("perplexity", "luq"))))
    assert shown is not None
    held("perturbed", {part: of for part, of in shown.items() if part != "gallery"}, tmp_path)
