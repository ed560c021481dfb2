"""Stage `abstain`: from the clean answers a method may see, the confidence below which a model declines; applied everywhere.

A model that abstains is scored as a model of its own, `base+thresholded`. Which rows the threshold was chosen on decides
whether its scores are honest, so these rows are never scored, or the name says that they were. So is a model before which a
classifier of questions refuses, `base+blind_refuser`, or one of images, `base+picture_refuser`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry import BLIND, REFUSERS, VALIDATION, method_name
from qualm.registry.plugins import registry as plugins
from qualm.registry.sample import ABSTENTION_RULES, ABSTENTIONS, CLEAN
from qualm.runners.contracts.abstentions import AbstentionRule, Answers
from qualm.runners.contracts.returned import call_plugin, wrong_return
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import Floats, read_samples
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.splits import fit_rows, scored_rows
from qualm.runners.results.blind_classifiers import predicts_unanswerable
from qualm.runners.results.blind_refuser import IN_TURN, OWN, POOLED, RefuserPredictions, predict_refusals
from qualm.runners.results.shortcuts import image_features
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.read_cells import read_cells
from qualm.runners.scoring.measuring.tables import Tables

KIND = StageKind(
    title="Choose when to decline",
    reads=("datasets", "generations", "judgements", "judging"),
    writes={"abstentions": "abstentions.parquet", "abstention_rules": "abstention_rules.parquet"},
    colour="#eeca3b",
)

ALL = "all"
Bools = NDArray[np.bool_]


def run(stage: Stage) -> None:
    """Fit every abstention method on every model and dataset; write all outcomes and rules."""
    tables = Tables(stage)
    parts: list[pa.Table] = []
    rules: list[dict[str, Any]] = []
    methods = stage.params["abstentions"]
    refusing = [_BlindRefuser(stage, way) for way in REFUSERS]
    lacking: dict[str, list[str]] = {m["label"]: [] for m in methods}
    for name, folder in sorted(stage.inputs["datasets"].items()):
        samples = read_samples(name, folder)
        if samples.n_options.all():
            stage.count(**{"multiple-choice datasets left out": 1})
            continue
        scored = scored_rows(stage, samples)
        chosen = {m["label"]: fit_rows(f"abstention '{m['label']}'", samples, scored, m, samples.n_options == 0) for m in methods}
        for label in (label for label, rows in chosen.items() if not rows.any()):
            lacking[label].append(name)
        for cells in _by_model(read_cells(stage, samples, tables)):
            for refuser in refusing:
                if cells[0].model in refuser.models:
                    own_rules, own_tables = refuser.apply(cells, scored)
                    rules += own_rules
                    parts += own_tables
            for method in methods:
                if cells[0].model in method["of"] and chosen[method["label"]].any():
                    own_rules, own_tables = _apply(method, cells, chosen[method["label"]], scored)
                    rules += own_rules
                    parts += own_tables
    _check_fitted(stage, lacking, {r["method"] for r in rules})
    for refuser in refusing:
        refuser.check()
    whole = pa.concat_tables(parts) if parts else ABSTENTIONS.empty_table()
    stage.count(answers=whole.num_rows, rules=len(rules), not_attained=sum(not r["attained"] for r in rules))
    for key, table, schema in (("abstentions", whole, ABSTENTIONS), ("abstention_rules", rules, ABSTENTION_RULES)):
        made_file = stage.scratch / f"{key}.parquet"
        write_table(made_file, table, schema, stage.provenance)
        stage.publish(made_file, stage.outputs[key])


class _BlindRefuser:
    """A text-only or image-only classifier put in front of models, to abstain for them."""

    def __init__(self, stage: Stage, way: str) -> None:
        """Train a refuser per dataset that sees only questions, or only images (`way`, one of REFUSERS)."""
        self.stage, self.way, self.method = stage, way, BLIND[way]
        self.name = self.method.replace("_", " ")
        self.models = frozenset(stage.params.get(self.method, ()))
        self._refusers: dict[str, RefuserPredictions] = {}
        if self.models:
            sets = {name: read_samples(name, folder) for name, folder in sorted(stage.inputs["datasets"].items())}
            sets = {name: samples for name, samples in sets.items() if not samples.n_options.all()}
            scored = {name: scored_rows(stage, samples) for name, samples in sets.items()}
            self._refusers = predict_refusals(sets, scored, 0, self._features(sets) if way == "picture_refuser" else None)

    def _features(self, names: Iterable[str]) -> dict[str, Callable[[NDArray[np.int64]], Floats]]:
        folders = self.stage.inputs["datasets"]
        return {name: partial(image_features, DatasetFolder(name, Path(folders[name]))) for name in names}

    def check(self) -> None:
        """Count datasets without a trained classifier; raise StageError if all are."""
        silent = {name: r.why for name, r in self._refusers.items() if r.why}
        if self.models and len(silent) == len(self._refusers):
            reasons = "; ".join(f"{name}: {why}" for name, why in silent.items()) or "no dataset has open questions"
            raise StageError(f"{self.name}: there is nothing to learn from ({reasons}); take `{self.way}` out of the spec's `blind:`")
        self.stage.count(**({f"datasets_without_{self.method}": len(silent)} if silent else {}))

    def apply(self, cells: list[Cell], scored: Bools) -> tuple[list[dict[str, Any]], list[pa.Table]]:
        """Return rule rows and ABSTENTIONS tables of one model's answers to one dataset."""
        first, samples = cells[0], cells[0].samples
        refuser = self._refusers[samples.name]
        if refuser.why:
            return [], []
        if any("pred_is_idk" not in cell.columns for cell in cells):
            raise StageError(
                f"{self.name}, model '{first.model}', dataset '{samples.name}': its open answers were not judged; add a judge to the spec"
            )
        counted = scored & (samples.n_options == 0) & ~np.isnan(refuser.probability)
        refuses = predicts_unanswerable(refuser.probability) & counted
        taught = {OWN: "the train split", POOLED: "the train splits of other datasets", IN_TURN: "the other groups, in turn"}[
            refuser.learnt
        ]
        sees = "picture" if self.way == "picture_refuser" else "question"
        statement = f"Refuses by the {sees} alone, taught by {taught}; a refusal's confidence is the probability that there is no answer."
        same = {"model": first.model, "dataset": samples.name, "method": self.method}
        numbers = {"threshold": 0.5, "n_fit": refuser.n_learnt, "n_abstained": int(refuses.sum()), "n": int(counted.sum())}
        rule_row = same | numbers | {"part": ALL, "attained": True, "statement": statement, "fit": refuser.learnt}
        return [rule_row], [_refused_table(cell, refuser.probability, self.method) for cell in cells]


def _refused_table(cell: Cell, probability: Floats, method: str) -> pa.Table:
    """Return ABSTENTIONS rows of a cell's open answers under a blind classifier."""
    judged = ~np.isnan(cell.columns["pred_is_idk"]) & (cell.samples.n_options == 0)
    rows = np.flatnonzero(judged)
    refuses, unknown = predicts_unanswerable(probability[rows]), np.isnan(probability[rows])
    confidence = np.where(refuses, probability[rows], cell.columns["confidence"][rows])
    texts = {"model": cell.model, "dataset": cell.samples.name, "variant": cell.variant, "method": method}
    columns = {name: pa.array([text] * len(rows), pa.string()) for name, text in texts.items()} | {
        "sample_id": cell.samples.ids.take(pa.array(rows)),
        "confidence": pa.array(confidence, mask=np.isnan(confidence)),
        "threshold": pa.array(np.full(len(rows), 0.5)),
        "abstains": pa.array(refuses, mask=unknown),
        "is_fit": pa.array(np.zeros(len(rows), dtype=bool)),
    }
    return pa.table({name: columns[name] for name in ABSTENTIONS.names}, schema=ABSTENTIONS)


def _check_fitted(stage: Stage, lacking: dict[str, list[str]], fitted: set[str]) -> None:
    """Count datasets without validation rows; raise StageError if a method has none at all."""
    stage.count(datasets_without_validation=sum(map(len, lacking.values())))
    for method in stage.params["abstentions"]:
        without = lacking[method["label"]]
        if without and method_name(method["label"], method["fit"]) not in fitted:
            raise StageError(
                f"abstention '{method['label']}': no dataset has open questions of split '{VALIDATION}' to choose on "
                f"({', '.join(without)}); make some, or choose on half of the test split with `fit: half`"
            )


def _by_model(cells: Iterator[Cell]) -> Iterator[list[Cell]]:
    """Yield lists of cells, one list per model with all its variants."""
    held: list[Cell] = []
    for cell in cells:
        if held and held[0].model != cell.model:
            yield held
            held = []
        held.append(cell)
    if held:
        yield held


def _answers(cell: Cell, method: dict[str, Any]) -> Answers:
    columns = {name: cell.columns[name] for name in ("confidence", "correct", "pred_is_idk", "gt_is_idk")}
    return Answers(**columns, group=cell.samples.groups, turned_confidence=method["confidence"])


def _apply(method: dict[str, Any], cells: list[Cell], fits: Bools, scored: Bools) -> tuple[list[dict[str, Any]], list[pa.Table]]:
    """Return rule rows and ABSTENTIONS tables of one method on one model and dataset."""
    first, samples = cells[0], cells[0].samples
    where = f"abstention '{method['label']}', model '{first.model}', dataset '{samples.name}'"
    clean = next((c for c in cells if c.variant == CLEAN), None)
    if clean is None:
        raise StageError(f"{where}: expected answers to the clean variant to choose a threshold on, found none")
    if "pred_is_idk" not in clean.columns:
        raise StageError(f"{where}: its open answers were not judged; add a judge to the spec")
    plugin, function = plugins.get("abstentions", method["plugin"]), plugins.load("abstentions", method["plugin"])
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


def _table(cell: Cell, method: dict[str, Any], thresholds: Floats, held_out: Bools, scale: tuple[Floats, Floats]) -> pa.Table:
    """Return ABSTENTIONS rows of a cell's open answers; null without confidence or threshold."""
    answers = _answers(cell, method).rescaled(*scale)
    nothing = np.isnan(np.stack([answers.confidence, answers.correct, answers.pred_is_idk])).all(axis=0)
    rows = np.flatnonzero(~nothing & (cell.samples.n_options == 0))
    after = answers.abstain_below(thresholds)
    unknown = np.isnan(answers.confidence) | np.isnan(thresholds) | np.isnan(answers.pred_is_idk)
    same = {
        "model": cell.model,
        "dataset": cell.samples.name,
        "variant": cell.variant,
        "method": method_name(method["label"], method["fit"]),
    }
    columns = {name: pa.array([text] * len(rows), pa.string()) for name, text in same.items()} | {
        "sample_id": cell.samples.ids.take(pa.array(rows)),
        "confidence": pa.array(after.confidence[rows], mask=np.isnan(after.confidence[rows])),
        "threshold": pa.array(thresholds[rows], mask=np.isnan(thresholds[rows])),
        "abstains": pa.array(answers.becomes_abstention(thresholds)[rows], mask=unknown[rows]),
        "is_fit": pa.array(held_out[rows]),
    }
    return pa.table({name: columns[name] for name in ABSTENTIONS.names}, schema=ABSTENTIONS)
