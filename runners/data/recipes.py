"""Merge the pairs that recipes made: what each recipe wrote, and the merged samples without dropped pairs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.sample import SAMPLES
from qualm.runners.data.curation import CurationError, curate
from qualm.runners.data.rows import with_ids
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.stage import StageError

Choice = Literal["drop", "keep"]


@dataclass
class RecipeOutput:
    """The samples that one recipe made, and its record."""

    label: str
    folder: Path
    samples: pa.Table
    record: dict[str, Any]
    """Its recipe.json."""


def read_recipe(label: str, folder: Path) -> RecipeOutput:
    """Read the folder of a `pair` stage; StageError if its record is damaged."""
    samples = read_table(folder / "samples.parquet", SAMPLES)
    try:
        record = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StageError(f"{folder}/recipe.json: expected the description of recipe '{label}': {error}; run `dvc repro`") from error
    return RecipeOutput(label, folder, samples, record)


def check_ids(recipes: Sequence[RecipeOutput]) -> None:
    """Raise StageError if recipes share a sample id or a pair is not one answerable, one not."""
    owner: dict[str, str] = {}
    for recipe in recipes:
        members: dict[str | None, list[bool]] = {}
        rows = recipe.samples.select(["sample_id", "pair_id", "answerable"]).to_pylist()
        for row in rows:
            other = owner.setdefault(row["sample_id"], recipe.label)
            if other != recipe.label:
                both = f"{other} and {recipe.label}"
                raise StageError(f"sample '{row['sample_id']}' is made by two recipes, {both}; a pair's id must hold its recipe's label")
            members.setdefault(row["pair_id"], []).append(row["answerable"])
        for pair, answerable in members.items():
            if pair is None or sorted(answerable) != [False, True]:
                counts = f"{sum(answerable)} answerable and {len(answerable) - sum(answerable)} unanswerable"
                raise StageError(f"recipe {recipe.label}: pair '{pair}' has {counts} members; expected one of each")


@dataclass
class MergedPairs:
    """The merged samples of all recipes, and the number of dropped pairs by reason."""

    samples: pa.Table
    dropped: Counter[str] = field(default_factory=Counter)

    def keep(self, mask: pa.Array, reason: str) -> None:
        """Keep the rows of `mask`, and count the pairs of the others under `reason`."""
        gone = self.samples.filter(pc.invert(mask))
        if gone.num_rows:
            self.dropped[reason] += pc.count_distinct(gone["pair_id"]).as_py()
            self.samples = self.samples.filter(mask)

    def drop(self, pairs: set[str], reason: str) -> None:
        """Drop these pairs, by pair id, and count them under `reason`."""
        self.keep(pc.invert(pc.is_in(self.samples["pair_id"], value_set=pa.array(sorted(pairs), pa.string()))), reason)

    def drop_broken(self, hashes: Mapping[str, int | None]) -> None:
        """Drop and count pairs with an image that cannot be decoded, which has no hash."""
        broken = {image for image, value in hashes.items() if value is None}
        if broken:
            rows = self.samples.select(["image_id", "pair_id"]).to_pylist()
            self.drop({r["pair_id"] for r in rows if not broken.isdisjoint(picture_ids(r["image_id"]))}, "image cannot be decoded")

    def curate(self, folders: Sequence[Path], reviews: Path, unreviewed: Choice, lone: Choice) -> dict[str, Any]:
        """Drop test pairs that reviews rule out, or questions if `lone` is `keep`; return facts.

        Undecided ones are dropped too; unreviewed ones only if `unreviewed` is `drop`. A pair is dropped for either of its questions.

        StageError if the table of decisions is malformed.
        """
        try:
            curated = curate(self.samples.to_pylist(), folders, reviews, unreviewed=unreviewed, lone=lone)
        except CurationError as error:
            raise StageError(str(error)) from error
        self.samples = with_ids(self.samples, curated.remaining)
        for reason, n in curated.facts["units"]["dropped"].items():
            self.dropped[f"review: {reason}" + (" (questions)" if lone == "keep" else "")] += n
        return curated.facts
