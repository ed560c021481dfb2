"""Stage `judge`: how right every open answer is. Multiple-choice answers are scored from their logits, and judged where they are words.

Whether declining is right follows from the sample's label, never from a judge.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry.sample import GENERATIONS, JUDGEMENTS
from qualm.runners.contracts.judges import JudgeError, Judgement
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import Samples, read_greedy, read_samples
from qualm.runners.data.key_index import KeyIndex, Keys
from qualm.runners.plugins.judges._refusals import read_abstention
from qualm.runners.prompts.question import LETTERS
from qualm.runners.results.judge_fit import AnswerLengths
from qualm.runners.results.judge_reliability import LabelError, read_labels, reliability_of_judges
from qualm.runners.runtime.records import read_table, write_parts
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.apply_judge import Answered, judge, takes_choices, takes_open

KIND = StageKind(
    title="Judge open answers",
    reads=("datasets", "generations", "labels"),
    writes={"judgements": "judgements.parquet", "judging": "judging.json"},
    colour="#72b7b2",
    costly=True,
)

Rows = list[dict[str, Any]]

AT_ONCE = 100_000
"""Different answers that a judge is given together; a million of them, with all that stands beside them, take gigabytes."""
_SLICE = 8192
"""Answers that are Python's objects at a time."""
_VERDICT = pa.schema([JUDGEMENTS.field(name) for name in ("rating", "pred_is_idk", "reply", "parse_ok", "marks", "hedges")])
_ANSWER = pa.schema([JUDGEMENTS.field(name) for name in ("sample_id", "variant", "draw", "gt_is_idk")])


def run(stage: Stage) -> None:
    """Judge every answer in words, greedy and sampled; write one table of judgements."""
    datasets = {name: read_samples(name, folder) for name, folder in stage.inputs["datasets"].items()}
    judges = [_JudgeQueue(stage, ref) for ref in stage.params["judges"]]
    blocks: list[tuple[str, str, pa.Table]] = []
    lengths: list[AnswerLengths] = []
    for model, files in sorted(stage.inputs["generations"].items()):
        for dataset, path in sorted(files.items()):
            names = ["sample_id", "variant", "draw", "text", "option_logits"]
            table = read_table(Path(path), GENERATIONS, names) if stage.params.get("draws") else read_greedy(path, names)
            place, parts = _places(datasets[dataset], table, str(path)), [_ANSWER.empty_table()]
            lengths.append(AnswerLengths())
            for one in judges:
                one.begin_block(dataset)
            for start in range(0, table.num_rows, _SLICE):
                rows, answers = _to_judge(datasets[dataset], table.slice(start, _SLICE), place[start : start + _SLICE])
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
    judges: Sequence[_JudgeQueue],
    blocks: Sequence[tuple[str, str, pa.Table]],
    verdicts: Sequence[pa.Table],
    lengths: Sequence[AnswerLengths],
) -> Iterator[pa.Table]:
    """Yield tables of JUDGEMENTS, per (model, dataset) block and judge; print misfits."""
    stage.count(judgements=0, unscored=0)
    for k, (model, dataset, answered) in enumerate(blocks):
        for one, what in zip(judges, verdicts, strict=True):
            rows_of_judge, numbers = one.of_block(k)
            whole = pa.Table.from_arrays(
                [*answered.take(rows_of_judge).columns, *what.take(numbers).columns], [*_ANSWER.names, *_VERDICT.names]
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
    """Write how well the judges agree with people's labels."""
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


class _JudgeQueue:
    """Collects the answers for one judge, and has each distinct answer judged once."""

    def __init__(self, stage: Stage, ref: dict[str, Any]) -> None:
        self.label: str = ref["label"]
        self.plugin: str = ref["plugin"]
        self._stage, self._ref = stage, ref
        self._only, self._kinds = stage.params.get("only", {}), {True: takes_choices(ref), False: takes_open(ref)}
        self._recent: dict[bytes, int] = {}
        """Digest of an answer -> its number in order of judging; of most answers it is in `_index`, in a quarter of the memory."""
        self._sealed: list[Keys] = []
        self._index, self._starts = KeyIndex([]), [0]
        self._waiting: list[Answered] = []
        self._parts = [_VERDICT.empty_table()]
        self._blocks: list[list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = []
        self._row, self._repeated, self._is_named = 0, 0, True

    def begin_block(self, dataset: str) -> None:
        """Start a block: the answers of one model to one dataset that this judge may rate."""
        self._blocks.append([])
        self._row, self._is_named = 0, self.label in self._only.get(dataset, [self.label])

    def add(self, answers: Sequence[Answered | None]) -> None:
        """Add the block's next answers, except those that other judges rate."""
        suitable = [(self._row + k, a) for k, a in enumerate(answers) if self._is_named and self._kinds[_has_choices(a)]]
        if len(self._recent) >= AT_ONCE:
            self._seal()
        digests = [hashlib.blake2b(repr(answer).encode("utf-8", "surrogatepass"), digest_size=32).digest() for _, answer in suitable]
        before = self._index.find(digests).tolist()
        numbers = [
            -1 if answer is None else self._number(answer, digest, place)
            for (_, answer), digest, place in zip(suitable, digests, before, strict=True)
        ]
        self._blocks[-1].append((np.array([row for row, _ in suitable], dtype=np.int64), np.array(numbers, dtype=np.int64)))
        self._row += len(answers)

    def of_block(self, block: int) -> tuple[pa.Array, pa.Array]:
        """Return row numbers of a block's judged answers, and their rows in `table` (or null)."""
        none = np.empty(0, dtype=np.int64)
        rows, numbers = (np.concatenate([none, *(part[k] for part in self._blocks[block])]) for k in (0, 1))
        return pa.array(rows), pa.array(numbers, mask=numbers < 0)

    def table(self) -> pa.Table:
        """Return the judgements of all distinct answers, in order of first appearance."""
        if self._waiting or len(self._parts) == 1:
            self._judge()
        if self._repeated:
            self._stage.count(**{"same as another": self._repeated})
        return pa.concat_tables(self._parts)

    def _number(self, answer: Answered, digest: bytes, place: int) -> int:
        if place >= 0:
            self._repeated += 1
            return self._starts[place >> 32] + (place & 0xFFFFFFFF)
        if digest in self._recent:
            self._repeated += 1
            return self._recent[digest]
        if len(self._waiting) == AT_ONCE:
            self._judge()
        self._waiting.append(answer)
        self._recent[digest] = number = self._starts[-1] + len(self._recent)
        return number

    def _seal(self) -> None:
        self._sealed.append(np.frombuffer(b"".join(self._recent), np.uint64).reshape(-1, 4))
        self._starts.append(self._starts[-1] + len(self._recent))
        self._recent = {}
        self._index = KeyIndex(self._sealed)

    def _judge(self) -> None:
        counters: Counter[str] = Counter()
        try:
            judgements = judge(self._ref, self._waiting, self._stage.settings, counters)
        except JudgeError as error:
            raise StageError(str(error)) from error
        finally:
            self._stage.count(**counters)
        rows = [_verdict(answer, one) for answer, one in zip(self._waiting, judgements, strict=True)]
        self._parts.append(pa.Table.from_pylist(rows, schema=_VERDICT))
        self._waiting = []


def _verdict(answer: Answered, judgement: Judgement) -> dict[str, Any]:
    """Return a row of `_VERDICT`; an answer hedges if the rules find a caveat in it."""
    abstains, hedges = judgement.pred_is_idk, None
    if abstains is not None:
        reading = read_abstention(answer.prediction, answer.question, answer.choices)
        hedges = not abstains and (reading.hedges or reading.abstains)
    return {
        "rating": judgement.rating,
        "pred_is_idk": abstains,
        "reply": judgement.reply,
        "parse_ok": judgement.parse_ok,
        "marks": list(judgement.marks.items()) if judgement.marks else None,
        "hedges": hedges,
    }


def _has_choices(answer: Answered | None) -> bool:
    return answer is not None and bool(answer.choices)


def _places(samples: Samples, table: pa.Table, where: str) -> NDArray[np.int64]:
    """Return the (n,) row of each answer's sample in the dataset."""
    index = pc.index_in(table["sample_id"], value_set=samples.ids)
    if index.null_count:
        raise StageError(f"{where}: {index.null_count} answers are to samples that dataset '{samples.name}' does not have; run `dvc repro`")
    return np.asarray(index.to_numpy(), dtype=np.int64)


def _to_judge(samples: Samples, table: pa.Table, sample_rows: NDArray[np.int64]) -> tuple[Rows, list[Answered | None]]:
    """Return the rows of the answers judged as text, and for each the judge's input or None.

    None for one without text or without a reference, which stays unscored.
    """
    numbered = pc.greater(pc.fill_null(pc.list_value_length(table["option_logits"]), 0), 0)
    in_words = (
        pc.and_(pc.is_valid(table["text"]), pc.invert(numbered)).to_numpy()
        & ((samples.truth >= 0) | (samples.answerable == 0))[sample_rows]
    )
    judged = (samples.n_options[sample_rows] == 0) | in_words
    judged_samples = Samples(samples.name, samples.table.take(pa.array(sample_rows[judged])))
    facts = judged_samples.table.select(["question", "references", "answerable", "choices", "answer_index"]).to_pylist()
    rows: Rows = []
    answers: list[Answered | None] = []
    answer_rows = table.drop_columns("option_logits").filter(pa.array(judged)).to_pylist()
    for row, fact, evidence in zip(answer_rows, facts, judged_samples.evidence, strict=True):
        text = row.pop("text")
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
        answers.append(Answered(fact["question"], references, text, people, evidence or "") if fits else None)
    return rows, answers
