"""Add companion metrics; check metrics and slices against the rest of the spec."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import nearest
from qualm.compiler.spec.estimators import Fault, columns_read
from qualm.compiler.spec.plugin_ref import Ref
from qualm.compiler.spec.reader import SpecReader
from qualm.compiler.spec.resolved import DatasetUse, PairSetUse, Resolved
from qualm.registry import ASKED, DATASETS, OPTION_PARTS, UNCERTAIN
from qualm.registry.entries import card as cards
from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import CODE_OF, GROUP_OF, LABELLED, SAMPLED_COLUMNS, SET_COLUMNS
from qualm.registry.plugins.columns import field_of, judge_of, mark_of
from qualm.registry.plugins.declarations import misplaced_arguments
from qualm.registry.plugins.registry import Plugin, PluginError, meta_keys
from qualm.registry.where import FIELDS

PAIRED_COLUMNS = {"clean_correct", "clean_uncertainty", "uncertainty_change", "input_changed"}
"""Columns that compare a perturbed variant with the clean samples."""
UNCERTAINTY_COLUMNS = {"uncertainty", "clean_uncertainty", "uncertainty_change"}
LISTS = ("references", "choices")
"""Columns of samples that metrics can read but expressions cannot."""
CROSS = "*"
"""Separator of the fields in a slice."""


def with_companions(metrics: Sequence[Ref]) -> tuple[Ref, ...]:
    """Return the metrics and those of their companions not yet among them, sorted by label.

    Companions have the same parameters.
    """
    by_label = {ref.label: ref for ref in metrics}
    for ref in metrics:
        for name in ref.plugin.declares.get("companions", ()):
            plugin = registry.get("metrics", name)
            defaults = {p.name: p.default for p in plugin.parameters}
            args = {parameter: ref.args.get(parameter, default) for parameter, default in defaults.items()}
            label = validate.label(name, {k: v for k, v in args.items() if v != defaults[k]})
            if not any(other.plugin.name == name and other.args == args for other in by_label.values()):
                by_label[label] = Ref(label, plugin, args)
    return tuple(sorted(by_label.values(), key=lambda r: r.label))


def faults(reader: SpecReader, resolved: Resolved) -> Iterator[Fault]:
    """Yield (path, message, hint) per metric that cannot be computed, and unknown field."""
    spec, fields = resolved.spec, _fields(reader, resolved)
    sound = not any(reader.failures.has_errors(section) for section in ("datasets", "pairs", "models", "finetunes"))
    meant = any(d.evaluate is False for d in spec.datasets.values()) or any(p.evaluate is False for p in spec.pairs.values())
    if spec.metrics and sound and not meant and not resolved.evaluated:
        message = "there is nothing to measure: no model answers any dataset of this spec, since they are trained on or made into pairs"
        yield ("metrics",), message, "write `evaluate: true` beside a `card:`, or add another dataset"
    for i, item in enumerate(spec.metrics):
        name = item if isinstance(item, str) else next(iter(item), "") if isinstance(item, dict) else ""
        for ref in (r for r in resolved.metrics if r.plugin.name == name):
            reads, wrong = columns_read("metrics", ref)
            if wrong:
                yield ("metrics", i), wrong, ""
                continue
            for message, hint in (
                *((message, "") for message in misplaced_arguments(ref.plugin, ref.args)),
                *_sections(reader, name, reads),
                *_sampled(reader, ref),
                *_judges(reader, resolved, ref),
                *_unknown(fields, reads),
            ):
                yield ("metrics", i), message, hint
    for key, names in (("slices", spec.slices), ("macro_averages", spec.macro_averages)):
        for i, crossed in enumerate(names):
            if (key, crossed) == ("macro_averages", DATASETS):
                continue
            for field in crossed.split(CROSS):
                for message, hint in fields.lacks(field):
                    yield (key, i), message, hint
    for name, setting in spec.conformal.items():
        for path, parts in ((("per",), setting.per), (("calibration", "within"), setting.calibration.within)):
            for part in [parts] if isinstance(parts, str) else parts or []:
                for message, hint in fields.lacks(part) if part not in OPTION_PARTS else ():
                    yield ("conformal", name, *path), message, hint


def _sections(reader: SpecReader, name: str, reads: Collection[str]) -> Iterator[tuple[str, str]]:
    if SET_COLUMNS & set(reads) and reader.lacks("conformal"):
        yield f"{name} reads conformal sets, and this spec has none", "add a `conformal:` section"
    if PAIRED_COLUMNS & set(reads) and reader.lacks("perturbations"):
        yield f"{name} compares perturbed inputs with clean ones, and this spec has no perturbations", "add `perturbations:`"
    if LABELLED in reads and reader.spec.judging.labels is None:
        hint = "add `judging: {labels: ENTRY}`; `qualm export SPEC FOLDER --to labels` writes answers for people to rate"
        yield f"{name} reads people's ratings of answers, and this spec names none", hint
    if UNCERTAINTY_COLUMNS & set(reads) and reader.lacks("estimators") and reader.lacks("probes"):
        yield f"{name} reads an uncertainty, and this spec has no estimators", "add `estimators:`"


def _sampled(reader: SpecReader, ref: Ref) -> Iterator[tuple[str, str]]:
    if SAMPLED_COLUMNS & set(ref.reads) and reader.lacks("judges"):
        yield f"{ref.plugin.name} reads ratings of sampled answers, and this spec has no judges", "add `judges:`"
    if "sampling_variance" in ref.reads and reader.spec.inference.draws < 2:
        yield (
            f"{ref.plugin.name} compares sampled answers; expected at least 2, got {reader.spec.inference.draws}",
            "raise `inference.draws`",
        )


def _judges(reader: SpecReader, resolved: Resolved, metric: Ref) -> Iterator[tuple[str, str]]:
    """Yield one (message, hint) if the metric needs a judge or mark that is missing."""
    if reader.failures.has_errors("judges"):
        return
    scoring = {labels[0] for d in resolved.evaluated if (labels := resolved.judges_of(d))}
    for column in metric.reads:
        name, mark = judge_of(column), mark_of(column)
        if name is None:
            continue
        judges = [j for j in resolved.judges if (j.label == name if name else j.label in scoring)]
        if not judges and name:
            yield f"{metric.plugin.name} reads ratings by the judge '{name}', which this spec lacks", f"add `judges: [{name}]`"
            return
        if mark and not any(mark in _marks(j.plugin) for j in judges):
            able = [p.name for p in registry.every("judges") if mark in _marks(p)]
            who = f"the judge '{name}' does not give" if name else "no judge whose ratings are scored gives"
            message = f"{metric.plugin.name} reads the mark '{mark}', which {who}"
            yield message, f"these do: {', '.join(able)}; name one first under `judges:`, or as `judge` of the metric"
            return


def _marks(judge: Plugin) -> Collection[str]:
    marks: Collection[str] = judge.declares.get("MARKS", ())
    return marks


def _unknown(fields: _Fields, reads: Collection[str]) -> Iterator[tuple[str, str]]:
    for field in sorted(field_of(c) for c in reads if c.startswith((GROUP_OF, CODE_OF))):
        yield from fields.lacks(field)


@dataclass(frozen=True)
class _Fields:
    """Names of the samples' fields, and whether the list of names is complete."""

    names: frozenset[str]
    complete: bool
    """True if no other keys are possible."""

    def lacks(self, field: str) -> Iterator[tuple[str, str]]:
        """Yield one (message, hint) if samples lack this field for sure or it looks misspelt."""
        near = self.names if self.complete else difflib.get_close_matches(field, self.names, 1, SAME_WORD)
        if field not in self.names and (self.complete or near):
            yield f"samples have no field '{field}'", nearest(field, near)


SAME_WORD = 0.85
"""Minimum similarity (difflib's ratio) of a misspelt name."""


def _fields(reader: SpecReader, resolved: Resolved) -> _Fields:
    fields = {*FIELDS, *LISTS, UNCERTAIN, ASKED}
    failing = [name for name in reader.names("datasets") if reader.failures.has_errors("datasets", name)]
    makers = [_adapter(reader, name) for name in failing]
    for use in resolved.evaluated:
        if isinstance(use, DatasetUse):
            makers.append((use.adapter, use.args) if use.adapter else None)
            makers += [(use.prepare.plugin, use.prepare.args)] if use.prepare else []
    keys = [meta_keys(*maker) if maker else None for maker in makers]
    complete = None not in keys and not reader.failures.incomplete and not any(isinstance(use, PairSetUse) for use in resolved.evaluated)
    return _Fields(frozenset(fields.union(*filter(None, keys))), complete)


def _adapter(reader: SpecReader, name: str) -> tuple[Plugin, dict[str, Any]] | None:
    """Return (adapter plugin, arguments) of a dataset; None if prepared, unknown or without."""
    entry = reader.spec.datasets.get(name)
    if entry is None or entry.prepare is not None:
        return None
    try:
        card = cards.load_card(entry.card)
        return (registry.get("datasets", card.adapter), {**card.args, **(entry.model_extra or {})}) if card.adapter else None
    except (cards.CardError, PluginError):
        return None
