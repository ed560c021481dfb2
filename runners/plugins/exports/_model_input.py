"""Model inputs, recomputed from the data, the variant and the seed."""

import io
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import PIL.Image

from qualm.registry.recordings.record import RecordingError
from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.data.dataset import DatasetFolder, VariantInput
from qualm.runners.plugins.exports._parts import ExportEntry, ExportError, ExportPart
from qualm.runners.runtime.records import read_table


class ModelInput:
    """Question and images of each sample of one part, under its variant."""

    def __init__(self, part: ExportPart) -> None:
        self.part, self.variant = part, part.variant
        self.as_it_is = part.variant.function is None and part.variant.folders is None

    @cached_property
    def dataset(self) -> DatasetFolder:
        return DatasetFolder(self.part.dataset, self.part.samples)

    def question(self, place: int, sample: Mapping[str, Any]) -> str:
        if self.as_it_is or (self.variant.folders is None and self.variant.modality == "image"):
            return str(sample["question"])
        return self._applied(place)[1]

    def key(self, entry: ExportEntry) -> str | None:
        """Return an entry's image id, with the sample id if perturbed; None without an image."""
        image_id = entry.sample["image_id"]
        return None if image_id is None else str(image_id) if self.as_it_is else f"{image_id}\0{entry.name}"

    def pictures(self, entry: ExportEntry) -> tuple[bytes, ...]:
        """Return the image files: the original ones if unperturbed, else PNG."""
        item = self._item(entry.place)
        if self.variant.function is None or self.variant.modality == "text" or not item.files:
            return item.files
        return tuple(_png(image) for image in self._applied(entry.place)[0])

    def _item(self, place: int) -> VariantInput:
        item = self.variant.item(self.dataset, place)
        if item is None:
            raise self._inapplicable(place)
        return item

    def _applied(self, place: int) -> tuple[tuple[PIL.Image.Image, ...], str]:
        item = self._item(place)
        applied = self.variant.perturb(self.part.seed, item, () if self.variant.modality == "text" else item.images())
        if applied is None:
            raise self._inapplicable(place)
        return applied

    def _inapplicable(self, place: int) -> ExportError:
        name = self.dataset.samples[place]["sample_id"]
        return ExportError(
            f"{self.part.dataset}: there is an answer to '{name}' under {self.variant.name}, which cannot be applied to it; run again"
        )


def _png(image: PIL.Image.Image) -> bytes:
    with io.BytesIO() as data:
        image.save(data, "PNG")
        return data.getvalue()


def prompts(part: ExportPart) -> Mapping[str, str]:
    """Return recorded prompts by sample id; empty for a model that ran here or on an error."""
    if part.recorded is None or part.source is None or not part.source.exists():
        return {}
    from qualm.runners.plugins.models.recorded import recorded

    try:
        model = recorded(ModelContext(part.model, folder=part.source), **part.recorded)
        read_prompts = getattr(model, "prompts", None)
        by_sample: Mapping[str, str] = (
            read_prompts(part.dataset, read_table(part.samples / "samples.parquet", SAMPLES)) if read_prompts else {}
        )
    except (ModelError, RecordingError):
        return {}
    return by_sample
