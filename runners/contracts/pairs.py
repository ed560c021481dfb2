"""Context of pair recipes, and the samples of a pair."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.sample import Sample

if TYPE_CHECKING:
    import numpy as np

    from qualm.runners.runtime.settings import Settings


Row = Mapping[str, Any]
"""A row of SAMPLES."""
MIN_RATE = 0.25
"""Pairs per row that are expected at least, so that a part asks for at most four times as many rows as pairs are missing."""


class PairError(Exception):
    """Error that no pairs can be made; says what was expected and what to do."""


@dataclass
class PairContext:
    """Run-time inputs of a pair recipe (datasets, seed, settings, limit), and its counters."""

    datasets: Mapping[str, Path]
    seed: int
    label: str
    """The recipe's label, unique in its set, which is part of every pair's id."""
    settings: Settings
    about: Mapping[str, Any] = field(default_factory=dict)
    """The category in the spec's taxonomy: `definition`, `answer`, `examples`."""
    dropped: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    notes: dict[str, Any] = field(default_factory=dict)
    """Further facts for recipe.json: model, kernel, how well an inpainter removes..."""
    limit: Mapping[str, int] = field(default_factory=dict)
    """Largest number of pairs of each split, "" = of all splits together; empty without a limit."""
    made: Counter[str] = field(default_factory=Counter)
    """Pairs that the stage has taken, by the keys of `limit`."""

    def drop(self, reason: str, count: int = 1) -> None:
        """Count `count` samples without a pair, by one of few short reasons such as "no box"."""
        self.dropped[reason] += count

    def takes(self, split: str) -> bool:
        """Return whether the limit allows another pair of a split; count it against the limit."""
        key = split if split in self.limit else ""
        if key not in self.limit:
            return True
        if self.made[key] >= self.limit[key]:
            return False
        self.made[key] += 1
        return True

    def parts(self, rows: Sequence[Row], each: int = 1) -> Iterator[list[Row]]:
        """Yield batches of rows, sized by the pairs still missing; without a limit a single one.

        With a limit, rows come in an order drawn by the seed, so that a larger limit only adds pairs. The second and later batches
        allow for the share of rows that became pairs so far.

        Args:
            rows: rows of SAMPLES.
            each: pairs that a row can become.
        """
        if not self.limit:
            yield list(rows)
            return
        queues: dict[str, list[Row]] = {}
        for row in sorted(rows, key=lambda row: float(self.rng("limit", row["sample_id"]).random())):
            queues.setdefault(row["split"] if row["split"] in self.limit else "", []).append(row)
        asked: Counter[str] = Counter()
        while True:
            part: list[Row] = []
            for key, queue in queues.items():
                start = asked[key]
                stop = start + self._wanted(key, start, each) if key in self.limit else len(queue)
                part += queue[start:stop]
                asked[key] = min(stop, len(queue))
            if not part:
                return
            yield part

    def _wanted(self, key: str, asked: int, each: int) -> int:
        missing = self.limit[key] - self.made[key]
        rate = max(self.made[key] / asked, MIN_RATE) if asked else float(each)
        return max(0, math.ceil(missing / rate))

    def rng(self, *names: str | int) -> np.random.Generator:
        """Return a random generator that depends only on the seed, the recipe and these names."""
        from qualm.registry.scenes.world import stream

        return stream(self.seed, "pair", self.label, *names)

    def dataset(self, name: str) -> Path:
        """Return the folder of a dataset of the spec; PairError if the stage lacks it."""
        if name not in self.datasets:
            raise PairError(f"dataset '{name}' is not among this stage's inputs: {', '.join(sorted(self.datasets)) or 'none'}")
        return self.datasets[name]


@dataclass(frozen=True)
class Member:
    """One sample of a pair: image, question and answer."""

    image_id: str | None
    question: str
    answer: str
    """Right answer; for the unanswerable member an abstention."""
    meta: Mapping[str, str] = field(default_factory=dict)


def pair_samples(
    source: Mapping[str, Any], pair_id: str, recipe: str, category: str, answerable: Member, unanswerable: Member
) -> Iterator[Sample]:
    """Yield the two samples of a pair, the answerable one first.

    Args:
        source: row of SAMPLES that the pair was made from; it determines split and group.
        pair_id: unique within the recipe, derived from the source's ids.
    """
    for mark, member, can in (("a", answerable, True), ("u", unanswerable, False)):
        yield Sample(
            sample_id=f"{pair_id}-{mark}",
            question=member.question,
            image_id=member.image_id,
            references=(member.answer,),
            category=category,
            answerable=can,
            split=source["split"],
            source=recipe,
            group=source["group"] or source["image_id"] or source["sample_id"],
            meta=member.meta,
            pair_id=pair_id,
        )


def keep_single_image(context: PairContext, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of SAMPLES with exactly one image; count the others as dropped."""
    pictures = [len(picture_ids(row["image_id"])) for row in rows]
    for reason, dropped in (("several images", sum(n > 1 for n in pictures)), ("no image", pictures.count(0))):
        if dropped:
            context.drop(reason, dropped)
    return [row for row, n in zip(rows, pictures, strict=True) if n == 1]


def group_by_image(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return image id -> rows of SAMPLES, in order; rows without an image are left out."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["image_id"] is not None:
            groups.setdefault(row["image_id"], []).append(row)
    return groups
