"""The `perturb` stage: one perturbation at one strength, made of whole datasets once and written down.

For perturbations that a model writes or looks for, so that every model is asked the same and nothing is paid for twice; and for any
other that is to be kept as images (`materialize: true`). What it writes is a dataset: `samples.parquet` with the questions as they
then are, and `images/` with the images that were changed, named by their content; an unchanged image lies in the dataset itself.
"""

import io
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import PIL.Image

from qualm.registry.formats.picture_lists import MARK, all_ids, image_id_of, picture_ids
from qualm.registry.plugins.registry import get, load
from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.contracts.generators import GeneratorError
from qualm.runners.contracts.perturbations import CONTEXT, MODALITIES, PerturbContext, PerturbError, random_generator
from qualm.runners.contracts.returned import check_perturbed, describe_value
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.answers import pixel_digest
from qualm.runners.data.data_cards import DataCard, parents_and_sources, write_card
from qualm.runners.data.dataset import BrokenSampleError, DatasetFolder, Variant
from qualm.runners.data.rows import with_provenance
from qualm.runners.data.scene_graphs import SceneGraphError, read_scenes
from qualm.runners.data.splits import split_rule
from qualm.runners.prompts.templates import PromptError
from qualm.runners.runtime.prefetch import map_ahead
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.records import ShardWriter, TableWriter
from qualm.runners.runtime.stage import Stage, StageError

KIND = StageKind(
    title="Perturb by {variant}",
    reads=("datasets", "cards"),
    writes={"perturbed": "perturbed/{variant}/{dataset}", "cards": "perturbed/{variant}/{dataset}.md"},
    colour="#ff9da6",
    seeded=True,
    costly=True,
)

WORDS, PICTURES = 256, 16
"""Samples in a batch: of questions alone, and where images are decoded."""


def run(stage: Stage) -> None:
    """Apply the stage's perturbation to each of its datasets; publish a folder for each.

    Samples that it cannot be applied to are left out and counted on the dataset's card.
    """
    chosen = stage.params
    plugin = get("perturbations", chosen["plugin"])
    modality = plugin.declares.get("MODALITY")
    if modality not in MODALITIES:
        raise StageError(f"{plugin.path}: MODALITY: expected one of {', '.join(MODALITIES)}, got {modality!r}")
    function = partial(load("perturbations", plugin.name), **chosen["args"])
    context = PerturbContext(stage.settings, stage.seed, chosen["variant"])
    folders: list[tuple[Path, str]] = []
    versions, sources = parents_and_sources(stage.inputs["datasets"], stage.inputs["cards"].values())
    try:
        for number, (name, folder) in enumerate(stage.inputs["datasets"].items()):
            dataset = DatasetFolder(name, Path(folder), split_rule(chosen, name))
            target = stage.scratch / str(number)
            shutil.rmtree(target, ignore_errors=True)
            asks = plugin.reads[:1] == (CONTEXT,)
            before = Counter(context.dropped)
            applied = _DatasetPerturber(stage, dataset, modality, function, context if asks else None).write(target)
            left_out = {f"samples: {reason}": n for reason, n in sorted((Counter(context.dropped) - before).items())}
            others = len(dataset.samples) - applied - sum(left_out.values())
            left_out |= {"samples: it cannot be applied to": others} if others > 0 else {}
            how = {key: chosen[key] for key in ("plugin", "args", "modality")}
            card = DataCard(f"{name}, {chosen['variant']}", stage.key, "perturbed", how, versions[number : number + 1], sources, left_out)
            write_card(stage, card, target, stage.outputs["cards"][name])
            folders.append((target, stage.outputs["perturbed"][name]))
    except (PerturbError, GeneratorError, PromptError, SceneGraphError, BrokenSampleError) as error:
        raise StageError(f"variant {chosen['variant']}: {error}") from error
    finally:
        stage.count(**context.counters)
        stage.count(**{f"dropped ({reason})": n for reason, n in sorted(context.dropped.items())})
    for path, place in folders:
        stage.publish(path, place)


class _DatasetPerturber:
    """Applies a perturbation to one dataset and writes the result."""

    def __init__(self, stage: Stage, dataset: DatasetFolder, modality: str, function: Any, context: PerturbContext | None) -> None:
        self.stage, self.dataset, self.modality, self.function = stage, dataset, modality, function
        self.variant, self.file = stage.params["variant"], str(get("perturbations", stage.params["plugin"]).path)
        self.rows: list[dict[str, Any]] = dataset.table.to_pylist()
        if context is not None:
            ids = all_ids(row["image_id"] for row in self.rows)
            scenes = cache(lambda: read_scenes(dataset.folder, ids, drawn=False) if (dataset.folder / "scenes").is_dir() else {})
            context = replace(context, scenes=scenes)
        self.context = context
        self.written: set[str] = set()

    def write(self, folder: Path) -> int:
        """Write the perturbed dataset in batches; return the number of samples."""
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

    def _batch(self, part: Sequence[int], loads_images: bool) -> Iterator[tuple[dict[str, Any], bytes | None]]:
        """Yield rows of the samples that can be perturbed, and each new image file.

        A sample with several images first yields rows that hold only the id of a new image.
        """
        several = [i for i in part if len(picture_ids(self.rows[i]["image_id"])) > 1]
        if not several:
            yield from self._batch_of_one_picture(part, loads_images)
            return
        for i in part:
            yield from self._several(i) if i in several else self._batch_of_one_picture([i], loads_images)

    def _several(self, place: int) -> Iterator[tuple[dict[str, Any], bytes | None]]:
        """Yield rows with new image files of a sample with several images, then its row."""
        row, item = self.rows[place], self.dataset.item(place)
        if self.context is None:
            variant = Variant(self.variant, self.modality, self.function, module=get("perturbations", self.stage.params["plugin"]).module)
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
        self, row: Mapping[str, Any], image: PIL.Image.Image | None, picture: PIL.Image.Image | None, question: str
    ) -> tuple[dict[str, Any], bytes | None]:
        """Return the sample's new row, and the PNG file of its image if that is new."""
        if picture is None or image is None or picture is image or picture.tobytes() == image.tobytes():
            return {**row, "question": question}, None
        name = pixel_digest(picture)[:32]
        new_row = {**row, "question": question, "image_id": name}
        if name in self.written:
            return new_row, None
        self.written.add(name)
        with io.BytesIO() as file:
            picture.save(file, "PNG", compress_level=3)
            return new_row, file.getvalue()
