"""Apply an abstention method: fit its rule on a model's clean answers, and abstain below its threshold in all of them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry import method_name
from qualm.registry.plugins import registry
from qualm.registry.sample import ABSTENTIONS, CLEAN
from qualm.runners.contracts.abstentions import AbstentionRule, Answers
from qualm.runners.contracts.returned import call_plugin, wrong_return
from qualm.runners.data.aligned import Floats
from qualm.runners.runtime.records import make_table
from qualm.runners.runtime.stage import StageError
from qualm.runners.scoring.cells import Cell

ALL = "all"
"""The part of a rule that holds for all questions."""
Bools = NDArray[np.bool_]
Outcome = tuple[list[dict[str, Any]], list[pa.Table]]
"""Rows of ABSTENTION_RULES, and a table of ABSTENTIONS per cell."""


def apply_abstention(method: dict[str, Any], cells: Sequence[Cell], fits: Bools, scored: Bools) -> Outcome:
    """Return a method's rules for one model and dataset, and a table of decisions per cell.

    Args:
        method: `label`, `plugin`, `args`, `fit`, `confidence`, and `per` (`category` or `all`: a rule of its own for each).
        cells: the model's answers to the dataset, by variant.
        fits: (n,) True for the rows that the rule is fitted on; `scored` for those that are scored.

    Raises:
        StageError: there are no clean answers, or they were not judged.
    """
    first, samples = cells[0], cells[0].samples
    where = f"abstention '{method['label']}', model '{first.model}', dataset '{samples.name}'"
    clean = next((c for c in cells if c.variant == CLEAN), None)
    if clean is None:
        raise StageError(f"{where}: expected answers to the clean variant to choose a threshold on, found none")
    if "pred_is_idk" not in clean.columns:
        raise StageError(f"{where}: its open answers were not judged; add a judge to the spec")
    plugin, function = registry.get("abstentions", method["plugin"]), registry.load("abstentions", method["plugin"])
    answers = _answers(clean, method)
    defined = ~np.isnan(np.stack([answers.confidence, answers.correct, answers.pred_is_idk, answers.gt_is_idk])).any(axis=0)
    category = np.array([v or "" for v in samples.values("category")] if method["per"] == "category" else [ALL] * samples.n, dtype=object)
    # on `test` the rows that were chosen on are scored all the same; that is what makes it optimistic
    held_out = fits if method["fit"] != "test" else np.zeros(samples.n, dtype=bool)
    applied = scored & (samples.n_options == 0) & ~held_out
    thresholds, temperatures, shifts = np.full(samples.n, np.nan), np.ones(samples.n), np.zeros(samples.n)
    rules = []
    for part in sorted(set(category[samples.n_options == 0])):
        inside = category == part
        chosen = fits & inside & defined
        fitted: AbstentionRule = call_plugin(plugin, where, partial(function, answers.rows(chosen), **method["args"]))
        if not isinstance(fitted, AbstentionRule):
            raise wrong_return(plugin, where, "a Rule", fitted)
        thresholds[inside], temperatures[inside], shifts[inside] = fitted.threshold, fitted.temperature, fitted.shift
        counted = applied & inside & defined
        turned = int(answers.rescaled(temperatures, shifts).becomes_abstention(thresholds)[counted].sum())
        same = {"model": first.model, "dataset": samples.name, "method": method_name(method["label"], method["fit"]), "part": part}
        threshold = None if np.isnan(fitted.threshold) else fitted.threshold
        numbers = {"threshold": threshold, "n_fit": int(chosen.sum()), "n_abstained": turned, "n": int(counted.sum())}
        rules.append(same | numbers | {"attained": fitted.attained, "statement": fitted.statement, "fit": method["fit"]})
    return rules, [_table(cell, method, thresholds, held_out, (temperatures, shifts)) for cell in cells]


def _answers(cell: Cell, method: dict[str, Any]) -> Answers:
    columns = {name: cell.columns[name] for name in ("confidence", "correct", "pred_is_idk", "gt_is_idk")}
    return Answers(**columns, group=cell.samples.groups, turned_confidence=method["confidence"])


def _table(cell: Cell, method: dict[str, Any], thresholds: Floats, held_out: Bools, scale: tuple[Floats, Floats]) -> pa.Table:
    """Return ABSTENTIONS rows of a cell's open answers; null without confidence or threshold."""
    answers = _answers(cell, method).rescaled(*scale)
    nothing = np.isnan(np.stack([answers.confidence, answers.correct, answers.pred_is_idk])).all(axis=0)
    rows = np.flatnonzero(~nothing & (cell.samples.n_options == 0))
    after = answers.abstain_below(thresholds)
    unknown = np.isnan(answers.confidence) | np.isnan(thresholds) | np.isnan(answers.pred_is_idk)
    same = cell.place | {"method": method_name(method["label"], method["fit"])}
    columns = {
        "sample_id": cell.samples.ids.take(pa.array(rows)),
        "confidence": pa.array(after.confidence[rows], mask=np.isnan(after.confidence[rows])),
        "threshold": pa.array(thresholds[rows], mask=np.isnan(thresholds[rows])),
        "abstains": pa.array(answers.becomes_abstention(thresholds)[rows], mask=unknown[rows]),
        "is_fit": pa.array(held_out[rows]),
    }
    return make_table(ABSTENTIONS, same, columns)
