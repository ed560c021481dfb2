"""Write the samples and images of an adapter as the tables of a dataset folder, and rewrite them."""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

from qualm.registry.adapters import AdapterError, ImageConversionCounts, find_problem
from qualm.registry.formats.faults import Fault
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.plugins.registry import load
from qualm.registry.preparations import PreparationContext, PreparationError
from qualm.registry.sample import IMAGES, SAMPLES, Image, Sample
from qualm.registry.system import atomic
from qualm.runners.data.rows import as_row, as_sample, with_provenance
from qualm.runners.data.selection import StageSelection
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.records import ShardWriter, TableWriter, iterate_rows
from qualm.runners.runtime.stage import Stage, StageError


class BadRecords:
    """Collects bad records of an adapter; without `skip`, the first one ends the run."""

    def __init__(self, skip: bool, entry: str) -> None:
        self.skip = skip
        self.entry = entry
        self.faults: list[Fault] = []
        self.place: list[str] = []
        """Place of the record that the adapter reads, if it says so."""

    def note(self, error: AdapterError) -> None:
        if not self.skip:
            raise AdapterError(
                f"{error}; `qualm data check {self.entry}` lists all bad records, `skip_bad: true` leaves them out"
            ) from error
        self.faults.append(Fault(str(error), "bad records"))


class DatasetWriter:
    """Writes `samples.parquet` and `images/` of a dataset, and counts both in the stage."""

    def __init__(self, stage: Stage, bad: BadRecords) -> None:
        """Create an empty folder in the stage's scratch folder, deleting an earlier one."""
        self.stage, self.name, self.bad = stage, stage.params["dataset"], bad
        self.folder = stage.scratch / "dataset"
        self.table = self.folder / "samples.parquet"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    @property
    def n_samples(self) -> int:
        return self.stage.counters["samples"]

    def samples(self) -> list[Sample]:
        """Return the samples that are written, in order."""
        return [as_sample(row) for row in iterate_rows(self.table, SAMPLES)]

    def write(self, items: Iterable[Image | Sample], selection: StageSelection, selects: Callable[[Sample], bool]) -> None:
        """Write the samples that `selects` takes, and images; StageError if the source has none.

        Raises:
            StageError: an image comes twice, or there is no sample.
            AdapterError: a sample is bad, and bad ones are not skipped.
        """
        images: set[str] = set()
        needed: set[str] = set()
        samples: set[str] = set()
        shown = ImageConversionCounts()
        name, stage, bad = self.name, self.stage, self.bad
        stage.count(samples=0, images=0)
        with (
            progress(stage.settings, f"{name}: samples") as advance,
            ShardWriter(self.folder / "images", IMAGES) as pictures,
            TableWriter(self.table, with_provenance(stage, SAMPLES)) as rows,
        ):
            for item in items:
                if isinstance(item, Image):
                    if item.image_id in images:
                        raise StageError(f"dataset {name}: image '{item.image_id}' comes twice; image ids must be unique")
                    images.add(item.image_id)
                    shown.add(item)
                    pictures.write({"image_id": item.image_id, "image": {"bytes": item.data, "path": item.path}})
                    continue
                if problem := find_problem(item, images, samples):
                    at = f" (at {bad.place[0]})" if bad.place else ""
                    bad.note(AdapterError(f"dataset {name}: sample '{item.sample_id}'{problem}{at}"))
                    continue
                samples.add(item.sample_id)
                if selects(item):
                    needed.update(picture_ids(item.image_id))
                    rows.write(as_row(selection.mark(item)))
                    advance()
        if not samples and not selection.left_out:
            worst = f"; all {len(bad.faults):,} are bad, the first: {bad.faults[0].where}" if bad.faults else ""
            raise StageError(
                f"dataset {name}: adapter '{stage.params['adapter']}' gave no samples; look at its arguments: {stage.params['args']}{worst}"
            )
        stage.count(samples=rows.rows, images=len(images), **{k: n for k, n in shown.counts.items() if n}, **selection.finish(rows.rows))
        for note in shown.notes():
            print(f"{stage.key}: {note}", file=sys.stderr)
        if (selection.leaves_out or selects != selection.selects) and images - needed:
            self._keep_images(needed)

    def rewrite(self, rows: Iterable[Mapping[str, Any]]) -> int:
        """Replace the samples by these rows of SAMPLES; return how many fewer there are now.

        If they are fewer, images that none of them names are dropped.
        """
        before = self.n_samples
        needed: set[str] = set()
        with (
            progress(self.stage.settings, f"{self.name}: choosing samples") as advance,
            TableWriter(self.table, with_provenance(self.stage, SAMPLES)) as table,
        ):
            for row in rows:
                needed.update(picture_ids(row["image_id"]))
                table.write(row)
                advance()
        self.stage.counters.update(samples=table.rows)
        if table.rows < before:
            self._keep_images(needed)
        return before - table.rows

    def keep(self, chosen: Set[str]) -> int:
        """Drop samples without these ids and unneeded images; return how many were dropped."""
        if len(chosen) == self.n_samples:
            return 0
        return self.rewrite(row for row in iterate_rows(self.table, SAMPLES) if row["sample_id"] in chosen)

    def prepare(self, ref: Mapping[str, Any]) -> None:
        """Replace the samples by those a preparation makes; StageError if it leaves out all.

        Raises:
            StageError: the preparation fails, makes an invalid sample, or leaves out all.
        """
        originals = self.samples()
        try:
            left_out = self.rewrite(self._prepared(originals, ref))
        except PreparationError as error:
            raise StageError(str(error)) from error
        if left_out == len(originals):
            raise StageError(
                f"dataset {self.name}: {ref['plugin']} left out all of {len(originals):,} samples; `qualm ls preparations {ref['plugin']}`"
            )
        if left_out:
            self.stage.count(left_out_by_preparation=left_out)

    def _prepared(self, originals: list[Sample], ref: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        before = iter(originals)
        for sample in load("preparations", ref["plugin"])(PreparationContext(self.name, self.stage.seed), originals, **ref["args"]):
            if not any((s.sample_id, s.image_id, s.split) == (sample.sample_id, sample.image_id, sample.split) for s in before):
                raise StageError(f"dataset {self.name}: {ref['plugin']} gave sample '{sample.sample_id}', which is not among the next ones")
            if problem := find_problem(sample, picture_ids(sample.image_id), set()):
                raise StageError(f"dataset {self.name}: {ref['plugin']}: sample '{sample.sample_id}'{problem}")
            yield as_row(sample)

    def _keep_images(self, needed: Set[str]) -> None:
        """Rewrite the images, keeping those whose id is in `needed`."""
        with (
            progress(self.stage.settings, f"{self.name}: keeping images", len(needed)) as advance,
            ShardWriter(self.folder / ".images", IMAGES) as pictures,
        ):
            for row in iterate_rows(self.folder / "images", IMAGES, batch_size=64):
                if row["image_id"] in needed:
                    pictures.write(row)
                    advance()
        atomic.publish(self.folder / ".images", self.folder / "images")
        self.stage.counters["images"] = pictures.rows
