"""Determine what each model is asked about each dataset: under which perturbations, for which signals.

Only what is read is asked for. Estimators are read on a dataset if one of its metrics reads uncertainties there: metrics of perturbed
versus clean inputs read nothing of an unperturbed dataset, and metrics of uncertain versus clear questions nothing of a dataset with
`ask_answerable:`. If no metric of the spec reads uncertainties, their table is its purpose.
"""

import json
from typing import Any

from qualm.compiler.spec.metrics import PAIRED_COLUMNS, UNCERTAINTY_COLUMNS
from qualm.compiler.spec.resolved import DatasetUse, DataUse, ModelUse, Resolved
from qualm.registry import DRAWS, UNCERTAIN
from qualm.registry.plugins.column_names import SAMPLED_COLUMNS
from qualm.registry.plugins.columns import signals
from qualm.registry.plugins.internals import given_by, is_internal

GREEDY_SIGNALS = ("text", "token_entropies", "token_logprobs")
"""Signals that one greedy decode gives together: a new estimator on them costs no inference."""


def reads_estimators(resolved: Resolved, dataset: DataUse) -> bool:
    """Return whether a metric reads uncertainties on a dataset; True if no metric reads any."""
    named = {item if isinstance(item, str) else next(iter(item)) for item in resolved.spec.metrics}  # without implied metrics
    readers = [set(m.reads) for m in resolved.metrics if m.plugin.name in named and UNCERTAINTY_COLUMNS & set(m.reads)]
    if not readers:
        return True
    is_clean = not resolved.perturbations_of(dataset)
    is_asked_about = isinstance(dataset, DatasetUse) and dataset.entry.ask_answerable is not None
    return any(not (is_clean and PAIRED_COLUMNS & reads) and not (is_asked_about and UNCERTAIN in reads) for reads in readers)


def reads_sampled_answers(resolved: Resolved) -> bool:
    """Return whether a metric reads ratings of sampled answers."""
    return any(SAMPLED_COLUMNS & set(m.reads) for m in resolved.metrics)


def needs(resolved: Resolved, model: ModelUse, dataset: DataUse) -> list[str]:
    """Return the sorted signals that are read of a model's answers and that it gives."""
    estimators = resolved.estimators if reads_estimators(resolved, dataset) else ()
    signal_names = {"option_logits"} | signals(column for e in estimators if model.asked_for(e) for column in e.reads)
    signal_names |= signals(column for p in resolved.probes if model.ref.label in p.of for column in p.reads)
    if reads_sampled_answers(resolved):
        signal_names.add(DRAWS)
    # Any other signal is about a decoded answer.
    if resolved.judges or signal_names - {"option_logits"}:
        signal_names |= set(GREEDY_SIGNALS)
    if resolved.spec.inference.confidence == "verify":
        signal_names.add("p_yes")
    return sorted(word for word in signal_names if given_by(word) in model.gives)


def reads_inside(resolved: Resolved, model: ModelUse, dataset: DataUse) -> bool:
    """Return whether hidden states or attention of a model are read on a dataset."""
    return any(map(is_internal, needs(resolved, model, dataset)))


def group_asked_alike(resolved: Resolved, model: ModelUse) -> list[list[DataUse]]:
    """Return groups of datasets that the model is asked with equal parameters."""
    groups: dict[tuple[Any, ...], list[DataUse]] = {}
    for d in resolved.evaluated:
        variants = tuple(p.label for p in resolved.perturbations_of(d))
        groups.setdefault((tuple(needs(resolved, model, d)), variants, json.dumps(model.prompt_for(d), sort_keys=True)), []).append(d)
    return list(groups.values())
