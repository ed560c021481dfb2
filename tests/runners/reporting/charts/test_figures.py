import polars as pl
import pytest

from qualm.runners.reporting.charts import figures
from qualm.runners.reporting.charts.figures import MOST_PANELS, Figure, Panel, name
from tests.runners.reporting.made_results import made_results, score


def test_of_too_many_panels_the_first_are_shown_and_that_is_said():
    figure = Figure("t", "c", [Panel(str(i), "") for i in range(MOST_PANELS + 1)]).trimmed()
    assert len(figure.panels) == MOST_PANELS and figure.caption == f"c The first {MOST_PANELS} of {MOST_PANELS + 1} panels are shown."
    assert Figure("t", "c", [Panel("", "")] * MOST_PANELS).trimmed().caption == "c"


def test_names_of_drawings_are_safe_and_their_own():
    names = {name("a", "b"), name("ab"), name("a", "c"), name('"><script>')}
    assert len(names) == 4 and all(n.replace("-", "").replace("_", "").isalnum() for n in names) and name("a", "b") == name("a", "b")


def test_reliability_speaks_of_lines_and_p_only_where_there_are_any():
    bins = {"model": "m", "dataset": "d", "bin_low": 0.0, "bin_high": 1.0, "confidence": 0.5, "accuracy": 0.25, "n": 8}

    def caption(row, *scores):
        return figures.reliability(made_results([score("accuracy", 0.5), *scores], plots={"reliability": pl.DataFrame([row])}), "d").caption

    assert caption(bins) == caption(bins | {"expected_low": None, "expected_high": None}, score("ece", 0.25))
    assert "Upright" not in caption(bins) and "p:" not in caption(bins)
    assert "Upright" in caption(bins | {"expected_low": 0.4, "expected_high": 0.6})
    assert "p: of the calibration error" in caption(bins, score("ece", 0.25, p_null=0.5))


def test_a_model_has_one_colour_in_all_figures():
    assert figures.model_legend(["c"], ["a", "b", "c"]) == [("var(--c2)", "c")] and figures.model_legend(["a"], ["a"]) == []
    many = [f"m{i}" for i in range(9)]
    assert figures.model_legend(many[7:], many) == [("var(--c0)", "m7"), ("var(--c1)", "m8")], "no colours for all"
    assert figures.model_legend(many, many)[0] == ("var(--accent)", "one tick or line per model (9)")


def test_quartiles_are_those_that_the_caption_names():
    rows = pl.DataFrame({"verdict": ["right"] * 101 + ["wrong"], "value": [*map(float, range(101)), 7.0]})
    first, second = figures._quartiles(rows, "m").to_dicts()
    assert [first[f"q{q}"] for q in (10, 25, 50, 75, 90)] == pytest.approx([10, 25, 50, 75, 90])
    assert set(first) == {"model", "verdict", "q10", "q25", "q50", "q75", "q90"} and (second["q50"], second["model"]) == (7, "m")
