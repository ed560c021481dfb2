"""What there is to decide: the scored questions of a data set or pair set, before any curation.

Those of a pair set are read from its recipes and not from the assembled set, which may already lack what nobody has decided; those
of a data set from what its adapter gave.
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
from qualm.runners.data.dataset import BrokenSample, DatasetFolder
from qualm.runners.data.reviews.claims import ClaimError, claims
from qualm.runners.data.reviews.curation import CHOICES, content_of, pixels_of, pixels_together
from qualm.runners.data.rows import choose
from qualm.runners.data.splits import SplitRule
from qualm.runners.reporting.thumbnails import decoded_together
from qualm.runners.runtime.records import iterate, read_table
from qualm.runners.runtime.stage import StageError

_META = re.compile(rf"\b{re.escape(META)}(?=\w)")


class PoolError(Exception):
    """There is nothing to review: what was looked for, what there is, what to do."""


@dataclass(frozen=True)
class ReviewQuestion:
    """One question, alone or a member of a pair, as a reviewer sees it."""

    row: Mapping[str, Any]
    read: Callable[[], Sequence[bytes]]
    """Gives the pictures' files."""
    claims: tuple[str, ...] = ()
    """The subsets that its data set puts it in."""

    @property
    def picture(self) -> bytes | None:
        """The picture's file; of several a picture that shows them side by side; None without one."""
        files = self.read()
        if len(files) < 2:
            return files[0] if files else None
        together, _ = decoded_together(files)
        if together is None:
            return b""  # said to be unreadable
        with io.BytesIO() as file:
            together.save(file, "PNG")
            return file.getvalue()

    @cached_property
    def content(self) -> str:
        """Digest of what is shown: a decision holds for this."""
        return content_of(self.row, pixels_together([pixels_of(data) for data in self.read()]), self.claims)

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
        """Right answers, the most frequent first, with how often each was given."""
        counts = Counter(str(a) for a in self.row["references"] or ())
        return [a if n == 1 else f"{a} ×{n}" for a, n in counts.most_common()]

    @property
    def notes(self) -> dict[str, str]:
        """What is on record of it: a recipe's proof, the inpainted object, how many people named which reason..."""
        return {str(k): str(v) for k, v in (self.row["meta"] or ())}


class Pool:
    """The questions that are scored, in pairs or each for itself, with their pictures."""

    def __init__(self, questions: Sequence[ReviewQuestion], subsets: Mapping[str, str] | None = None) -> None:
        self.questions = {q.sample_id: q for q in questions}
        self.subsets = dict(subsets or {})
        """What the data set's subsets are: name -> expression."""
        placed = any(q.claims for q in questions)
        self.choices = tuple(c for c in CHOICES if placed or c != "misplaced")
        """What a reviewer can say."""
        self.paired = any(q.row["pair_id"] for q in questions)

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def words(self) -> dict[str, str]:
        """What is counted of a review, and how it is called."""
        named = {"valid": "valid", "invalid": "invalid", "misplaced": "in the wrong subset", "skip": "skipped"}
        return {choice: named[choice] for choice in self.choices} | {"left": "left"}

    def claimed(self, q: ReviewQuestion) -> list[str]:
        """The subsets that a question was put in, each with its rule where it has one; what it is meant to be where there are none."""
        rules = {name: _META.sub("", text) for name, text in self.subsets.items()}
        return [f"{name}: {rules[name]}" if name in rules else f"meant to be {name}" for name in q.claims]

    def asks(self, q: ReviewQuestion) -> str:
        """What the reviewer has to say of a question."""
        can = "can be answered from its picture" if q.answerable else "can NOT be answered from its picture"
        if "misplaced" not in self.choices:
            return f"The set says that it {can}. Is that so, and is the answer right?"
        put = f"in the subset {' and '.join(q.claims)}" if self.subsets and q.claims else " ".join(q.claims) or "in no subset"
        claim = "" if q.answerable else f" and that it {can}"
        return f"The set says that it is {put}{claim}. Is that so, and are the answers right?"

    @cached_property
    def pairs(self) -> dict[str, list[ReviewQuestion]]:
        """Members by pair, the answerable one first."""
        by_pair: dict[str, list[ReviewQuestion]] = {}
        for q in sorted(self.questions.values(), key=lambda q: (q.pair_id, not q.answerable, q.sample_id)):
            by_pair.setdefault(q.pair_id, []).append(q)
        return by_pair

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
        """The pairs of one category or subset, or of all below a main kind, and of those `sample`, the same for every reviewer.

        A category may be named in full or by its last part. A sample is drawn over all subsets and categories.

        Raises:
            PoolError: no question is of that category.
        """
        pairs = self.pairs
        if category is not None:
            categories = sorted({name for q in self.questions.values() for name in (q.category, *q.claims)} - {""})
            pairs = {p: m for p, m in pairs.items() if f"/{category}/" in f"/{m[0].category}/" or category in m[0].claims}
            if not pairs:
                raise PoolError(f"no question is of category '{category}'; there are: {', '.join(categories) or 'none'}")
        if sample is not None:
            chosen = choose([(p, "\0".join((*m[0].claims, m[0].category))) for p, m in pairs.items()], sample, seed)
            pairs = {p: m for p, m in pairs.items() if p in chosen}
        return Pool([q for members in pairs.values() for q in members], self.subsets)


def read_pool(recipes: Sequence[Path], sources: Sequence[Path], split: str = "test") -> Pool:
    """Return the questions of one split of all recipes.

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
            f"{len(missing):,} of {len(image_ids):,} pictures are not on this disk, '{missing[0]}' the first; decisions hold for a "
            f"picture. Get {', '.join(map(str, sources)) or 'the source data sets'} first: `dvc pull` or `dvc repro --pull`"
        )
    return Pool([ReviewQuestion(r, partial(_files_of, pictures, picture_ids(r["image_id"]))) for r in rows])


def read_whole(name: str, folder: Path, rule: SplitRule, subsets: Mapping[str, str]) -> Pool:
    """Return the scored questions of a dataset without pairs; images are read when shown.

    Args:
        folder: that its `data` stage wrote.

    Raises:
        PoolError: no split is scored, or a sample does not tell whether a subset holds it.
    """
    put_in = claims(subsets)
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
        except BrokenSample as error:
            raise PoolError(f"{error}; `dvc repro` or `dvc pull` the data set again") from error

    return read


def _pictures(folders: Sequence[Path], image_ids: set[str]) -> Iterator[tuple[str, bytes | None]]:
    """The wanted pictures as they lie on disk, each from the first folder that has it."""
    left = set(image_ids)
    for folder in folders:
        if left and (folder / "images").is_dir():
            for row in iterate(folder / "images", IMAGES, batch_size=64):
                if row["image_id"] in left:
                    left.remove(row["image_id"])
                    yield row["image_id"], row["image"]["bytes"] if row["image"] else None
