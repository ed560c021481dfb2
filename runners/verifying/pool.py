"""What there is to decide: the questions of one split of a pair set, from its recipes' folders, before any curation.

Read from the recipes and not from the assembled set, which may already lack what nobody has decided.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from registry.sample import IMAGES, SAMPLES
from runners.curation import content_of, pixels_of
from runners.data import choose
from runners.records import iterate, read_table


class PoolError(Exception):
    """There is nothing to review: what was looked for, what there is, what to do."""


@dataclass(frozen=True)
class Question:
    """One member of a pair, as a reviewer sees it."""

    row: Mapping[str, Any]
    picture: bytes | None
    content: str

    @property
    def sample_id(self) -> str:
        return str(self.row["sample_id"])

    @property
    def pair_id(self) -> str:
        return str(self.row["pair_id"] or self.row["sample_id"])

    @property
    def category(self) -> str:
        return str(self.row["category"] or "")

    @property
    def answerable(self) -> bool:
        return self.row["answerable"] is not False

    @property
    def answers(self) -> list[str]:
        return [str(a) for a in self.row["references"] or ()]

    @property
    def notes(self) -> dict[str, str]:
        """What the recipe says of it: a proof, the inpainted object..."""
        return {str(k): str(v) for k, v in (self.row["meta"] or ())}


class Pool:
    """The questions of one split, in pairs, with their pictures."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.questions = {q.sample_id: q for q in questions}

    def __len__(self) -> int:
        return len(self.questions)

    @cached_property
    def pairs(self) -> dict[str, list[Question]]:
        """Members by pair, the answerable one first."""
        found: dict[str, list[Question]] = {}
        for q in sorted(self.questions.values(), key=lambda q: (q.pair_id, not q.answerable, q.sample_id)):
            found.setdefault(q.pair_id, []).append(q)
        return found

    def order(self, reviewer: str) -> list[str]:
        """Sample ids in this reviewer's own order: pairs shuffled, the two members of a pair one after the other, either first.

        It depends on the reviewer and each pair alone, so that questions added later leave the order of the others as it was.
        """
        salted = {pair: hashlib.sha256(f"{reviewer}\x00{pair}".encode()).digest() for pair in self.pairs}
        ids = []
        for pair in sorted(salted, key=lambda p: (salted[p], p)):
            members = [q.sample_id for q in self.pairs[pair]]
            ids += members if salted[pair][-1] % 2 else members[::-1]
        return ids

    def only(self, category: str | None, sample: int | None, seed: int) -> Pool:
        """The pairs of one category or of all below a main kind, and of those `sample`, the same for every reviewer.

        A category may be named in full or by its last part.

        Raises:
            PoolError: no question is of that category.
        """
        pairs = self.pairs
        if category is not None:
            known = sorted({q.category for q in self.questions.values()})
            pairs = {p: m for p, m in pairs.items() if f"/{category}/" in f"/{m[0].category}/"}
            if not pairs:
                raise PoolError(f"no question is of category '{category}'; there are: {', '.join(known) or 'none'}")
        if sample is not None:
            chosen = choose([(p, m[0].category) for p, m in pairs.items()], sample, seed)
            pairs = {p: m for p, m in pairs.items() if p in chosen}
        return Pool([q for members in pairs.values() for q in members])


def read_pool(recipes: Sequence[Path], sources: Sequence[Path], split: str = "test") -> Pool:
    """The questions of one split of all recipes.

    Args:
        recipes: folders that `pair` stages wrote.
        sources: folders of the data sets they were made from, which hold the pictures that recipes left as they were.
        split: which split people look at.

    Raises:
        PoolError: a folder or picture is not there, or no recipe has a row of that split.
    """
    rows: list[dict[str, Any]] = []
    for folder in recipes:
        if not (folder / "samples.parquet").is_file():
            raise PoolError(f"{folder}: no pairs here yet; make them first (`qualm run` or `dvc pull`)")
        found = read_table(folder / "samples.parquet", SAMPLES).to_pylist()
        rows += [r for r in found if r["split"] == split]
    if not rows:
        raise PoolError(f"no pair of split '{split}' in {', '.join(map(str, recipes)) or 'any recipe'}")
    pictures = dict(_pictures([*recipes, *sources], {r["image_id"] for r in rows} - {None}))
    wanted = {r["image_id"] for r in rows} - {None}
    if missing := sorted(wanted - {name for name, data in pictures.items() if data is not None}):
        raise PoolError(
            f"{len(missing):,} of {len(wanted):,} pictures are not on this disk, '{missing[0]}' the first; decisions hold for a picture. "
            f"Get {', '.join(map(str, sources)) or 'the source data sets'} first: `dvc pull` or `dvc repro --pull`"
        )
    digests = {name: pixels_of(data) for name, data in pictures.items()}
    return Pool([Question(r, pictures.get(r["image_id"]), content_of(r, digests.get(r["image_id"], ""))) for r in rows])


def _pictures(folders: Sequence[Path], wanted: set[str]) -> Iterator[tuple[str, bytes | None]]:
    """The wanted pictures as they lie on disk, each from the first folder that has it."""
    left = set(wanted)
    for folder in folders:
        if left and (folder / "images").is_dir():
            for row in iterate(folder / "images", IMAGES, batch_size=64):
                if row["image_id"] in left:
                    left.remove(row["image_id"])
                    yield row["image_id"], row["image"]["bytes"] if row["image"] else None
