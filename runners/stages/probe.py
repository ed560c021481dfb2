"""Stage `probe`: classifiers of what is inside each model, trained on clean answers that are not scored, and what they say of the others.

A probe is scored as an estimator is. One of all datasets' answers tells of each; beside it, as `NAME@other_data`, one that has learnt
from the other datasets alone, for what is inside a model may tell easy datasets from hard ones and nothing else.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry import CLEAN, GREEDY, VALIDATION
from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns
from qualm.registry.plugins.internals import is_internal, parse_internal
from qualm.registry.plugins.registry import Plugin
from qualm.registry.sample import PROBE_FITS, UNCERTAINTIES
from qualm.runners.contracts.probes import ProbeDesign
from qualm.runners.contracts.returned import call_plugin, wrong_return
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import Floats, Samples, greedy_by_variant, plugin_column, read_samples
from qualm.runners.data.internals import read_internals
from qualm.runners.data.splits import fit_rows, scored_rows
from qualm.runners.runtime.precision import stored_value
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.measuring.read_cells import BLIND_VARIANTS, read_cells
from qualm.runners.scoring.measuring.tables import Tables

KIND = StageKind(
    title="Train probes",
    reads=("datasets", "generations", "internals", "judgements", "judging", "uncertainties"),
    writes={"probe_values": "probe_values.parquet", "probe_fits": "probe_fits.parquet", "probe_weights": "probe_weights.safetensors"},
    colour="#d67195",
    seeded=True,
    shows={"probe_fits": "What the probes have learnt from, and the share of it that was wrong (or of high uncertainty)"},
)

ELSEWHERE = "other_data"
FEWEST = 5
"""Answers of each class without which there is no probe."""
Bools = NDArray[np.bool_]
Classifier = Callable[[Floats], Floats]
"""Features of answers -> the probability of the target."""


@dataclass(frozen=True)
class ProbeTask:
    label: str
    plugin: Plugin
    reads: tuple[str, ...]
    args: dict[str, Any]
    options: Mapping[str, Any]
    target: str | None
    """The estimator whose high values it learns; None = which answers are wrong."""

    @property
    def beside(self) -> str:
        """Return the perturbation or variant that the probe compares with in training; "" if none."""
        named = self.plugin.declares.get("BESIDE")
        return str(self.args[named]) if named else ""

    def design(self, handed: Mapping[str, Any], n: int, where: str) -> ProbeDesign:
        """Return the design of n answers: their features, (n, d), and how to train on them."""
        function = registry.load("probes", self.plugin.name)
        design: ProbeDesign = call_plugin(self.plugin, where, lambda: function(*(handed[name] for name in self.reads), **self.args))
        if not isinstance(design, ProbeDesign):
            raise wrong_return(self.plugin, where, "a ProbeDesign", design)
        if design.features.ndim != 2 or len(design.features) != n:
            raise wrong_return(self.plugin, where, f"features of {n} answers, ({n}, d)", design.features)
        return design


@dataclass
class TrainingData:
    """Features, targets and groups of one dataset's answers, to train a probe on."""

    designs: list[ProbeDesign] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)
    """Targets: wrongness in 0..1, or an uncertainty."""
    groups: list[NDArray[np.int64]] = field(default_factory=list)
    beside: list[Floats] = field(default_factory=list)
    """Features of the same answers under the variant that a probe compares with, NaN where there are none."""

    @property
    def n(self) -> int:
        return sum(map(len, self.values))


@dataclass(frozen=True)
class ProbedAnswers:
    """One model's answers to one dataset, with the file of their hidden states."""

    samples: Samples
    where: str
    greedy: Mapping[str, pa.Table]
    """Greedy answers by variant: ids, and columns that are not of the inside."""
    internals: Path | None
    """The file of what was inside the model; None where the probe does not read it."""


def run(stage: Stage) -> None:
    """Train every probe for every model; write predictions, training facts and weights."""
    tables = Tables(stage)
    samples = {name: read_samples(name, folder) for name, folder in sorted(stage.inputs["datasets"].items())}
    scored = {name: scored_rows(stage, own) for name, own in samples.items()}
    probes = [_probe(ref) for ref in stage.params["probes"]]
    fits = {
        (probe.label, name): fit_rows(f"probe '{probe.label}'", own, scored[name], probe.options)
        for probe in probes
        for name, own in samples.items()
    }
    _check_fits(probes, fits)
    parts: list[pa.Table] = []
    rows: list[dict[str, Any]] = []
    weights: dict[str, Any] = {}
    for ref, probe in zip(stage.params["probes"], probes, strict=True):
        for model in ref["of"]:
            here = {name: fits[probe.label, name] for name in samples if name in stage.inputs["generations"].get(model, {})}
            answers = {name: _answers(stage, probe, model, samples[name]) for name in here}
            training_data = {name: _training_data(stage, tables, probe, model, answers[name], here[name]) for name in here}
            for name, classifiers in _probes(stage, probe, model, training_data, rows, weights):
                parts += _values_of(stage, probe, model, answers[name], scored[name] & ~here[name], classifiers)
    _write(stage, parts, rows, weights)


def _probe(ref: Mapping[str, Any]) -> ProbeTask:
    plugin = registry.get("probes", ref["plugin"])
    target = plugin.declares["TARGET"]
    read = tuple(name for name in columns(plugin, ref["args"]).values() if name is not None)
    options = {name: ref[name] for name in ("fit", "transfer", "seed")}
    return ProbeTask(ref["label"], plugin, read, ref["args"], options, ref["args"][target["high"]] if isinstance(target, Mapping) else None)


def _check_fits(probes: list[ProbeTask], fits: Mapping[tuple[str, str], Bools]) -> None:
    for probe in probes:
        if not any(rows.any() for (label, _), rows in fits.items() if label == probe.label):
            raise StageError(
                f"probe '{probe.label}': no dataset has questions of split '{VALIDATION}' to learn from; make some, or learn from half "
                "of what is scored: `fit: half`"
            )


def _answers(stage: Stage, probe: ProbeTask, model: str, samples: Samples) -> ProbedAnswers:
    greedy = greedy_by_variant(stage.inputs["generations"][model][samples.name], [name for name in probe.reads if not is_internal(name)])
    inside = any(map(is_internal, probe.reads))
    path = Path(stage.inputs["internals"][model][samples.name]) if inside else None
    return ProbedAnswers(samples, f"probe '{probe.label}', model '{model}', dataset '{samples.name}'", greedy, path)


def _training_data(stage: Stage, tables: Tables, probe: ProbeTask, model: str, answers: ProbedAnswers, rows: Bools) -> TrainingData:
    """Return the training data of one model and dataset: clean answers with a known target."""
    own, samples = TrainingData(), answers.samples
    if not rows.any():
        return own
    cell = next((c for c in read_cells(stage, samples, tables, only=model) if c.variant == CLEAN and c.model == model), None)
    if cell is None:
        return own
    values = 1 - cell.columns["correct"] if probe.target is None else cell.uncertainties.get(probe.target, np.full(samples.n, np.nan))
    usable = rows & np.isfinite(values)
    under = dict(_under(probe, answers, usable)) if probe.beside else {}
    for places, design in _designs(probe, answers, CLEAN, usable):
        finite = np.asarray(np.isfinite(design.features).all(axis=1))
        own.designs.append(_select_rows(design, finite))
        own.values.append(values[places[finite]])
        own.groups.append(samples.groups[places[finite]])
        if probe.beside:
            nothing = np.full(design.features.shape[1], np.nan)
            own.beside.append(np.array([under.get(place, nothing) for place in places[finite]]))
    return own


def _under(probe: ProbeTask, answers: ProbedAnswers, rows: Bools) -> Iterator[tuple[int, Floats]]:
    """Yield (row, features) under the variant that the probe compares with."""
    named = [v for v in answers.greedy if v != CLEAN and probe.beside in (v, v.partition("@")[0])]
    if len(named) > 1:
        raise StageError(f"{answers.where}: expected one variant to compare with, got {', '.join(sorted(named))}; name one of them")
    for variant in named:
        for places, design in _designs(probe, answers, variant, rows):
            yield from zip(places.tolist(), np.asarray(design.features, dtype=np.float64), strict=True)


def _designs(probe: ProbeTask, answers: ProbedAnswers, variant: str, rows_read: Bools) -> Iterator[tuple[NDArray[np.int64], ProbeDesign]]:
    """Yield (row numbers, design) of the wanted rows, a part in memory at a time."""
    where = f"{answers.where}, {variant}"
    plain = [name for name in probe.reads if not is_internal(name)]
    inside = [parse_internal(name) for name in probe.reads if is_internal(name)]
    greedy = answers.greedy.get(variant)
    if greedy is None:
        return
    if answers.internals is None:
        tables: Iterator[pa.Table] = iter([greedy])
    else:
        tables = read_internals(answers.internals, variant, list(dict.fromkeys(one.signal for one in inside)))
    for table in tables:
        own = table.filter(pc.equal(table["draw"], GREEDY))
        places = answers.samples.rows_of(own["sample_id"], where)
        columns_of = {one.column: own[one.signal] for one in inside}
        if plain:
            at = pc.index_in(own["sample_id"].combine_chunks(), value_set=greedy["sample_id"].combine_chunks())
            columns_of |= {name: greedy[name].take(at) for name in plain}
        chosen = rows_read[places]
        for values in columns_of.values():
            chosen &= pc.is_valid(values).to_numpy(zero_copy_only=False)
        if chosen.any():
            handed = {name: plugin_column(values.filter(pa.array(chosen))) for name, values in columns_of.items()}
            yield places[chosen], probe.design(handed, int(chosen.sum()), where)


def _probes(
    stage: Stage,
    probe: ProbeTask,
    model: str,
    training_data: Mapping[str, TrainingData],
    rows: list[dict[str, Any]],
    weights: dict[str, Any],
) -> Iterator[tuple[str, dict[str, Classifier | None]]]:
    """Yield (dataset, its classifiers by label); a classifier is None if it cannot be trained.

    Labels tell training on all datasets from training on the others alone.
    """
    everywhere = _train_classifier(stage, probe, model, probe.label, "", list(training_data), training_data, weights)
    for name in training_data:
        classifiers = [(probe.label, list(training_data), everywhere)]
        if probe.options["transfer"] and len(training_data) > 1:
            label, others = f"{probe.label}@{ELSEWHERE}", [other for other in training_data if other != name]
            classifiers.append((label, others, _train_classifier(stage, probe, model, label, name, others, training_data, weights)))
        for label, learnt, (facts, _) in classifiers:
            from_ = ", ".join(other for other in learnt if training_data[other].n)
            rows.append({"probe": label, "model": model, "dataset": name, "learnt_from": from_, **facts})
            if facts["why"]:
                stage.count(**{f"without a probe ({facts['why']})": 1})
        yield name, {label: classify for label, _, (_, classify) in classifiers}


def _train_classifier(
    stage: Stage,
    probe: ProbeTask,
    model: str,
    label: str,
    name: str,
    training_datasets: list[str],
    training_data: Mapping[str, TrainingData],
    weights: dict[str, Any],
) -> tuple[dict[str, Any], Classifier | None]:
    """Train a probe on some datasets; return (row of facts on its training, the classifier).

    Without a classifier, the facts hold the reason in `why`.
    """
    from qualm.runners.training.probe import train_probe, validate_probe

    own = [training_data[other] for other in training_datasets if training_data[other].n]
    facts: dict[str, Any] = dict.fromkeys(PROBE_FITS.names[4:]) | {"n": sum(one.n for one in own), "n_groups": 0}
    if not own:
        return facts | {"why": "there are no answers to learn from"}, None
    facts["n_groups"] = sum(len(np.unique(np.concatenate(one.groups))) for one in own)
    values = np.concatenate([part for one in own for part in one.values])
    if probe.target is not None:
        facts["threshold"] = threshold = best_split(values)
        values = (values > threshold).astype(np.float64) if threshold is not None else np.zeros(len(values))
    facts["share"] = float(values.mean())
    if min(values.sum(), (1 - values).sum()) < FEWEST:
        kind = "are wrong" if probe.target is None else f"have a high {probe.target}"
        return facts | {"why": f"{values.sum():g} of {len(values)} answers {kind}; expected at least {FEWEST} of each class"}, None
    designs = [design for one in own for design in one.designs]
    whole = _concatenate(designs)
    beside = np.concatenate([part for one in own for part in one.beside]) if probe.beside else None
    if beside is not None and not np.isfinite(beside).all(axis=1).any():
        return facts | {"why": f"there are no answers under '{probe.beside}' to compare with"}, None
    seed = zlib.crc32(f"{stage.seed} {label} {model} {name}".encode())
    classifier = train_probe(whole, values, seed, beside)
    groups = np.concatenate([np.array([f"{i}/{group}" for part in one.groups for group in part]) for i, one in enumerate(own)])
    facts |= {f"val_{measure}": stored_value(value) for measure, value in validate_probe(whole, values, groups, seed, beside).items()}
    weights |= {"/".join(filter(None, (label, model, name, part))): value for part, value in classifier.weights().items()}
    stage.count(probes=1)
    return facts, classifier.probability


def best_split(values: Floats) -> float | None:
    """Return the threshold with the least squared error around both means; None if none.

    None where all values are equal.

    >>> best_split(np.array([0.0, 0.1, 1.0, 1.1]))
    0.1
    """
    ordered = np.sort(values)
    sums, n = np.cumsum(ordered), len(ordered)
    low = np.arange(1, n)
    between = np.where(ordered[1:] > ordered[:-1], sums[:-1] ** 2 / low + (sums[-1] - sums[:-1]) ** 2 / (n - low), -np.inf)
    return float(ordered[int(between.argmax())]) if n > 1 and np.isfinite(between).any() else None


def _values_of(
    stage: Stage, probe: ProbeTask, model: str, answers: ProbedAnswers, counted: Bools, classifiers: Mapping[str, Classifier | None]
) -> Iterator[pa.Table]:
    """Yield UNCERTAINTIES tables per classifier and variant, of scored answers not trained on."""
    variants = [variant for variant in answers.greedy if variant not in BLIND_VARIANTS]
    values = {label: {variant: np.full(answers.samples.n, np.nan) for variant in variants} for label in classifiers}
    for variant in variants if any(classifiers.values()) else ():
        for places, design in _designs(probe, answers, variant, counted):
            for label, classify in classifiers.items():
                if classify is not None:
                    values[label][variant][places] = [stored_value(value) for value in classify(design.features).tolist()]
    rows = np.flatnonzero(counted)
    for label, by_variant in values.items():
        for variant, of_all in by_variant.items():
            texts = {"model": model, "dataset": answers.samples.name, "variant": variant, "estimator": label}
            own = {name: pa.array([text] * len(rows), pa.string()) for name, text in texts.items()}
            own |= {"sample_id": answers.samples.ids.take(pa.array(rows)), "value": pa.array(of_all[rows], mask=np.isnan(of_all[rows]))}
            stage.count(uncertainties=len(rows), undefined=int(np.isnan(of_all[rows]).sum()))
            yield pa.table({name: own[name] for name in UNCERTAINTIES.names}, schema=UNCERTAINTIES)


def _select_rows(design: ProbeDesign, rows: Bools) -> ProbeDesign:
    return replace(design, features=np.asarray(design.features, dtype=np.float64)[rows])


def _concatenate(designs: list[ProbeDesign]) -> ProbeDesign:
    """Return the designs concatenated into one."""
    return replace(designs[0], features=np.concatenate([design.features for design in designs]))


def _write(stage: Stage, parts: list[pa.Table], rows: list[dict[str, Any]], weights: dict[str, Any]) -> None:
    from safetensors.torch import save_file

    values = pa.concat_tables(parts) if parts else UNCERTAINTIES.empty_table()
    for key, table, schema in (("probe_values", values, UNCERTAINTIES), ("probe_fits", rows, PROBE_FITS)):
        file = stage.scratch / f"{key}.parquet"
        write_table(file, table, schema, stage.provenance)
        stage.publish(file, stage.outputs[key])
    file = stage.scratch / "probe_weights.safetensors"
    save_file(weights, file)
    stage.publish(file, stage.outputs["probe_weights"])
