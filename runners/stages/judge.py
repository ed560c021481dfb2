"""Stage `judge`: how right every open answer is. Multiple-choice answers are scored from their logits, and judged where they are words.

Whether declining is right follows from the sample's label, never from a judge.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry.sample import GENERATIONS, JUDGEMENTS
from qualm.runners.contracts.judges import JudgeError
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import read_greedy, read_samples
from qualm.runners.plugins.judges._refusals import read_abstention
from qualm.runners.results.judge_fit import AnswerLengths
from qualm.runners.results.judge_reliability import LabelError, read_labels, reliability_of_judges
from qualm.runners.runtime.records import read_table, write_parts
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.apply_judge import Answered
from qualm.runners.scoring.judge_queue import VERDICT, JudgeQueue, answers_in_words, sample_rows

KIND = StageKind(
    title="Judge open answers",
    reads=("datasets", "generations", "labels"),
    writes={"judgements": "judgements.parquet", "judging": "judging.json"},
    colour="#72b7b2",
    costly=True,
)

_SLICE = 8192
"""Answers that are Python's objects at a time."""
_ANSWER = pa.schema([JUDGEMENTS.field(name) for name in ("sample_id", "variant", "draw", "gt_is_idk")])


def run(stage: Stage) -> None:
    """Judge all greedy answers in words (with `draws`, sampled too); write a table of ratings."""
    datasets = {name: read_samples(name, folder) for name, folder in stage.inputs["datasets"].items()}
    judges = [JudgeQueue(stage, ref, _hedges) for ref in stage.params["judges"]]
    blocks: list[tuple[str, str, pa.Table]] = []
    lengths: list[AnswerLengths] = []
    for model, files in sorted(stage.inputs["generations"].items()):
        for dataset, path in sorted(files.items()):
            names = ["sample_id", "variant", "draw", "text", "option_logits"]
            table = read_table(Path(path), GENERATIONS, names) if stage.params.get("draws") else read_greedy(path, names)
            place, parts = sample_rows(datasets[dataset], table, str(path)), [_ANSWER.empty_table()]
            lengths.append(AnswerLengths())
            for one in judges:
                one.begin_block(dataset)
            for start in range(0, table.num_rows, _SLICE):
                rows, answers = answers_in_words(datasets[dataset], table.slice(start, _SLICE), place[start : start + _SLICE])
                parts.append(pa.Table.from_pylist(rows, schema=_ANSWER))
                lengths[-1].add(answers)
                for one in judges:
                    one.add(answers)
            blocks.append((model, dataset, pa.concat_tables(parts)))
    stage.count(judgements=0, unscored=0)  # what is said first of the stage; judges count more
    verdicts = [one.table() for one in judges]
    file = stage.scratch / "judgements.parquet"
    write_parts(file, _judgements(stage, judges, blocks, verdicts, lengths), JUDGEMENTS, stage.provenance)
    if "labels" in stage.inputs:
        _reliability(stage)
    stage.publish(file, stage.outputs["judgements"])


def _judgements(
    stage: Stage,
    judges: Sequence[JudgeQueue],
    blocks: Sequence[tuple[str, str, pa.Table]],
    verdicts: Sequence[pa.Table],
    lengths: Sequence[AnswerLengths],
) -> Iterator[pa.Table]:
    """Yield a table of JUDGEMENTS per block and judge; print where a judge does not fit."""
    stage.count(judgements=0, unscored=0)
    for k, (model, dataset, answered) in enumerate(blocks):
        for one, what in zip(judges, verdicts, strict=True):
            rows_of_judge, numbers = one.of_block(k)
            whole = pa.Table.from_arrays(
                [*answered.take(rows_of_judge).columns, *what.take(numbers).columns], [*_ANSWER.names, *VERDICT.names]
            )
            for name, value in {"model": model, "dataset": dataset, "judge": one.label}.items():
                whole = whole.append_column(name, pa.repeat(value, whole.num_rows))
            stage.count(judgements=whole.num_rows, unscored=whole["rating"].null_count)
            rated = whole.filter(pc.and_(pc.invert(whole["gt_is_idk"]), pc.is_valid(whole["rating"])))["rating"]
            right = pc.sum(pc.greater(rated, 0)).as_py() or 0
            for misfit in lengths[k].misfits(one.label, one.plugin, right, len(rated)):
                print(f"{stage.key}: model '{model}', dataset '{dataset}': {misfit}", file=sys.stderr)
            yield whole.select(JUDGEMENTS.names)


def _reliability(stage: Stage) -> None:
    """Write and publish how well the judges agree with people's labels, as JSON."""
    counters: Counter[str] = Counter()
    try:
        agreement = reliability_of_judges(stage.params["judges"], read_labels(Path(stage.inputs["labels"])), stage.settings, counters)
    except (JudgeError, LabelError) as error:
        raise StageError(str(error)) from error
    finally:
        stage.count(**counters)
    file = stage.scratch / "judging.json"
    file.write_text(json.dumps(agreement, indent=1, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
    stage.publish(file, stage.outputs["judging"])


def _hedges(answer: Answered) -> bool:
    """Return True if the rules find a caveat or an abstention in an answer."""
    reading = read_abstention(answer.prediction, answer.question, answer.choices)
    return reading.hedges or reading.abstains
