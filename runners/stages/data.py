"""The `data` stage: run a dataset adapter and write its samples and images as one folder of tables.

The folder holds `samples.parquet`, `images/00000.parquet`... and whatever else the adapter leaves there. Of the samples that
`where` selects (all unless given) and `prepare` makes over, a `limit` takes a seeded share of every category; raising it only adds.
`balance` takes so many of each class instead. If nothing else depends on images, the samples are chosen before any image is read. With
`answerable_by`, a judge reads the references first.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from qualm.registry.adapters import ALPHA, FRAMES, AdapterContext, AdapterError, ImageConversionCounts, count_processes, find_problem
from qualm.registry.formats import atomic
from qualm.registry.formats.faults import Fault
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.plugins.registry import load
from qualm.registry.preparations import PreparationContext, PreparationError
from qualm.registry.sample import IMAGES, SAMPLES, Image, Sample
from qualm.registry.system.dvc_files import find_dvc_file
from qualm.runners.contracts.judges import JudgeError
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.balance import TAKEN
from qualm.runners.data.data_cards import DataCard, write_card
from qualm.runners.data.rows import as_row, as_sample, report_left_out, with_provenance
from qualm.runners.data.selection import StageSelection, choose_samples, draw_balanced, draw_limited, is_early
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.records import ShardWriter, TableWriter, iterate_rows
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.measuring.reference_abstentions import decide_answerable

KIND = StageKind(
    title="Samples of {dataset}",
    reads=("source", "ask_answerable"),
    writes={"dataset": "data/{dataset}", "card": "data/{dataset}.md"},
    colour="#4c78a8",
    seeded=True,
    costly=True,
)


def run(stage: Stage) -> None:
    """Run the dataset's adapter; select, prepare and limit samples; publish one folder."""
    if stage.params["adapter"] is None:
        name, card, missing = (stage.params[k] for k in ("dataset", "card", "missing"))
        raise StageError(
            f"dataset {name}: nothing here reads the files of the card '{card}' yet; missing: {missing}. "
            "Write registry/adapters/NAME.py (docs/how-to/plugins.md), name it as the card's `adapter`, and compile again"
        )
    folder = stage.scratch / "dataset"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    source = stage.inputs.get("source")
    selection = StageSelection(stage.params["dataset"], stage.params)
    bad = BadRecords(stage.params.get("skip_bad", False), Path(source).name if source else "NAME")
    context = AdapterContext(
        folder,
        stage.seed,
        Path(source) if source else None,
        count_processes(stage.settings.workers),
        selection.selects,
        bad.note,
        lambda text: print(f"{stage.key}: {text}", file=sys.stderr),
        bad.place,
        "answerable_by" in stage.params,
    )
    adapter = load("datasets", stage.params["adapter"])
    try:
        choice = choose_samples(stage.params, context) if is_early(stage.params, source is not None) else None
        if choice is not None:
            chosen = choice.ids
            context = replace(context, selects=lambda sample: selection.selects(sample) and sample.sample_id in chosen)
        _write(stage, folder, adapter(context, **stage.params["args"]), selection, context.selects, bad)
    except AdapterError as error:
        raise StageError(str(error)) from error
    asked = _decide_answerable(stage, folder, stage.params["answerable_by"], bad) if "answerable_by" in stage.params else Counter()
    report_left_out(stage.params["dataset"], bad.faults, stage)
    if "prepare" in stage.params:
        _prepare(stage, folder, stage.params["prepare"])
    limit = stage.params["limit"]
    if choice is not None:
        stage.count(**choice.counts)
    elif "balance" in stage.params:
        _balance(stage, folder)
    elif limit is not None and (not isinstance(limit, int) or limit < stage.counters["samples"]):
        limited = draw_limited(stage.params, stage.seed, folder)
        if len(limited) < stage.counters["samples"]:
            _keep_samples(stage, folder, limited)
    write_card(stage, _card(stage, source), folder, stage.outputs["card"])
    stage.count(**asked)
    stage.publish(folder, stage.outputs["dataset"])


def _card(stage: Stage, source: str | None) -> DataCard:
    """Return the dataset's card: source, parameters, and what was left out."""
    tracked = find_dvc_file(Path.cwd(), source) if source else None
    parents = [{"name": source, "version": tracked[1] if tracked else None}] if source else []
    params = {k: v for k, v in stage.params.items() if k not in ("dataset", "about") and v not in (None, {})}
    kept = ("samples", "images", ALPHA, FRAMES)
    left_out = {reason: n for reason, n in stage.counters.items() if reason not in kept and not reason.startswith(TAKEN) and n}
    return DataCard(stage.params["dataset"], stage.key, "data", params, parents, [stage.params["about"]], left_out)


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


def _write(
    stage: Stage,
    folder: Path,
    items: Iterable[Image | Sample],
    selection: StageSelection,
    selects: Callable[[Sample], bool],
    bad: BadRecords,
) -> None:
    """Write the selected samples and images of an adapter to tables, and check them."""
    images: set[str] = set()
    needed: set[str] = set()
    samples: set[str] = set()
    shown = ImageConversionCounts()
    name = stage.params["dataset"]
    stage.count(samples=0, images=0)
    with (
        progress(stage.settings, f"{name}: samples") as advance,
        ShardWriter(folder / "images", IMAGES) as pictures,
        TableWriter(folder / "samples.parquet", with_provenance(stage, SAMPLES)) as rows,
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
    if not samples:
        worst = f"; all {len(bad.faults):,} are bad, the first: {bad.faults[0].where}" if bad.faults else ""
        raise StageError(
            f"dataset {name}: adapter '{stage.params['adapter']}' gave no samples; look at its arguments: {stage.params['args']}{worst}"
        )
    stage.count(samples=rows.rows, images=len(images), **{k: n for k, n in shown.counts.items() if n}, **selection.finish(rows.rows))
    for note in shown.notes():
        print(f"{stage.key}: {note}", file=sys.stderr)
    if (selection.leaves_out or selects != selection.selects) and images - needed:
        _keep_images(stage, folder, needed)


def _prepare(stage: Stage, folder: Path, ref: Mapping[str, Any]) -> None:
    """Rewrite the samples by a preparation plugin, and drop images that are not needed."""
    name, table = stage.params["dataset"], folder / "samples.parquet"
    originals = [as_sample(row) for row in iterate_rows(table, SAMPLES)]
    prepare = load("preparations", ref["plugin"])
    before = iter(originals)
    needed: set[str] = set()
    with TableWriter(folder / "samples.parquet", with_provenance(stage, SAMPLES)) as rows:
        try:
            for sample in prepare(PreparationContext(name, stage.seed), originals, **ref["args"]):
                if not any((s.sample_id, s.image_id, s.split) == (sample.sample_id, sample.image_id, sample.split) for s in before):
                    raise StageError(f"dataset {name}: {ref['plugin']} gave sample '{sample.sample_id}', which is not among the next ones")
                if problem := find_problem(sample, picture_ids(sample.image_id), set()):
                    raise StageError(f"dataset {name}: {ref['plugin']}: sample '{sample.sample_id}'{problem}")
                needed.update(picture_ids(sample.image_id))
                rows.write(as_row(sample))
        except PreparationError as error:
            raise StageError(str(error)) from error
    if not rows.rows:
        raise StageError(
            f"dataset {name}: {ref['plugin']} left out all of {len(originals):,} samples; `qualm ls preparations {ref['plugin']}`"
        )
    stage.counters.update(samples=rows.rows)
    if rows.rows < len(originals):
        stage.count(left_out_by_preparation=len(originals) - rows.rows)
        _keep_images(stage, folder, needed)


def _decide_answerable(stage: Stage, folder: Path, ref: Mapping[str, Any], bad: BadRecords) -> Counter[str]:
    """Rewrite the samples with `answerable` decided by a judge; return the judge's counters."""
    name, table, counters = stage.params["dataset"], folder / "samples.parquet", Counter[str]()
    samples = [as_sample(row) for row in iterate_rows(table, SAMPLES)]
    try:
        decided = decide_answerable(samples, {"label": ref["plugin"], **ref}, stage.settings, counters)
    except JudgeError as error:
        raise StageError(f"dataset {name}: answerable_by: {error}") from error
    if not decided.samples:
        raise StageError(
            f"dataset {name}: answerable_by: the judge {ref['plugin']} could read none of {len(samples):,} samples' references"
        )
    bad.faults += [Fault(f"sample '{sample}'", "reference cannot be read", reply) for sample, reply in decided.unread.items()]
    with TableWriter(table, with_provenance(stage, SAMPLES)) as rows:
        rows.extend(as_row(sample) for sample in decided.samples)
    stage.counters.update(samples=rows.rows)
    if decided.unread:
        _keep_images(stage, folder, {i for sample in decided.samples for i in picture_ids(sample.image_id)})
    print(f"{stage.key}: {decided.summary}", file=sys.stderr)
    return counters


def _balance(stage: Stage, folder: Path) -> None:
    """Keep as many samples of each class as `balance:` says."""
    drawn = draw_balanced(stage.params, folder)
    if len(drawn.ids) < stage.counters["samples"]:
        _keep_samples(stage, folder, drawn.ids)
        del stage.counters["left_out"]
    stage.count(**drawn.counts)


def _keep_samples(stage: Stage, folder: Path, chosen: Set[str]) -> None:
    """Rewrite the tables with the chosen sample ids and the images they need, in order."""
    table = folder / "samples.parquet"
    needed: set[str] = set()

    def samples() -> Iterator[Mapping[str, Any]]:
        for row in iterate_rows(table, SAMPLES):
            advance()
            if row["sample_id"] in chosen:
                needed.update(picture_ids(row["image_id"]))
                yield row

    with (
        progress(stage.settings, f"{stage.params['dataset']}: choosing samples", stage.counters["samples"]) as advance,
        TableWriter(folder / "samples.parquet", with_provenance(stage, SAMPLES)) as rows,
    ):
        rows.extend(samples())
    stage.counters.update(samples=rows.rows, left_out=stage.counters["samples"] - rows.rows)
    _keep_images(stage, folder, needed)


def _keep_images(stage: Stage, folder: Path, needed: Set[str]) -> None:
    """Rewrite the images, keeping those whose id is in `needed`."""
    with (
        progress(stage.settings, f"{stage.params['dataset']}: keeping images", len(needed)) as advance,
        ShardWriter(folder / ".images", IMAGES) as pictures,
    ):
        for row in iterate_rows(folder / "images", IMAGES, batch_size=64):
            if row["image_id"] in needed:
                pictures.write(row)
                advance()
    atomic.publish(folder / ".images", folder / "images")
    stage.counters["images"] = pictures.rows
