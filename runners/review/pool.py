"""The scored questions to review, before any curation.

Questions of a pair set are read from its recipes, as the assembled set may lack what nobody has reviewed.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from qualm.registry.formats.picture_lists import all_ids, picture_ids
from qualm.registry.sample import IMAGES, SAMPLES
from qualm.registry.where import META
from qualm.runners.data.claims import ClaimError, claims_function
from qualm.runners.data.curation import CHOICES, combine_digests, content_of, pixels_of
from qualm.runners.data.dataset import BrokenSampleError, DatasetFolder
from qualm.runners.data.rows import choose_stratified
from qualm.runners.data.splits import SplitRule
from qualm.runners.reporting.thumbnails import decode_side_by_side
from qualm.runners.runtime.records import iterate_rows, read_table
from qualm.runners.runtime.stage import StageError

_META = re.compile(rf"\b{re.escape(META)}(?=\w)")


class PoolError(Exception):
    """There is nothing to review; the message says what was looked for and what to do."""


@dataclass(frozen=True)
class ReviewQuestion:
    """A question, alone or in a pair, as a reviewer sees it."""

    row: Mapping[str, Any]
    read: Callable[[], Sequence[bytes]]
    claims: tuple[str, ...] = ()
    """Subsets that the dataset puts it in."""

    @property
    def picture(self) -> bytes | None:
        """Return the image file, several side by side; None without any, b"" if unreadable."""
        files = self.read()
        if len(files) < 2:
            return files[0] if files else None
        together, _ = decode_side_by_side(files)
        if together is None:
            return b""  # shown as unreadable
        with io.BytesIO() as file:
            together.save(file, "PNG")
            return file.getvalue()

    @cached_property
    def content(self) -> str:
        """Return the digest of what the reviewer sees, for which a decision holds."""
        return content_of(self.row, combine_digests([pixels_of(data) for data in self.read()]), self.claims)

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
        """Return the distinct reference answers, most frequent first, repeated ones as `red ×3`."""
        counts = Counter(str(a) for a in self.row["references"] or ())
        return [a if n == 1 else f"{a} ×{n}" for a, n in counts.most_common()]

    @property
    def notes(self) -> dict[str, str]:
        """Return the sample's meta fields, such as a recipe's proof or people's reasons."""
        return {str(k): str(v) for k, v in (self.row["meta"] or ())}


class Pool:
    """The questions to review, single or in pairs, with their images."""

    def __init__(self, questions: Sequence[ReviewQuestion], subsets: Mapping[str, str] | None = None) -> None:
        self.questions = {q.sample_id: q for q in questions}
        self.subsets = dict(subsets or {})
        placed = any(q.claims for q in questions)
        self.choices = tuple(c for c in CHOICES if placed or c != "misplaced")
        self.paired = any(q.row["pair_id"] for q in questions)

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def words(self) -> dict[str, str]:
        """Return decision -> display words, and `left` for undecided questions."""
        named = {"valid": "valid", "invalid": "invalid", "misplaced": "in the wrong subset", "skip": "skipped"}
        return {choice: named[choice] for choice in self.choices} | {"left": "left"}

    def claimed(self, q: ReviewQuestion) -> list[str]:
        """Return "NAME: EXPRESSION", or "meant to be NAME", per subset that a question is in."""
        rules = {name: _META.sub("", text) for name, text in self.subsets.items()}
        return [f"{name}: {rules[name]}" if name in rules else f"meant to be {name}" for name in q.claims]

    def asks(self, q: ReviewQuestion) -> str:
        """Return the sentences that ask the reviewer whether the set's claims about it hold."""
        can = "can be answered from its image" if q.answerable else "can NOT be answered from its image"
        if "misplaced" not in self.choices:
            return f"The set says that it {can}. Is that so, and is the answer right?"
        put = f"in the subset {' and '.join(q.claims)}" if self.subsets and q.claims else " ".join(q.claims) or "in no subset"
        claim = "" if q.answerable else f" and that it {can}"
        return f"The set says that it is {put}{claim}. Is that so, and are the answers right?"

    @cached_property
    def pairs(self) -> dict[str, list[ReviewQuestion]]:
        """Return pair id -> the pair's questions, the answerable one first."""
        by_pair: dict[str, list[ReviewQuestion]] = {}
        for q in sorted(self.questions.values(), key=lambda q: (q.pair_id, not q.answerable, q.sample_id)):
            by_pair.setdefault(q.pair_id, []).append(q)
        return by_pair

    def order(self, reviewer: str) -> list[str]:
        """Return sample ids in a reviewer's own order: pairs shuffled, members together.

        It depends only on the reviewer and each pair, so that new questions do not change the order of others.
        """
        salted = {pair: hashlib.sha256(f"{reviewer}\x00{pair}".encode()).digest() for pair in self.pairs}
        ids = []
        for pair in sorted(salted, key=lambda p: (salted[p], p)):
            members = [q.sample_id for q in self.pairs[pair]]
            ids += members if salted[pair][-1] % 2 else members[::-1]
        return ids

    def only(self, category: str | None, n_pairs: int | None, seed: int) -> Pool:
        """Return a Pool of the pairs of a category or subset, `n_pairs` of them if not None.

        A category is named in full, by its last part or by its main kind. The sample is drawn over all subsets and categories.

        Raises:
            PoolError: no question has that category.
        """
        pairs = self.pairs
        if category is not None:
            categories = sorted({name for q in self.questions.values() for name in (q.category, *q.claims)} - {""})
            pairs = {
                p: members
                for p, members in pairs.items()
                if any(f"/{category}/" in f"/{q.category}/" or category in q.claims for q in members)
            }
            if not pairs:
                raise PoolError(f"no question is of category '{category}'; there are: {', '.join(categories) or 'none'}")
        if n_pairs is not None:
            chosen = choose_stratified([(p, "\0".join((*m[0].claims, m[0].category))) for p, m in pairs.items()], n_pairs, seed)
            pairs = {p: m for p, m in pairs.items() if p in chosen}
        return Pool([q for members in pairs.values() for q in members], self.subsets)


def read_pool(recipes: Sequence[Path], sources: Sequence[Path], split: str = "test") -> Pool:
    """Return a Pool with the questions of one split of all recipes.

    Args:
        recipes: folders that `pair` stages wrote.
        sources: folders of their source datasets, with the images that recipes left unchanged.

    Raises:
        PoolError: a folder or image is missing, or no recipe has a row of that split.
    """
    rows: list[dict[str, Any]] = []
    for folder in recipes:
        if not (folder / "samples.parquet").is_file():
            raise PoolError(f"{folder}: no pairs here yet; make them first (`qualm run` or `dvc pull`)")
        samples = read_table(folder / "samples.parquet", SAMPLES).to_pylist()
        rows += [r for r in samples if r["split"] == split]
    if not rows:
        raise PoolError(f"no pair of split '{split}' in {', '.join(map(str, recipes)) or 'any recipe'}")
    image_ids = all_ids(r["image_id"] for r in rows)
    pictures = dict(_pictures([*recipes, *sources], image_ids))
    if missing := sorted(image_ids - {name for name, data in pictures.items() if data is not None}):
        raise PoolError(
            f"{len(missing):,} of {len(image_ids):,} images are not on this disk, '{missing[0]}' the first; decisions hold for an "
            f"image. Get {', '.join(map(str, sources)) or 'the source datasets'} first: `dvc pull` or `dvc repro --pull`"
        )
    return Pool([ReviewQuestion(r, partial(_files_of, pictures, picture_ids(r["image_id"]))) for r in rows])


def read_dataset_pool(name: str, folder: Path, rule: SplitRule, subsets: Mapping[str, str]) -> Pool:
    """Return a Pool with the questions in a dataset's scored splits; images are read if shown.

    Args:
        folder: output of its `data` stage.

    Raises:
        PoolError: no split is scored, or a sample does not tell whether a subset holds it.
    """
    put_in = claims_function(subsets)
    try:
        dataset = DatasetFolder(name, folder, rule)
        return Pool(
            [ReviewQuestion(row, _reader(dataset, i), put_in(row)) for i, row in enumerate(dataset.table.to_pylist())],
            subsets,
        )
    except (StageError, ClaimError) as error:
        raise PoolError(str(error)) from error


def _files_of(pictures: Mapping[str, bytes | None], names: Sequence[str]) -> list[bytes]:
    return [data for data in map(pictures.get, names) if data is not None]


def _reader(dataset: DatasetFolder, row: int) -> Callable[[], Sequence[bytes]]:
    def read() -> Sequence[bytes]:
        try:
            return dataset.files(row)
        except BrokenSampleError as error:
            raise PoolError(f"{error}; `dvc repro` or `dvc pull` the dataset again") from error

    return read


def _pictures(folders: Sequence[Path], image_ids: set[str]) -> Iterator[tuple[str, bytes | None]]:
    left = set(image_ids)
    for folder in folders:
        if left and (folder / "images").is_dir():
            for row in iterate_rows(folder / "images", IMAGES, batch_size=64):
                if row["image_id"] in left:
                    left.remove(row["image_id"])
                    yield row["image_id"], row["image"]["bytes"] if row["image"] else None
