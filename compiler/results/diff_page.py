"""Comment on a pull request: changed results as Markdown, significant ones first, the others folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qualm.compiler.spec import sentences as say
from qualm.registry.formats.markdown import code, fenced, inline
from qualm.runners.scoring.families import describe_margin

ROWS, LINES = 60, 200
"""Most rows of a table, and most lines of a spec's difference: a comment on GitHub holds 65,536 characters."""
VERDICTS = {"b": "**better**", "a": "**worse**"}


def marker(spec: str) -> str:
    """Return an HTML comment that identifies the pull request comment on a spec."""
    return f"<!-- qualm diff {spec} -->"


def markdown(changes: Mapping[str, Any]) -> str:
    """Return the comment on changed results as Markdown, significant ones first.

    Args:
        changes: as `diff_revision` gives them.
    """
    results = changes["results"]
    apart = [row for row in results if row["significant"]]
    others = [row for row in results if not row["significant"]]
    lines = [
        marker(changes["spec"]),
        say.COMMENT_TITLE.format(spec=code(changes["spec"]), revision=code(changes["revision"])),
        "",
        _summary(results),
        "",
    ]
    lines += _table(apart, changes["level"])
    title = (say.COMMENT_OTHERS if apart else say.COMMENT_RESULTS).format(n=len(others))
    lines += _folded(title, _table(others, changes["level"])) if others else []
    parameters = [f"- {code(one['stage'])}: {inline(one['change'])}" for one in changes["parameters"]]
    lines += _folded(say.COMMENT_PARAMETERS.format(n=len(parameters)), _limited(parameters, ROWS, "parameters")) if parameters else []
    diff = _limited(changes["spec_diff"], LINES, "lines")
    lines += _folded(say.COMMENT_SPEC, fenced("\n".join(diff), "diff")) if diff else []
    if test := changes["test"]:
        lines += [say.COMMENT_TEST.format(level=changes["level"], test=test["name"]), ""]
    lines += [f"- {inline(note)}" for note in changes["notes"]]
    return "\n".join(lines).rstrip()


def _summary(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return say.NO_RESULT_CHANGED
    counts = {
        say.N_BETTER: sum(row["better"] == "b" for row in results),
        say.N_WORSE: sum(row["better"] == "a" for row in results),
        say.N_DIFFERENT: sum(bool(row["significant"]) and row["better"] is None for row in results),
        say.N_TIED: sum(row["significant"] is False for row in results),
        say.N_WITHOUT_TEST: sum(row["significant"] is None and row["change"] is not None for row in results),
        say.N_NEW: sum(row["old"] is None for row in results),
        say.N_GONE: sum(row["new"] is None for row in results),
    }
    return say.RESULTS_CHANGED.format(n=len(results), counts=", ".join(text.format(n=n) for text, n in counts.items() if n))


def _table(rows: Sequence[Mapping[str, Any]], level: float | None) -> list[str]:
    if not rows:
        return []
    interval = f" ({level:.0%} interval)" if level else ""
    lines = [f"| model | dataset | variant | metric | old | new | change{interval} | p | |", "|---|---|---|---|---:|---:|---:|---:|---|"]
    for row in rows[:ROWS]:
        names = " | ".join(_cell(row[name]) for name in ("model", "dataset", "variant", "metric"))
        between = "" if row["low"] is None else f" ({_signed(row['low'])} to {_signed(row['high'])})"
        p = "" if row["p_adjusted"] is None else f"{row['p_adjusted']:.3f}"
        change = "" if row["change"] is None else _signed(row["change"]) + between
        finding = "; ".join(filter(None, (VERDICTS.get(row["better"] or ""), describe_margin(row))))
        lines.append(f"| {names} | {_plain(row['old'])} | {_plain(row['new'])} | {change} | {p} | {finding} |")
    return [*lines, *([f"\n{say.COMMENT_MORE.format(n=len(rows) - ROWS)}"] if len(rows) > ROWS else []), ""]


def _cell(name: str) -> str:
    """Return a name as Markdown code for a table cell, so that "@name" notifies nobody."""
    return code(name).replace("|", "\\|")


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")


def _limited(lines: Sequence[str], most: int, what: str) -> list[str]:
    return [*lines[:most], *([f"… and {len(lines) - most:,} more {what}"] if len(lines) > most else [])]


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]
