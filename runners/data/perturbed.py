"""Write the dataset that a perturbation makes of another: its questions, and the images that are changed."""

import io
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import PIL.Image

from qualm.registry.formats.picture_lists import MARK, all_ids, image_id_of, picture_ids
from qualm.registry.plugins.registry import Plugin
from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.contracts.perturbations import CONTEXT, PerturbContext, random_generator
from qualm.runners.contracts.returned import check_perturbed, describe_value
from qualm.runners.data.answers import pixel_digest
from qualm.runners.data.dataset import DatasetFolder, Variant
from qualm.runners.data.rows import with_provenance
from qualm.runners.data.scene_graphs import read_scenes
from qualm.runners.runtime.prefetch import map_ahead
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.records import ShardWriter, TableWriter
from qualm.runners.runtime.stage import Stage, StageError

WORDS, PICTURES = 256, 16
"""Samples in a batch: of questions alone, and where images are decoded."""


class DatasetPerturber:
    """Applies a perturbation to one dataset and writes the result."""

    def __init__(self, stage: Stage, dataset: DatasetFolder, plugin: Plugin, function: Any, context: PerturbContext) -> None:
        """Prepare to perturb a dataset by `function`; `context` counts what is dropped."""
        self.stage, self.dataset, self.plugin, self.function = stage, dataset, plugin, function
        self.modality, self.variant, self.file = str(plugin.declares["MODALITY"]), stage.params["variant"], str(plugin.path)
        self.rows: list[dict[str, Any]] = dataset.table.to_pylist()
        self.context: PerturbContext | None = None
        if plugin.reads[:1] == (CONTEXT,):
            ids = all_ids(row["image_id"] for row in self.rows)
            scenes = cache(lambda: read_scenes(dataset.folder, ids, drawn=False) if (dataset.folder / "scenes").is_dir() else {})
            self.context = replace(context, scenes=scenes)
        self.written: set[str] = set()

    def write(self, folder: Path) -> int:
        """Write the samples that the perturbation applies to, in batches; return their number."""
        folder.mkdir(parents=True)
        sees = self.modality != "text"
        fit = [i for i, row in enumerate(self.rows) if not sees or row["image_id"] is not None]
        stage, many = self.stage, PICTURES if sees else WORDS
        stage.count(samples=len(self.rows), applied=0)
        with (
            progress(stage.settings, f"{self.dataset.name}: {self.variant}", len(fit)) as advance,
            TableWriter(folder / "samples.parquet", with_provenance(stage, SAMPLES)) as samples,
            ShardWriter(folder / "images", IMAGES, row_group=64) as pictures,
        ):
            for start in range(0, len(fit), many):
                part = fit[start : start + many]
                for row, data in self._batch(part, sees):
                    if "sample_id" in row:
                        samples.write(row)
                    if data is not None:
                        pictures.write({"image_id": row["image_id"], "image": {"bytes": data, "path": f"{row['image_id']}.png"}})
                advance(len(part))
        stage.count(applied=samples.rows)
        if self.rows and not samples.rows:
            print(
                f"{stage.key}: {self.dataset.name}: {self.variant} could be applied to none of {len(self.rows):,} samples", file=sys.stderr
            )
        if not self.written:
            shutil.rmtree(folder / "images")
        return samples.rows

    def _batch(self, row_numbers: Sequence[int], loads_images: bool) -> Iterator[tuple[dict[str, Any], bytes | None]]:
        """Yield (row, new image file or None) of these rows; those that cannot change are dropped.

        A sample with several images first yields rows that hold only the id of a new image.
        """
        several = [i for i in row_numbers if len(picture_ids(self.rows[i]["image_id"])) > 1]
        if not several:
            yield from self._batch_of_one_picture(row_numbers, loads_images)
            return
        for i in row_numbers:
            yield from self._several(i) if i in several else self._batch_of_one_picture([i], loads_images)

    def _several(self, row_number: int) -> Iterator[tuple[dict[str, Any], bytes | None]]:
        """Yield ({"image_id"}, PNG) per changed image of a multi-image sample, then (row, None)."""
        row, item = self.rows[row_number], self.dataset.item(row_number)
        if self.context is None:
            variant = Variant(self.variant, self.modality, self.function, module=self.plugin.module)
            images = item.images() if self.modality == "image" else ()
            applied = variant.perturb(self.stage.seed, item, images)
            if applied is None:
                return
            before, (after, question) = images, applied
        else:
            if self.modality != "text":
                self.context.drop("several images")
                return
            facts: dict[str, str] = {}
            context = replace(self.context, rows=[row], pictures=[None], facts=[facts])
            (output,) = self.function(context, [row["question"]], [random_generator(self.stage.seed, self.variant, row["sample_id"])])
            text = check_perturbed(self.file, f"variant {self.variant}: sample '{row['sample_id']}'", "text", row["question"], output)
            if text is None:
                return
            if text.count(MARK) != row["question"].count(MARK):
                self.context.drop("marks of images lost")
                return
            row, before, after, question = {**row, "meta": [*row["meta"], *facts.items()]}, (), (), text
        names = list(picture_ids(row["image_id"]))
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            own, data = self._written({"image_id": names[number]}, old, new, question)
            names[number] = own["image_id"]
            if data is not None:
                yield {"image_id": own["image_id"]}, data
        yield {**row, "question": question, "image_id": image_id_of(names)}, None

    def _batch_of_one_picture(self, part: Sequence[int], loads_images: bool) -> Iterator[tuple[dict[str, Any], bytes | None]]:
        rows = [self.rows[i] for i in part]
        images = list(map_ahead(self.dataset.image, part, self.stage.settings.workers)) if loads_images else [None] * len(part)
        questions = [row["question"] for row in rows]
        originals: Any = {"image": images, "text": questions, "cross": list(zip(images, questions, strict=True))}[self.modality]
        rngs = [random_generator(self.stage.seed, self.variant, row["sample_id"]) for row in rows]
        if self.context is None:
            items = self.function(originals, rngs)
        else:
            data = [self.dataset.encoded(i) for i in part]
            facts: list[dict[str, str]] = [{} for _ in part]
            items = self.function(replace(self.context, rows=rows, pictures=data, facts=facts), originals, rngs)
            rows = [{**row, "meta": [*row["meta"], *own.items()]} for row, own in zip(rows, facts, strict=True)]
        if not isinstance(items, list | tuple) or len(items) != len(rows):
            raise StageError(f"{self.file}: expected a list of as many items as it was given, {len(rows):,}, got {describe_value(items)}")
        for row, image, before, after in zip(rows, images, originals, items, strict=True):
            item = check_perturbed(self.file, f"variant {self.variant}: sample '{row['sample_id']}'", self.modality, before, after)
            if item is not None:
                picture, question = {"image": (item, row["question"]), "text": (image, item), "cross": item}[self.modality]
                yield self._written(row, image, picture, question)

    def _written(
        self, row: Mapping[str, Any], before: PIL.Image.Image | None, after: PIL.Image.Image | None, question: str
    ) -> tuple[dict[str, Any], bytes | None]:
        """Return (row with new question and image id, PNG; None if unchanged or written before)."""
        if after is None or before is None or after is before or after.tobytes() == before.tobytes():
            return {**row, "question": question}, None
        name = pixel_digest(after)[:32]
        new_row = {**row, "question": question, "image_id": name}
        if name in self.written:
            return new_row, None
        self.written.add(name)
        with io.BytesIO() as file:
            after.save(file, "PNG", compress_level=3)
            return new_row, file.getvalue()
