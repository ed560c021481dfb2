"""Pair recipes: a data set turned into contrastive pairs, one member of which the picture answers and one it does not.

A recipe is one file here holding one function of the file's name:

    def from_caption(context: PairContext, *, dataset: DatasetName, category: str, ...) -> Iterator[Image | Sample]: ...

What the `pair` stage relies on, and every recipe keeps:

- It makes pairs of the one category that `category` names (a path of the spec's taxonomy), and streams: the answerable member,
  then the unanswerable one, both with the same `pair_id` (`pair_samples` makes them).
- Pictures of the source data set are named by their `image_id` and never yielded; only a new picture is, before its sample.
- Split and group are the source's, so that no picture or scene is on both sides of a split.
- Ids follow from the source's ids, and randomness from `context.rng(...)` of stable ids: one more source sample changes
  none of the earlier pairs.
- What cannot be made into a pair is dropped by `context.drop(reason)`: counted by reason, never in silence.
- Whatever costs money or hours is kept by content as soon as it is there, so that a killed run goes on and a rerun is free.
"""

from __future__ import annotations

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


class PairError(Exception):
    """A source or setting that no pairs can be made of. The message says what was expected, what came, what to do."""


@dataclass
class PairContext:
    """What the `pair` stage hands every recipe beside the spec's parameters."""

    datasets: Mapping[str, Path]
    """Folders of the source data sets, by the spec's name."""
    seed: int
    label: str
    """The recipe's own label, unique in its set: a part of every pair's id."""
    settings: Settings
    about: Mapping[str, Any] = field(default_factory=dict)
    """The category as the spec's taxonomy describes it: `definition`, `answer`, `examples`."""
    dropped: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    """What this run did (asked, found in a cache...): printed, and not part of the result."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Anything else worth keeping in recipe.json, as JSON: which model, which kernel, how well an inpainter removes."""

    def drop(self, reason: str, count: int = 1) -> None:
        """Count what could not be made into a pair. Reasons are few and short: "no box", "malformed reply"."""
        self.dropped[reason] += count

    def rng(self, *names: str | int) -> np.random.Generator:
        """A generator that depends on the seed, the recipe and these names alone."""
        from qualm.registry.scenes.world import stream

        return stream(self.seed, "pair", self.label, *names)

    def dataset(self, name: str) -> Path:
        """Return the folder of a dataset of the spec; PairError if the stage lacks it."""
        if name not in self.datasets:
            raise PairError(f"dataset '{name}' is not among this stage's inputs: {', '.join(sorted(self.datasets)) or 'none'}")
        return self.datasets[name]


@dataclass(frozen=True)
class Member:
    """One side of a pair: which picture, what is asked, and what a right answer is."""

    image_id: str | None
    question: str
    answer: str
    """Of the unanswerable member: how declining is put."""
    meta: Mapping[str, str] = field(default_factory=dict)


def pair_samples(
    source: Mapping[str, Any], pair_id: str, recipe: str, category: str, answerable: Member, unanswerable: Member
) -> Iterator[Sample]:
    """The two samples of a pair, answerable first.

    Args:
        source: row of SAMPLES that the pair was made from: its split and group are the pair's.
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


def of_one_picture(context: PairContext, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of SAMPLES with one picture; those with several or none, of which no recipe makes pairs, are dropped and counted."""
    pictures = [len(picture_ids(row["image_id"])) for row in rows]
    for reason, dropped in (("several pictures", sum(n > 1 for n in pictures)), ("no picture", pictures.count(0))):
        if dropped:
            context.drop(reason, dropped)
    return [row for row, n in zip(rows, pictures, strict=True) if n == 1]


def by_image(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Rows of SAMPLES that have a picture, by picture, in order of first appearance."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["image_id"] is not None:
            groups.setdefault(row["image_id"], []).append(row)
    return groups
