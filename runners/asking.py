"""What is asked of a model: every sample under every variant, its key in the store, and the batches of what is missing."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from registry.sample import GREEDY
from runners.ahead import ahead
from runners.inputs import BrokenSample, Dataset, Variant
from runners.models import Request
from runners.progress import progress
from runners.prompts import messages
from runners.stage import Stage, StageError
from runners.store import Store, answer_key, pixel_digest

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Cell:
    """One sample under one variant: where it is, what the model sees of it, and the key of its answer."""

    dataset: int
    row: int
    variant: int
    options: int
    has_image: bool
    needs: frozenset[str]
    key: bytes
    input_digest: str


class Asker:
    """Turns samples into keys and requests, the same ones every time it is asked."""

    def __init__(
        self, model: Any, engine: str, datasets: list[Dataset], variants: list[Variant], needs: frozenset[str], stage: Stage
    ) -> None:
        self.model, self.engine, self.datasets, self.variants, self.needs, self.stage = model, engine, datasets, variants, needs, stage
        self.max_new_tokens = int(stage.params["max_new_tokens"])

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

    def request(self, cell: Cell) -> Request:
        """The request of a cell, made anew and held to its key.

        Raises:
            StageError: it is not the one that was surveyed, so its answer would be stored under a wrong key.
        """
        dataset, variant = self.datasets[cell.dataset], self.variants[cell.variant]
        try:
            request = self._request(dataset, cell.row, variant, dataset.image(cell.row))
        except BrokenSample as error:
            raise StageError(f"{error}; it could be read a moment ago") from error
        if self._key(request)[0] != cell.key:
            name = dataset.samples[cell.row]["sample_id"]
            raise StageError(
                f"{dataset.name}: sample '{name}', variant {variant.name}: twice perturbed, it came out differently; "
                "a perturbation must take all chance from its rngs, and the dataset must not change during the run"
            )
        return request

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
            key, seen = self._key(request)
            needs = (self.needs | {"text"}) - ({"p_yes"} if request.options else {"option_logits"})
            cells.append(Cell(number, row, index, request.options, request.image is not None, needs, key, seen))
        return cells

    def _request(self, dataset: Dataset, row: int, variant: Variant, image: Image | None) -> Request:
        sample = dataset.samples[row]
        picture, question = variant.apply(self.stage.seed, sample["sample_id"], image, sample["question"])
        choices = sample["choices"] or ()
        try:
            prompt = self.model.render(messages(question, choices, image=picture is not None))
        except ValueError as error:
            raise StageError(f"{dataset.name}: sample '{sample['sample_id']}': {error}") from error
        return Request(prompt, picture, len(choices), question)

    def _key(self, request: Request) -> tuple[bytes, str]:
        """The key of the answer, and the digest of what the model sees."""
        pixels = None if request.image is None else pixel_digest(request.image)
        choice = {"method": "choice", "options": request.options}
        decoding = choice if request.options else {"method": "greedy", "max_new_tokens": self.max_new_tokens}
        seen = hashlib.sha256(f"{request.prompt}\0{pixels}".encode()).hexdigest()
        return answer_key(self.model.digest, self.engine, request.prompt, pixels, decoding, GREEDY), seen


def missing(cells: list[Cell], store: Store) -> list[Cell]:
    """The cells to compute, each answer once, in order."""
    wanted: dict[bytes, Cell] = {}
    for cell in cells:
        if cell.key not in wanted and store.find(cell.key, cell.needs) is None:
            # An answer of which only a part is known is computed whole, so that no later run loses what this one had.
            needs = cell.needs | store.fields(cell.key)
            wanted[cell.key] = replace(cell, needs=needs)
    return list(wanted.values())


def plan(missing: list[Cell], batch_size: int) -> list[list[Cell]]:
    """Batches of like cells in the order in which they fill.

    Each kind of cell fills a batch of its own, first come first served; so if the first k batches of a plan are done,
    the plan of what is left is the rest of this plan. That is what makes a resumed run equal an undisturbed one.
    """
    filling: dict[Any, list[Cell]] = {}
    full = []
    for cell in missing:
        kind = (cell.has_image, cell.options > 0, cell.needs)
        batch = filling.setdefault(kind, [])
        batch.append(cell)
        if len(batch) == batch_size:
            full.append(filling.pop(kind))
    return full + list(filling.values())
