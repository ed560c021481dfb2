"""Reproduce the images and questions that models saw under each variant."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import PIL.Image

from qualm.compiler.plan.plan import PlannedStage
from qualm.registry.plugins.registry import PluginError
from qualm.registry.sample import CLEAN
from qualm.runners.data.dataset import BrokenSampleError, DatasetFolder, Variant, read_variants
from qualm.runners.reporting.thumbnails import decoded
from qualm.runners.results.results import Results
from qualm.runners.runtime.stage import StageError

MAX_SIDE = 1000
"""Maximum side of an image on the page, in pixels."""
MAX_LOSSLESS_SIDE = 320
"""Maximum side of an image that is stored losslessly, in pixels."""


class ModelInputs:
    """Images and question texts as models saw them, by variant; thread-safe."""

    def __init__(self, results: Results, stages: Iterable[PlannedStage]) -> None:
        self._results = results
        self._lock = threading.Lock()
        self._folders: dict[str, DatasetFolder] = {}
        self._rows: dict[str, dict[str, int]] = {}
        self.entries: dict[str, Mapping[str, Any]] = {}
        """Variant -> its parameters, from the inference stages."""
        self._perturbed: dict[str, dict[str, str]] = {}
        self.prompts: dict[str, list[Mapping[str, Any]]] = {}
        """Dataset -> keys of the prompt of each model."""
        self.seed = 0
        for stage in stages:
            if "generations" not in stage.outputs:
                continue
            self.seed = stage.seed
            for name in stage.outputs["generations"]:
                self.prompts.setdefault(name, []).append(stage.params.get("prompt", {}))
            self.entries |= {entry["variant"]: entry for entry in stage.params["variants"]}
            for name, folders in stage.inputs.get("perturbed", {}).items():
                self._perturbed.setdefault(name, {}).update({d: str(results.root / f) for d, f in folders.items()})
        self._variants: dict[str, Variant | None] = {}

    def modality(self, variant: str) -> str:
        """Return a variant's modality: image, text or cross; "" if clean or unknown."""
        entry = self.entries.get(variant, {})
        return "image" if "picture" in entry else str(entry.get("modality") or "")

    def questions(self, dataset: str, sample_id: str, variants: Iterable[str]) -> dict[str, str]:
        """Return {variant: question as asked} of text and cross variants; omit those that fail."""
        texts = {}
        for name in variants:
            if name != CLEAN and self.modality(name) in ("text", "cross"):
                pair = self._input(dataset, sample_id, name, pictures=self.modality(name) == "cross")
                if pair is not None:
                    texts[name] = pair[1]
        return texts

    def picture(self, dataset: str, sample_id: str, variant: str, index: int) -> bytes | None:
        """Return image `index`, from 0, of a question under a variant as WebP; None on failure."""
        pair = self._input(dataset, sample_id, variant)
        return encode_webp(pair[0][index]) if pair is not None and index < len(pair[0]) else None

    def missing(self, dataset: str, image_ids: Iterable[str]) -> list[str]:
        """Return the image ids that the dataset's folder has no image for."""
        folder = self._folder(dataset)
        return [name for name in image_ids if not folder.has_image(name)]

    def clean_picture(self, dataset: str, image_id: str) -> bytes | None:
        """Return an image of a dataset, unperturbed, as WebP; None if missing or undecodable."""
        pictures = self._folder(dataset)._pictures
        image, _ = decoded(None if pictures is None else pictures.data(image_id))
        return None if image is None else encode_webp(image)

    def _input(self, dataset: str, sample_id: str, variant: str, pictures: bool = True) -> tuple[tuple[PIL.Image.Image, ...], str] | None:
        """Return (images, question text) under a variant; None if they cannot be made.

        Args:
            pictures: False leaves the images out, for a variant that needs none.
        """
        folder = self._folder(dataset)
        row, of = self._rows[dataset].get(sample_id), self._variant(variant)
        if row is None or of is None:
            return None
        try:
            item = of.item(folder, row)
            return None if item is None else of.perturb(self.seed, item, item.images() if pictures else ())
        except (BrokenSampleError, StageError, OSError):
            return None

    def _variant(self, name: str) -> Variant | None:
        if name not in self._variants:
            entry = self.entries.get(name)
            try:
                self._variants[name] = None if entry is None else read_variants([entry], self._perturbed)[0]
            except (PluginError, StageError, KeyError, ImportError):
                self._variants[name] = None
        return self._variants[name]

    def _folder(self, dataset: str) -> DatasetFolder:
        with self._lock:
            if dataset not in self._folders:
                folder = DatasetFolder(dataset, Path(self._results.root / self._results.inputs["datasets"][dataset]))
                self._rows[dataset] = {s["sample_id"]: row for row, s in enumerate(folder.samples)}
                self._folders[dataset] = folder
            return self._folders[dataset]


def encode_webp(image: PIL.Image.Image) -> bytes:
    """Return an image as RGB WebP bytes, scaled to MAX_SIDE at most; lossless only if small."""
    picture = image.convert("RGB")
    picture.thumbnail((MAX_SIDE, MAX_SIDE), PIL.Image.Resampling.LANCZOS)
    data = io.BytesIO()
    exact = max(picture.size) <= MAX_LOSSLESS_SIDE
    picture.save(data, "WEBP", lossless=exact, quality=70 if exact else 86, method=2)
    return data.getvalue()
