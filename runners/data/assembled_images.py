"""Images of an assembled dataset, from the recipes that made them or from the source datasets."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.formats.pictures import perceptual_hash
from qualm.registry.sample import IMAGES
from qualm.runners.runtime.prefetch import map_ahead
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.records import iterate_rows
from qualm.runners.runtime.stage import Stage, StageError

BATCH = 64
"""Encoded images in memory at a time."""


class AssembledPictures:
    """Images of an assembled dataset, read from the folders of recipes and sources.

    Args:
        stage: for its name, settings and counters.
        recipes: (label, folder, names of the datasets it was made of, its samples), in the spec's order.
        sources: folders of the datasets, by name.

    Raises:
        StageError: a sample's image is in none of its folders.
    """

    def __init__(self, stage: Stage, recipes: Sequence[tuple[str, Path, list[str], pa.Table]], sources: dict[str, Path]) -> None:
        self.stage = stage
        self.folders: list[Path] = [*(folder for _, folder, _, _ in recipes), *sources.values()]
        ids = {folder: _ids(folder) for folder in self.folders}
        self._made = {label: ids[folder] for label, folder, _, _ in recipes}
        self.wanted: dict[Path, set[str]] = {folder: set() for folder in self.folders}
        for label, folder, parents, samples in recipes:
            places = [folder, *(sources[name] for name in parents if name in sources)]
            for image, sample in zip(samples["image_id"].to_pylist(), samples["sample_id"].to_pylist(), strict=True):
                for name in picture_ids(image):
                    place = next((p for p in places if name in ids[p]), None)
                    if place is None:
                        looked = ", ".join(f"{p}/images" for p in places)
                        raise StageError(f"recipe {label}: sample '{sample}': its image '{name}' is not in {looked}; run `dvc repro`")
                    self.wanted[place].add(name)
        self.digests: dict[str, tuple[str, Path]] = {}

    def made_by(self, recipe: str) -> set[str]:
        """Return the ids of all images in the folder of the recipe of this label."""
        return self._made[recipe]

    def hashes(self, ids: set[str]) -> dict[str, int | None]:
        """Return the perceptual hash by image id, None if undecodable; StageError if ids clash.

        Raises:
            StageError: two different images have one id.
        """
        hash_of: dict[str, int | None] = {}
        with progress(self.stage.settings, f"{self.stage.name}: looking at images", len(ids)) as advance:
            for image, folder, digest, code in map_ahead(_look, self._stream(ids), self.stage.settings.workers):
                advance()
                first = self.digests.setdefault(image, (digest, folder))
                if first[0] != digest:
                    raise StageError(
                        f"the id '{image}' names different images in {first[1]}/images and {folder}/images; each needs its own"
                    )
                hash_of[image] = code
        return hash_of

    def rows(self, ids: set[str]) -> Iterator[dict[str, Any]]:
        """Yield one IMAGES row per image id of `ids`, from the first folder that has it."""
        done: set[str] = set()
        for _, row in self._stream(ids):
            if row["image_id"] not in done:
                done.add(row["image_id"])
                yield row

    def _stream(self, ids: set[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
        for folder in self.folders:
            mine = self.wanted[folder] & ids
            if mine:
                yield from ((folder, row) for row in iterate_rows(folder / "images", IMAGES, batch_size=BATCH) if row["image_id"] in mine)


def _ids(folder: Path) -> set[str]:
    return {row["image_id"] for row in iterate_rows(folder / "images", IMAGES, ["image_id"])} if (folder / "images").is_dir() else set()


def _look(item: tuple[Path, dict[str, Any]]) -> tuple[str, Path, str, int | None]:
    folder, row = item
    data = (row["image"] or {}).get("bytes") or b""
    return row["image_id"], folder, hashlib.sha256(data).hexdigest(), perceptual_hash(data)
