"""Stage `estimate`: one uncertainty per greedy answer and estimator, from that answer and those sampled beside it.

Estimators are given the answers of many models, datasets and variants at once, since those that compare texts by a model of
inference are fast only in large batches; what they say of a row depends on that row alone.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from qualm.registry.sample import UNCERTAINTIES
from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.sampled_answers import Block, read_blocks
from qualm.runners.runtime.records import make_table, publish_table
from qualm.runners.runtime.stage import Stage
from qualm.runners.scoring.apply_estimator import LabelledEstimator, estimator_values, labelled_estimator, values_from_internals

KIND = StageKind(
    title="Estimate uncertainty",
    reads=("datasets", "generations", "internals"),
    writes={"uncertainties": "uncertainties.parquet"},
    colour="#54a24b",
)

GROUP_ANSWERS = 50_000
"""Greedy answers that are handed to an estimator together, more or less: whole files."""


def run(stage: Stage) -> None:
    """Apply every estimator to all answers; write one table of uncertainties."""
    estimators = [labelled_estimator(ref) for ref in stage.params["estimators"]]
    context = EstimatorContext(stage.settings, Counter())
    parts = [UNCERTAINTIES.empty_table()]
    try:
        for blocks in _group_blocks(read_blocks(stage, sorted({c for e in estimators for c in e.reads}))):
            parts += _estimated(stage, estimators, context, blocks)
    finally:
        stage.count(**context.counters)
    publish_table(stage, "uncertainties", pa.concat_tables(parts), UNCERTAINTIES)


def _group_blocks(blocks: Iterator[Block]) -> Iterator[list[Block]]:
    """Yield lists of consecutive blocks with GROUP_ANSWERS answers or more; the last may have fewer."""
    group: list[Block] = []
    for block in blocks:
        group.append(block)
        if sum(len(b.ids) for b in group) >= GROUP_ANSWERS:
            yield group
            group = []
    if group:
        yield group


def _estimated(stage: Stage, estimators: list[LabelledEstimator], context: EstimatorContext, blocks: list[Block]) -> list[pa.Table]:
    """Return an UNCERTAINTIES table per block and estimator that has what it reads there."""
    left_out = stage.params.get("left_out", {})
    by_estimator: list[dict[int, pa.Array | None]] = []
    for estimator in estimators:
        mine = [number for number, block in enumerate(blocks) if estimator.label not in left_out.get(block.model, ())]
        sizes = [len(blocks[number].ids) for number in mine]
        if estimator.internals:
            by_estimator.append({number: values_from_internals(estimator, blocks[number], context) for number in mine})
            continue
        whole = {c: _joined([blocks[number].columns[c] for number in mine]) for c in estimator.reads if mine}
        values = estimator_values(estimator, whole, sum(sizes), context)
        starts = np.cumsum([0, *sizes]).tolist()
        by_estimator.append({number: values.slice(start, size) for number, start, size in zip(mine, starts, sizes, strict=False)})
    parts = []
    for number, block in enumerate(blocks):
        size = len(block.ids)
        for estimator, by_block in zip(estimators, by_estimator, strict=True):
            if number not in by_block:
                continue
            own = by_block[number]
            if own is None or (size and any(block.columns[c].null_count == size for c in estimator.reads)):
                stage.count(**{"without what an estimator reads": size})  # draws of multiple choice, say: nobody is unscored by that
                continue
            stage.count(uncertainties=len(own), undefined=own.null_count)
            texts = {"model": block.model, "dataset": block.dataset, "variant": block.variant, "estimator": estimator.label}
            parts.append(make_table(UNCERTAINTIES, texts, {"sample_id": block.ids, "value": own}))
    return parts


def _joined(parts: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)
