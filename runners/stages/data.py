"""The `data` stage: run a dataset adapter and write its samples and images as one folder of tables.

The folder holds `samples.parquet`, `images/00000.parquet`... and whatever else the adapter leaves there. Of the samples that
`where` selects (all unless given) and `prepare` makes over, a `limit` takes a seeded share of every category; raising it only adds.
`balance` takes so many of each class instead. If nothing else depends on images, the samples are chosen before any image is read. With
`answerable_by`, a judge reads the references first.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from qualm.registry.adapters import ALPHA, FRAMES, AdapterContext, AdapterError, count_processes
from qualm.registry.formats.faults import Fault
from qualm.registry.plugins.registry import load
from qualm.registry.system.dvc_files import find_dvc_file
from qualm.runners.contracts.judges import JudgeError
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.balance import TAKEN
from qualm.runners.data.data_cards import DataCard, write_card
from qualm.runners.data.dataset_writer import BadRecords, DatasetWriter
from qualm.runners.data.rows import as_row, report_left_out
from qualm.runners.data.selection import StageSelection, choose_samples, draw_balanced, draw_limited, is_early
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
    source = stage.inputs.get("source")
    selection = StageSelection(stage.params["dataset"], stage.params)
    bad = BadRecords(stage.params.get("skip_bad", False), Path(source).name if source else "NAME")
    writer = DatasetWriter(stage, bad)
    context = AdapterContext(
        writer.folder,
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
        writer.write(adapter(context, **stage.params["args"]), selection, context.selects)
    except AdapterError as error:
        raise StageError(str(error)) from error
    asked = _decide_answerable(stage, writer, stage.params["answerable_by"]) if "answerable_by" in stage.params else Counter()
    report_left_out(stage.params["dataset"], bad.faults, stage)
    if "prepare" in stage.params:
        writer.prepare(stage.params["prepare"])
    limit = stage.params["limit"]
    if choice is not None:
        stage.count(**choice.counts)
    elif "balance" in stage.params:
        drawn = draw_balanced(stage.params, writer.folder)
        writer.keep(drawn.ids)
        stage.count(**drawn.counts)
    elif limit is not None and (left_out := writer.keep(draw_limited(stage.params, stage.seed, writer.folder))):
        stage.count(left_out=left_out)
    write_card(stage, _card(stage, source), writer.folder, stage.outputs["card"])
    stage.count(**asked)
    stage.publish(writer.folder, stage.outputs["dataset"])


def _card(stage: Stage, source: str | None) -> DataCard:
    """Return the dataset's card: source, parameters, and what was left out."""
    tracked = find_dvc_file(Path.cwd(), source) if source else None
    parents = [{"name": source, "version": tracked[1] if tracked else None}] if source else []
    params = {k: v for k, v in stage.params.items() if k not in ("dataset", "about") and v not in (None, {})}
    kept = ("samples", "images", ALPHA, FRAMES)
    left_out = {reason: n for reason, n in stage.counters.items() if reason not in kept and not reason.startswith(TAKEN) and n}
    return DataCard(stage.params["dataset"], stage.key, "data", params, parents, [stage.params["about"]], left_out)


def _decide_answerable(stage: Stage, writer: DatasetWriter, ref: Mapping[str, Any]) -> Counter[str]:
    """Rewrite the samples with `answerable` decided by a judge; return the judge's counters."""
    name, samples, counters = stage.params["dataset"], writer.samples(), Counter[str]()
    try:
        decided = decide_answerable(samples, {"label": ref["plugin"], **ref}, stage.settings, counters)
    except JudgeError as error:
        raise StageError(f"dataset {name}: answerable_by: {error}") from error
    if not decided.samples:
        raise StageError(
            f"dataset {name}: answerable_by: the judge {ref['plugin']} could read none of {len(samples):,} samples' references"
        )
    writer.bad.faults += [Fault(f"sample '{sample}'", "reference cannot be read", reply) for sample, reply in decided.unread.items()]
    writer.rewrite(as_row(sample) for sample in decided.samples)
    print(f"{stage.key}: {decided.summary}", file=sys.stderr)
    return counters
