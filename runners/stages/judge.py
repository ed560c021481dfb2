"""Stage `judge`: how right every open answer is. Multiple-choice answers are scored from their logits, and judged where they are words.

Whether declining is right follows from the sample's label, never from a judge.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry.sample import GENERATIONS, GREEDY, JUDGEMENTS
from qualm.runners.contracts.judges import JudgeError
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import Samples, read_samples
from qualm.runners.prompts.question import LETTERS
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.apply_judge import Answered, judge, takes_choices, takes_open
from qualm.runners.studies.judge_reliability import LabelError, all_judges, read_labels

KIND = StageKind(
    title="Judge open answers",
    reads=("datasets", "generations", "labels"),
    writes={"judgements": "judgements.parquet", "judging": "judging.json"},
    colour="#72b7b2",
    costly=True,
)

Rows = list[dict[str, Any]]
Block = tuple[Rows, list[Answered | None]]
"""Rows of one model and data set, and what is to be judged of each."""


def run(stage: Stage) -> None:
    """Judge every greedy answer in words of every model to every dataset; write one table."""
    datasets = {name: read_samples(name, folder) for name, folder in stage.inputs["datasets"].items()}
    blocks: list[Block] = []
    for model, files in sorted(stage.inputs["generations"].items()):
        for dataset, path in sorted(files.items()):
            table = read_table(Path(path), GENERATIONS, ["sample_id", "variant", "draw", "text", "option_logits"])
            table = table.filter(pc.equal(table["draw"], GREEDY))  # sampled answers say how sure the model is; nothing scores them
            rows, answers = _answers(datasets[dataset], table, str(path))
            blocks.append(([{"model": model, "dataset": dataset, **row} for row in rows], answers))
    by_judge = {ref["label"]: _judged(stage, ref, _its_blocks(stage, ref, blocks)) for ref in stage.params["judges"]}
    rows = [row for k in range(len(blocks)) for of in by_judge.values() for row in of[k]]
    stage.count(judgements=len(rows), unscored=sum(row["rating"] is None for row in rows))
    file = stage.scratch / "judgements.parquet"
    write_table(file, rows, JUDGEMENTS, stage.provenance)
    if "labels" in stage.inputs:
        _reliability(stage)
    stage.publish(file, stage.outputs["judgements"])


def _reliability(stage: Stage) -> None:
    """What the judges say of answers that people have judged."""
    counters: Counter[str] = Counter()
    try:
        agreement = all_judges(stage.params["judges"], read_labels(Path(stage.inputs["labels"])), stage.settings, counters)
    except (JudgeError, LabelError) as error:
        raise StageError(str(error)) from error
    finally:
        stage.count(**counters)
    file = stage.scratch / "judging.json"
    file.write_text(json.dumps(agreement, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    stage.publish(file, stage.outputs["judging"])


def _its_blocks(stage: Stage, ref: dict[str, Any], blocks: list[Block]) -> list[Block]:
    """The blocks as one judge has them: empty where their data set names other judges, without answers of the kind it is not for."""
    only, filtered, kinds = stage.params.get("only", {}), [], {True: takes_choices(ref), False: takes_open(ref)}
    for rows, answers in blocks:
        named = not rows or ref["label"] in only.get(rows[0]["dataset"], [ref["label"]])
        suitable = [(row, answer) for row, answer in zip(rows, answers, strict=True) if named and kinds[_has_choices(answer)]]
        filtered.append(([row for row, _ in suitable], [answer for _, answer in suitable]))
    return filtered


def _judged(stage: Stage, ref: dict[str, Any], blocks: list[Block]) -> list[Rows]:
    """The rows of every block with what one judge says of them; nothing where there is nothing to judge."""
    counters: Counter[str] = Counter()
    to_judge = [answer for _, answers in blocks for answer in answers if answer is not None]
    try:
        judgements = iter(judge(ref, to_judge, stage.settings, counters))
    except JudgeError as error:
        raise StageError(str(error)) from error
    finally:
        stage.count(**counters)
    by_block = []
    for rows, answers in blocks:
        block = []
        for row, answer in zip(rows, answers, strict=True):
            one = next(judgements) if answer is not None else None
            judgement = {name: getattr(one, name, None) for name in ("rating", "pred_is_idk", "reply", "parse_ok")}
            marks = list(one.marks.items()) if one and one.marks else None
            block.append({**row, "judge": ref["label"], **judgement, "marks": marks})
        by_block.append(block)
    return by_block


def _has_choices(answer: Answered | None) -> bool:
    return answer is not None and bool(answer.choices)


def _answers(samples: Samples, table: pa.Table, where: str) -> tuple[Rows, list[Answered | None]]:
    """Answers of one model to open questions; None for one without text or without anything to compare with, which stays unscored.
    And those to multiple-choice questions that are text and no numbers."""
    index = pc.index_in(table["sample_id"], value_set=samples.ids)
    if index.null_count:
        raise StageError(f"{where}: {index.null_count} answers are to samples that dataset '{samples.name}' does not have; run `dvc repro`")
    place = index.to_numpy().astype(np.int64)
    numbered = pc.greater(pc.fill_null(pc.list_value_length(table["option_logits"]), 0), 0)
    in_words = (
        pc.and_(pc.is_valid(table["text"]), pc.invert(numbered)).to_numpy() & ((samples.truth >= 0) | (samples.answerable == 0))[place]
    )
    judged = (samples.n_options[place] == 0) | in_words
    facts = samples.table.select(["question", "references", "answerable", "choices", "answer_index"]).to_pylist()
    rows: Rows = []
    answers: list[Answered | None] = []
    for row, i in zip(table.drop_columns("option_logits").filter(pa.array(judged)).to_pylist(), place[judged], strict=True):
        fact, text = facts[i], row.pop("text")
        if fact["choices"]:
            right = fact["answer_index"]
            references = (fact["choices"][right], LETTERS[right]) if fact["answerable"] else ()
            rows.append({**row, "gt_is_idk": not fact["answerable"]})
            answers.append(Answered(fact["question"], references, text, choices=tuple(fact["choices"])))
            continue
        answers_of_people = tuple(fact["references"] or ())
        references, people = (answers_of_people, ()) if fact["answerable"] else ((), answers_of_people)
        rows.append({**row, "gt_is_idk": not fact["answerable"]})
        fits = text is not None and (references or not fact["answerable"])
        answers.append(Answered(fact["question"], references, text, people, samples.evidence[i] or "") if fits else None)
    return rows, answers
