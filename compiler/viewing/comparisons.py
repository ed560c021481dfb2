"""Make the comparisons of a spec: every paired test of two models or two estimators that its run made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qualm.compiler.results.compare import compare_models
from qualm.compiler.spec import sentences as say
from qualm.compiler.viewing.board import pack_columns
from qualm.registry import CLEAN
from qualm.runners.reporting.load import decimals_of, with_decimals
from qualm.runners.reporting.text import heading_name
from qualm.runners.results.results import Results
from qualm.runners.scoring.families import PAIRED_TEST, compared_quantity, describe_comparison, describe_correction
from qualm.runners.scoring.measuring.labels import plugin_of
from qualm.runners.scoring.rankings import MIN_GROUPS
from qualm.runners.scoring.scored_share import describe_unequal_shares

COLUMNS = (
    *("model", "dataset", "variant", "slice", "a", "b", "metric", "value_a", "value_b", "difference", "low", "high", "p", "p_adjusted"),
    *("n", "higher_is_better", "compared_by", "margin", "p_equivalent", "p_not_worse", "title", "finding", "shares", "decimals"),
)


def comparisons(results: Results, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored paired tests of models and estimators as JSON values, with notes.

    Args:
        params: parameters of the score stage.
    """
    settings = params.get("compare") or {}
    by_family = {"correction": "max_t", "family": params.get("family") or settings.get("family") or "study"}
    return {
        "level": params["interval"]["level"],
        "models": {
            "tests": _tests(results, "comparisons"),
            "note": say.TESTS_OF_THE_RUN.format(test=PAIRED_TEST.capitalize(), correction=describe_correction(settings))
            if settings
            else "",
            "none": "" if settings else say.NO_MODELS_COMPARED,
        },
        "estimators": {
            "tests": _tests(results, "estimator_comparisons"),
            "note": say.ESTIMATOR_TESTS.format(correction=describe_correction(by_family)),
            "none": say.NO_ESTIMATORS_COMPARED.format(groups=MIN_GROUPS),
        },
    }


def compare_now(results: Results, a: str, b: str) -> dict[str, Any]:
    """Return {"tests", "note"} of model b against a, tested now like `qualm compare`."""
    found = compare_models(results, a, b)
    renamed = {"a": "value_a", "b": "value_b", "delta": "difference"}
    rows = [{renamed.get(name, name): value for name, value in d.items()} | {"a": a, "b": b, "slice": "all"} for d in found["differences"]]
    how, of = describe_correction(found["test"], study=say.ALL_TESTS), decimals_of(results)
    rows = [{"variant": CLEAN, "decimals": of.get(row["metric"].partition("[")[0])} | row | _words(row) for row in rows]
    note = say.TESTED_NOW.format(test=found["test"]["name"], correction=how)
    return {"tests": pack_columns(rows, COLUMNS), "note": note}


def _tests(results: Results, table: str) -> dict[str, Any]:
    rows = with_decimals(results.table(table), decimals_of(results)).to_dicts() if table in results.tables else []
    return pack_columns([{"variant": CLEAN} | row | _words(row) for row in rows], COLUMNS)


def _words(test: Mapping[str, Any]) -> dict[str, str]:
    shares = {test[side]: test.get(f"scored_share_{side}") for side in "ab"}
    return {"title": _title(test), "finding": describe_comparison(test), "shares": describe_unequal_shares(shares)}


def _title(test: Mapping[str, Any]) -> str:
    plugin = plugin_of(test["metric"])
    by = compared_quantity(test.get("compared_by"))
    return f"{heading_name(plugin)}{test['metric'].removeprefix(plugin).replace('[', ' [')}" + (f" ({by})" if by else "")
