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
    assert [text.signed(v) for v in (0.0, 0.5, -0.5, math.nan)] == ["0.000", "+0.500", "−0.500", "undefined"]


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
    assert read_label("not_here", []) == Label("not_here", "not_here")


def test_reasons_come_from_the_counts() -> None:
    assert [text.why_undefined(*c) for c in ((0, 0), (0, 7), (9, 1))] == ["no rows", "all 7 unscored", "no value for these 9 rows"]


def test_natural_order() -> None:
    assert sorted(["r=10.0", "r=2.0", "a"], key=text.natural) == ["a", "r=2.0", "r=10.0"]
