"""The tables of a stage, split by cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry import VALIDATION
from qualm.registry.sample import ABSTENTIONS, CONFORMAL_SETS, JUDGEMENTS, UNCERTAINTIES
from qualm.runners.data.aligned import Samples
from qualm.runners.data.calibration_split import calibration_rows
from qualm.runners.data.splits import stratified
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.recalibration.drawing import HeldDraws

Key = tuple[str, str, str]
Judges = tuple[str | None, str | None]
"""Whose ratings are scored: of open answers, and of multiple-choice questions that are answered in words."""


class Tables:
    """The stage's whole-spec tables, split by cell once."""

    def __init__(self, stage: Stage, datasets: Sequence[Samples] = ()) -> None:
        """`datasets` are those of which only some rows are wanted."""
        self._datasets = self.datasets = {d.name: d for d in datasets}
        self.held: Tables | None = None
        """Of answers that are not scored, where calibrators are fitted on such."""
        self.judgements = self._split(stage, "judgements", JUDGEMENTS, ["rating", "pred_is_idk", "judge", "draw", "parse_ok", "marks"])
        estimators, probes = (self._split(stage, name, UNCERTAINTIES, ["estimator", "value"]) for name in ("uncertainties", "probe_values"))
        self.uncertainties = {
            key: pa.concat_tables([table for table in (estimators.get(key), probes.get(key)) if table is not None])
            for key in {**estimators, **probes}
        }
        self.sets = self._split(stage, "sets", CONFORMAL_SETS, ["setting", "score", "is_calibration", "covered", "set_size"])
        self.abstentions = self._split(stage, "abstentions", ABSTENTIONS, ["method", "confidence", "abstains", "is_fit"])
        self._judge, self._judge_of = stage.params["judge"], stage.params.get("judge_of", {})
        self.judge_of_choices: dict[str, str] = stage.params.get("judge_of_choices", {})
        """Data set -> the judge whose ratings are the correctness of its multiple-choice questions that are answered in words."""
        self.settings: dict[str, dict[str, Any]] = {s["label"]: s for s in stage.params.get("conformal", ())}
        """The conformal settings that can be calibrated anew."""
        self.calibrators: list[dict[str, Any]] = stage.params.get("calibrators", [])
        self._calibrating: dict[tuple[str, str], NDArray[np.bool_]] = {}
        self._held_draws: dict[tuple[str, str], HeldDraws] = {}
        self._seed = stage.seed
        self.subsets: dict[str, dict[str, int]] = stage.params.get("subsets", {})
        """Model -> the part of every data set that it is asked."""
        self.unscored = frozenset(stage.params.get("unscored", ()))
        """Variants whose answers are not held to their references."""

    def asked(self, model: str, samples: Samples) -> NDArray[np.bool_] | None:
        """The rows that a model is asked; None where all are."""
        part = self.subsets.get(model)
        return None if part is None else stratified(samples.name, samples.table, part["per_category"], part["seed"])

    def calibrating(self, setting: dict[str, Any], samples: Samples) -> NDArray[np.bool_]:
        """The rows that calibrators of a setting are fitted on: whole groups, the same for every model.

        Raises:
            StageError: a side of the split would be empty.
        """
        key = (setting["label"], samples.name)
        if key not in self._calibrating:
            split = setting["calibration"]
            try:
                self._calibrating[key] = calibration_rows(samples.groups, split["fraction"], split["seed"], "groups")
            except ValueError as error:
                raise StageError(f"calibrators '{setting['label']}', dataset '{samples.name}': {error}") from error
        return self._calibrating[key]

    def held_draws(self, setting: dict[str, Any], dataset: str) -> HeldDraws:
        """Resamples of the answers that are not scored, the same for every model."""
        assert self.held is not None
        key = (setting["label"], dataset)
        if key not in self._held_draws:
            groups = self.held.datasets[dataset].groups
            self._held_draws[key] = HeldDraws(groups, setting["refits"], self._seed, dataset, setting["label"])
        return self._held_draws[key]

    def judge(self, dataset: str) -> str | None:
        """The judge whose ratings are the correctness of a data set's open answers."""
        judge: str | None = self._judge_of.get(dataset, self._judge)
        return judge

    def judge_of_answers(self, samples: Samples) -> str | None:
        """The judge whose ratings are the correctness of any answer to these questions; None where options alone are compared."""
        return self.judge(samples.name) if (samples.n_options == 0).any() else self.judge_of_choices.get(samples.name)

    def _split(self, stage: Stage, name: str, schema: pa.Schema, columns: list[str]) -> dict[Key, pa.Table]:
        if name not in stage.inputs:
            return {}
        table = read_table(Path(stage.inputs[name]), schema, ["model", "dataset", "variant", "sample_id", *columns])
        parts = split(table, ["model", "dataset", "variant"])
        return {key: self._datasets[key[1]].kept(part) if key[1] in self._datasets else part for key, part in parts}


def fits_elsewhere(setting: dict[str, Any]) -> bool:
    """Whether calibrators of a setting are fitted on answers that are not scored."""
    return bool(setting["calibration"].get("fit") == VALIDATION)


def split(table: pa.Table, names: list[str]) -> Iterator[tuple[Key, pa.Table]]:
    """The parts of a table with equal values in these columns, in order of first appearance, rows in their order."""
    if not table.num_rows:
        return
    code = np.zeros(table.num_rows, dtype=np.int64)
    words = []
    for name in names:
        encoded = table[name].combine_chunks().dictionary_encode()
        words.append(encoded.dictionary.to_pylist())
        code = code * len(words[-1]) + encoded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(code, kind="stable")
    sorted_table = table if (order[1:] > order[:-1]).all() else table.take(pa.array(order))
    code = code[order]
    starts = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
    for start, end in zip(starts, [*starts[1:], len(code)], strict=True):
        part = sorted_table.slice(int(start), int(end - start))
        yield tuple(part[name][0].as_py() for name in names), part
