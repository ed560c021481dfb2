"""The tables of a stage, by cell."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry import VALIDATION
from qualm.registry.sample import ABSTENTIONS, CONFORMAL_SETS, JUDGEMENTS, UNCERTAINTIES
from qualm.runners.data.aligned import Samples
from qualm.runners.data.calibration_split import calibration_rows
from qualm.runners.data.labels import AnswerLabels, LabelError, read_answer_labels
from qualm.runners.data.splits import choose_per_category, read_held
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.calibration.drawing import HeldDraws
from qualm.runners.scoring.cells import BOUNDS_OF_UNREAD
from qualm.runners.scoring.measuring.by_cell import ByCell, Key

Judges = tuple[str | None, str | None]
"""Whose ratings are scored: of open answers, and of multiple-choice questions that are answered in words."""


class Tables:
    """Tables of a score stage, of which the rows of one cell are read at a time."""

    def __init__(self, stage: Stage, datasets: Sequence[Samples] = ()) -> None:
        """Open a stage's tables; rows of samples that are left out of `datasets` are dropped."""
        self._datasets = self.datasets = {d.name: d for d in datasets}
        self._stage = stage
        verdict = ["rating", "pred_is_idk", "hedges", "judge", "draw", "parse_ok", "marks"]
        self.judgements = self._split(stage, "judgements", JUDGEMENTS, verdict)
        self.probed = "probe_values" in stage.inputs
        self.uncertainties = self._split(stage, "uncertainties", UNCERTAINTIES, ["estimator", "value"], "probe_values")
        words = ["setting", "score"]
        self.sets = self._split(stage, "sets", CONFORMAL_SETS, [*words, "is_calibration", "covered", "set_size"], words=words)
        self.abstentions = self._split(stage, "abstentions", ABSTENTIONS, ["method", "confidence", "abstains", "is_fit"])
        self.labels = _read_labels(stage) if "labels" in stage.inputs else None
        self._judge, self._judge_of = stage.params["judge"], stage.params.get("judge_of", {})
        self.judge_of_choices: dict[str, str] = stage.params.get("judge_of_choices", {})
        """Dataset -> the judge whose ratings are the correctness of its multiple-choice questions that are answered in words."""
        self.settings: dict[str, dict[str, Any]] = {s["label"]: s for s in stage.params.get("conformal", ())}
        """The conformal settings that can be calibrated anew."""
        self.calibrators: list[dict[str, Any]] = stage.params.get("calibrators", [])
        self._calibrating: dict[tuple[str, str], NDArray[np.bool_]] = {}
        self._held_draws: dict[tuple[str, str], HeldDraws] = {}
        self._seed = stage.seed
        self.subsets: dict[str, dict[str, int]] = stage.params.get("subsets", {})
        """Model -> the part of every dataset that it is asked."""
        self.unread: str = stage.params.get("unread", BOUNDS_OF_UNREAD)
        """Treatment of an answer that no judge could read."""
        self.lexical: list[str] = stage.params.get("lexical", [])
        """Labels of estimators that compare answers by words alone."""
        self.unscored = frozenset(stage.params.get("unscored", ()))
        """Variants whose answers are not held to their references."""

    @cached_property
    def held(self) -> Tables | None:
        """Return the tables of held-out answers; None if no calibrator is fitted on such."""
        if not any(fits_elsewhere(setting) for setting in self.calibrators):
            return None
        folders: dict[str, str] = self._stage.inputs["datasets"]
        return Tables(self._stage, [read_held(self._stage, name, folder) for name, folder in sorted(folders.items())])

    def asked_rows(self, model: str, samples: Samples) -> NDArray[np.bool_] | None:
        """Return (n,) True for the rows that a model is asked; None if it is asked all."""
        part = self.subsets.get(model)
        return None if part is None else choose_per_category(samples.name, samples.table, part["per_category"], part["seed"])

    def calibrating(self, setting: dict[str, Any], samples: Samples) -> NDArray[np.bool_]:
        """Return (n,) True for the rows that a setting's calibrators are fitted on.

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
        """Return resamples of the held-out answers, the same for every model."""
        assert self.held is not None
        key = (setting["label"], dataset)
        if key not in self._held_draws:
            groups = self.held.datasets[dataset].groups
            self._held_draws[key] = HeldDraws(groups, setting["refits"], self._seed, dataset, setting["label"])
        return self._held_draws[key]

    def judge(self, dataset: str) -> str | None:
        """Return the judge whose ratings are correctness of open answers; None without one."""
        judge: str | None = self._judge_of.get(dataset, self._judge)
        return judge

    def judge_of_answers(self, samples: Samples) -> str | None:
        """Return the judge of a dataset's open answers or, without any, of its choices; or None."""
        return self.judge(samples.name) if (samples.n_options == 0).any() else self.judge_of_choices.get(samples.name)

    def _split(
        self, stage: Stage, name: str, schema: pa.Schema, columns: list[str], other: str = "", words: Sequence[str] = ()
    ) -> CellRows:
        """Return, by cell, rows of tables `name`, then `other`; `words`: columns of few texts."""
        paths = [Path(stage.inputs[key]) for key in (name, other) if key in stage.inputs]
        return CellRows([ByCell(path, schema, columns, words=words) for path in paths], self._datasets)


@dataclass(frozen=True)
class CellRows:
    """Rows of a cell from several tables, without samples that are left out of its dataset."""

    tables: Sequence[ByCell]
    datasets: Mapping[str, Samples]

    def get(self, key: Key) -> pa.Table | None:
        """Return a (model, dataset, variant)'s rows of samples not left out; None if it has none."""
        parts = [part for table in self.tables if (part := table.get(key)) is not None]
        if not parts:
            return None
        whole = pa.concat_tables(parts)
        return self.datasets[key[1]].filter_table(whole) if key[1] in self.datasets else whole


def _read_labels(stage: Stage) -> AnswerLabels:
    """Read people's labels of answers; print a notice on labels of unknown answers.

    Raises:
        StageError: the file is malformed, or no label is of an answer of the spec.
    """
    try:
        labels = read_answer_labels(Path(stage.inputs["labels"]))
    except LabelError as error:
        raise StageError(str(error)) from error
    answered = {(model, dataset) for model, files in stage.inputs["generations"].items() for dataset in files}
    others = {(model, dataset): of[0].line for (model, dataset, _), of in labels.by_answer_set.items() if (model, dataset) not in answered}
    if others:
        (model, dataset), line = next(iter(others.items()))
        problem = f"{labels.file}:{line}: the spec has no answers of model '{model}' to dataset '{dataset}'"
        if len(others) == len({cell[:2] for cell in labels.by_answer_set}):
            models, datasets = (", ".join(sorted({key[k] for key in answered})) for k in (0, 1))
            raise StageError(f"{problem}; expected a model of {models} and a dataset of {datasets}")
        print(f"{stage.key}: {problem}; such labels are ignored", file=sys.stderr)
    return labels


def fits_elsewhere(setting: dict[str, Any]) -> bool:
    """Return whether calibrators are fitted on a validation split instead of scored answers."""
    return bool(setting["calibration"].get("fit") == VALIDATION)
