"""Apply a perturbation with adjustable strengths to samples, ask a model, and measure the effect.

Answers come from the engine and its store (`qualm.runners.inference.run`), with the variant's name and random numbers of the benchmark, so
that both share them.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pyarrow.compute as pc

from qualm.registry import CLEAN
from qualm.registry.plugins.column_names import IN_WORDS
from qualm.registry.plugins.registry import Plugin, get, gives, load
from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.data.aligned import plugin_column
from qualm.runners.data.dataset import DatasetFolder, Variant
from qualm.runners.data.rows import choose_stratified
from qualm.runners.data.splits import SplitRule
from qualm.runners.inference.run import answer_tables
from qualm.runners.review.effects import DISTANCES, SHARE, Goal, mean_reading, share_reading
from qualm.runners.review.knobs import Knob, Range, candidates, numeric_knobs, search_range
from qualm.runners.review.live import Workshop
from qualm.runners.review.search import Reading
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.answer_text import normalise

_SIGNALS = frozenset({"text", "token_logprobs", "token_entropies", "option_logits"})
_TRIAL_SAMPLES = 24
"""Number of samples that show whether a strength has an effect."""

Naming = Callable[[Mapping[str, Any]], str]
"""Function from arguments of a perturbation to the name of its variant."""


@dataclass(frozen=True)
class AdjustablePerturbation:
    """A perturbation of the spec with its arguments, whose strengths can be changed."""

    plugin: Plugin
    args: Mapping[str, Any]
    """All arguments; a swept one has one of its values."""
    name: Naming
    workshop: Workshop | None = None
    """For perturbations that ask a model and have a stage of their own."""

    def variant(self, strengths: Mapping[str, float]) -> Variant:
        """Return the variant with these strengths by parameter."""
        integers = {k.name for k in numeric_knobs(self.plugin, self.args) if k.whole}
        args = {**self.args, **{name: int(v) if name in integers else float(v) for name, v in strengths.items()}}
        modality, label = str(self.plugin.declares.get("MODALITY")), self.name(args)
        if self.workshop is not None:
            return Variant(label, modality, folders={self.workshop.dataset: self.workshop.variant(self.plugin, args, label)})
        return Variant(label, modality, load("perturbations", self.plugin.name), args, self.plugin.module)


@dataclass(frozen=True)
class Answer:
    text: str
    key: str
    """Normalised text, or the option; equal for answers that count as equal."""
    uncertainty: float
    """NaN if undefined."""


class Respondent:
    def __init__(self, stage: Stage, ref: Mapping[str, Any], folder: Path | None, estimator: Mapping[str, Any]) -> None:
        """Create the model that answers, and keep the estimator's entry; StageError if impossible.

        Args:
            ref: the model, as in parameters of an `infer` stage.
            folder: folder of its weights, if they are an input.
            estimator: label, plugin and args of an estimator of greedy answers.

        Raises:
            StageError: it cannot be asked.
        """
        self.stage, self.label, self.estimator = stage, str(ref["label"]), estimator
        self.plugin = get("models", ref["plugin"])
        self.gives = gives(self.plugin, ref["args"])
        try:
            self.model = load("models", ref["plugin"])(ModelContext(self.label, folder, ref.get("dtype"), stage.settings), **ref["args"])
        except ModelError as error:
            raise StageError(str(error)) from error
        if hasattr(self.model, "lookup"):
            raise StageError(f"model '{self.label}' is a recording, which cannot answer perturbed questions; name another with --model")

    def ask(self, dataset: DatasetFolder, variants: Sequence[Variant]) -> dict[str, dict[str, Answer]]:
        """Return the model's Answers by variant and sample id; StageError if it cannot answer."""
        is_read = "option_logits" in self.gives or self.stage.params.get(IN_WORDS)
        if not is_read and any(s["choices"] for s in dataset.samples):
            raise StageError(
                f"model '{self.label}' gives no option_logits, which multiple-choice questions of {dataset.name} are scored by; name "
                "another with --model"
            )
        try:
            (table,) = answer_tables(
                self.model, self.plugin.module, [dataset], list(variants), _SIGNALS & self.gives, self.stage, label=self.label
            )
        except ModelError as error:
            raise StageError(str(error)) from error
        options = {s["sample_id"]: list(s["choices"] or ()) for s in dataset.samples}
        answers: dict[str, dict[str, Answer]] = {v.name: {} for v in variants}
        for row, doubt in zip(table.to_pylist(), self._uncertainties(table), strict=True):
            answers[row["variant"]][row["sample_id"]] = _answer(row, options[row["sample_id"]], doubt)
        return answers

    def _uncertainties(self, table: Any) -> list[float]:
        plugin = get("estimators", self.estimator["plugin"])
        complete = np.ones(table.num_rows, dtype=bool)
        for name in plugin.reads:
            complete &= pc.is_valid(table[name]).to_numpy()
        values = np.full(table.num_rows, np.nan)
        if complete.any():
            some = table.filter(complete)
            values[complete] = load("estimators", plugin.name)(
                *(plugin_column(some[name]) for name in plugin.reads), **self.estimator["args"]
            )
        return [float(v) for v in values]


def _answer(row: Mapping[str, Any], options: Sequence[str], uncertainty: float) -> Answer:
    logits = row["option_logits"]
    if options and logits:
        best = int(np.argmax(logits))
        return Answer(str(options[best]), f"option {best}", uncertainty)
    text = str(row["text"] or "")
    return Answer(text, normalise(text), uncertainty)


class Bench:
    """Samples of a dataset under a perturbation of any strength, with a model's answers."""

    def __init__(self, dataset: DatasetFolder, subject: AdjustablePerturbation, seed: int, respondent: Respondent | None = None) -> None:
        self.dataset, self.subject, self.seed, self.respondent = dataset, subject, seed, respondent
        self._lock = threading.Lock()
        self._answers: dict[str, dict[str, Answer]] = {}

    def item(self, row: int, strengths: Mapping[str, float] | None) -> tuple[PIL.Image.Image | None, str] | None:
        """Return (first image, question) of a sample, clean if `strengths` is None; None if unfit.

        Raises:
            qualm.runners.data.dataset.BrokenSampleError: its image cannot be read.
        """
        item = self.dataset.item(row)
        images = item.images()
        if strengths is None:
            return next(iter(images), None), item.question
        variant = self.subject.variant(strengths)
        start = variant.item(self.dataset, row) if variant.fits(bool(images)) else None
        if start is None:
            return None
        perturbed = variant.perturb(self.seed, start, images if start.files == item.files else start.images())
        return None if perturbed is None else (next(iter(perturbed[0]), None), perturbed[1])

    def answers(self, strengths: Mapping[str, float] | None, rows: Sequence[int]) -> dict[str, Answer]:
        """Ask for missing answers to `rows`; return all so far by sample id, {} without a model.

        They are the answers at these strengths, or on clean inputs if `strengths` is None.
        """
        if self.respondent is None:
            return {}
        variant = Variant(CLEAN) if strengths is None else self.subject.variant(strengths)
        with self._lock:
            answers = self._answers.setdefault(variant.name, {})
            if missing := [row for row in rows if self.dataset.samples[row]["sample_id"] not in answers]:
                answers.update(self.respondent.ask(self.dataset.only(missing), [variant])[variant.name])
            return answers

    def cached_answers(self, strengths: Mapping[str, float] | None) -> dict[str, Answer]:
        """Return sample id -> known Answer at these strengths (None: clean), asking no model."""
        name = CLEAN if strengths is None else self.subject.variant(strengths).name
        return dict(self._answers.get(name, {}))

    def measure(self, goal: Goal, knob: str, strengths: Sequence[float]) -> list[Reading]:
        """Return one Reading per strength: the effect over samples, in the goal's measure."""
        if goal.name == SHARE:
            return self._shares(knob, strengths)
        return [self._distance(goal.name, knob, s) for s in strengths]

    def _shares(self, knob: str, strengths: Sequence[float]) -> list[Reading]:
        if self.respondent is None:
            raise StageError("a share of answers needs a model to answer; name one with --model")
        variants = [self.subject.variant({knob: s}) for s in strengths]
        answers = self.respondent.ask(self.dataset, [Variant(CLEAN), *variants])
        readings = []
        for strength, variant in zip(strengths, variants, strict=True):
            perturbed = answers[variant.name]
            changed = [perturbed[s].key != answers[CLEAN][s].key for s in perturbed]
            readings.append(share_reading(strength, changed, len(answers[CLEAN]) - len(perturbed)))
        return readings

    def _distance(self, metric: str, knob: str, strength: float) -> Reading:
        values, left_out = [], 0
        for row in range(len(self.dataset)):
            before, after = self.item(row, None), self.item(row, {knob: strength})
            if before is None or after is None or before[0] is None or after[0] is None:
                left_out += 1
            else:
                values.append(DISTANCES[metric](before[0], after[0]))
        return mean_reading(strength, values, left_out)

    def range_of(self, knob: Knob, user_limits: tuple[float, float] | None, scale: str) -> Range:
        """Return the range of strengths to search, by trying which values have no effect."""
        few = range(min(_TRIAL_SAMPLES, len(self.dataset)))
        effects = {x: self._difference(few, {knob.name: x}) for x in candidates(knob)}
        nothing = [x for x, effect in effects.items() if effect == 0]
        ends = {x: effects[x] if x in effects else self._difference(few, {knob.name: x}) for x in (knob.low, knob.high)}
        gentler = min(ends, key=lambda x: (ends[x], x))
        return search_range(knob, nothing, float(self.subject.args[knob.name]), gentler, user_limits, scale)

    def _difference(self, rows: Sequence[int], strengths: Mapping[str, float]) -> float:
        """Return the summed effect of strengths on some samples, without unit; 0 is no effect."""
        total = 0.0
        for row in rows:
            before, after = self.item(row, None), self.item(row, strengths)
            if before is None or after is None:
                continue
            total += float(before[1] != after[1])
            if before[0] is not None and after[0] is not None:
                total += DISTANCES["psnr"](before[0], after[0])
        return total


def open_dataset(name: str, folder: Path, splits: Sequence[str] | None, modality: str, max_samples: int, seed: int) -> DatasetFolder:
    """Return up to `max_samples` samples fitting `modality`, by seed; StageError if none fit.

    Args:
        splits: splits of the spec; None for the choice of `qualm.runners.data.splits`.
        modality: modality of the perturbation; for images, samples without one are left out.
        max_samples: maximum number; StageError if there are none.
    """
    dataset = DatasetFolder(name, folder, SplitRule(tuple(splits) if splits is not None else None))
    columns = (dataset.table[column].to_pylist() for column in ("sample_id", "category", "image_id"))
    rows = zip(*columns, strict=True)
    fits = {s: category or "" for s, category, image in rows if modality == "text" or image is not None}
    if not fits:
        raise StageError(f"dataset '{name}' has no sample that a perturbation of {modality} could change; name another with --dataset")
    chosen = choose_stratified(fits.items(), max_samples, seed)
    return dataset.only([row for row, sample in enumerate(dataset.samples) if sample["sample_id"] in chosen])
