"""Plan the stages that assess answers: judgement, uncertainty, prediction set, abstention, probes."""

from collections.abc import Container, Sequence
from typing import Any

from qualm.compiler.plan.demands import reads_estimators, reads_sampled_answers
from qualm.compiler.plan.layout import Layout, splits
from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.spec.plugin_ref import artifact_path
from qualm.registry import BLIND, DRAWS, REFUSERS
from qualm.registry.plugins.column_names import QUESTION
from qualm.registry.plugins.columns import reads_choices, reads_open, signals


def judge(layout: Layout) -> PlannedStage:
    r = layout.resolved
    params: dict[str, Any] = {"judges": [j.as_json() for j in r.judges]}
    if only := {d.label: r.judges_of(d) for d in layout.evaluated if d.entry.judges is not None}:
        params["only"] = only
    if reads_sampled_answers(r):
        params["draws"] = True
    inputs, outputs = layout.answered, _judged(layout)
    if r.spec.judging.labels:
        inputs["labels"] = artifact_path(r.spec.judging.labels)
    return layout.stage("judge", params, inputs, outputs, r.judges)


def _judged(layout: Layout) -> dict[str, str]:
    """Return {"judgements": path, with labels also "judging": path} of stage `judge`."""
    return layout.places("judge", ["judgements", *(["judging"] if layout.resolved.spec.judging.labels else [])])


def estimate(layout: Layout) -> PlannedStage:
    r, tables = layout.resolved, layout.answered
    params: dict[str, Any] = {"estimators": [e.as_json() for e in r.estimators]}
    datasets = [d.label for d in layout.evaluated if reads_estimators(r, d)]
    inputs = {"generations": {m: {d: files[d] for d in datasets} for m, files in tables["generations"].items()}}
    inside = {m: {d: files[d] for d in datasets if d in files} for m, files in layout.internals.items()}
    if any(inside.values()):
        inputs["internals"] = inside
    read = {column for e in r.estimators for column in e.reads}
    # Only if it is read: otherwise another number of draws would repeat all estimates.
    if DRAWS in signals(read):
        params["draws"] = r.spec.inference.draws
    left_out = {m.ref.label: [e.label for e in r.estimators if not m.asked_for(e)] for m in r.models}
    if any(left_out.values()):
        params["left_out"] = {model: labels for model, labels in left_out.items() if labels}
    if QUESTION in read:
        inputs["datasets"] = {d: tables["datasets"][d] for d in datasets}
    return layout.stage("estimate", params, inputs, layout.places("estimate", ["uncertainties"]), r.estimators)


def calibrate(layout: Layout) -> PlannedStage:
    params = {"settings": settings(layout), **splits(layout.evaluated)}
    outputs = layout.places("calibrate", ["sets", "thresholds"])
    used = [score for c in layout.resolved.conformal for score in c.scores]
    return layout.stage("calibrate", params, layout.answered, outputs, used)


def abstain(layout: Layout) -> PlannedStage:
    """Return the planned stage `abstain`: models that abstain by confidence."""
    r = layout.resolved
    params = {
        "abstentions": [a.as_json() for a in r.abstentions],
        **scoring_judges(layout),
        "confidence": r.spec.inference.confidence,
        **splits(layout.evaluated),
    }
    refusers = {BLIND[way]: list(r.blind[way]) for way in REFUSERS if r.blind.get(way)}
    params |= refusers
    # Only the models that abstain, so that another model in the spec does not run this stage again.
    of = {model for a in r.abstentions for model in a.of} | {model for models in refusers.values() for model in models}
    inputs = {**layout.answered, **_judged(layout), "generations": {m: files for m, files in layout.generations.items() if m in of}}
    outputs = layout.places("abstain", ["abstentions", "abstention_rules"])
    return layout.stage("abstain", params, inputs, outputs, [a.plugin for a in r.abstentions])


def probe(layout: Layout) -> PlannedStage:
    """Return the planned stage `probe`, which trains all probes of the spec."""
    r = layout.resolved
    params = {
        "probes": [p.as_json() for p in r.probes],
        **scoring_judges(layout),
        "confidence": r.spec.inference.confidence,
        **splits(layout.evaluated),
    }
    of = {model for p in r.probes for model in p.of}
    inputs = {**layout.answered, "generations": {m: files for m, files in layout.generations.items() if m in of}}
    inside = {m: files for m, files in layout.internals.items() if m in of}
    if inside:
        inputs["internals"] = inside
    if r.judges:
        inputs |= _judged(layout)
    if any(p.target is not None for p in r.probes):
        inputs |= layout.places("estimate", ["uncertainties"])
    outputs = layout.places("probe", ["probe_values", "probe_fits", "probe_weights"])
    return layout.stage("probe", params, inputs, outputs, [p.plugin for p in r.probes])


def settings(layout: Layout) -> list[dict[str, Any]]:
    """Return each conformal setting as {"label", "scores", **arguments}; [] if there is none."""
    return [{"label": c.label, "scores": [s.as_json() for s in c.scores], **c.args} for c in layout.resolved.conformal]


def scoring_judges(layout: Layout) -> dict[str, Any]:
    """Return {"judge": label or None, maybe "judge_of", "judge_of_choices"} for scoring.

    The last two are {dataset: label}.

    Their ratings are scored. That is the first judge of the kind, among the dataset's own judges if it names some.
    """
    r = layout.resolved
    for_choices = {j.label for j in r.judges if reads_choices(j.plugin)}
    no_open = {j.label for j in r.judges if not reads_open(j.plugin)}
    by_dataset = {d.label: _first(r.judges_of(d), no_open) for d in layout.evaluated if d.entry.judges is not None}
    judges: dict[str, Any] = {"judge": _first([j.label for j in r.judges], no_open), **({"judge_of": by_dataset} if by_dataset else {})}
    of_choices = {d.label: [label for label in r.judges_of(d) if label in for_choices] for d in layout.evaluated}
    if any(of_choices.values()):
        judges["judge_of_choices"] = {dataset: labels[0] for dataset, labels in of_choices.items() if labels}
    return judges


def _first(judges: Sequence[str], no_open: Container[str]) -> str | None:
    return min(judges, key=lambda label: label in no_open, default=None)
