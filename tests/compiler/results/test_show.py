"""`qualm show`: which rows are shown, and how undefined values look."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from qualm.compiler.results import scores, show
from qualm.compiler.spec.errors import ProjectError


def row(metric: str, value: float | None = 0.5, model: str = "m", dataset: str = "d", **more: Any) -> dict[str, Any]:
    edges = {"low": None if value is None else value - 0.1, "high": None if value is None else value + 0.1}
    base = {
        "model": model,
        "dataset": dataset,
        "variant": "clean",
        "slice": "all",
        "metric": metric,
        "value": value,
        "n": 9,
        "n_unscored": 0,
    }
    return base | edges | more


ROWS = [
    row("accuracy[published]"),
    row("accuracy[ours]", 0.625),
    row("set_size[published/mean]", 2.0),
    row("set_size[ours/mean]", 2.5),
    row("set_size[share@fraction=0.1/mean]", 3.0),
    row("ece@bins=10[ours]"),
    row("auroc[perplexity]", None, n=0, n_unscored=9),
    row("accuracy[ours]", 0.25, variant="blur@radius=2.0"),
    row("accuracy[ours]", 0.125, slice="category=x"),
]


def labels(**filters: Any) -> list[str]:
    return [r["metric"] for r in scores.select(ROWS, **filters)]


def test_one_conformal_setting_and_clean_answers_unless_asked() -> None:
    assert labels() == ["accuracy[ours]", "set_size[ours/mean]", "ece@bins=10[ours]", "auroc[perplexity]"]
    assert labels(metrics=["set_size"]) == ["set_size[published/mean]", "set_size[ours/mean]", "set_size[share@fraction=0.1/mean]"]
    assert labels(metrics=["ece@bins=10"]) == labels(metrics=["ece@bins=10[ours]"]) == ["ece@bins=10[ours]"]
    assert [r["value"] for r in scores.select(ROWS, variants=["blur@radius=2.0"])] == [0.25]
    assert [r["value"] for r in scores.select(ROWS, slices=["category=x"])] == [0.125]


def test_macro_averages_are_shown_without_being_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*ROWS, row("accuracy[ours]", 0.375, slice="macro:category"), row("accuracy[ours]", 0.75, dataset="macro:datasets")]
    assert [r["value"] for r in scores.select(rows, metrics=["accuracy[ours]"])] == [0.625, 0.375, 0.75]
    assert [r["value"] for r in scores.select(rows, metrics=["accuracy[ours]"], slices=["all"])] == [0.625, 0.75]
    show.show_scores(scores.select(rows), Console(width=120))
    out = capsys.readouterr().out
    assert "d · macro:category" in out and "macro:datasets" in out
    why = "category=a: every answer is right"
    show.show_warnings([row("auroc[x]", None, slice="macro:category", why=why)], Console(width=120))
    assert capsys.readouterr().out.strip() == f"d macro:category: auroc[x] is undefined (m): {why}"


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"models": ["n"]}, "no model 'n' in these results; there are: m"),
        ({"metrics": ["acuracy"]}, "no metric 'acuracy' in these results; did you mean 'accuracy'?"),
        ({"variants": ["blur"]}, "no variant 'blur' in these results; there are: blur@radius=2.0, clean"),
    ],
)
def test_unknown_names_are_met_with_the_nearest(filters: dict[str, Any], message: str) -> None:
    with pytest.raises(ProjectError) as raised:
        scores.select(ROWS, **filters)
    assert str(raised.value) == message


def test_printed_with_intervals_and_undefined_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    show.show_scores(scores.select(ROWS), Console(width=100))
    out = capsys.readouterr().out
    assert "0.625 0.525–0.725" in out
    assert "undefined" in out and "0 (+9 unscored)" in out


def test_models_that_do_not_fit_go_below(capsys: pytest.CaptureFixture[str]) -> None:
    many = [row("accuracy", model=f"model-{i}") for i in range(6)]
    show.show_scores(many, Console(width=100))
    out = capsys.readouterr().out
    assert all(f"model-{i}" in out for i in range(6))
    assert out.count("0.400–0.600") == 6
    assert max(map(len, out.splitlines())) <= 100


def test_names_from_outside_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    show.show_scores([row("accuracy", model="[red]m[/]")], Console(width=100))
    assert "[red]m[/]" in capsys.readouterr().out


def test_a_long_name_of_a_sweep_stays_on_its_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    name = "sci6@prepare=six_options(place=as_given,fillers=with_replacement)"
    show.show_scores([row("accuracy", dataset=name)], Console(width=100))
    assert name in capsys.readouterr().out.splitlines()[0]


def test_an_interval_below_zero_has_no_dash_that_reads_as_a_minus(capsys: pytest.CaptureFixture[str]) -> None:
    show.show_scores([row("mean_uncertainty[luq]", -0.851), row("accuracy", 0.9)], Console(width=80))
    out = capsys.readouterr().out
    assert "-0.851 -0.951 to -0.751" in out and "0.900 0.800–1.000" in out


def test_whose_rows_calibrate_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show.show_scores([row("accuracy[ours]", n=5), row("set_size[ours/mean]", n=5), row("auroc[luq]")], Console(width=130))
    printed = capsys.readouterr().out
    assert "n of [ours] and [ours/...]: rows that this conformal setting does not calibrate on; of other metrics: all rows" in printed
    show.show_scores([row("accuracy"), row("auroc[luq]")], Console(width=130))
    assert "calibrate" not in capsys.readouterr().out


def test_many_unscored_answers_cannot_be_missed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("accuracy", None, n=0, n_unscored=16, why="[b]say[/] `options: choices`"), row("idk_rate", None, n=0, why="no judge")]
    show.show_warnings(rows, Console(width=200))
    out = capsys.readouterr().out.splitlines()
    assert out == [
        "d: idk_rate is undefined (m): no judge",
        "WARNING d, m: all 16 answers are not scored (accuracy): [b]say[/] `options: choices`",
    ]
    show.show_warnings([row("accuracy")], Console(width=200))
    assert not capsys.readouterr().out


def test_coverage_outside_its_band_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    band = {"target": 0.9, "band_low": 0.866, "band_high": 0.931, "promise": "at least 0.9 on average"}
    values = {"aps": 0.987, "lac": 0.866, "mean": 0.8}
    rows = [row(f"coverage[ours/{name}]", value, **band) for name, value in values.items()]
    rows.append(row("coverage[ours/lac]", 0.5, variant="blur", **(band | {"promise": "nothing is promised: calibrated on clean inputs"})))
    show.show_coverage([*rows, row("accuracy")], Console(width=200))
    assert capsys.readouterr().out.splitlines() == [
        "d, m: coverage[ours/aps] 0.987 (target 0.90, band 0.87 – 0.93: above)",
        "d, m: coverage[ours/mean] 0.800 (target 0.90, band 0.87 – 0.93: below)",
        "1 of 3 coverages shown lie within their target's band",
    ]
    show.show_coverage([row("accuracy")], Console(width=200))
    assert not capsys.readouterr().out
    elsewhere = row("coverage[ours/aps]", 0.5, variant="blur@radius=2", slice="category=x", **band)
    show.show_coverage([elsewhere], Console(width=200))
    assert capsys.readouterr().out.startswith("d · blur@radius=2 · category=x, m: coverage[ours/aps] 0.500 (target 0.90, ")


def test_what_intervals_are_is_said_once_for_all_of_a_kind() -> None:
    rows = [row("a", level=0.95, n_resamples=2000), row("b", level=0.95, n_resamples=10000), row("c", level=0.9, n_resamples=2000)]
    rows.append(row("d", low=None, high=None, level=0.5, n_resamples=7))
    assert show.intervals_in_words(rows[::-1]) == ("90% and 95% intervals, each by itself, from 2,000 or 10,000 resamples of whole groups")
    assert show.intervals_in_words(rows[3:]) == show.intervals_in_words([row("a")]) == ""
