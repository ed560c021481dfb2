"""`qualm view --publish`: write every file of the page into a folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.viewing.chunks import json_chunk
from qualm.compiler.viewing.details import details
from qualm.compiler.viewing.site import SCRIPTS, SINGLE, Site, SitePart, data_file
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.sample import CLEAN
from qualm.registry.system import atomic

MAX_ANSWERS_PER_SCAN = 16_000
"""Answers whose details are read together, with one scan of the tables."""
MARK = ".qualm-view"
"""File that marks a folder as written by this command, which may write it again."""
STAGE = ".qualm-view-new"
"""Folder inside the target in which the page is written before it replaces the old one."""
NO_JEKYLL = ".nojekyll"
"""File by which GitHub Pages serves the folder unchanged."""


def publish(site: Site, folder: Path, tell: Callable[[str], None] = lambda words: None) -> int:
    """Write the page into a folder, return its size; ProjectError if other files are there.

    The old page stays until the new one is complete.

    Args:
        folder: created, or rewritten if this command wrote it before.
        tell: called with a line of progress.

    Returns:
        The number of bytes written.

    Raises:
        ProjectError: the folder has other files.
    """
    if folder.exists() and not {p.name for p in folder.iterdir()} <= {STAGE} and not (folder / MARK).is_file():
        raise ProjectError(f"{folder}: expected an empty folder, or one that `qualm view --publish` wrote; name another, or empty it")
    is_new = not folder.exists()
    stage = folder / STAGE
    shutil.rmtree(stage, ignore_errors=True)  # of a killed command
    written = 0
    try:
        for path, content in _files(site, tell):
            file = stage / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            written += len(content)
        for name in ("data", "pictures"):
            shutil.rmtree(folder / name, ignore_errors=True)
        for entry in sorted(stage.iterdir()):
            atomic.publish(entry, folder / entry.name)
    except OSError as error:
        error.filename = str(folder)
        raise
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if is_new and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return written


def _files(site: Site, tell: Callable[[str], None]) -> Iterator[tuple[str, bytes]]:
    yield MARK, b"Written by `qualm view --publish`, which replaces what is in this folder.\n"
    yield NO_JEKYLL, b""
    for name in ("index.html", "view.css", "icon.svg", *SCRIPTS, "data/index.js"):
        content = site.file(name)
        assert content is not None, name
        yield name, content
    for part in site.parts.values():
        tell(say.PUBLISHING_ANSWERS.format(part=part.key, n=part.answers.rows.height))
        for kind, number in part.chunks():
            content = data_file(part, kind, number, site.pictures)
            assert content is not None, (kind, number)
            yield f"data/{part.key}/{kind}.js" if kind in SINGLE else f"data/{part.key}/{kind}/{number}.js", content
        yield from _details(part)
        if site.pictures != "none":
            tell(say.PUBLISHING_IMAGES.format(part=part.key))
            yield from _pictures(site, part)


def _details(part: SitePart) -> Iterator[tuple[str, bytes]]:
    answers, size = part.answers, part.answers.questions_per_chunk
    together = max(1, MAX_ANSWERS_PER_SCAN * answers.samples.height // max(1, answers.rows.height) // size)
    for first in range(0, part.n_details, together):
        of = details(answers, part.model_inputs, answers.samples.slice(first * size, together * size))
        for number in range(first, min(first + together, part.n_details)):
            start = (number - first) * size
            yield f"data/{part.key}/d/{number}.js", json_chunk(f"{part.key}/d/{number}", of[start : start + size])


def _pictures(site: Site, part: SitePart) -> Iterator[tuple[str, bytes]]:
    for place, dataset in enumerate(part.results.datasets):
        for number, name in enumerate(part.answers.pictures[dataset]):
            picture = part.model_inputs.clean_picture(dataset, name)
            if picture is not None:
                yield f"pictures/{part.key}/{place}/{number}.webp", picture
    if site.pictures != "all":
        return
    answers = part.answers
    questions = answers.rows.select("sample", "variant", "dataset").unique(maintain_order=True)
    images = dict(answers.samples.select("sample", "image_id").rows())
    for sample, variant, dataset in questions.filter(pl.col("variant") != CLEAN).rows():
        if part.model_inputs.modality(variant) not in ("image", "cross"):
            continue
        for place in range(len(picture_ids(images[sample]))):
            path = picture_path(part, dataset, sample, variant, place)
            content = site.file(path)
            if content is not None:
                yield path, content


def picture_path(part: SitePart, dataset: str, sample: int, variant: str, place: int) -> str:
    return f"pictures/{part.key}/{part.results.datasets.index(dataset)}/{sample}-{part.answers.variants.index(variant)}-{place}.webp"
