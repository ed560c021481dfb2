"""Figures of results: every chart that there are numbers for, and words for what there are none for; their shapes are held to
tests/golden/printed.json.

After a change that is meant: python -m tests.runners.plugins.exports.test_figures
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from qualm.runners.plugins.exports import ExportContext, ExportError
from qualm.runners.plugins.exports._figures import CHARTS, NARROW, Source, _from_zero, _least_risk, figures
from qualm.runners.runtime.colours import ACCENT
from qualm.runners.runtime.printed import PALETTE
from tests.runners.plugins.exports.test_results import SCORING, context, row
from tests.runners.reporting.test_charts import pieces

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "printed.json"
VARIANTS = [{"variant": "typos@p=0.1", "modality": "text"}, {"variant": "blur@radius=2", "modality": "image"}]


def drawable(folder: Path, **more: Any) -> ExportContext:
    """The results of test_results.py with the points of their plots, of one dataset."""
    made = context(folder, scoring=SCORING | {"variants": VARIANTS}, **more)
    at = [{"model": m, "dataset": "d"} for m in ("b_c", "a")]
    cell = {"low": 0.0, "high": 1.0, "n": 9, "collapsed": None}
    points = {
        "reliability": [
            {**who, "setting": setting, "bin_low": 0.5, "bin_high": 1.0, "confidence": 0.75, "accuracy": accuracy, "n": n}
            for who in at
            for setting, accuracy, n in (("ours", 0.5, 20), ("other", 0.125, 30), ("ours", None, 0))
        ],
        "risk_coverage": [{**who, "coverage": c, "risk": c / 4} for who in at for c in (0.5, 1.0)],
        "set_sizes": [
            {**who, "setting": "ours", "score": s, "size": k, "count": k} for who in at[:1] for s in ("lac", "aps") for k in (1, 3)
        ],
        "urr": [
            {**at[1], "variant": v["variant"], "estimator": e, "value": value, "p_adjusted": p, **cell}
            for v in VARIANTS
            for e, value, p in (("p_true", -0.25, 0.004), ("perplexity", None, None))
        ],
    }
    for name, rows in points.items():
        pl.DataFrame(rows, infer_schema_length=None).write_csv(folder / "made" / f"{name}.csv")
    made.points = {name: folder / "made" / f"{name}.csv" for name in points}
    return made


def words(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_every_chart_by_name(tmp_path: Path) -> None:
    drawn = {figure.name: figure for figure in figures(drawable(tmp_path), "", "column", "")}
    charts = ["leaderboard-d", "estimators-d-auroc", "reliability-d", "risk_coverage-d", "set_sizes-d", "urr-d-a", "leaderboard-e"]
    assert list(drawn) == charts
    assert words(drawn["reliability-d"].svg)[3:] and {"a", "b_c"} <= set(words(drawn["reliability-d"].svg))
    assert "60 questions in 20 groups. Lines: 95% intervals." in drawn["leaderboard-d"].caption
    assert (
        "Filled: significantly better than every other (" in drawn["leaderboard-d"].caption
        and "may be" not in drawn["leaderboard-d"].caption
    )
    assert all("var(" not in figure.svg for figure in drawn.values()) and set(CHARTS) == {*(n.partition("-")[0] for n in charts), "hcc"}


def test_the_best_is_filled_and_what_is_not_told_from_it_a_dot_in_a_ring(tmp_path: Path) -> None:
    (board,) = figures(drawable(tmp_path, datasets_asked=("d",)), "leaderboard", "column", "")
    dots = re.findall(r'<circle[^>]*r="3.2" fill="(#\w+)"', board.svg)
    assert dots == [PALETTE["accent"], PALETTE["paper"]] and words(board.svg).index("a") < words(board.svg).index("b_c"), "the best first"
    (estimators,) = figures(drawable(tmp_path), "estimators", "page", "auroc")
    assert "undefined" in words(estimators.svg) and "–" in words(estimators.svg) and 'r="1.4"' in estimators.svg
    assert ACCENT not in estimators.svg


def test_bins_of_the_main_setting_alone(tmp_path: Path) -> None:
    (figure,) = figures(drawable(tmp_path, models_asked=("a",)), "reliability", "column", "")
    bars = re.findall(r'height="([\d.]+)" fill="#c3c7cc" stroke="#ffffff"', figure.svg)
    gaps = re.findall(r'height="([\d.]+)" fill="#d55e00" stroke="#ffffff"', figure.svg)
    assert len(bars) == len(gaps) == 1 and float(gaps[0]) == pytest.approx(float(bars[0]) / 2, rel=0.01), "0.75 over 0.5"


def test_grids_have_stars_hatches_and_modalities(tmp_path: Path) -> None:
    (grid,) = figures(drawable(tmp_path), "urr", "column", "")
    text = words(grid.svg)
    assert text.count("−.25**") == 2 and text.index("text") < text.index("image")
    assert len(re.findall(r'<path [^>]*stroke="#d9d9d9"', grid.svg)) == 2
    assert "Hatched: undefined" in grid.caption


def test_no_star_beside_a_coefficient_whose_interval_holds_0_or_under_a_collapse(tmp_path: Path) -> None:
    made = drawable(tmp_path)
    cells = [(0.5, 0.1, 0.9, None), (0.4, -0.1, 0.9, None), (0.3, 0.1, 0.9, "says yes")]
    rows = [
        {"model": "a", "dataset": "d", "variant": f"v{i}", "estimator": "p_true", "value": value, "p_adjusted": 0.004}
        | {"low": low, "high": high, "n": 9, "collapsed": collapsed}
        for i, (value, low, high, collapsed) in enumerate(cells)
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "made" / "hcc.csv")
    made.points["hcc"] = tmp_path / "made" / "hcc.csv"
    (grid,) = figures(made, "hcc", "column", "")
    assert {"+.50**", "+.40", "+.30"} <= set(words(grid.svg))
    assert "corrected and an interval without 0." in grid.caption and grid.caption.endswith("No colour or star: answers ignore the input.")


def test_no_order_has_less_risk() -> None:
    """Of ten answers of which four are wrong, sorted with all right ones first."""
    best = dict((round(c, 6), r) for c, r in _least_risk(0.4))
    assert best[1.0] == pytest.approx(0.4) and best[0.8] == pytest.approx(2 / 8) and best[0.6] == 0 and _least_risk(1.0)[-1] == (1.0, 1.0)


@pytest.mark.parametrize(
    ("most", "ticks"),
    [(0.33, [0.0, 0.1, 0.2, 0.3, 0.4]), (0.36, [0.0, 0.1, 0.2, 0.3, 0.4]), (0.0, [0.0, 0.0002, 0.0004, 0.0006, 0.0008, 0.001])],
)
def test_an_axis_from_0_ends_at_a_tick(most: float, ticks: list[float]) -> None:
    assert _from_zero(most) == ((0.0, ticks[-1]), ticks)


def test_a_row_of_dots_ends_at_a_tick(tmp_path: Path) -> None:
    rows = [row(model, "accuracy", value, low=value, high=value) for model, value in (("a", 0.0), ("b_c", 0.33))]
    (board,) = figures(context(tmp_path, rows), "leaderboard", "column", "")
    assert "0.4" in words(board.svg) and "0.5" not in words(board.svg)


def test_prediction_sets_of_no_question_have_no_share(tmp_path: Path) -> None:
    made = drawable(tmp_path)
    pl.read_csv(made.points["set_sizes"]).with_columns(count=0).write_csv(made.points["set_sizes"])
    (figure,) = figures(made, "set_sizes", "column", "")
    assert "0.10%" in words(figure.svg) and "1%" not in words(figure.svg)


def test_what_there_is_not_is_said(tmp_path: Path) -> None:
    made = drawable(tmp_path)
    for arguments, message in (
        (("ece", "column", ""), "no chart 'ece'; there are: leaderboard"),
        (("", "huge", ""), "width 'huge': expected column"),
        (("", "column", "f1"), "no score of metric 'f1'"),
        (("hcc", "column", ""), "nothing to draw: hcc of d: the spec measures nothing of the kind"),
    ):
        with pytest.raises(ExportError, match=message):
            figures(made, *arguments)
    figures(made, "urr,risk-coverage", "column", "")
    assert {what.partition(":")[0] for what in made.lost} == {"urr of e", "risk_coverage of e"}


def many(folder: Path, **more: Any) -> ExportContext:
    """Three models, five metrics, two modalities, and bins that say where calibrated answers would lie."""
    names = ("a", "b_c", "a_model_with_a_name_that_no_column_has_room_for")
    rows = [
        row(model, metric, value, **({"low": None, "high": None} if metric == "coverage" else {}))
        for metric, values in {
            "accuracy": (0.5, 0.8, 0.75), "ece": (0.25, 0.125, 0.3), "coverage": (0.9, 0.9, 0.9), "f1_idk": (None, 0.5, 0.25),
            "auroc[p_true]": (0.4, 0.9, 0.6), "auroc[perplexity]": (0.7, None, 0.65),
        }.items()
        for model, value in zip(names, values, strict=True)
    ]  # fmt: skip
    metrics = [{"label": m, "plugin": m, "args": {}} for m in ("accuracy", "ece", "coverage", "f1_idk", "auroc")]
    made = context(folder, rows, scoring={"metrics": metrics, "conformal": [], "variants": VARIANTS}, **more)
    at = [{"model": m, "dataset": "d"} for m in names]
    points: dict[str, list[dict[str, Any]]] = {
        "reliability": [
            {**who, "bin_low": low, "bin_high": low + 0.5, "confidence": low + 0.3, "accuracy": low + wrong, "n": 1200 * (1 + i)}
            | {"expected_low": low + 0.1, "expected_high": None if i else low + 0.35}
            for i, who in enumerate(at)
            for low, wrong in ((0.0, 0.4), (0.5, 0.2))
        ],
        "risk_coverage": [{**who, "coverage": c, "risk": (i + 1) * c / 8} for i, who in enumerate(at) for c in (0.25, 0.5, 1.0 - i / 4)],
        "set_sizes": [{**who, "setting": None, "score": s, "size": k, "count": 3 * k + i} for i, who in enumerate(at)
                      for s in ("lac", "aps") for k in (2, 3, 4)],
        "hcc": [
            {**at[0], "variant": v, "estimator": e, "value": value, "p_adjusted": p, "low": value - 0.3, "high": value + 0.3, "n": 9}
            | {"collapsed": "says yes" if v == "v9" else None}
            for e, sign in (("p_true", 1), ("an_estimator_with_a_name_that_is_long", -1))
            for v, value, p in [("typos@p=0.1", sign * 0.9, 0.0005), ("blur@radius=2", sign * 0.3, 0.05), ("v9", -0.5, 0.004)]
            if not (sign < 0 and v == "v9")
        ],
    }  # fmt: skip
    for name, of in points.items():
        pl.DataFrame(of, infer_schema_length=None).write_csv(folder / "made" / f"{name}.csv")
    made.points = {name: folder / "made" / f"{name}.csv" for name in points}
    return made


DRAWN: dict[str, tuple[Callable[..., ExportContext], str, str, str]] = {
    "two models in a column": (drawable, "", "column", ""),
    "three models in a column": (many, "", "column", ""),
    "three models on a page": (many, "leaderboard,reliability,hcc", "page", ""),
    "one metric": (many, "leaderboard", "column", "accuracy"),
    "two metrics": (many, "leaderboard,estimators", "120", "f1_idk, ece,auroc"),
}


def drawings(folder: Path, name: str) -> dict[str, list[str]]:
    made, *arguments = DRAWN[name]
    return {figure.name: [figure.caption, *pieces(figure.svg)] for figure in figures(made(folder), *arguments)}


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn(name: str, tmp_path: Path) -> None:
    """To the tenth of a pixel: a journal's figure is looked at, and nobody measures its margins, ticks and dots one by one."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert sorted(golden) == sorted(DRAWN)
    assert drawings(tmp_path, name) == golden[name]


if __name__ == "__main__":
    known = {}
    for drawn in DRAWN:
        with tempfile.TemporaryDirectory() as place:
            known[drawn] = drawings(Path(place), drawn)
    GOLDEN.write_text("{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(of)}" for n, of in known.items()) + "\n}\n", encoding="utf-8")


@pytest.mark.parametrize(("width", "panels"), [(240.0, 2), (NARROW - 1, 2), (NARROW, 4), (800.0, 4)])
def test_how_many_panels_stand_side_by_side(tmp_path: Path, width: float, panels: int) -> None:
    assert Source(context(tmp_path), "d", [], width, []).columns == panels
