"""Images of a row: one, a list, several columns, none, or the frames of a video.

What `image_table` and `vlmevalkit_tsv` share. The order of the images is that of the columns, and within a column that
of its list. See `qualm.registry.formats.picture_lists` for how a question says where each stands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._fields import value_at
from qualm.registry.adapters._official import check_image, read_image
from qualm.registry.formats.frames import FramesError, frames_of_animation, read_frames
from qualm.registry.formats.picture_lists import MARK, MAX_IMAGES, find_mark_problem, image_id_of
from qualm.registry.formats.pictures import image_in_text
from qualm.registry.sample import Image, Sample
from qualm.registry.system.dvc_objects import lies_in
from qualm.registry.text import list_in_text

Reader = Callable[[], Image]
"""Reads one image, once the sample is wanted."""
Named = tuple[str, Reader]
"""An image's id and what reads it."""


@dataclass(frozen=True)
class PictureColumns:
    names: tuple[str, ...]
    frames: int | None = None
    """Number of frames per video; None if cells are images."""
    text_only: bool = False
    """True if a row may have no image."""

    @classmethod
    def checked(cls, adapter: str, image: str | list[str] | None, frames: int | None, text_only: bool) -> PictureColumns:
        """Return the `PictureColumns` of an adapter's valid arguments; else AdapterError."""
        names = () if image is None else (image,) if isinstance(image, str) else tuple(image)
        if len(set(names)) != len(names) or (image is not None and not names):
            raise AdapterError(f"{adapter}: image: expected a column, or different ones, got {image!r}")
        if frames is not None and not 1 <= frames <= MAX_IMAGES:
            raise AdapterError(f"{adapter}: frames: expected 1 to {MAX_IMAGES}, got {frames}")
        if not names and (frames is not None or text_only):
            raise AdapterError(f"{adapter}: frames and text_only are about the column `image`, which is null")
        return cls(names, frames, text_only)

    def cells(self, row: Mapping[str, Any], where: str) -> tuple[list[Any], bool]:
        """Return (image cells of a row, True if they form a list); AdapterError for bad counts."""
        cells: list[Any] = []
        listed = len(self.names) > 1
        for name in self.names:
            value = _as_list(value_at(row, name, where), where, name)
            listed |= isinstance(value, list)
            cells += value if isinstance(value, list) else [value] if value not in (None, "") else []
        if self.names and not cells and not self.text_only:
            hint = "`text_only: true` takes such rows as questions without one"
            raise AdapterError(f"{where}: {', '.join(self.names)}: expected an image, got none; {hint}")
        if len(cells) > MAX_IMAGES:
            raise AdapterError(f"{where}: {len(cells):,} images; more than {MAX_IMAGES} cannot be read")
        return cells, listed or self.frames is not None

    def image_id(self, pictures: Sequence[Named], where: str) -> str | None:
        """Return the only image name, a JSON list of several, or None; AdapterError if too many."""
        if len(pictures) > MAX_IMAGES:
            raise AdapterError(f"{where}: {len(pictures):,} images; more than {MAX_IMAGES} cannot be read; ask for fewer `frames`")
        return image_id_of([name for name, _ in pictures])


def _as_list(value: Any, where: str, column: str) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, str) and value.lstrip()[:2] in ("[]", '["', "['"):
        found = list_in_text(value)
        if found is None:
            raise AdapterError(f"{where}: {column}: expected an image, or a list of them as JSON, got {value!r:.60}")
        return found
    return value


def image_at(source: Path, place: str, name: str, where: str) -> Named:
    """Return (name, function that checks and reads the image at a path); touch no file yet."""
    return name, partial(read_image, source, (place,), name, where)


def image_within(data: bytes, path: str, where: str) -> Named:
    """Return (digest, function that checks and returns the image) for image bytes of a cell."""
    name = hashlib.sha256(data).hexdigest()[:24]
    return name, lambda: Image(name, check_image(data, where), path)


def cell_content(cell: Any) -> tuple[bytes | None, str]:
    """Return (image bytes or None, path or "") of a table cell: bytes, base64, path or dict."""
    data, path = (cell.get("bytes"), cell.get("path")) if isinstance(cell, dict) and set(cell) <= {"bytes", "path"} else (cell, None)
    if isinstance(data, bytes) and data[:24].isascii():  # perhaps base64, which some tables keep in a column of bytes
        data = image_in_text(data.decode("latin-1")) or data
    if isinstance(data, str):
        found = image_in_text(data)
        data, path = (found, "") if found is not None else (None, data)
    return data if isinstance(data, bytes) and data else None, path if isinstance(path, str) else ""


def check_marks(sample: Sample, n_images: int, listed: bool, where: str) -> Sample:
    """Return the sample, less the mark of a lone listed image; raise if its marks do not fit.

    Of several images each has a mark, or none has. The mark of an image that is `listed`, the item of a list, says nothing.
    """
    if listed and n_images == 1 and sample.question.count(MARK) == 1:
        text = sample.question.replace(MARK, "").strip()
        return replace(sample, question=text) if text else sample
    if wrong := find_mark_problem(sample.question, n_images):
        raise AdapterError(f"{where}: {wrong}")
    return sample


def select_sample(context: AdapterContext, sample: Sample, pictures: Sequence[Named]) -> Iterator[Image | Sample]:
    """Yield the sample's new images, then the sample; nothing if the spec does not select it."""
    if not context.selects(sample):
        return
    for name, read in pictures:
        if name not in context.sent:
            yield read()
            context.sent[name] = ""
    yield sample


def frames_at(source: Path, place: str, name: str, n: int, where: str) -> list[Named]:
    """Return (image id, its reader) for up to `n` frames of a source's video; or AdapterError."""
    path = source / place
    try:
        there = lies_in(source, path) and path.exists()
    except (OSError, ValueError):
        there = False
    if not there:
        raise AdapterError(f"{where}: expected its video at {place:.500} within {source}, found none")
    try:
        return _named(name, read_frames(path, n), place)
    except FramesError as error:
        raise AdapterError(f"{where}: video {place:.200}: {error}") from error


def frames_within(data: bytes, path: str, n: int, where: str) -> list[Named]:
    """Return (image id, its reader) of at most `n` evenly spaced frames of an animation.

    Raise AdapterError if it cannot be decoded, or has more frames than are read.
    """
    try:
        return _named(hashlib.sha256(data).hexdigest()[:24], frames_of_animation(data, n), path)
    except FramesError as error:
        raise AdapterError(f"{where}: video: {error}") from error


def _named(name: str, frames: Sequence[tuple[int, bytes]], path: str) -> list[Named]:
    def reader(image: Image) -> Reader:
        return lambda: image

    images = [Image(f"{name}#frame={number}", data, f"{path}#frame={number}") for number, data in frames]
    return [(image.image_id, reader(image)) for image in images]
