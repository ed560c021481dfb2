"""Model inputs: the question and pixels of each sample under each variant.

Everything is a pure function of the dataset's files, the variant and the seed, so it can be repeated on any thread in any order.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq

from qualm.registry.formats import pictures
from qualm.registry.formats.picture_lists import MARK, all_ids, find_mark_problem, has_marks, picture_ids, remove_marks, split_at_images
from qualm.registry.plugins.registry import get, load
from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.contracts.perturbations import MODALITIES, random_generator
from qualm.runners.contracts.returned import check_perturbed, describe_value, file_of, raised_at
from qualm.runners.data.splits import SplitRule
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.stage import PluginFailedError, StageError


class BrokenSampleError(Exception):
    """Error that a sample's image cannot be read; the message names both."""


SHOWN = 4
"""Images of a sample that errors list."""


@dataclass(frozen=True)
class VariantInput:
    """One sample's question and encoded images under one variant, made by `Variant.item`."""

    sample_id: str
    question: str
    data: bytes | None
    """The image's file; None without an image."""
    where: str
    """Name of sample and image in errors."""
    more: tuple[bytes, ...] = ()
    """Files of further images."""

    @property
    def files(self) -> tuple[bytes, ...]:
        return () if self.data is None else (self.data, *self.more)

    def image(self) -> PIL.Image.Image | None:
        """Decode the only (or first) image as RGB; None without one.

        Raises:
            BrokenSampleError: it cannot be decoded, or is a decompression bomb.
        """
        return None if self.data is None else decode_image(self.data, self.where)

    def images(self) -> tuple[PIL.Image.Image, ...]:
        """Decode all images as RGB, in order; () without images.

        Raises:
            BrokenSampleError: one cannot be decoded, or is a decompression bomb.
        """
        all_of_them = len(self.files)
        return tuple(
            decode_image(data, f"{self.where}: number {k} of {all_of_them}" if self.more else self.where)
            for k, data in enumerate(self.files, 1)
        )


@dataclass(frozen=True)
class Variant:
    """A perturbation at one strength, a baseline without the image, or the clean variant."""

    name: str
    modality: str = ""
    """image, text or cross; empty for the clean variant."""
    function: Callable[..., Any] | None = None
    args: Mapping[str, Any] | None = None
    module: str = ""
    """Dotted name of the plugin."""
    folders: Mapping[str, VariantSource] | None = None
    """By dataset, samples that are perturbed already."""
    scored_only: bool = False
    """Only scored rows have this variant: thresholds are chosen on clean answers."""

    def item(self, dataset: DatasetFolder, row: int) -> VariantInput | None:
        """Return a row's input before run-time perturbation; None if the variant does not apply.

        Raises:
            BrokenSampleError: its image is missing.
        """
        return dataset.item(row) if self.folders is None else self.folders[dataset.name].item(dataset, row)

    def apply(self, seed: int, item: VariantInput, image: PIL.Image.Image | None) -> tuple[PIL.Image.Image | None, str] | None:
        """Return a one-image sample's perturbed (image, question); None if it does not apply.

        The clean variant changes nothing. PluginFailedError if the plugin raises, StageError if it returns something malformed.
        """
        if self.function is None:
            return image, item.question
        file, where = file_of(self.module), f"variant {self.name}: sample '{item.sample_id}'"
        rngs = [random_generator(seed, self.name, item.sample_id)]
        own = image.copy() if image is not None and self.modality != "text" else None  # which it may draw on
        original: Any = {"image": own, "text": item.question, "cross": (own, item.question)}[self.modality]
        try:
            items = self.function([original], rngs, **(self.args or {}))
        except Exception as error:
            place = raised_at(file, error)
            reason = f"{type(error).__name__}: {error}"
            raise PluginFailedError(f"{place}: variant {self.name}: failed on sample '{item.sample_id}': {reason}") from error
        if not isinstance(items, list | tuple) or len(items) != 1:
            raise StageError(f"{file}: {where}: expected a list of as many items as it was given, 1, got {describe_value(items)}")
        edited = check_perturbed(file, where, self.modality, original, items[0])
        if edited is None:
            return None
        return {"image": (edited, item.question), "text": (image, edited), "cross": edited}[self.modality]  # type: ignore[no-any-return]

    def perturb(self, seed: int, item: VariantInput, images: Sequence[PIL.Image.Image]) -> tuple[tuple[PIL.Image.Image, ...], str] | None:
        """Return a sample's perturbed (images, question), as is if clean; None if inapplicable.

        Several images are perturbed one by one with their own random numbers, text between image marks piece by piece; all must succeed.
        A cross-modal perturbation needs a single image.

        Args:
            images: the sample's images; may be empty for a text variant.
        """
        if len(item.files) < 2:
            applied = self.apply(seed, item, images[0] if images else None)
            return applied and (() if applied[0] is None else (applied[0],), applied[1])
        if self.function is None:
            return tuple(images), item.question
        if self.modality == "cross":
            return None
        parts: Sequence[Any] = images if self.modality == "image" else split_at_images(item.question, len(item.files))
        of = replace(item, data=None, more=())
        changed: list[Any] = []
        number = 0
        for part in parts:
            if isinstance(part, str) and not part.strip():
                changed.append(part)
                continue
            own = replace(of, sample_id=part_seed_id(item.sample_id, number), question=part if isinstance(part, str) else "")
            number += 1
            applied = self.apply(seed, own, None if isinstance(part, str) else part)
            if applied is None:
                return None
            changed.append(applied[1] if isinstance(part, str) else applied[0])
        if not number:
            return None
        if self.modality == "image":
            return tuple(changed), item.question
        question = MARK.join(changed) if has_marks(item.question, len(item.files)) else changed[-1]
        return None if find_mark_problem(question, len(item.files)) else (tuple(images), question)

    def fits(self, has_image: bool) -> bool:
        """Return whether the variant applies to samples with an image (`has_image`) or without."""
        return has_image or self.modality not in ("image", "cross")


def read_variants(entries: Sequence[Mapping[str, Any]], folders_by_variant: Mapping[str, Mapping[str, str]] | None = None) -> list[Variant]:
    """Return a Variant per entry of a stage's parameters, in order, run-time plugins loaded.

    StageError if a plugin declares no valid MODALITY.

    Args:
        folders_by_variant: variant -> dataset -> folder, for variants made by stages of their own.
    """
    variants = []
    for entry in entries:
        if "picture" in entry:
            blinded: Mapping[str, VariantSource] = defaultdict(partial(Blinded, entry["picture"]))
            variants.append(Variant(entry["variant"], "image", folders=blinded, scored_only=True))
            continue
        if entry["plugin"] is None:
            variants.append(Variant(entry["variant"]))
            continue
        if entry.get("made"):
            folders = {name: PerturbedFolder(Path(folder)) for name, folder in (folders_by_variant or {})[entry["variant"]].items()}
            variants.append(Variant(entry["variant"], entry["modality"], folders=folders))
            continue
        plugin = get("perturbations", entry["plugin"])
        modality = plugin.declares.get("MODALITY")
        if modality not in MODALITIES:
            raise StageError(f"{plugin.path}: MODALITY: expected one of {', '.join(MODALITIES)}, got {modality!r}")
        variants.append(Variant(entry["variant"], modality, load("perturbations", entry["plugin"]), entry["args"], plugin.module))
    return variants


def try_perturbations(variants: Sequence[Variant], datasets: Sequence[DatasetFolder], seed: int) -> None:
    """Apply each perturbation to the first sample it fits per dataset; StageError if bad.

    Raises:
        StageError: a perturbation breaks its contract.
    """
    for variant in (v for v in variants if v.function is not None):
        for dataset in datasets:
            row = next((i for i, s in enumerate(dataset.samples) if variant.fits(s["image_id"] is not None)), None)
            if row is None:
                continue
            try:
                item = dataset.item(row)
                variant.perturb(seed, item, item.images())
            except BrokenSampleError:
                continue  # told with all others that are


def part_seed_id(sample_id: str, number: int) -> str:
    """Return the id that seeds image or text `number` of a sample; for 0 the sample's id."""
    return sample_id if number == 0 else f"{sample_id} ({number + 1})"


class VariantSource(Protocol):
    """Source of a variant's samples that were perturbed beforehand, or have another image."""

    def item(self, dataset: DatasetFolder, row: int) -> VariantInput | None:
        """Return a row's input as perturbed beforehand; None if the variant does not apply to it."""
        ...


@dataclass(frozen=True)
class Blinded:
    """Baseline variant whose samples have the image of an unrelated sample, or none."""

    way: str
    """`swapped` or `removed`."""

    def item(self, dataset: DatasetFolder, row: int) -> VariantInput | None:
        own = dataset.samples[row]
        if self.way == "removed":
            return VariantInput(
                own["sample_id"], remove_marks(own["question"], len(picture_ids(own["image_id"]))), None, dataset.where(row)
            )
        stranger = dataset.whole.unrelated.get(own["sample_id"])
        if stranger is None:
            return None
        return _item(own["sample_id"], own["question"], dataset.whole.files(stranger), dataset.where(row))


class PerturbedFolder:
    """A dataset under one variant, as written by the `perturb` stage and read on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def _rows(self) -> dict[str, dict[str, Any]]:
        rows = read_table(self.folder / "samples.parquet", SAMPLES, ["sample_id", "image_id", "question"]).to_pylist()
        return {row["sample_id"]: row for row in rows}

    @cached_property
    def _pictures(self) -> _Pictures | None:
        images = self.folder / "images"
        return _Pictures(images, all_ids(row["image_id"] for row in self._rows.values())) if images.is_dir() else None

    def item(self, dataset: DatasetFolder, row: int) -> VariantInput | None:
        """Return a sample's perturbed input, unchanged images from `dataset`; None if not here."""
        own_row = self._rows.get(dataset.samples[row]["sample_id"])
        if own_row is None:
            return None
        names = picture_ids(own_row["image_id"])
        new = [None if self._pictures is None else self._pictures.data(name) for name in names]
        own = dataset.item(row).files if None in new or not names else ()
        files = tuple(own[place] if data is None else data for place, data in enumerate(new)) if names else own
        return _item(own_row["sample_id"], own_row["question"], files, dataset.where(row))


class DatasetFolder:
    """Samples of a dataset folder in order, with images read on demand from any thread."""

    def __init__(self, name: str, folder: Path, rule: SplitRule | None = None) -> None:
        """Read all rows, or those that `rule` has models answer."""
        self.name, self.folder = name, folder
        self.table: pa.Table = read_table(folder / "samples.parquet", SAMPLES)
        self._rule = rule
        if rule is not None:
            self.table = self.table.filter(rule.is_asked(name, self.table))
        needed = all_ids(self.table["image_id"].to_pylist())
        self._pictures = _Pictures(folder / "images", needed) if needed else None
        self.whole = self
        """The dataset with all rows, for a selection made by `only`."""

    @cached_property
    def samples(self) -> list[dict[str, Any]]:
        """Return per row a dict of `sample_id`, `image_id`, `question` and `choices`."""
        return list(self.table.select(["sample_id", "image_id", "question", "choices"]).to_pylist())

    @cached_property
    def scored(self) -> list[bool]:
        """Return per row whether it is scored; the others serve to choose thresholds."""
        return [True] * len(self) if self._rule is None else self._rule.scored(self.name, self.table["split"]).to_pylist()

    @cached_property
    def hints(self) -> list[str]:
        """Return the hints by row, from `meta.hint`; "" without one."""
        return [dict(meta or ()).get("hint") or "" for meta in self.table["meta"].to_pylist()]

    @cached_property
    def unrelated(self) -> dict[str, int]:
        """Return {sample id: row of an unrelated sample with as many images}, where there is one."""
        rows = list(zip(range(len(self)), self.samples, self.table["group"].to_pylist(), strict=True))
        alike: dict[int, list[tuple[int, str, str, str]]] = defaultdict(list)
        for row, sample, group in rows:
            if names := picture_ids(sample["image_id"]):
                alike[len(names)].append((row, sample["sample_id"], sample["image_id"], group or ""))
        return {name: some[place][0] for some in alike.values() for name, place in choose_unrelated([one[1:] for one in some]).items()}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def only(self, rows: Sequence[int]) -> DatasetFolder:
        """Return a copy of the dataset with these rows, in this order; the images are shared."""
        part = copy.copy(self)
        for name in ("scored", "hints"):
            vars(part).pop(name, None)
        part.table, part.samples = self.table.take(list(rows)), [self.samples[row] for row in rows]
        return part

    def item(self, row: int) -> VariantInput:
        """Return the clean question and image files of a row.

        Raises:
            BrokenSampleError: its image is missing.
        """
        sample = self.samples[row]
        return _item(sample["sample_id"], sample["question"], self.files(row), self.where(row))

    def image(self, row: int) -> PIL.Image.Image | None:
        """Return a row's only image, as RGB; None without one, BrokenSampleError for several.

        Raises:
            BrokenSampleError: it is missing, cannot be decoded, or there are several.
        """
        data = self.encoded(row)
        return None if data is None else decode_image(data, self.where(row))

    def encoded(self, row: int) -> bytes | None:
        """Return the bytes of a row's only image; None without one, BrokenSampleError for several.

        Raises:
            BrokenSampleError: it is missing, or there are several.
        """
        files = self.files(row)
        if len(files) > 1:
            raise BrokenSampleError(f"{self.where(row)}: expected one image, got {len(files)}; leave out samples with several by `where:`")
        return files[0] if files else None

    def files(self, row: int) -> tuple[bytes, ...]:
        """Return the encoded bytes of all images of a row, in order; () without images.

        Raises:
            BrokenSampleError: one is missing.
        """
        names = picture_ids(self.samples[row]["image_id"])
        if self._pictures is None:
            return ()
        contents = [self._pictures.data(name) for name in names]
        if None in contents:
            which = f" '{names[contents.index(None)]}'" if len(names) > 1 else ""
            raise BrokenSampleError(f"{self.where(row)}:{which} is not in the dataset's images")
        return tuple(data for data in contents if data is not None)

    def has_image(self, image_id: str) -> bool:
        """Return whether the dataset has an image of this id."""
        return self._pictures is not None and self._pictures.has(image_id)

    def where(self, row: int) -> str:
        """Return a text that names a row's sample and images, for errors."""
        sample = self.samples[row]
        names = picture_ids(sample["image_id"])
        listed = ", ".join(f"'{name}'" for name in names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        pictures = f"image{'s' if len(names) > 1 else ''} {listed}" if names else "no image"
        return f"{self.name}: sample '{sample['sample_id']}', {pictures}"


def _item(sample_id: str, question: str, files: Sequence[bytes], where: str) -> VariantInput:
    return VariantInput(sample_id, question, files[0] if files else None, where, tuple(files[1:]))


def decode_image(data: bytes, where: str) -> PIL.Image.Image:
    """Decode an image file as RGB; raise BrokenSampleError, with `where`, if that fails."""
    try:
        return pictures.decoded(data)
    except pictures.PictureError as error:
        raise BrokenSampleError(f"{where}: cannot be decoded ({len(data)} bytes): {error}") from error


class _Pictures:
    """Encoded images by id, from Parquet files, with a cache of row groups."""

    def __init__(self, folder: Path, needed: set[str], keep: int = 256 * 2**20) -> None:
        """Locate images with `needed` ids, missing ones silently; cache at most `keep` bytes.

        StageError if a file is not a table of images; an id that is not found is no error here.
        """
        self._lock = threading.Lock()
        self._keep = keep
        self._groups: OrderedDict[tuple[int, int], pa.ChunkedArray] = OrderedDict()
        self._place: dict[str, tuple[int, int, int]] = {}
        self._files: list[pq.ParquetFile] = []
        for number, path in enumerate(sorted(folder.glob("*.parquet"))):
            try:
                file = pq.ParquetFile(path)
                ids = [file.read_row_group(g, columns=["image_id"]).column(0).to_pylist() for g in range(file.num_row_groups)]
            except (pa.ArrowInvalid, OSError, KeyError) as error:
                raise StageError(f"{path}: expected images as {IMAGES.names}: {error}") from error
            self._files.append(file)
            for group, names in enumerate(ids):
                self._place.update({name: (number, group, row) for row, name in enumerate(names) if name in needed})

    def has(self, image_id: str) -> bool:
        return image_id in self._place

    def data(self, image_id: str) -> bytes | None:
        place = self._place.get(image_id)
        if place is None:
            return None
        file, group, row = place
        with self._lock:
            column = self._groups.get((file, group))
            if column is None:
                column = self._files[file].read_row_group(group, columns=["image.bytes"]).column(0)
                self._groups[file, group] = column
                while len(self._groups) > 1 and sum(c.nbytes for c in self._groups.values()) > self._keep:
                    self._groups.popitem(last=False)
            self._groups.move_to_end((file, group))
        picture = column[row].as_py()
        return picture["bytes"] if picture is not None else None


def choose_unrelated(rows: Sequence[tuple[str, str | None, str]]) -> dict[str, int]:
    """Return {sample id: index of a row with an unrelated image}, where there is one.

    Images and samples are placed on a circle by hashes of their names, and a sample takes the next unrelated image. So
    every image is equally likely, and adding or removing samples changes few other choices.

    Args:
        rows: (sample_id, image_id, group); a row without a group is its own group.

    Returns:
        sample_id -> index of the other row.
    """
    groups: dict[str, set[str]] = {}
    first: dict[str, int] = {}
    for place, (sample, image, group) in enumerate(rows):
        if image is not None:
            first.setdefault(image, place)
            groups.setdefault(image, set()).add(group or f"\0{sample}")
    circle = sorted((_drawn("picture", image), image) for image in first)
    points = [point for point, _ in circle]
    chosen: dict[str, int] = {}
    for sample, image, group in rows:
        if image is None:
            continue
        start = bisect_left(points, _drawn("sample", sample))
        for step in range(len(circle)):
            other = circle[(start + step) % len(circle)][1]
            if other != image and (group or f"\0{sample}") not in groups[other]:
                chosen[sample] = first[other]
                break
    return chosen


def _drawn(kind: str, name: str) -> bytes:
    return hashlib.sha256(f"{kind}\0{name}".encode()).digest()
