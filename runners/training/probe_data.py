"""Read what probes learn from and classify: features of answers, their targets and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry import CLEAN, GREEDY
from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns
from qualm.registry.plugins.internals import is_internal, parse_internal
from qualm.registry.plugins.registry import Plugin
from qualm.runners.contracts.probes import ProbeDesign
from qualm.runners.contracts.returned import call_plugin, wrong_return
from qualm.runners.data.aligned import Floats, Ints, Samples, greedy_by_variant, plugin_columns
from qualm.runners.data.internals import read_internals
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.measuring.read_cells import read_cells
from qualm.runners.scoring.measuring.tables import Tables

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class ProbeTask:
    """A probe of the spec: its plugin, the columns that it reads, and what it learns."""

    ref: Mapping[str, Any]
    """Its `label`, `plugin`, `args`, models (`of`), `fit`, `transfer` and `seed`."""
    plugin: Plugin
    reads: tuple[str, ...]
    target: str | None
    """The estimator whose high values it learns; None = which answers are wrong."""

    @property
    def label(self) -> str:
        return str(self.ref["label"])

    @property
    def compared_variant(self) -> str:
        """Return the perturbation or variant that the probe compares with in training; "" if none."""
        named = self.plugin.declares.get("BESIDE")
        return str(self.ref["args"][named]) if named else ""

    def design(self, handed: Mapping[str, Any], n: int, where: str) -> ProbeDesign:
        """Return the design of n answers: (n, d) features of columns `handed`, how to train."""
        function = registry.load("probes", self.plugin.name)
        arguments = [handed[name] for name in self.reads]
        design: ProbeDesign = call_plugin(self.plugin, where, lambda: function(*arguments, **self.ref["args"]))
        if not isinstance(design, ProbeDesign):
            raise wrong_return(self.plugin, where, "a ProbeDesign", design)
        if design.features.ndim != 2 or len(design.features) != n:
            raise wrong_return(self.plugin, where, f"features of {n} answers, ({n}, d)", design.features)
        return design


def probe_task(ref: Mapping[str, Any]) -> ProbeTask:
    """Return the probe that an entry of a stage's parameter `probes` describes."""
    plugin = registry.get("probes", ref["plugin"])
    target = plugin.declares["TARGET"]
    reads = tuple(name for name in columns(plugin, ref["args"]).values() if name is not None)
    return ProbeTask(ref, plugin, reads, ref["args"][target["high"]] if isinstance(target, Mapping) else None)


@dataclass(frozen=True)
class TrainingData:
    """A probe's training features, targets and groups: n answers of one or several datasets."""

    design: ProbeDesign
    """Features (n, d), and how to train on them."""
    targets: Floats
    """(n,) wrongness in 0..1, or an uncertainty."""
    groups: NDArray[Any]
    """(n,) group of each answer."""
    compared: Floats | None
    """(n, d) features under the variant that the probe compares with, NaN where there are none; None if it compares with none."""


def concatenate(datasets: Sequence[TrainingData]) -> TrainingData:
    """Return the rows of one or more sets of training data as one, in order."""
    compared = [data.compared for data in datasets if data.compared is not None]
    return TrainingData(
        replace(datasets[0].design, features=np.concatenate([data.design.features for data in datasets])),
        np.concatenate([data.targets for data in datasets]),
        np.concatenate([data.groups for data in datasets]),
        np.concatenate(compared) if compared else None,
    )


@dataclass(frozen=True)
class ProbedAnswers:
    """One model's answers to one dataset, as a probe reads them."""

    probe: ProbeTask
    samples: Samples
    where: str
    greedy: Mapping[str, pa.Table]
    """Greedy answers by variant: ids, and columns that are not of the inside."""
    internals: Path | None
    """The file of what was inside the model; None where the probe does not read it."""

    def designs(self, variant: str, rows: Bools) -> Iterator[tuple[Ints, ProbeDesign]]:
        """Yield (row numbers, design) per table of the variant, of rows with all columns."""
        where = f"{self.where}, {variant}"
        plain = [name for name in self.probe.reads if not is_internal(name)]
        inside = [parse_internal(name) for name in self.probe.reads if is_internal(name)]
        greedy = self.greedy.get(variant)
        if greedy is None:
            return
        if self.internals is None:
            tables: Iterator[pa.Table] = iter([greedy])
        else:
            tables = read_internals(self.internals, variant, list(dict.fromkeys(signal.signal for signal in inside)))
        for table in tables:
            own = table.filter(pc.equal(table["draw"], GREEDY))
            places = self.samples.rows_of(own["sample_id"], where)
            read = {signal.column: own[signal.signal] for signal in inside}
            if plain:
                at = pc.index_in(own["sample_id"].combine_chunks(), value_set=greedy["sample_id"].combine_chunks())
                read |= {name: greedy[name].take(at) for name in plain}
            chosen, handed = plugin_columns(read, rows[places])
            if chosen.any():
                yield places[chosen], self.probe.design(handed, int(chosen.sum()), where)

    def training_data(self, targets: Floats, rows: Bools) -> TrainingData | None:
        """Return the clean answers of a mask that have features and targets; None if none has.

        Args:
            targets: (n,) NaN where unknown.
            rows: (n,) the answers to learn from.
        """
        usable = rows & np.isfinite(targets)
        features_of = dict(self._compared_features(usable)) if self.probe.compared_variant else {}
        parts = []
        for places, design in self.designs(CLEAN, usable):
            finite = np.asarray(np.isfinite(design.features).all(axis=1))
            features, own = np.asarray(design.features, dtype=np.float64)[finite], places[finite]
            if len(own):
                nothing = np.full(features.shape[1], np.nan)
                compared = np.array([features_of.get(place, nothing) for place in own]) if self.probe.compared_variant else None
                parts.append(TrainingData(replace(design, features=features), targets[own], self.samples.groups[own], compared))
        return concatenate(parts) if parts else None

    def _compared_features(self, rows: Bools) -> Iterator[tuple[int, Floats]]:
        """Yield (row, features) under the variant compared with; nothing if there is none."""
        named = [v for v in self.greedy if v != CLEAN and self.probe.compared_variant in (v, v.partition("@")[0])]
        if len(named) > 1:
            raise StageError(f"{self.where}: expected one variant to compare with, got {', '.join(sorted(named))}; name one of them")
        for variant in named:
            for places, design in self.designs(variant, rows):
                yield from zip(places.tolist(), np.asarray(design.features, dtype=np.float64), strict=True)


def read_answers(stage: Stage, probe: ProbeTask, model: str, samples: Samples) -> ProbedAnswers:
    """Return a model's greedy answers to one dataset with the columns that a probe reads."""
    greedy = greedy_by_variant(stage.inputs["generations"][model][samples.name], [name for name in probe.reads if not is_internal(name)])
    path = Path(stage.inputs["internals"][model][samples.name]) if any(map(is_internal, probe.reads)) else None
    return ProbedAnswers(probe, samples, f"probe '{probe.label}', model '{model}', dataset '{samples.name}'", greedy, path)


def read_targets(stage: Stage, tables: Tables, probe: ProbeTask, model: str, samples: Samples) -> Floats:
    """Return (n,) wrongness, or the target uncertainty, of a model's clean answers, or NaN.

    It is 1 - correct for a probe without a target uncertainty. The answers are those to one dataset.
    """
    unknown = np.full(samples.n, np.nan)
    cell = next((c for c in read_cells(stage, samples, tables, only=model) if c.variant == CLEAN and c.model == model), None)
    if cell is None:
        return unknown
    return 1 - cell.columns["correct"] if probe.target is None else cell.uncertainties.get(probe.target, unknown)
