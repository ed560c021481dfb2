"""Context, checks and errors of dataset adapters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.registry.formats import pictures
from qualm.registry.formats.picture_lists import find_id_problem, find_mark_problem, picture_ids
from qualm.registry.machine import usable_cores

if TYPE_CHECKING:
    from qualm.registry.sample import Image, Sample


DerivedFiles = Callable[[Path, Collection[str], Callable[[str], None]], tuple[dict[str, str], list[str]]]
"""(folder of official files, paths of those that are taken, receiver of names of files being read) -> (path in the entry -> text,
lines for the reader).

Raises AdapterError where the files are not as in the release."""


class AdapterError(Exception):
    """Error of an adapter that cannot read its source; names file, fault and remedy."""


class MissingImageError(AdapterError):
    """Error that no file is at any of an image's possible paths, `places`."""

    def __init__(self, message: str, places: Sequence[str]) -> None:
        super().__init__(message)
        self.places = places
        """Possible paths in the source."""


def _end(error: AdapterError) -> None:
    raise error


@dataclass(frozen=True)
class AdapterContext:
    """Inputs that the `data` stage gives an adapter: files, seed, selection and callbacks."""

    folder: Path
    """The dataset folder being written, not yet published. `samples.parquet` and `images/` in it belong to the stage."""
    seed: int = 0
    source: Path | None = None
    """The official files, an entry of `registry/data/`; None for a generator."""
    workers: int = 1
    """Processes that may be used, at least 1. Changes speed, never content."""
    selects: Callable[[Sample], bool] = field(default=lambda sample: True)
    """Predicate of the spec's `where:`."""
    bad: Callable[[AdapterError], None] = field(default=_end)
    """Told what is wrong with one record: ends the run, or, where the spec says `skip_bad: true`, notes it and returns."""

    note: Callable[[str], None] = field(default=lambda text: None)
    """Told what stops nothing and a person should know, with what to do about it."""

    place: list[str] = field(default_factory=list)
    """Place of the current record ("FILE: line 3"), or empty. Readers of `_official` set it, for problems that the stage finds itself,
    such as a duplicate id."""

    judged: bool = False
    """True if a judge decides from references which questions are answerable (`answerable_by`)."""

    sent: dict[str, str] = field(default_factory=dict)
    """Images that have come, by id: each comes once, before the first selected sample that names it. See `selected`."""

    def selected(self, sample: Sample, picture: Callable[..., Image] | Image | None, *args: Any, of: str = "") -> Iterator[Image | Sample]:
        """Yield [image,] sample: the image only if not yielded before; nothing if not selected.

        Args:
            picture: its image, or a function that reads it with `args`.
            of: path of the image in the source, where two images could share an id; both are yielded then, and the stage refuses them.

        Raises:
            AdapterError: the image cannot be read.
        """
        if not self.selects(sample):
            return
        if picture is not None and sample.image_id is not None and self.sent.get(sample.image_id) != of:
            yield picture(*args) if callable(picture) else picture
            self.sent[sample.image_id] = of
        yield sample

    @contextmanager
    def record(self) -> Iterator[None]:
        """Pass an `AdapterError` of the block (one record) to `bad`, which raises it or notes it."""
        try:
            yield
        except AdapterError as error:
            self.bad(error)

    def need_source(self, adapter: str) -> Path:
        """Return the folder of official files; AdapterError if none is given or it is missing."""
        if self.source is None:
            raise AdapterError(f"{adapter}: reads official files and was given none; `qualm data add NAME --from PATH` brings them in")
        if not self.source.exists():
            raise AdapterError(f"{self.source}: not on this disk; `dvc pull {self.source}.dvc` brings it from the remote")
        return self.source


ALPHA = "images with transparency; transparent pixels are shown on white"
FRAMES = "images of several frames or pages; the first is shown"
MAX_PROCESSES = 61
"""Windows can wait for no more at a time."""


def count_processes(workers: int) -> int:
    """Return the number of processes: `workers`, or all cores if 0; at most MAX_PROCESSES."""
    return min(workers if workers > 0 else usable_cores(), MAX_PROCESSES)


class ImageConversionCounts:
    """Counter of images that models see converted: transparent, and with several frames."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, image: Image) -> str:
        try:
            facts = pictures.facts(image.data)
        except pictures.PictureError as error:
            return f"image '{image.image_id}' cannot be read as an image: {error}"
        self.counts[ALPHA] += facts.transparent
        self.counts[FRAMES] += facts.frames > 1
        return ""

    def notes(self) -> list[str]:
        """Return one line per kind of conversion, "3 images of several frames..."; none at 0."""
        return [f"{n:,} {what}" for what, n in self.counts.items() if n]


def find_problem(sample: Sample, earlier_images: Container[str | None], earlier_samples: Container[str]) -> str:
    """Return why a yielded sample is invalid, as the end of a message; "" if it is valid."""
    if sample.sample_id in earlier_samples:
        return " comes twice; sample ids must be unique within a dataset"
    if wrong := find_id_problem(sample.image_id):
        return wrong
    if absent := next((name for name in picture_ids(sample.image_id) if name not in earlier_images), None):
        return f": its image '{absent}' has not come before it"
    if wrong := find_mark_problem(sample.question, len(picture_ids(sample.image_id))):
        return f": {wrong}"
    if sample.answer_index is not None and not 0 <= sample.answer_index < len(sample.choices):
        return f": answer_index {sample.answer_index} is not one of its {len(sample.choices)} choices"
    return ""
