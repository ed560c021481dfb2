"""What a reader sees of hostile text, of numbers, and of metric labels."""

from __future__ import annotations

import math

import pytest

from qualm.runners.reporting import text
from qualm.runners.reporting.text import Label, read_label


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        ("plain\nlines\tand tabs", "plain\nlines and tabs"),
        ("\u202eexe.gnp\u202c", "⟨U+202E⟩exe.gnp⟨U+202C⟩"),
        ("a\x00b\x1b[31m\x7f", "a⟨U+0000⟩b⟨U+001B⟩[31m⟨U+007F⟩"),
        ("tag\U000e0041", "tag⟨U+E0041⟩"),
        ("שלום مرحبا 你好 👋🏽", "שלום مرحبا 你好 👋🏽"),
        ("<b>&amp;", "<b>&amp;"),  # escaping is the template's
    ],
)
def test_hidden_characters_are_shown(raw: str, seen: str) -> None:
    assert text.visible(raw) == seen


def test_long_text_is_cut_and_says_so() -> None:
    assert text.visible("x" * 700) == "x" * 600 + "… (700 characters)"


@pytest.mark.parametrize(
    ("value", "printed"), [(None, "undefined"), (math.nan, "undefined"), (math.inf, "∞"), (-0.00001, "0.000"), (-1.5, "−1.500")]
)
def test_numbers(value: float | None, printed: str) -> None:
    assert text.number(value) == printed


def test_differences() -> None:
    assert [text.small(v) for v in (0.0, 3.1e-16, 0.0123)] == ["0", "3.1e−16", "0.0123"]
    assert [text.small(v) for v in (1e-4, -1e-4, 1.6e-4, -9e-5)] == ["0.0001", "−0.0001", "0.0002", "−9.0e−05"]
    assert [text.signed(v) for v in (0.0, 0.5, -0.5, 10.0, math.nan)] == ["0.000", "+0.500", "−0.500", "+10.000", "undefined"]
    assert [text.signed(v) for v in (math.inf, -math.inf, 1e-9, -1e-9)] == ["+∞", "−∞", "0.000", "0.000"]
    assert text.between({"low": -math.inf, "high": math.inf}, form=text.signed) == "−∞ to +∞"
    assert [text.percent(v) for v in (0.0, 0.5, -0.1234, 1.0, math.nan)] == ["0.0%", "50.0%", "−12.3%", "100.0%", "undefined"]


@pytest.mark.parametrize("gone", [None, math.nan])
@pytest.mark.parametrize("end", ["low", "high"])
def test_half_an_interval_is_none(end: str, gone: float | None) -> None:
    assert text.between({"low": 0.25, "high": 0.5, end: gone}) == ""


@pytest.mark.parametrize(
    ("value", "side"), [(0.79, "below"), (0.8, "within"), (0.9, "within"), (0.95, "within"), (0.951, "above"), (None, ""), (math.nan, "")]
)
def test_coverage_at_the_ends_of_its_band_is_within(value: float | None, side: str) -> None:
    row = {"value": value, "target": 0.9, "band_low": 0.8, "band_high": 0.95, "promise": "at least 0.9"}
    assert text.describe_coverage(row) == (f"target 0.90, band 0.80 – 0.95: {side}" if side else "")
    assert text.describe_coverage(row | {"band_high": None}) == text.describe_coverage(row | {"promise": "nothing is promised"}) == ""


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("brier", ("brier", "", "", "", "")),
        ("ece@bins=10[published]", ("ece", "bins=10", "published", "", "")),
        ("set_size[share@fraction=0.1/lac]", ("set_size", "", "share@fraction=0.1", "lac", "")),
        ("auroc[perplexity]", ("auroc", "", "", "", "perplexity")),
        ("auroc[semantic_entropy@nli=a/b]", ("auroc", "", "", "", "semantic_entropy@nli=a/b")),
    ],
)
def test_labels_come_apart(label: str, parts: tuple[str, ...]) -> None:
    found = read_label(label, ["published", "share@fraction=0.1"])
    assert (found.plugin, found.sweep, found.setting, found.score, found.estimator) == parts


def test_a_metric_of_another_checkout_has_no_direction() -> None:
    assert read_label("not_here", []) == Label("not_here", text="not_here")


def test_natural_order() -> None:
    names = ["10", "2x", "a", "r=2.0", "r=10.0", "r=10.0,s=9", "r=10.0,s=11", "rx"]
    assert sorted(reversed(names), key=text.natural) == sorted(names, key=text.natural) == ["2x", "10", "a", *names[3:]]
