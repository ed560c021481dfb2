"""Figures of one dataset: what they show and what is said of it.

After a change that is meant: python -m tests.runners.reporting.test_figures
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest

from qualm.registry.sample import UNCERTAINTIES
from qualm.runners.reporting import figures
from qualm.runners.reporting.figures import MAX_PANELS, Figure, Panel, figure_id
from qualm.runners.runtime.records import write_table
from tests.runners.reporting.made_results import made_results, score

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "figures.json"


def test_of_too_many_panels_the_first_are_shown_and_that_is_said():
    figure = Figure("t", "c", [Panel(str(i), "") for i in range(MAX_PANELS + 1)]).trimmed()
    assert len(figure.panels) == MAX_PANELS and figure.caption == f"c The first {MAX_PANELS} of {MAX_PANELS + 1} panels are shown."
    assert Figure("t", "c", [Panel("", "")] * MAX_PANELS).trimmed().caption == "c"


def test_names_of_drawings_are_safe_and_their_own():
    names = {figure_id("a", "b"), figure_id("ab"), figure_id("a", "c"), figure_id('"><script>')}
    assert (
        len(names) == 4 and all(n.replace("-", "").replace("_", "").isalnum() for n in names) and figure_id("a", "b") == figure_id("a", "b")
    )


def test_reliability_speaks_of_lines_and_p_only_where_there_are_any():
    bins = {"model": "m", "dataset": "d", "bin_low": 0.0, "bin_high": 1.0, "confidence": 0.5, "accuracy": 0.25, "n": 8}

    def caption(row, *scores):
        return figures.reliability(made_results([score("accuracy", 0.5), *scores], plots={"reliability": pl.DataFrame([row])}), "d").caption

    assert caption(bins | {"n": 1}) == caption(bins), "a bin of one answer is one"
    assert caption(bins) == caption(bins | {"expected_low": None, "expected_high": None}, score("ece", 0.25))
    assert "Vertical" not in caption(bins) and "p:" not in caption(bins)
    assert "Vertical" in caption(bins | {"expected_low": 0.4, "expected_high": 0.6})
    assert "p: test of perfect calibration" in caption(bins, score("ece", 0.25, p_null=0.5))


def test_one_variant_beside_the_clean_one_is_a_figure():
    plain, blurred = score("accuracy", 0.75, low=0.5, high=1.0), score("accuracy", 0.5, variant="blur", low=0.25, high=0.75)
    both, alone = (figures.variants(made_results(of, inputs={"scores": "s.parquet"}), "d") for of in ([plain, blurred], [plain]))
    assert [panel.title for panel in both.panels] == ["accuracy ↑"]
    assert not alone.panels


@pytest.mark.parametrize(("points", "drawn"), [(239, 239), (240, 120), (360, 120)])
def test_a_curve_has_at_least_so_many_points(points, drawn, monkeypatch):
    given = []
    monkeypatch.setattr(figures.charts, "risk_coverage", lambda rows, *more: given.append(rows) or "")
    curve = pl.DataFrame([{"model": "m", "dataset": "d", "coverage": (i + 1) / points, "risk": 0.5} for i in range(points)][::-1])
    answers = [{"model": "m", "dataset": "d", "sample_id": "s", "confidence": 0.5, "correct": 1.0}]
    figures.risk_coverage(made_results([score("accuracy", 0.5)], answers=answers, plots={"risk_coverage": curve}), "d")
    assert len(given[0]) == drawn and given[0][0]["coverage"] == 1 / points, "from the surest on"


def test_twelve_histograms_are_the_most_that_stand_side_by_side():
    few, many = (figures.right_and_wrong(shown_results(models), "d") for models in ("abcdef", "abcdefg"))
    assert (len(few.panels), few.wide) == (12, False) and (len(many.panels), many.wide) == (2, True)


def test_slices_are_in_the_order_of_the_table():
    scores = [score("accuracy", 0.5, slice=f"{field}={value}") for field in "hgbdface" for value in ("2", "10")]
    shown = figures.slices(made_results([score("accuracy", 0.5), *scores], inputs={"scores": "s.parquet"}), "d")
    assert [figure.title for figure in shown] == [f"By {field}" for field in "hgbdface"]
    assert [row[0] for row in shown[0].table[1]] == ["2", "10"]


def test_a_slice_with_one_value_is_not_drawn():
    scores = [score("accuracy", 0.5, slice=part) for part in ("all", "answerable=true", "category=a", "category=b")]
    shown = figures.slices(made_results(scores, inputs={"scores": "s.parquet"}), "d")
    assert [figure.title for figure in shown] == ["By category"]


def test_figures_of_several_datasets_are_one_with_the_dataset_before_each_panel():
    panel = figures.Panel("accuracy ↑", "<svg/>")
    drawn = {name: figures.Figure("By kind", "Dot: value.", [panel], wide=True, table=(["", "n"], [["x", "1"]])) for name in "de"}
    shown = figures.merge_figures(drawn | {"empty": figures.Figure("By kind")})
    assert shown is not None and [p.title for p in shown.panels] == ["d · accuracy ↑", "e · accuracy ↑"]
    assert shown.caption == "Dot: value." and shown.table == (["dataset", "", "n"], [["d", "x", "1"], ["e", "x", "1"]])
    assert figures.merge_figures({"d": figures.Figure("By kind")}) is None and figures.merge_figures({"d": drawn["d"]}) is drawn["d"]


@pytest.mark.parametrize(("estimators", "told"), [(["p_true"], False), (["p_true", "perplexity"], True)])
def test_of_several_estimators_the_one_that_is_shown_is_said(estimators, told):
    scores = [score(f"auroc[{e}]", 0.5 + i / 8, slice=part) for i, e in enumerate(estimators) for part in ("all", "kind=x", "kind=y")]
    (shown,) = figures.slices(made_results(scores, inputs={"scores": "s.parquet"}), "d")
    assert ("the estimator with the highest mean" in shown.caption) is told and len(shown.panels) == 1


@pytest.mark.parametrize(("value", "wide"), [(5.0, 5e-3), (-2.0, 2e-3), (0.0, 1e-6)])
def test_values_that_are_all_alike_are_one_narrow_bar_of_each_side(value, wide):
    frame = pl.DataFrame({"verdict": ["right"] * 3 + ["wrong"], "value": [value] * 4})
    right, wrong = figures._histogram(frame)
    assert (right["share"], wrong["share"]) == (1, -1) and right["low"] == wrong["low"] == value
    assert right["high"] - value == pytest.approx(wide / 8, rel=1e-6)
    assert figures._histogram(frame.clear()) == []


def test_a_model_has_one_colour_in_all_figures():
    assert figures.model_legend(["c"], ["a", "b", "c"]) == [("var(--c2)", "c")] and figures.model_legend(["a"], ["a"]) == []
    many = [f"m{i}" for i in range(9)]
    assert figures.model_legend(many[6:8], many) == [("var(--c6)", "m6"), ("var(--c7)", "m7")]
    assert figures.model_legend(many[7:], many)[0] == ("var(--accent)", "one tick or line per model (2)"), "no second model in one colour"
    assert figures.model_legend(many, many)[0] == ("var(--accent)", "one tick or line per model (9)")


def test_quartiles_are_those_that_the_caption_names():
    rows = pl.DataFrame({"verdict": ["right"] * 101 + ["wrong"], "value": [*map(float, range(101)), 7.0]})
    first, second = figures._uncertainty_quantiles(rows, "m").to_dicts()
    assert [first[f"q{q}"] for q in (10, 25, 50, 75, 90)] == pytest.approx([10, 25, 50, 75, 90])
    assert set(first) == {"model", "verdict", "q10", "q25", "q50", "q75", "q90"} and (second["q50"], second["model"]) == (7, "m")


def shown_results(models=("a", "b"), estimators=("p_true", "perplexity"), without=()):
    """Scores of all kinds of labels, parts and variants, answers and the points of plots, of a few models."""
    scores = [
        score(metric, value - 0.125 * i, m, variant=variant, slice=part, low=low, high=None if low is None else value, n=1000 + i)
        for i, m in enumerate(models)
        for variant, part, loss in (
            ("clean", "all", 0.0), ("clean", "category=kind10", 0.25), ("clean", "category=kind2", 0.125), ("clean", "answerable=yes", 0.0),
            ("noise@sigma=9", "all", 0.25), ("blur@radius=10", "all", 0.25), ("blur@radius=2", "all", 0.125), ("inv", "all", None),
        )
        for metric, clean, low in (
            ("accuracy", 0.75, 0.5), ("set_size[ours/lac]", 2.0, None), ("set_size[ours/mean]", 3.0, None), ("ece", 0.25, None),
            ("ece@rows=all", 0.5, None), ("auroc[p_true]", 0.625, 0.5), ("auroc[perplexity]", 0.875, 0.75),
        )
        for value in [float("nan") if loss is None else clean - loss]
    ]  # fmt: skip
    scores[0] |= {"n_unscored": 3}
    for row in scores:
        row |= {"value": None, "n": 0} if row["value"] != row["value"] and row["metric"] == "accuracy" else {}
        row |= {"p_null": {"a": 0.0004, "b": 0.25}.get(row["model"])} if row["metric"] == "ece" else {}
    scores = [row for row in scores if row["metric"].partition("[")[0] not in without]
    at = [{"model": m, "dataset": "d"} for m in models]
    bins = [
        {**who, "setting": setting, "bin_low": 0.0, "bin_high": 0.5, "confidence": 0.25, "accuracy": accuracy, "n": n}
        for i, who in enumerate(at)
        for setting, accuracy, n in (
            ("ours", 0.5, 8.0 + i),
            ("published", 0.25, 99.0),
            ("ours", 1.0, 0.0),
            (None, 0.75, 2.0),
            ("ours", None, 3.0),
        )
    ]
    risks = [{**who, "coverage": c / 300, "risk": (i + 1) * c / 1200} for i, who in enumerate(at[:2]) for c in range(300 - 20 * i, 0, -1)]
    sizes = [
        {**who, "setting": setting, "score": s, "size": size, "count": count + i}
        for i, who in enumerate(at[:2]) for setting in ("ours", "published")
        for s in ("lac", "aps") for size, count in ((1.0, 3.0), (3.0, 5.0))
    ]  # fmt: skip
    names = [f"s{k}" for k in range(12)]
    answers = [
        {"model": m, "dataset": "d", "sample_id": s, "confidence": 0.5 + k / 30,
         "correct": (1.0, 0.0, 0.5, None)[k % 4] if m == "a" else float(k % 3 > 0)}
        for m in models for k, s in enumerate(names)
    ]  # fmt: skip
    thresholds = [{"model": "a", "dataset": "d", "setting": setting, "score": "lac"} for setting in ("published", "ours")]
    variants = [{"variant": "noise@sigma=9", "modality": "image"}, {"variant": "inv", "modality": "text"}]
    values = [
        {"model": m, "dataset": "d", "sample_id": s, "variant": "clean", "estimator": e, "value": (k * k) / 10 if k else None}
        for e in estimators for m in models for k, s in enumerate(names)
    ]  # fmt: skip
    inputs = {"scores": "scores.parquet"}
    if values:
        inputs["uncertainties"] = str(Path(FOLDER.name) / f"{len(values)}-{len(estimators)}.parquet")
        write_table(Path(inputs["uncertainties"]), values, UNCERTAINTIES)
    return made_results(
        scores, answers=answers, thresholds=thresholds, variants=variants, unscored=["inv"], inputs=inputs,
        plots={"reliability": pl.DataFrame(bins, infer_schema_length=None), "risk_coverage": pl.DataFrame(risks),
               "set_sizes": pl.DataFrame(sizes)},
    )  # fmt: skip


FOLDER = TemporaryDirectory()
FIGURES = {
    "reliability": lambda: [figures.reliability(shown_results(), "d")],
    "risk_coverage": lambda: [figures.risk_coverage(shown_results(), "d")],
    "set_sizes": lambda: [figures.set_sizes(shown_results(), "d")],
    "right_and_wrong": lambda: [figures.right_and_wrong(shown_results(), "d")],
    "right_and_wrong of confidence": lambda: [figures.right_and_wrong(shown_results(estimators=()), "d")],
    "right_and_wrong of one model": lambda: [figures.right_and_wrong(shown_results(["a"], ["p_true"]), "d")],
    "right_and_wrong of many": lambda: [figures.right_and_wrong(shown_results("abcdefg"), "d")],
    "slices": lambda: figures.slices(shown_results(), "d"),
    "slices of nine models": lambda: figures.slices(shown_results("abcdefghi", ["p_true"]), "d")[:1],
    "variants": lambda: [figures.variants(shown_results(), "d")],
    "variants of one model": lambda: [figures.variants(shown_results(["b"]), "d")],
    "variants of open answers": lambda: [figures.variants(shown_results(without=["set_size", "ece", "ece@rows=all"]), "d")],
    "of another dataset": lambda: [
        draw(shown_results(), "e")
        for draw in (figures.reliability, figures.risk_coverage, figures.set_sizes, figures.right_and_wrong, figures.variants)
    ],
}


def told(name, patch):
    """What a reader of the figures is told, and which numbers the drawings are given."""
    for kind in ("reliability", "risk_coverage", "set_sizes", "right_and_wrong", "quartiles", "dots"):
        patch.setattr(figures.charts, kind, lambda *given, kind=kind: [kind, *given])
    text = json.dumps([vars(figure) | {"panels": [vars(p) for p in figure.panels]} for figure in FIGURES[name]()], default=list)
    return json.loads(text, parse_float=lambda number: float(f"{float(number):.9g}"))


@pytest.mark.parametrize("name", FIGURES)
def test_what_a_figure_shows(name, monkeypatch):
    """All of it: numbers, headings, notes, captions, legends and the table below, held to tests/golden/figures.json."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert sorted(golden) == sorted(FIGURES)
    assert told(name, monkeypatch) == golden[name]


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        known = {name: told(name, patch) for name in FIGURES}
    GOLDEN.write_text("{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(of)}" for n, of in known.items()) + "\n}\n", encoding="utf-8")
