"""Corrected tests of the effects of perturbations."""

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.heat import SURE
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import number, visible
from qualm.runners.results.perturbation import CONSISTENCY, HALLUCINATION, REFLECTION
from qualm.runners.scoring.families import describe_correction, stars

TITLES = {REFLECTION: "URR", CONSISTENCY: "HCC", HALLUCINATION: say.HALLUCINATION_RATE}


@dataclass
class EffectTests:
    """Tests of the effects of perturbations, with corrected p-values."""

    effects: pl.DataFrame
    plugins: dict[str, str]
    """Label of a metric -> its plugin."""
    how: str
    """Sentence on the correction; empty if nothing was tested."""
    path: str = ""
    insignificant: frozenset[tuple[str, str, str, str]] = frozenset()
    """(model, dataset, metric, variant) of coefficients over all questions that have no interval that excludes 0."""
    _found: dict[tuple[str, str, str], dict[tuple[str, str], float | None]] = field(default_factory=dict)

    def p_values(self, model: str, dataset: str, metric: str) -> dict[tuple[str, str], float | None]:
        """Return {(slice, variant): corrected p-value or None} of a metric; {} if not tested."""
        if not self._found:
            for r in self.effects.iter_rows(named=True):
                self._found.setdefault((r["model"], r["dataset"], r["metric"]), {})[r["slice"], r["variant"]] = r["p_adjusted"]
        return self._found.get((model, dataset, metric), {})

    def sheet(self, variant_order: list[str], variant_facts: dict[str, Any]) -> Sheet | None:
        """Return, per perturbation, the number of significant tests and least p; None if no tests."""
        rows = self.effects.filter(pl.col("slice") == "all").to_dicts()
        plugins = [p for p in TITLES if any(self.plugins.get(r["metric"]) == p for r in rows)]
        body = []
        for variant in [v for v in variant_order if any(r["variant"] == v for r in rows)]:
            of = [[r for r in rows if r["variant"] == variant and self.plugins.get(r["metric"]) == p] for p in plugins]
            counts = [text for tests in of for text in self._counted(tests)]
            body.append([visible(variant, 80), str(variant_facts[variant]["modality"]), *counts])
        if not body:
            return None
        groups = [("", 1), *((TITLES[p], 2) for p in plugins)]
        header = ["perturbation", "modality", *(text for _ in plugins for text in ("significant", "smallest p"))]
        note = say.SIGNIFICANT_EFFECTS_NOTE.format(also=say.HCC_NEEDS_INTERVAL * (CONSISTENCY in plugins), correction=self.how)
        note += say.ALL_P_VALUES.format(path=visible(self.path, 200)) if self.path else ""
        return Sheet(say.SIGNIFICANT_EFFECTS, header, body, groups, note)

    def _counted(self, rows: list[dict[str, Any]]) -> tuple[str, str]:
        """Return ("3 ↑ 1 ↓ of 20" significant effects, smallest corrected p with stars) as texts."""
        tests = [r for r in rows if r["p_adjusted"] is not None]
        if not tests:
            return ("undefined" if rows else "–"), "–"
        keys = [tuple(r[name] for name in ("model", "dataset", "metric", "variant")) for r in tests]
        clear = [r for r, key in zip(tests, keys, strict=True) if r["p_adjusted"] < SURE and key not in self.insignificant]
        up = sum(r["value"] > r["reference"] for r in clear)
        least = min(r["p_adjusted"] for r in tests)
        sides = [text for n, text in ((up, f"{up:,} ↑"), (len(clear) - up, f"{len(clear) - up:,} ↓")) if n]
        missing = f", {len(rows) - len(tests):,} undefined" if len(rows) > len(tests) else ""
        mark = stars(least) if any(r["p_adjusted"] == least for r in clear) else ""
        return f"{' '.join(sides) or '0'} of {len(tests):,}{missing}", number(least, 4) + mark


def read_tested(results: Report) -> EffectTests:
    """Return the tests of a spec's perturbation effects; with no rows if there are none."""
    frame = results.source.scan("effects").collect()
    tests = results.stage.params.get("tests")
    how = say.TWO_SIDED_TESTS.format(correction=describe_correction(tests)) if tests and not frame.is_empty() else ""
    plugins = {label: about.plugin for label, about in results.labels.items()}
    coefficients = [label for label, plugin in plugins.items() if plugin == CONSISTENCY]
    contains_0 = ~((pl.col("low") > 0) | (pl.col("high") < 0)).fill_null(False)
    insignificant = results.scores.filter(pl.col("metric").is_in(coefficients) & contains_0, slice="all")
    keys = frozenset(insignificant.select("model", "dataset", "metric", "variant").iter_rows())
    return EffectTests(frame, plugins, how, str(results.stage.inputs.get("effects") or ""), keys)
