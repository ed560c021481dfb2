import polars as pl
import pytest

from qualm.runners.reporting.charts import figures
from qualm.runners.reporting.charts.figures import MOST_PANELS, Figure, Panel, name


def test_of_too_many_panels_the_first_are_shown_and_that_is_said():
    figure = Figure("t", "c", [Panel(str(i), "") for i in range(MOST_PANELS + 1)]).trimmed()
    assert len(figure.panels) == MOST_PANELS and figure.caption == f"c The first {MOST_PANELS} of {MOST_PANELS + 1} panels are shown."
    assert Figure("t", "c", [Panel("", "")] * MOST_PANELS).trimmed().caption == "c"


def test_names_of_drawings_are_safe_and_their_own():
    names = {name("a", "b"), name("ab"), name("a", "c"), name('"><script>')}
    assert len(names) == 4 and all(n.replace("-", "").replace("_", "").isalnum() for n in names) and name("a", "b") == name("a", "b")


def test_quartiles_are_those_that_the_caption_names(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures.charts, "quartiles", lambda rows, models, label: drawn.append((rows, models)) or "<svg/>")
    frame = pl.DataFrame({"model": ["m"] * 101 + ["n"], "verdict": ["right"] * 102, "value": [*map(float, range(101)), 7.0]})
    figures._quartiles(frame, ["m", "n"], "perplexity", "d")
    ((first, second), models) = drawn[0]
    assert models == ["m", "n"] and [first[f"q{q}"] for q in (10, 25, 50, 75, 90)] == pytest.approx([10, 25, 50, 75, 90])
    assert set(first) == {"model", "verdict", "q10", "q25", "q50", "q75", "q90"} and second["q50"] == 7
