"""The page of a difference: significant differences first, names that call nobody, lengths that a comment can hold."""

import re

from qualm.compiler.results.diff_page import LINES, ROWS, markdown, marker

UNTESTED = dict.fromkeys(("low", "high", "p_adjusted", "significant", "better"))
TESTED = {"low": -0.3, "high": -0.2, "p_adjusted": 0.0014, "significant": True, "better": "b"}


def row(metric: str, old: float | None, new: float | None, **more: object) -> dict:
    change = None if old is None or new is None else new - old
    return {
        "model": "m",
        "dataset": "d",
        "variant": "clean",
        "metric": metric,
        "old": old,
        "new": new,
        "change": change,
        **UNTESTED,
        **more,
    }


def page(results=(), **more) -> str:
    found = {"spec": "s", "revision": "main", "spec_diff": [], "parameters": [], "results": list(results), "level": 0.95}
    return markdown({**found, "test": {"name": "paired t"}, "notes": [], **more})


def test_what_is_distinguished_stands_above_what_is_folded() -> None:
    shown = page(
        [
            row("accuracy", 0.5, 0.51, **TESTED | {"low": -0.01, "high": 0.03, "p_adjusted": 0.4, "significant": False, "better": None}),
            row("ece", 0.5, 0.25, **TESTED),
            row("brier", 0.1, 0.2, **TESTED | {"low": 0.05, "high": 0.15, "better": "a"}),
            row("set_size", 2.0, 3.0, **TESTED | {"better": None}),
            row("gone", 1.0, None),
            row("fresh", None, 1.0),
            row("mce", 0.3, 0.4),
        ],
        notes=["d: 3 questions were left out"],
    )
    lines = shown.splitlines()
    assert lines[0] == marker("s") == "<!-- qualm diff s -->" and lines[1] == "### Results of `s` against `main`"
    assert lines[3] == (
        "7 results changed: 1 better, 1 worse, 1 significantly different, of metrics without a better direction, "
        "1 statistically tied, 1 without a test, 1 new, 1 gone."
    )
    assert lines[5] == "| model | dataset | variant | metric | old | new | change (95% interval) | p | |"
    assert lines[7] == "| `m` | `d` | `clean` | `ece` | 0.5000 | 0.2500 | −0.2500 (−0.3000 to −0.2000) | 0.001 | **better** |"
    assert [re.findall("`(.*?)`", line)[3] for line in lines if line.startswith("| `m`")] == [
        "ece", "brier", "set_size", "accuracy", "gone", "fresh", "mce",
    ]  # fmt: skip
    assert lines[8].endswith("**worse** |") and lines[9].endswith("|  |")
    assert (
        "<details><summary>4 other results that changed</summary>" in lines
        and "| `m` | `d` | `clean` | `fresh` | – | 1.0000 |  |  |  |" in lines
    )
    meaning = "“Better” and “worse” stand where that test is significant."
    assert shown.endswith(f"corrected over these changes. {meaning}\n\n- d: 3 questions were left out")


def test_what_is_found_about_a_margin() -> None:
    near = TESTED | {"significant": False, "better": None, "margin": 0.02, "p_equivalent": 0.01, "p_not_worse": 0.01}
    assert "| equal within 0.02 |" in page([row("accuracy", 0.5, 0.51, **near)])


def test_untested_changes_have_no_interval() -> None:
    shown = page([row("ece", 0.5, 0.25)], level=None, test=None)
    assert "| change | p |" in shown and "−0.2500 |  |  |" in shown and "told apart" not in shown


def test_nothing_changed() -> None:
    assert page(test=None, level=None) == "<!-- qualm diff s -->\n### Results of `s` against `main`\n\nNo result changed."


def test_names_stay_text_and_call_nobody() -> None:
    shown = page(
        [row("@lab/a|b`c", 0.5, 0.25, **TESTED)], spec_diff=["+```", "+<b>"], parameters=[{"stage": "x", "change": "<script> -> |"}]
    )
    (line,) = [line for line in shown.splitlines() if "@lab" in line]
    assert line.startswith("| `m` | `d` | `clean` | ``@lab/a\\|b`c`` | 0.5000")
    assert "<script>" not in shown and "````diff\n+```\n+<b>\n````" in shown


def test_of_as_many_as_fit_none_is_left_out() -> None:
    def full(more: int) -> str:
        rows = [row(f"metric_{i}", 0.5, 0.25, **TESTED) for i in range(ROWS + more)]
        changes = [{"stage": "score", "change": f"args: {i}"} for i in range(ROWS + more)]
        return page(rows, spec_diff=[f"+{i}" for i in range(LINES + more)], parameters=changes)

    assert "more" not in full(0) and f"metric_{ROWS - 1}`" in full(0) and f"+{LINES - 1}\n" in full(0)
    assert re.findall(r"… and 1 more.*", full(1)) == ["… and 1 more.", "… and 1 more parameters", "… and 1 more lines"]


def test_a_page_fits_into_a_comment() -> None:
    many = [row(f"metric_{i}", 0.5, 0.25, **TESTED) for i in range(2 * ROWS)] + [row(f"other_{i}", 0.5, 0.25) for i in range(3 * ROWS)]
    spec = [f"+line {i} {'x' * 40}" for i in range(LINES + 7)]
    shown = page(many, spec_diff=spec, parameters=[{"stage": "score", "change": f"args: {i}"} for i in range(ROWS + 2)])
    assert len(shown) < 65_536
    assert [n for n in re.findall(r"… and (\d+) more", shown)] == [str(ROWS), str(2 * ROWS), "2", "7"]
