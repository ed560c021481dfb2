"""Apply perturbations that ask a model to single samples, while their strength is adjusted.

The benchmark has a stage for each. Here the same function gets one sample with the stage's seed, variant name and context, so that the
result is the same. Replies are stored by content (`.qualm/`).
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import PIL.Image

from qualm.registry.plugins.registry import Plugin, load
from qualm.runners.contracts.generators import GeneratorError
from qualm.runners.contracts.perturbations import PerturbContext, PerturbError, random_generator
from qualm.runners.data.dataset import DatasetFolder, PerturbedFolder, VariantInput
from qualm.runners.data.scene_graphs import SceneGraphError, read_scenes
from qualm.runners.prompts.templates import PromptError
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import StageError

ITEMS = 64
"""Samples per strength that stay in memory."""


VARIANTS = 8
"""Strengths whose samples stay in memory."""


class Workshop:
    """State shared by all strengths of one perturbation: open models, scene graphs, a lock."""

    def __init__(self, dataset: DatasetFolder, settings: Settings, seed: int) -> None:
        self.dataset = dataset.name
        folder, image_ids = dataset.folder, {s["image_id"] for s in dataset.samples} - {None}
        scenes = cache(lambda: read_scenes(folder, image_ids, drawn=False) if (folder / "scenes").is_dir() else {})
        self.context = PerturbContext(settings, seed, "", scenes=scenes)
        self.lock = threading.Lock()
        """Lock for models and generators."""

        self._variants: OrderedDict[str, LazyPerturbedFolder] = OrderedDict()

    def variant(self, plugin: Plugin, args: Mapping[str, Any], label: str) -> LazyPerturbedFolder:
        """Return the dataset under a variant; the most recent ones are cached."""
        if label not in self._variants:
            self._variants[label] = LazyPerturbedFolder(self, plugin, args, label)
        self._variants.move_to_end(label)
        while len(self._variants) > VARIANTS:
            self._variants.popitem(last=False)
        return self._variants[label]


class LazyPerturbedFolder(PerturbedFolder):
    """A dataset under one variant, whose samples are perturbed when they are read."""

    def __init__(self, workshop: Workshop, plugin: Plugin, args: Mapping[str, Any], label: str) -> None:
        self.workshop, self.label = workshop, label
        self._modality = str(plugin.declares.get("MODALITY"))
        self._function, self._args = load("perturbations", plugin.name), dict(args)
        self._items: OrderedDict[str, VariantInput | None] = OrderedDict()

    def item(self, dataset: DatasetFolder, row: int) -> VariantInput | None:
        """Return a perturbed sample; None if inapplicable; StageError if it cannot be made.

        Raises:
            StageError: it cannot be made.
            qualm.runners.data.dataset.BrokenSampleError: its image cannot be read.
        """
        name = str(dataset.samples[row]["sample_id"])
        with self.workshop.lock:
            if name not in self._items:
                self._items[name] = self._make(dataset, row, dataset.item(row))
                while len(self._items) > ITEMS:
                    self._items.popitem(last=False)
            self._items.move_to_end(name)
            return self._items[name]

    def _make(self, dataset: DatasetFolder, row: int, item: VariantInput) -> VariantInput | None:
        image = item.image() if self._modality != "text" else None
        context = self.workshop.context
        rows = dataset.table.slice(row, 1).to_pylist()
        source: Any = {"image": image, "text": item.question, "cross": (image, item.question)}[self._modality]
        here = replace(context, label=self.label, rows=rows, pictures=[item.data], facts=[{}])
        try:
            (output,) = self._function(here, [source], [random_generator(context.seed, self.label, item.sample_id)], **self._args)
        except (PerturbError, GeneratorError, PromptError, SceneGraphError) as error:
            raise StageError(f"variant {self.label}: sample '{item.sample_id}': {error}") from error
        if output is None:
            return None
        picture, question = {"image": (output, item.question), "text": (None, output), "cross": output}[self._modality]
        same = picture is None or image is None or picture is image or picture.tobytes() == image.tobytes()
        return replace(item, question=question, data=item.data if same else _png(picture))


def _png(picture: PIL.Image.Image) -> bytes:
    with io.BytesIO() as file:
        picture.save(file, "PNG", compress_level=1)
        return file.getvalue()
