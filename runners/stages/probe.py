"""Stage `probe`: classifiers of what is inside each model, trained on clean answers that are not scored, and what they say of the others.

A probe is scored as an estimator is. One of all datasets' answers tells of each; beside it, as `NAME@other_data`, one that has learnt
from the other datasets alone, for what is inside a model may tell easy datasets from hard ones and nothing else.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from qualm.registry import VALIDATION
from qualm.registry.sample import PROBE_FITS, UNCERTAINTIES
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import read_samples
from qualm.runners.data.splits import fit_rows, scored_rows
from qualm.runners.runtime.precision import stored_value
from qualm.runners.runtime.records import make_table, publish_table
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.measuring.read_cells import BLIND_VARIANTS
from qualm.runners.scoring.measuring.tables import Tables
from qualm.runners.training.probe import TrainedProbe, fit_probe
from qualm.runners.training.probe_data import Bools, ProbedAnswers, ProbeTask, TrainingData, probe_task, read_answers, read_targets

KIND = StageKind(
    title="Train probes",
    reads=("datasets", "generations", "internals", "judgements", "judging", "uncertainties"),
    writes={"probe_values": "probe_values.parquet", "probe_fits": "probe_fits.parquet", "probe_weights": "probe_weights.safetensors"},
    colour="#d67195",
    seeded=True,
    shows={"probe_fits": "What the probes have learnt from, and the share of it that was wrong (or of high uncertainty)"},
)

ELSEWHERE = "other_data"
Trained = dict[str, tuple[dict[str, Any], TrainedProbe | None]]
"""Label of a probe -> its row of PROBE_FITS, and the probe if it could be trained."""


def run(stage: Stage) -> None:
    """Train every probe for every model; write predictions, training facts and weights."""
    tables = Tables(stage)
    samples = {name: read_samples(name, folder) for name, folder in sorted(stage.inputs["datasets"].items())}
    scored = {name: scored_rows(stage, own) for name, own in samples.items()}
    probes = [probe_task(ref) for ref in stage.params["probes"]]
    fits = {(p.label, name): fit_rows(f"probe '{p.label}'", own, scored[name], p.ref) for p in probes for name, own in samples.items()}
    _check_fits(probes, fits)
    parts: list[pa.Table] = []
    rows: list[dict[str, Any]] = []
    weights: dict[str, Any] = {}
    for probe, model in [(task, model) for task in probes for model in task.ref["of"]]:
        generated = stage.inputs["generations"].get(model, {})
        answers = {name: read_answers(stage, probe, model, own) for name, own in samples.items() if name in generated}
        data: dict[str, TrainingData | None] = {}
        for name, read in answers.items():
            fit = fits[probe.label, name]
            data[name] = read.training_data(read_targets(stage, tables, probe, model, samples[name]), fit) if fit.any() else None
        for name, trained in _train(stage, probe, model, data, weights):
            rows += [facts for facts, _ in trained.values()]
            parts += _predictions(stage, model, answers[name], scored[name] & ~fits[probe.label, name], trained)
    publish_table(stage, "probe_values", pa.concat_tables([UNCERTAINTIES.empty_table(), *parts]), UNCERTAINTIES)
    publish_table(stage, "probe_fits", rows, PROBE_FITS)
    _publish_weights(stage, weights)


def _check_fits(probes: Sequence[ProbeTask], fits: Mapping[tuple[str, str], Bools]) -> None:
    """Raise StageError if a probe has no rows to learn from in any dataset."""
    for probe in probes:
        if not any(rows.any() for (label, _), rows in fits.items() if label == probe.label):
            raise StageError(
                f"probe '{probe.label}': no dataset has questions of split '{VALIDATION}' to learn from; make some, or learn from half "
                "of what is scored: `fit: half`"
            )


def _train(
    stage: Stage, probe: ProbeTask, model: str, data: Mapping[str, TrainingData | None], weights: dict[str, Any]
) -> Iterator[tuple[str, Trained]]:
    """Fit probes, add to `weights`; yield (dataset, {label: (facts, probe or None)}).

    One probe is trained on all datasets. With `transfer`, each dataset has a second, trained on the other datasets. Weights are added to
    `weights` by LABEL/MODEL[/DATASET]/NAME.
    """

    def train(label: str, dataset: str, learnt_from: Sequence[str]) -> tuple[dict[str, Any], TrainedProbe | None]:
        own = {name: part for name in learnt_from if (part := data[name]) is not None}
        facts, trained = fit_probe(probe, list(own.values()), zlib.crc32(f"{stage.seed} {label} {model} {dataset}".encode()))
        if trained is not None:
            weights.update({"/".join(filter(None, (label, model, dataset, name))): value for name, value in trained.weights().items()})
            stage.count(probes=1)
        return {"probe": label, "model": model, "learnt_from": ", ".join(own), **facts}, trained

    on_all = train(probe.label, "", list(data))
    for name in data:
        trained = {probe.label: on_all}
        if probe.ref["transfer"] and len(data) > 1:
            label = f"{probe.label}@{ELSEWHERE}"
            trained[label] = train(label, name, [other for other in data if other != name])
        for facts, _ in trained.values():
            if facts["why"]:
                stage.count(**{f"without a probe ({facts['why']})": 1})
        yield name, {label: ({**facts, "dataset": name}, classifier) for label, (facts, classifier) in trained.items()}


def _predictions(stage: Stage, model: str, answers: ProbedAnswers, counted: Bools, trained: Trained) -> Iterator[pa.Table]:
    """Yield UNCERTAINTIES tables per probe and variant, of scored answers not trained on."""
    variants = [variant for variant in answers.greedy if variant not in BLIND_VARIANTS]
    probes = {label: probe for label, (_, probe) in trained.items() if probe is not None}
    values = {label: {variant: np.full(answers.samples.n, np.nan) for variant in variants} for label in trained}
    for variant in variants if probes else ():
        for places, design in answers.designs(variant, counted):
            for label, probe in probes.items():
                values[label][variant][places] = [stored_value(value) for value in probe.probability(design.features).tolist()]
    rows = np.flatnonzero(counted)
    ids = answers.samples.ids.take(pa.array(rows))
    for label, by_variant in values.items():
        for variant, of_all in by_variant.items():
            texts = {"model": model, "dataset": answers.samples.name, "variant": variant, "estimator": label}
            own = pa.array(of_all[rows], mask=np.isnan(of_all[rows]))
            stage.count(uncertainties=len(own), undefined=own.null_count)
            yield make_table(UNCERTAINTIES, texts, {"sample_id": ids, "value": own})


def _publish_weights(stage: Stage, weights: dict[str, Any]) -> None:
    from safetensors.torch import save_file

    file = stage.scratch / "probe_weights.safetensors"
    save_file(weights, file)
    stage.publish(file, stage.outputs["probe_weights"])
