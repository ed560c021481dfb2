"""Find the answers that judges rate, and judge each distinct one once, whatever model and variant it is from."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry import option_label
from qualm.registry.sample import JUDGEMENTS
from qualm.runners.contracts.judges import JudgeError, Judgement
from qualm.runners.data.aligned import Samples
from qualm.runners.runtime.key_index import KeyIndex, Keys
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.apply_judge import Answered, judge, takes_choices, takes_open

MAX_ANSWERS = 100_000
"""Different answers that a judge is given together; a million of them, with all that stands beside them, take gigabytes."""
VERDICT = pa.schema([JUDGEMENTS.field(name) for name in ("rating", "pred_is_idk", "reply", "parse_ok", "marks", "hedges")])
"""Columns of JUDGEMENTS that a judge decides."""


def sample_rows(samples: Samples, table: pa.Table, where: str) -> NDArray[np.int64]:
    """Return the row (n,) of each answer's sample; StageError if the dataset lacks one."""
    index = pc.index_in(table["sample_id"], value_set=samples.ids)
    if index.null_count:
        raise StageError(f"{where}: {index.null_count} answers are to samples that dataset '{samples.name}' does not have; run `dvc repro`")
    return np.asarray(index.to_numpy(), dtype=np.int64)


def answers_in_words(samples: Samples, table: pa.Table, places: NDArray[np.int64]) -> tuple[list[dict[str, Any]], list[Answered | None]]:
    """Return (rows of the answers that judges rate: open or in words, judge inputs or None).

    None is an answer without text or without a reference, which stays unscored.

    `table` has `sample_id`, `variant`, `draw`, `text` and `option_logits` of GENERATIONS, and `places` is (n,): the row of each answer's
    sample (`sample_rows`). The returned rows have `sample_id`, `variant`, `draw` and `gt_is_idk`.
    """
    numbered = pc.greater(pc.fill_null(pc.list_value_length(table["option_logits"]), 0), 0)
    in_words = (
        pc.and_(pc.is_valid(table["text"]), pc.invert(numbered)).to_numpy() & ((samples.truth >= 0) | (samples.answerable == 0))[places]
    )
    judged = (samples.n_options[places] == 0) | in_words
    judged_samples = Samples(samples.name, samples.table.take(pa.array(places[judged])))
    facts = judged_samples.table.select(["question", "references", "answerable", "choices", "answer_index"]).to_pylist()
    rows: list[dict[str, Any]] = []
    answers: list[Answered | None] = []
    answer_rows = table.drop_columns("option_logits").filter(pa.array(judged)).to_pylist()
    for row, fact, evidence in zip(answer_rows, facts, judged_samples.evidence, strict=True):
        text = row.pop("text")
        rows.append({**row, "gt_is_idk": not fact["answerable"]})
        if fact["choices"]:
            right = fact["answer_index"]
            references = (fact["choices"][right], option_label(right)) if fact["answerable"] else ()
            answers.append(Answered(fact["question"], references, text, choices=tuple(fact["choices"])))
            continue
        answers_of_people = tuple(fact["references"] or ())
        references, people = (answers_of_people, ()) if fact["answerable"] else ((), answers_of_people)
        fits = text is not None and (references or not fact["answerable"])
        answers.append(Answered(fact["question"], references, text, people, evidence or "") if fits else None)
    return rows, answers


class JudgeQueue:
    """Collects the answers for one judge, and has each distinct answer judged once.

    `ref` has the judge's `label`, `plugin` and `args`; `hedges` tells if an answer that does not abstain has a caveat.
    """

    def __init__(self, stage: Stage, ref: dict[str, Any], hedges: Callable[[Answered], bool]) -> None:
        self.label: str = ref["label"]
        self.plugin: str = ref["plugin"]
        self._stage, self._ref, self._hedges = stage, ref, hedges
        self._only, self._kinds = stage.params.get("only", {}), {True: takes_choices(ref), False: takes_open(ref)}
        self._recent: dict[bytes, int] = {}
        """Digest of an answer -> its number in order of judging; of most answers it is in `_index`, in a quarter of the memory."""
        self._sealed: list[Keys] = []
        self._index, self._starts = KeyIndex([]), [0]
        self._waiting: list[Answered] = []
        self._parts = [VERDICT.empty_table()]
        self._blocks: list[list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = []
        self._row, self._repeated, self._is_named = 0, 0, True

    def begin_block(self, dataset: str) -> None:
        """Start a block, to which `add` adds all answers of one model to one dataset."""
        self._blocks.append([])
        self._row, self._is_named = 0, self.label in self._only.get(dataset, [self.label])

    def add(self, answers: Sequence[Answered | None]) -> None:
        """Queue the next answers of the block that this judge rates; judge them once many wait.

        None is an answer without a text or a reference. Answers that only other judges rate count in the block's row numbers.
        """
        is_suitable = [self._is_named and self._kinds[answer is not None and bool(answer.choices)] for answer in answers]
        suitable = [(self._row + k, answer) for k, answer in enumerate(answers) if is_suitable[k]]
        if len(self._recent) >= MAX_ANSWERS:
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
        """Return (row numbers of a block's judged answers, their rows in `table`; null: no text)."""
        none = np.empty(0, dtype=np.int64)
        rows, numbers = (np.concatenate([none, *(part[k] for part in self._blocks[block])]) for k in (0, 1))
        return pa.array(rows), pa.array(numbers, mask=numbers < 0)

    def table(self) -> pa.Table:
        """Judge the waiting answers; return all distinct answers' judgements in queue order."""
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
        if len(self._waiting) == MAX_ANSWERS:
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
        rows = [self._verdict(answer, one) for answer, one in zip(self._waiting, judgements, strict=True)]
        self._parts.append(pa.Table.from_pylist(rows, schema=VERDICT))
        self._waiting = []

    def _verdict(self, answer: Answered, judgement: Judgement) -> dict[str, Any]:
        abstains = judgement.pred_is_idk
        return {
            "rating": judgement.rating,
            "pred_is_idk": abstains,
            "reply": judgement.reply,
            "parse_ok": judgement.parse_ok,
            "marks": list(judgement.marks.items()) if judgement.marks else None,
            "hedges": None if abstains is None else not abstains and self._hedges(answer),
        }
