"""What is asked of a model: every sample under every variant, its key in the store, and the batches of what is missing."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from runners.ahead import ahead
from runners.inputs import BrokenSample, Dataset, Variant
from runners.models import ANSWER, DRAWS, OPTIONS, PARTS, Decoding, Part, Request, draw_of, draw_part
from runners.progress import progress
from runners.prompts import messages
from runners.stage import Stage, StageError
from runners.store import Store, part_key, pixel_digest

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Cell:
    """One sample under one variant: where it is, and the key of every part of the answer that is wanted."""

    dataset: int
    row: int
    variant: int
    options: int
    has_image: bool
    keys: Mapping[str, bytes]
    """Part -> its key in the store."""
    input_digest: str


class Asker:
    """Turns samples into keys and requests, the same ones every time it is asked."""

    def __init__(
        self, model: Any, engine: str, datasets: list[Dataset], variants: list[Variant], needs: frozenset[str], stage: Stage
    ) -> None:
        self.model, self.engine, self.datasets, self.variants, self.needs, self.stage = model, engine, datasets, variants, needs, stage
        given = {name: stage.params[name] for name in ("max_new_tokens", "temperature", "top_p") if name in stage.params}
        self.decoding = Decoding(**given)
        self.draws = int(stage.params.get("draws", 0)) if DRAWS in needs else 0

    def survey(self) -> tuple[list[Cell], list[str]]:
        """Every cell with its key, in the order of the tables, and what is wrong with the samples that have none."""
        places = [(number, row) for number, dataset in enumerate(self.datasets) for row in range(len(dataset))]
        cells: list[Cell] = []
        broken: list[str] = []
        settings = self.stage.settings
        with progress(settings, "looking up", len(places)) as advance:
            for found in ahead(self._examine, places, settings.workers):
                advance()
                if isinstance(found, BrokenSample):
                    print(f"{self.stage.key}: {found}", file=sys.stderr, flush=True)
                    broken.append(str(found))
                    continue
                cells += found
                if len(found) < len(self.variants):
                    self.stage.count(**{"dropped (no image to perturb)": len(self.variants) - len(found)})
        return cells, broken

    def request(self, cell: Cell, store: Store) -> Request:
        """The request of a cell for its missing parts, made anew and held to its key, with the greedy answer if that is stored.

        Raises:
            StageError: it is not the one that was surveyed, so its answer would be stored under a wrong key.
        """
        dataset, variant = self.datasets[cell.dataset], self.variants[cell.variant]
        try:
            request = self._request(dataset, cell.row, variant, dataset.image(cell.row))
        except BrokenSample as error:
            raise StageError(f"{error}; it could be read a moment ago") from error
        if self._seen(request) != cell.input_digest:
            name = dataset.samples[cell.row]["sample_id"]
            raise StageError(
                f"{dataset.name}: sample '{name}', variant {variant.name}: twice perturbed, it came out differently; "
                "a perturbation must take all chance from its rngs, and the dataset must not change during the run"
            )
        row = None if ANSWER in cell.keys or request.options else store.find(self._key(request, ANSWER))
        given = None if row is None else Part(**store.take([row]).to_pylist()[0])
        return replace(request, parts=tuple(cell.keys), given=given)

    def _examine(self, place: tuple[int, int]) -> list[Cell] | BrokenSample:
        number, row = place
        dataset = self.datasets[number]
        try:
            image = dataset.image(row)
        except BrokenSample as error:
            return error
        cells = []
        for index, variant in enumerate(self.variants):
            if not variant.fits(image is not None):
                continue
            request = self._request(dataset, row, variant, image)
            cells.append(Cell(number, row, index, request.options, request.image is not None, self._keys(request), self._seen(request)))
        return cells

    def _request(self, dataset: Dataset, row: int, variant: Variant, image: Image | None) -> Request:
        sample = dataset.samples[row]
        picture, question = variant.apply(self.stage.seed, sample["sample_id"], image, sample["question"])
        choices = sample["choices"] or ()
        try:
            prompt = self.model.render(messages(question, choices, image=picture is not None))
        except ValueError as error:
            raise StageError(f"{dataset.name}: sample '{sample['sample_id']}': {error}") from error
        stream = int.from_bytes(hashlib.sha256(f"{self.stage.seed}\0{sample['sample_id']}".encode()).digest()[:16], "big")
        pixels = "" if picture is None else pixel_digest(picture)
        return Request(prompt, picture, len(choices), question, self._parts(len(choices)), stream, pixels)

    def _parts(self, options: int) -> tuple[str, ...]:
        """What is wanted of one question."""
        if options:
            return (OPTIONS,)
        signals = [name for name, columns in PARTS.items() if name not in (ANSWER, OPTIONS) and self.needs.intersection(columns)]
        return (ANSWER, *signals, *map(draw_part, range(1, self.draws + 1)))

    def _keys(self, request: Request) -> dict[str, bytes]:
        return {part: self._key(request, part) for part in request.parts}

    def _key(self, request: Request, part: str) -> bytes:
        how = self.decoding
        decoding: dict[str, Any] = {"method": "greedy", "max_new_tokens": how.max_new_tokens}
        if part == OPTIONS:
            decoding = {"method": "choice", "options": request.options}
        elif draw_of(part):
            more = {"temperature": how.temperature, "top_p": how.top_p, "stream": f"{request.stream:032x}"}
            decoding = {**decoding, "method": "sample", **more}
        elif part != ANSWER:
            decoding["question"] = request.question
        return part_key(self.model.digest, self.engine, request.prompt, request.pixels or None, decoding, part)

    @staticmethod
    def _seen(request: Request) -> str:
        """Digest of what the model sees."""
        return hashlib.sha256(f"{request.prompt}\0{request.pixels or None}".encode()).hexdigest()


def missing(cells: list[Cell], store: Store) -> list[Cell]:
    """The cells to compute with the parts that are neither stored nor another cell's, in order."""
    taken: set[bytes] = set()
    found = []
    for cell in cells:
        keys = {part: key for part, key in cell.keys.items() if key not in taken and store.find(key) is None}
        taken.update(keys.values())
        if keys:
            found.append(replace(cell, keys=keys))
    return found


def plan(missing: list[Cell], batch_size: int) -> list[list[Cell]]:
    """Batches of like cells in the order in which they fill.

    Each kind of cell fills a batch of its own, first come first served; so if the first k batches of a plan are done,
    the plan of what is left is the rest of this plan. That is what makes a resumed run equal an undisturbed one.
    """
    filling: dict[Any, list[Cell]] = {}
    full = []
    for cell in missing:
        kind = (cell.has_image, cell.options > 0, tuple(cell.keys))
        batch = filling.setdefault(kind, [])
        batch.append(cell)
        if len(batch) == batch_size:
            full.append(filling.pop(kind))
    return full + list(filling.values())
