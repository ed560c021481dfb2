"""Metrics: those without which another misleads; and metrics and slices against the rest of the spec, before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from compiler import check
from compiler.errors import nearest
from compiler.load import Path_
from compiler.refs import Ref
from compiler.resolved import Resolved
from registry import ASKED, UNCERTAIN, plugins
from registry.columns import CODE_OF, GROUP_OF, field_of, judge_of, mark_of
from registry.plugins import Plugin, PluginError
from registry.where import FIELDS

Fault = tuple[Path_, str, str]
"""Where in the spec, what is wrong, what to do."""
SET_COLUMNS = {"covered", "set_size"}
PAIRED_COLUMNS = {"clean_correct", "clean_uncertainty", "uncertainty_change"}
"""Of a perturbed variant's rows beside the clean ones."""
UNCERTAINTY_COLUMNS = {"uncertainty", "clean_uncertainty", "uncertainty_change"}
LISTS = ("references", "choices")
"""Columns of samples that expressions cannot ask about, and metrics can."""
CROSS = "*"
"""Between the fields of a slice."""


def with_companions(metrics: Sequence[Ref]) -> tuple[Ref, ...]:
    """And those without which one of them misleads, with its own values of the parameters that both have."""
    found = {ref.label: ref for ref in metrics}
    for ref in metrics:
        for name in ref.plugin.declares.get("COMPANIONS", ()):
            plugin = plugins.get("metrics", name)
            defaults = {p.name: p.default for p in plugin.parameters}
            args = {parameter: ref.args.get(parameter, default) for parameter, default in defaults.items()}
            label = check.label(name, {k: v for k, v in args.items() if v != defaults[k]})
            if not any(other.plugin.name == name and other.args == args for other in found.values()):
                found[label] = Ref(label, plugin, args)
    return tuple(sorted(found.values(), key=lambda r: r.label))


def faults(resolved: Resolved) -> Iterator[Fault]:
    """Every metric that reads what this spec does not make, and every field that no sample has."""
    spec, fields = resolved.spec, _fields(resolved)
    for i, given in enumerate(spec.metrics):
        name = given if isinstance(given, str) else next(iter(given), "") if isinstance(given, dict) else ""
        for ref in (r for r in resolved.metrics if r.plugin.name == name):
            try:
                reads = set(ref.reads)
            except PluginError as error:
                yield ("metrics", i), str(error), ""
                continue
            for message, hint in (*_sections(resolved, name, reads), *_judges(resolved, ref), *_unknown(fields, reads)):
                yield ("metrics", i), message, hint
    for i, crossed in enumerate(spec.slices):
        for field in crossed.split(CROSS):
            if fields is not None and field not in fields:
                yield ("slices", i), f"samples have no field '{field}'", nearest(field, fields)


def _sections(resolved: Resolved, name: str, reads: Collection[str]) -> Iterator[tuple[str, str]]:
    if SET_COLUMNS & set(reads) and not resolved.conformal:
        yield f"{name} reads conformal sets, and this spec has none", "add a `conformal:` section"
    if PAIRED_COLUMNS & set(reads) and not resolved.perturbations:
        yield f"{name} compares perturbed inputs with clean ones, and this spec has no perturbations", "add `perturbations:`"
    if UNCERTAINTY_COLUMNS & set(reads) and not resolved.estimators:
        yield f"{name} reads an uncertainty, and this spec has no estimators", "add `estimators:`"


def _judges(resolved: Resolved, metric: Ref) -> Iterator[tuple[str, str]]:
    """Is there every judge whose word the metric reads, and does it measure what is read? The first that fails is told."""
    scoring = {labels[0] for d in resolved.evaluated if (labels := resolved.judges_of(d))}
    for column in metric.reads:
        name, mark = judge_of(column), mark_of(column)
        if name is None:
            continue
        asked = [j for j in resolved.judges if (j.label == name if name else j.label in scoring)]
        if not asked and name:
            yield f"{metric.plugin.name} reads ratings by the judge '{name}', which this spec has not", f"`judges: [{name}]`"
            return
        if mark and not any(mark in _marks(j.plugin) for j in asked):
            able = [p for p in plugins.names("judges") if mark in _marks(plugins.get("judges", p))]
            who = f"the judge '{name}' does not give" if name else "no judge whose ratings are scored gives"
            message = f"{metric.plugin.name} reads the mark '{mark}', which {who}"
            yield message, f"these do: {', '.join(able)}; name one first under `judges:`, or as `judge` of the metric"
            return


def _marks(judge: Plugin) -> Collection[str]:
    """What a judge measures beside its rating."""
    found: Collection[str] = judge.declares.get("MARKS", ())
    return found


def _unknown(fields: Collection[str] | None, reads: Collection[str]) -> Iterator[tuple[str, str]]:
    for field in sorted(field_of(c) for c in reads if c.startswith((GROUP_OF, CODE_OF))):
        if fields is not None and field not in fields:
            yield f"samples have no field '{field}'", nearest(field, fields)


def _fields(resolved: Resolved) -> set[str] | None:
    """Columns of samples and keys of their meta; None where some data set does not say which keys it has."""
    found = {*FIELDS, *LISTS, UNCERTAIN, ASKED}
    for use in resolved.evaluated:
        makers: list[Any] = [getattr(use, "adapter", None)]
        if (prepare := getattr(use, "prepare", None)) is not None:
            makers.append(prepare.plugin)
        for maker in makers:
            if maker is None or "META" not in maker.declares:
                return None
            found |= set(maker.declares["META"])
    return found
