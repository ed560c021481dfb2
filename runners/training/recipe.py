"""Build a recipe for the shared trainer from examples: order, batches, shares for devices, saving."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry import VALIDATION
from qualm.registry.plugins.registry import Chosen, load_chosen
from qualm.registry.scenes.world import stream
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError, TrainingRecipe
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.splits import TRAIN, SplitRule
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.stage import StageError
from qualm.runners.training.batching import pack, pack_in_batches, pad
from qualm.runners.training.encoding import Encoder
from qualm.runners.training.examples import Row, TrainingExample, read_rows

if TYPE_CHECKING:
    from qualm.runners.contracts.tunings import Tuning
    from qualm.runners.inference.hf.model import HfVlm
    from qualm.runners.training.tuner import Course, Tuner

MAX_ROWS = 20
"""Rows of a short training's curve; a long one has a row per 100 steps."""
MAX_VALIDATION = 256
"""Validation rows that are measured now and then, drawn by their ids."""
VALIDATION_BATCH = 8


@dataclass(frozen=True)
class Amount:
    """Amount of training per step and in all: batch size, epochs or steps, lengths, packing."""

    batch: int
    epochs: float
    steps: int | None
    max_length: int | None
    packed: bool
    together: int = 1


class Material:
    """Training rows of the datasets that a recipe names, and their weights."""

    def __init__(self, context: FinetuneContext, train: Sequence[str], weights: Sequence[float] | None) -> None:
        if weights is not None and len(weights) != len(train):
            raise FinetuneError(f"weights: expected one for each of the {len(train)} datasets of `train`, got {len(weights)}")
        if len(set(train)) != len(train):
            raise FinetuneError(f"train: expected different datasets, got {', '.join(train)}; give `weights` to see one more often")
        self.context = context
        self.datasets = {name: _training_rows(name, context.dataset(name)) for name in train}
        self.rows = {name: read_rows(data, context.count, prompt=context.prompt(name)) for name, data in self.datasets.items()}
        self.weights = None if weights is None else dict(zip(train, weights, strict=True))

    def mixture(self, make: Callable[[Sequence[Row]], list[TrainingExample]]) -> tuple[dict[str, list[TrainingExample]], dict[str, float]]:
        """Return ({dataset: examples}, weights), or ({"": all}, {"": 1.0}) without weights.

        Raises:
            FinetuneError: a dataset has no examples.
        """
        pools = {name: make(rows) for name, rows in self.rows.items()}
        for name, pool in pools.items():
            if not pool:
                raise FinetuneError(
                    f"dataset '{name}': none of its {len(self.rows[name])} rows can be used by this recipe; take it out of `train:`"
                )
        if self.weights is None:
            return {"": [e for name in sorted(pools) for e in pools[name]]}, {"": 1.0}
        return pools, dict(self.weights)

    def with_share(
        self,
        pools: dict[str, list[TrainingExample]],
        weights: dict[str, float],
        name: str,
        share: float,
        make: Callable[[Sequence[Row]], list[TrainingExample]],
    ) -> tuple[dict[str, list[TrainingExample]], dict[str, float]]:
        """Return copies with one more pool `name`, drawn in `share` of all; error if it is empty."""
        added = [e for dataset in sorted(self.rows) for e in make(self.rows[dataset])]
        if not added:
            raise FinetuneError(
                f"{name}: expected contrastive pairs with two different answers in {', '.join(self.rows)}, found none; train on a pair set"
            )
        total = sum(weights.values())
        return {**pools, name: added}, {**{n: w / total * (1 - share) for n, w in weights.items()}, name: share}


def validation_batches(context: FinetuneContext, model: HfVlm, datasets: Sequence[str], max_length: int | None, filler: int) -> Any:
    """Return a function that yields padded batches of up to 256 validation rows in all."""
    folders, examples = {}, []
    for name in sorted(datasets):
        try:
            folders[name] = DatasetFolder(name, context.dataset(name), SplitRule((VALIDATION,)))
        except StageError:  # its training rows were read: what it lacks is the split
            continue
        rows = read_rows(folders[name], lambda **counts: None, needed=False, prompt=context.prompt(name))
        examples += [(hashlib.sha256(f"{name} {row.sample_id}".encode()).digest(), row.example()) for row in rows]
    chosen = [example for _, example in sorted(examples, key=lambda one: one[0])[:MAX_VALIDATION]]
    encoder = Encoder(model, folders)

    def batches() -> Iterator[dict[str, Any]]:
        for start in range(0, len(chosen), VALIDATION_BATCH):
            coded = [encoder(example) for example in chosen[start : start + VALIDATION_BATCH]]
            if fitting := [one for one in coded if max_length is None or len(one) <= max_length]:
                yield pad(fitting, filler)

    return batches


def _training_rows(name: str, folder: Path) -> DatasetFolder:
    try:
        return DatasetFolder(name, folder, SplitRule((TRAIN,)))
    except StageError as error:
        raise FinetuneError(f"{error}; only rows of '{TRAIN}' are trained on") from error


def trainable_model(context: FinetuneContext, name: str) -> HfVlm:
    """Return a base model of the spec; FinetuneError if it has no weights that can be trained."""
    from qualm.runners.inference.hf.model import HfVlm

    model = context.model(name)
    if not isinstance(model, HfVlm):
        raise FinetuneError(f"model '{name}': expected one with weights (hf_vlm), got {type(model).__name__}; name another as `base`")
    if model.dtype == "float16":
        raise FinetuneError(f"model '{name}': float16 overflows in training; say `dtype: bfloat16` or float32")
    return model


def _check_pictures(model: HfVlm, material: Material) -> None:
    first: dict[int, Row] = {}
    for row in (row for rows in material.rows.values() for row in rows):
        first.setdefault(row.pictures, row)
    for pictures, row in sorted(first.items()):
        if pictures and (reason := model.refusal(pictures)):
            raise FinetuneError(f"dataset '{row.dataset}': sample '{row.sample_id}': has {pictures} images: {reason}")


def build_recipe(
    context: FinetuneContext,
    model: HfVlm,
    tune: Chosen,
    material: Material,
    pools: Mapping[str, Sequence[TrainingExample]],
    weights: Mapping[str, float],
    amount: Amount,
    course: Course,
    tuner_class: Callable[..., Tuner],
    **options: float,
) -> TrainingRecipe:
    """Return the recipe that trains a model on weighted pools of examples.

    Args:
        tune: plugin of `runners/plugins/tunings`.
        tuner_class: Lightning module, called with tuning, course, steps, gradient checkpointing and `options`.
    """
    import torch

    _check_pictures(model, material)
    encoder = Encoder(model, material.datasets)
    if amount.max_length is not None:
        pools = _fitting(context, encoder, pools, amount.max_length)
    have = sum(map(len, pools.values()))
    total = amount.steps * amount.batch if amount.steps is not None else math.ceil(amount.epochs * have)
    steps = math.ceil(total / amount.batch)
    mixture = Mixture(pools, weights, context.seed, total, amount.together, encoder.image_of)
    context.count(examples=have, **{f"drawn ({name})": n for name, n in mixture.drawn().items() if name})
    torch.manual_seed(context.seed)
    tuning: Tuning = load_chosen("tunings", tune)(model)
    tuner = tuner_class(tuning, course, steps, context.settings.gradient_checkpointing, **options)
    tuner.train()
    shares = Shares(encoder, mixture, amount, model.tokenizer.pad_token_id, getattr(model.processor, "image_token_id", None))
    tuner.validation = validation_batches(context, model, list(material.datasets), amount.max_length, model.tokenizer.pad_token_id)
    if amount.packed:
        tuner.check_packing = shares.both_ways

    def save(folder: Path, state: Mapping[str, Any]) -> None:
        prefix = "network."
        tuning.save(folder, {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)})

    mixed = model.dtype == "bfloat16" and all(p.dtype.itemsize == 4 for p in tuner.parameters())
    every = max(1, min(100, steps // MAX_ROWS))
    return TrainingRecipe(
        tuner,
        shares.whole,
        steps,
        save,
        tuner.validate,
        share=shares,
        batch_size=amount.batch,
        log_every=every,
        precision="bf16-mixed" if mixed else "32-true",
    )


class Shares:
    """Callable (step, part, parts): share `part` of the batch at a step, for one device."""

    def __init__(self, encoder: Encoder, mixture: Mixture, amount: Amount, filler: int, image_token: int | None) -> None:
        self.encoder, self.mixture, self.amount, self.filler, self.image_token = encoder, mixture, amount, filler, image_token

    def whole(self, step: int) -> dict[str, Any]:
        return self(step, 0, 1)

    def __call__(self, step: int, part: int, parts: int) -> dict[str, Any]:
        """Return share number `part` of `parts` of a step's batch; weight 0 if examples run out.

        `per_token` and `per_pair` scale its sums so that the mean over the shares is the batch's mean.
        """
        examples = self.mixture.batch(step, self.amount.batch)
        parts_here = min(parts, len(examples))  # further shares of a small last step have weight zero
        mine = [examples[i] for i in np.array_split(np.arange(len(examples)), parts_here)[part]] if part < parts_here else examples[:1]
        scale = parts if part < parts_here else 0
        coded = [self.encoder(e) for e in mine]
        paired = mine[0].rejected is not None
        if paired:
            coded += [self.encoder(e, e.rejected) for e in mine]
        if not self.amount.packed:
            batches = [pad(coded, self.filler)]
        elif parts == 1:
            batches = pack_in_batches(coded, self.filler, self.image_token)
        else:  # devices that share a model's layers must run equally many passes
            batches = [pack(coded, self.filler, self.image_token)]
        return {
            "batches": batches,
            "per_token": scale / sum(len(self.encoder.answer(e)) for e in examples),
            "per_pair": scale / len(examples),
            "pairs": len(mine),
            "place": f"{step} {part}",
        }

    def both_ways(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (padded batch, packed batch) of the first examples, to compare their losses."""
        examples = self.mixture.batch(0, min(8, self.amount.batch))
        coded = [self.encoder(e, text) for e in examples for text in ((None,) if e.rejected is None else (None, e.rejected))]
        return pad(coded, self.filler), pack(coded, self.filler, self.image_token)


def _fitting(
    context: FinetuneContext, encoder: Encoder, pools: Mapping[str, Sequence[TrainingExample]], most: int
) -> dict[str, list[TrainingExample]]:
    examples: dict[str, list[TrainingExample]] = {}
    with progress(context.settings, "measuring", sum(map(len, pools.values()))) as advance:
        for name, pool in pools.items():
            examples[name] = []
            for example in pool:
                lengths = [len(encoder(example, text)) for text in {None, example.rejected}]
                if max(lengths) <= most:
                    examples[name].append(example)
                advance()
            dropped = len(pool) - len(examples[name])
            if dropped:
                context.count(**{"dropped (too long)": dropped})
            if not examples[name]:
                raise FinetuneError(
                    f"max_length: all {len(pool)} examples {f'of {name} ' if name else ''}are longer than {most} tokens; raise `max_length`"
                )
    return examples


class Mixture:
    """Sequence of examples drawn from weighted pools, each reshuffled for every pass."""

    def __init__(
        self,
        pools: Mapping[str, Sequence[Any]],
        weights: Mapping[str, float],
        seed: int,
        total: int,
        together: int = 1,
        alike: Callable[[Any], Any] = id,
    ) -> None:
        """Choose the pool of each of `total` draws; a pool's order is drawn when it is read.

        Args:
            weights: relative frequencies of the pools.
            together: number of examples with equal `alike` that follow each other.
        """
        self.pools, self.seed, self.together = pools, seed, together
        self._kinds = {name: _kinds(map(alike, pool)) for name, pool in pools.items()} if together > 1 else {}
        self.names = sorted(pools)
        self._source, self._turn = _quota(np.array([weights[n] for n in self.names], float), total)
        self._order = cache(self._shuffled)

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, place: int) -> Any:
        name, turn = self.names[self._source[place]], int(self._turn[place])
        pool = self.pools[name]
        again, index = divmod(turn, len(pool))
        return pool[self._order(name, again)[index]]

    def batch(self, step: int, width: int) -> list[Any]:
        """Return examples number step * width onwards, `width` of them or fewer at the end."""
        return [self[i] for i in range(step * width, min((step + 1) * width, len(self)))]

    def drawn(self) -> dict[str, int]:
        """Return the number of draws (repeats counted) in all steps by pool."""
        return {name: int((self._source == k).sum()) for k, name in enumerate(self.names)}

    def _shuffled(self, name: str, again: int) -> NDArray[np.int64]:
        rng = stream(self.seed, "mixture", name, again)
        order = rng.permutation(len(self.pools[name]))
        if self.together == 1:
            return order
        kinds = self._kinds[name][order]
        by_kind = order[np.argsort(kinds, kind="stable")]
        starts = np.flatnonzero(np.diff(np.sort(kinds), prepend=-1))
        inside = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        clusters = np.split(by_kind, np.flatnonzero(inside % self.together == 0)[1:])
        return np.concatenate([clusters[k] for k in rng.permutation(len(clusters))])


def _kinds(values: Iterable[Any]) -> NDArray[np.int64]:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)


def _quota(weights: NDArray[np.float64], total: int) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """Return (pool number of each draw, count of earlier draws from that pool), both (total,)."""
    shares = weights / weights.sum()
    source, turn = np.zeros(total, np.int16), np.zeros(total, np.int64)
    drawn = np.zeros(len(shares), np.int64)
    for place in range(total):
        pool = int(np.argmax(shares * (place + 1) - drawn))
        source[place], turn[place] = pool, drawn[pool]
        drawn[pool] += 1
    return source, turn
