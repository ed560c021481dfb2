"""Stage `judge`: how right every open answer is. Multiple-choice answers are scored from their logits, not judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from registry import plugins
from registry.sample import GENERATIONS, JUDGEMENTS
from runners.frames import Samples, read_samples
from runners.records import read_table, write_table
from runners.stage import Stage, StageError


def run(stage: Stage) -> None:
    """Judge every text of every model on the open questions of every dataset; write one table."""
    from pathlib import Path

    judges = [(ref, plugins.load("judges", ref["plugin"])) for ref in stage.params["judges"]]
    datasets = {name: read_samples(name, folder) for name, folder in stage.inputs["datasets"].items()}
    rows: list[dict[str, Any]] = []
    for model, files in sorted(stage.inputs["generations"].items()):
        for dataset, path in sorted(files.items()):
            table = read_table(Path(path), GENERATIONS, ["sample_id", "variant", "draw", "text"])
            for ref, judge in judges:
                made = _judge(datasets[dataset], table, judge, ref, str(path))
                rows.extend({"model": model, "dataset": dataset} | row for row in made)
    stage.count(judgements=len(rows), unscored=sum(row["rating"] is None for row in rows))
    made_file = stage.scratch / "judgements.parquet"
    write_table(made_file, rows, JUDGEMENTS, stage.provenance)
    stage.publish(made_file, stage.outputs["judgements"])


def _judge(samples: Samples, table: pa.Table, judge: Any, ref: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Judgements of one model's open answers; an answer without text or without anything to compare with is unscored."""
    found = pc.index_in(table["sample_id"], value_set=samples.ids)
    if found.null_count:
        raise StageError(f"{where}: {found.null_count} answers are to samples that dataset '{samples.name}' does not have; run `dvc repro`")
    place = found.to_numpy().astype(np.int64)
    is_open = samples.n_options[place] == 0
    table, place = table.filter(pa.array(is_open)), place[is_open]
    facts = samples.table.select(["question", "references", "answerable"]).to_pylist()
    rows = [
        row
        | {
            "judge": ref["label"],
            "gt_is_idk": not facts[i]["answerable"],
            "rating": None,
            "pred_is_idk": None,
            "reply": None,
            "parse_ok": None,
        }
        for row, i in zip(table.to_pylist(), place, strict=True)
    ]
    texts = [row.pop("text") for row in rows]
    asked = [k for k, i in enumerate(place) if texts[k] is not None and (facts[i]["references"] or not facts[i]["answerable"])]
    judged = judge(
        [facts[place[k]]["question"] for k in asked],
        [facts[place[k]]["references"] if facts[place[k]]["answerable"] else [] for k in asked],
        [texts[k] for k in asked],
        **ref["args"],
    )
    if len(judged) != len(asked):
        raise StageError(f"{where}: judge '{ref['label']}' gave {len(judged)} judgements of {len(asked)} answers")
    for k, judgement in zip(asked, judged, strict=True):
        rows[k] |= {name: getattr(judgement, name) for name in ("rating", "pred_is_idk", "reply", "parse_ok")}
    return rows
