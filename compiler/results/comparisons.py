"""The paired tests that the score stage made, in the terminal: differences with stars, a table per dataset, slice and baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rich.text import Text

from qualm.compiler.results.scores import Row
from qualm.compiler.results.tables import metrics_down
from qualm.compiler.spec import sentences as say
from qualm.registry.system.console import Console
from qualm.registry.system.grids import Grid, in_parts
from qualm.runners.scoring.families import PAIRED_TEST, compared_quantity, describe_correction, describe_margin, stars, verdict
from qualm.runners.scoring.scored_share import format_share, shares_differ

MAX_PLACES = 3
"""Comparisons that a note names."""


def matching_tests(tests: Sequence[Row], scores: Sequence[Row]) -> list[Row]:
    """Return the tests of which both models have a clean score row among `scores`."""
    keys = {(r["model"], r["dataset"], r["slice"], r["metric"]) for r in scores if r["variant"] == "clean"}
    return [t for t in tests if all((t[side], t["dataset"], t["slice"], t["metric"]) in keys for side in "ab")]


def show_tests(tests: Sequence[Row], correction: str, family: str, console: Console) -> None:
    """Print a table of tests per dataset, slice and model `a`, then correction and remarks.

    Nothing is printed without tests.
    """
    for key in dict.fromkeys((t["dataset"], t["slice"], t["a"]) for t in tests):
        here = [t for t in tests if (t["dataset"], t["slice"], t["a"]) == key]
        models = list(dict.fromkeys(t["b"] for t in here))
        for grid in in_parts(models, partial(_table, here, key), console.width):
            grid.print(console)
            console.print()
    if tests:
        corrected = describe_correction({"correction": correction, "family": family})
        text = say.STARS.format(test=PAIRED_TEST, correction=corrected)
        console.print(Text("\n".join([text, *remarks(tests)]), style="dim"))


def remarks(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return lines on metrics compared by another quantity or not tested; [] if none."""
    metrics_by: dict[str, list[str]] = {}
    for metric, by in dict.fromkeys((t["metric"], compared_quantity(t.get("compared_by"))) for t in tests):
        if by:
            metrics_by.setdefault(by, []).append(metric)
    reasons: dict[tuple[str, str], list[str]] = {}
    for test in tests:
        if test.get("why"):
            reasons.setdefault((test["metric"], test["why"]), []).append(_place(test))
    counts = Counter(t["metric"] for t in tests)
    lines = [say.COMPARED_BY.format(metrics=", ".join(metrics), quantity=by) for by, metrics in metrics_by.items()]
    for (metric, why), places in reasons.items():
        where = say.NOT_TESTED_IN.format(n=len(places), of=counts[metric]) if len(places) > MAX_PLACES else f" ({'; '.join(places)})"
        lines.append(say.NOT_TESTED.format(metric=metric, where=where if len(places) < counts[metric] else "", why=why))
    return lines


def _place(test: Mapping[str, Any]) -> str:
    part = test.get("slice", "all")
    where = [test.get("model"), test["dataset"], "" if part == "all" else part]
    return f"{test['b']} against {test['a']}, {' · '.join(filter(None, where))}"


def metric_in_words(test: Mapping[str, Any]) -> str:
    """Return the metric's label, and "(QUANTITY)" after it if another quantity is compared."""
    by = compared_quantity(test.get("compared_by"))
    return f"{test['metric']} ({by})" if by else str(test["metric"])


def _table(tests: Sequence[Row], key: tuple[str, str, str], models: Sequence[str]) -> Grid:
    dataset, part, baseline = key
    title = Text(f"{dataset}{'' if part == 'all' else f' · {part}'} · difference from ", style="") + Text(baseline, style="bold")
    return metrics_down(title, {(metric_in_words(t), t["b"]): t for t in tests}, models, _cell)


def _cell(test: dict[str, Any] | None) -> Text:
    if test is None:
        return Text("–", style="dim")
    if test["difference"] is None:
        return Text("undefined", style="dim italic")
    mark = stars(test["p_adjusted"])
    style = {"better": "green", "worse": "red"}.get(verdict(test["p_adjusted"], test["difference"], test["higher_is_better"]), "")
    text = Text(f"{test['difference']:+.3f}{mark}", style=style)
    if test["low"] is not None:
        text.append(f" {test['low']:+.3f} to {test['high']:+.3f}", style="dim")
    found = "not tested" if test["p_adjusted"] is None else describe_margin(test)
    text.append(f" {found}" * bool(found), style="dim italic")
    shares = [test.get("scored_share_a"), test.get("scored_share_b")]
    if shares_differ(shares):
        text.append(f" (scored {' / '.join(map(format_share, shares))}: not comparable)", style="yellow")
    return text
