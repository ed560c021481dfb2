"""Which modality moves a metric more, in sentences and as a table: significant differences by paired tests."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import aside, between, decimals, display_name, heading_name, number, rounded, signed, visible
from qualm.runners.results.gains import turn_around
from qualm.runners.results.perturbation import CONSISTENCY, HALLUCINATION, PERTURBED, REFLECTION
from qualm.runners.scoring.families import ALPHA
from qualm.runners.scoring.measuring.labels import in_brackets, metric_of, plugin_of
from qualm.runners.scoring.measuring.slices import CHANGED

Row = dict[str, Any]

MAX_ROWS = 120
NAMES = {PERTURBED: say.PERTURBED_FROM_CLEAN_SHORT, REFLECTION: "URR", CONSISTENCY: "HCC"}


def describe_modality_differences(tests: pl.DataFrame) -> str:
    """Return text: how many estimators' URR differs by modality, or that none was tested."""
    rows = _tests_of_plugin(tests, REFLECTION)
    if not rows:
        return say.MODALITIES_UNTESTED
    over = say.OVER_CHANGED_INPUTS if any(r["slice"] == CHANGED for r in rows) else ""
    estimators = len({(r["model"], r["dataset"], r["metric"]) for r in rows})
    named = say.THE_ONE_ESTIMATOR if estimators == 1 else f"{estimators:,} estimators"
    parts = []
    for a, b in dict.fromkeys((r["a"], r["b"]) for r in rows):
        of = [r for r in rows if (r["a"], r["b"]) == (a, b)]
        higher, lower = (sum(_is_clear(r) and sign * r["difference"] > 0 for r in of) for sign in (1, -1))
        parts.append(say.MODALITY_ABOVE.format(higher=b, lower=a, n_above=higher, n_below=lower))
    text = say.MODALITY_DIFFERENCES.format(over=over, estimators=named, differences="; ".join(parts))
    clear = [r for r in rows if _is_clear(r)]
    if not clear:
        return text
    most = max(clear, key=lambda r: abs(r["difference"]))
    where = f"{visible(most['model'], 40)} on {visible(most['dataset'], 40)}"
    return say.LARGEST_MODALITY_DIFFERENCE.format(text=text, estimator=display_name(_estimator(most)), where=where, difference=_pair(most))


def describe_hallucination_differences(tests: pl.DataFrame) -> str:
    """Describe significant differences in hallucination by modality, or ties; "" if untested."""
    rows = _tests_of_plugin(tests, HALLUCINATION)
    if not rows:
        return ""
    clear = [r for r in rows if _is_clear(r)]
    several = len({(r["model"], r["dataset"], r["metric"]) for r in rows}) > 1
    whose = [f" ({visible(r['model'], 40)} on {visible(r['dataset'], 40)})" if several else "" for r in clear]
    sentence = "; ".join(f"{_pair(r)}{w}" for r, w in zip(clear[:MAX_ROWS], whose, strict=False))
    rest = "" if len(clear) == len(rows) else say.OTHERS_TIED if clear else say.ALL_MODALITIES_TIED
    return f"{f'Significant: {sentence}. ' if sentence else ''}{rest}"


def modality_tests_table(tests: pl.DataFrame, results: Report) -> Sheet | None:
    """Return a table of the first MAX_ROWS tests between modalities; None without tests."""
    if tests.is_empty():
        return None
    rows = [
        [
            f"{visible(r['model'], 60)} on {visible(r['dataset'], 60)}",
            _titled(r),
            f"{r['b']} against {r['a']}",
            rounded(r, "difference", signed),
            (between(r, form=signed) or say.NO_INTERVAL).replace(" ", "\N{NO-BREAK SPACE}"),
            number(r["p_adjusted"], 4),
            ("higher" if r["difference"] > 0 else "lower") if _is_clear(r) else say.STATISTICALLY_TIED,
        ]
        for r in tests.head(MAX_ROWS).to_dicts()
    ]
    note = say.MODALITY_TESTS_NOTE
    if tests.height > MAX_ROWS:
        where = visible(results.stage.inputs.get("modality_comparisons") or "", 200)
        note += say.THE_FIRST_SHOWN.format(shown=MAX_ROWS, n=tests.height, where=where)
    return Sheet(say.MODALITY_TESTS, [*say.MODALITY_TEST_COLUMNS], rows, note=note, wordy=True)


def _tests_of_plugin(tests: pl.DataFrame, plugin: str) -> Sequence[Row]:
    return [r for r in tests.to_dicts() if plugin_of(r["metric"]) == plugin and r["difference"] is not None]


def _is_clear(row: Row) -> bool:
    return row["p_adjusted"] is not None and row["p_adjusted"] < ALPHA and row["difference"] != 0


def _estimator(row: Row) -> str:
    return in_brackets(str(row["metric"]))


def _titled(row: Row) -> str:
    name, _, sweep = metric_of(str(row["metric"])).partition("@")
    estimator = visible(display_name(_estimator(row)), 60) if _estimator(row) else ""
    return " ".join(filter(None, (NAMES.get(name, heading_name(name)), visible(sweep, 40), estimator)))


def _pair(row: Row) -> str:
    """Return both values (the higher first), their difference and its p-value as text."""
    (high, above), (low, below) = sorted([(row["value_a"], row["a"]), (row["value_b"], row["b"])], reverse=True)
    turned = row if row["value_b"] >= row["value_a"] else turn_around(row)
    difference = f"{signed(high - low, decimals(turned))}{aside(between(turned, form=signed))}"
    sides = {"higher": above, "high": number(high), "lower": below, "low": number(low)}
    return say.MODALITY_PAIR.format(difference=difference, p=number(row["p_adjusted"], 4), **sides)
