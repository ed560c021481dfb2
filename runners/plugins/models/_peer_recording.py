"""Answers logged by another tool, as generations of our samples: matched by id or by question, never by position.

Unmatched, contradictory and malformed rows are left out, and listed with file and line; the `infer` stage counts and
writes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry import option_label
from qualm.registry.formats.faults import Fault
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.recordings.parts import RecordingFile, choose, find_parts
from qualm.registry.recordings.record import BLIND, ReadOptions, Record, RecordingError, blind_id
from qualm.registry.recordings.signals import COLUMNS
from qualm.runners.contracts.models import ModelError
from qualm.runners.inference.thoughts import PER_TOKEN as TOKEN_COLUMNS
from qualm.runners.prompts.thinking import NO_ANSWER, REASONS, UNPARTED, Thinking, split_thinking

ADAPTER = "recorded_samples"
"""Adapter whose samples name their task."""

IMPOSSIBLE = "impossible numbers, undefined here"

VERDICT = "verdict"

_BLOCK = 8192
"""Answers kept as Python objects before they become columns."""

Columns = dict[str, Any]


class PeerRecording:
    """A recording by another tool, from which a run's answers to a dataset are looked up."""

    def __init__(
        self,
        source: Path,
        run: str | None,
        form: str,
        tasks: Mapping[str, str],
        match: str,
        how: ReadOptions,
        check_questions: bool,
        thinking: Thinking | None = None,
    ) -> None:
        self.source, self.run, self.form, self.tasks = source, run, form, tasks
        self.match, self.how, self.check_questions, self.thinking = match, replace(how, run=run), check_questions, thinking
        self.left_out: list[Fault] = []
        """Rows of the last lookup without a generation, and samples without an answer, in order of the file."""

    def lookup(self, dataset: str, samples: pa.Table) -> pa.Table:
        """Return a recording's GENERATIONS rows for SAMPLES; faults go to `left_out`.

        Raises:
            ModelError: no recording of this dataset, or none of its answers.
        """
        from qualm.registry.sample import GENERATIONS

        self.left_out = []
        rows = _Rows(samples)
        try:
            part = self._part(dataset, rows.sources)
            answers = self._matched(part, rows)
        except RecordingError as error:
            raise ModelError(str(error)) from error
        table, places = answers.table()
        if len(rows) and not len(places):
            raise ModelError(self._nothing(part, dataset, rows))
        answered = np.zeros(len(rows), dtype=bool)
        answered[places] = True
        for place in np.flatnonzero(~answered).tolist():
            self.left_out.append(Fault(part.path.name, "sample without an answer", rows[place]["sample_id"]))
        known = table[VERDICT].drop_null()
        if len(known) and not pc.all(pc.and_(pc.greater_equal(known, 0.0), pc.less_equal(known, 1.0))).as_py():
            # Points on another scale are no verdict between wrong and right.
            at = table.schema.get_field_index(VERDICT)
            table = table.set_column(at, GENERATIONS.field(VERDICT), pa.nulls(table.num_rows, pa.float64()))
        return table.set_column(0, GENERATIONS.field(0), rows.ids.take(pa.array(places)))

    def prompts(self, dataset: str, samples: pa.Table) -> dict[str, str]:
        """Return sample id -> recorded prompt, for the samples whose record has one."""
        rows = _Rows(samples)
        places, by_sample = _Places(rows, self.match), dict[str, str]()
        for item in self._part(dataset, rows.sources).read(self.how):
            if isinstance(item, Record) and item.prompt:
                place = places.find(item)
                if place is not None and self._fault(item, place, rows) is None:
                    by_sample.setdefault(rows[place]["sample_id"], item.prompt)
        return by_sample

    def _part(self, dataset: str, sources: set[str]) -> RecordingFile:
        official = {source.partition("/")[2] for source in sources if source.partition("/")[0] == ADAPTER}
        task = self.tasks.get(dataset) or (official.pop() if len(official) == len(sources) == 1 else None)
        return choose(self.source, find_parts(self.source, self.form, self.how), self.run, task, fallback=dataset)

    def _matched(self, part: RecordingFile, rows: _Rows) -> _Answers:
        places, answers = _Places(rows, self.match), _Answers()
        contradicted: dict[tuple[int, int], str] = {}
        for item in part.read(self.how):
            fault = item if isinstance(item, Fault) else None
            if isinstance(item, Record):
                place = places.find(item)
                fault = self._fault(item, place, rows)
            if fault is not None:
                self.left_out.append(fault)
                continue
            assert isinstance(item, Record) and place is not None
            self.left_out += [Fault(item.where, IMPOSSIBLE, reason) for reason in item.impossible]
            for key, answer in _answers(item, place):
                columns = answer if self.thinking is None else separate_thinking(answer, self.thinking)
                if self.thinking is None and split_thinking(answer.get("text") or "")[0] is not None:
                    self.left_out.append(Fault(item.where, UNPARTED, harmless=True))
                before = answers.add(key, columns, item.where)
                if before is not None and before.same:
                    self.left_out.append(Fault(item.where, "says the same again", f"as {before.where}", harmless=True))
                elif before is not None:
                    contradicted[key] = item.where
        for key, where in contradicted.items():
            self.left_out.append(Fault(where, "contradicts another row", f"{answers.drop(key)}; neither is used"))
        return answers

    def _fault(self, record: Record, place: int | None, rows: _Rows) -> Fault | None:
        """Return the Fault of a record for sample `place` (None: no match, < 0: several), or None."""
        if place is None:
            return Fault(record.where, "not a sample of the dataset", record.id if self.match == "id" else repr(record.question[:80]))
        if place < 0:
            return Fault(record.where, "several samples have this question", repr(record.question[:80]))
        sample = rows[place]
        choices = tuple(sample["choices"] or ())
        if not record.draws:
            return Fault(record.where, "no answer", record.id)
        if any(len(draw.get("option_logits") or choices) != len(choices) for draw in record.draws):
            n = max(len(draw.get("option_logits") or ()) for draw in record.draws)
            return Fault(record.where, "other number of options", f"{n}, sample {record.id} has {len(choices)}")
        if not self.check_questions:
            return None
        pictures = len(picture_ids(sample["image_id"]))
        if record.n_pictures and record.n_pictures != pictures:
            return Fault(record.where, "another number of images", f"{record.n_pictures}, sample {sample['sample_id']} has {pictures}")
        if choices and record.choices:
            only_labels = record.choices == tuple(map(option_label, range(len(record.choices))))
            if not only_labels and [_plain(c) for c in record.choices] != [_plain(c) for c in choices]:
                return Fault(record.where, "other options than the sample's", f"sample {sample['sample_id']}")
            if None not in (record.answer_index, sample["answer_index"]) and record.answer_index != sample["answer_index"]:
                return Fault(record.where, "another option is right there", f"sample {sample['sample_id']}")
        texts = (_plain(record.question), _plain(record.prompt))
        question = _plain(sample["question"] or "")
        if any(texts) and not any(question in text or (text and text in question) for text in texts):
            return Fault(record.where, "another question than the sample's", f"{record.question[:60]!r}, sample: {question[:60]!r}")
        return None

    def _nothing(self, part: RecordingFile, dataset: str, rows: _Rows) -> str:
        reasons = [f"{f.where}: {f.reason}" + (f": {f.what}" if f.what else "") for f in self.left_out if not f.harmless][:5]
        by = "id" if self.match == "id" else "question"
        mine = ", ".join(
            repr((row["sample_id"] if by == "id" else row["question"])[:60]) for row in map(rows.__getitem__, range(min(3, len(rows))))
        )
        hint = "say `match: question`, or name the field that holds your ids: `fields: {id: NAME}`" if by == "id" else "say `match: id`"
        lines = "".join(f"\n  {line}" for line in reasons)
        return f"{part.path}: not one answer to dataset '{dataset}', whose samples have by {by}: {mine}; {hint}{lines}"


class _Places:
    def __init__(self, rows: _Rows, match: str) -> None:
        self._match, self._places = match, dict[str, int]()
        self._blind: dict[str, int] | None = None
        for place, name in enumerate(rows.names("sample_id" if match == "id" else "question")):
            key = name or "" if match == "id" else _plain(name or "")
            self._places[key] = -1 if key in self._places else place

    def find(self, record: Record) -> int | None:
        if self._match == "question":
            return self._places.get(_plain(record.question))
        place = self._places.get(record.id)
        if place is None and record.id.startswith(BLIND):
            if self._blind is None:
                self._blind = {blind_id(name): place for name, place in self._places.items()}
            place = self._blind.get(record.id)
        return place


class _Rows:
    """Samples by index; a row becomes a Python dictionary only on access, to save memory."""

    COLUMNS = ("sample_id", "question", "choices", "answer_index", "image_id")

    def __init__(self, samples: pa.Table) -> None:
        self._columns = {name: samples[name].combine_chunks() for name in self.COLUMNS}
        self.ids: pa.Array = self._columns["sample_id"]
        self.sources = {source or "" for source in pc.unique(samples["source"]).to_pylist()}

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {name: column[place].as_py() for name, column in self._columns.items()}

    def names(self, column: str) -> Iterator[str | None]:
        for start in range(0, len(self), _BLOCK):
            yield from self._columns[column].slice(start, _BLOCK).to_pylist()


@dataclass(frozen=True)
class _Before:
    where: str
    same: bool
    """It says the same as the other row."""


class _Answers:
    """Answers by sample and draw, kept as columns of GENERATIONS."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], int] = {}
        """(sample index, draw) -> number of the row."""
        self._digests: list[bytes] = []
        self._blocks: list[pa.RecordBatch] = []
        self._pending: list[Columns] = []

    def add(self, key: tuple[int, int], columns: Columns, where: str) -> _Before | None:
        """Store an answer and return None; if its key has one, return its place and whether equal."""
        row, digest = self._rows.setdefault(key, len(self._digests)), _digest(columns)
        if row < len(self._digests):
            return _Before(self._where(row), self._digests[row] == digest)
        self._digests.append(digest)
        self._pending.append({"variant": where, "draw": key[1], **columns})
        if len(self._pending) == _BLOCK:
            self._flush()
        return None

    def drop(self, key: tuple[int, int]) -> str:
        return self._where(self._rows.pop(key))

    def table(self) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return (answers sorted by sample and draw, (n,) sample indices), and free them."""
        from qualm.registry.sample import CLEAN, GENERATIONS

        self._flush()
        keys = np.array(list(self._rows), dtype=np.int64).reshape(-1, 2)
        rows = np.fromiter(self._rows.values(), dtype=np.int64, count=len(self._rows))
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        table, places, rows = pa.Table.from_batches(self._blocks, GENERATIONS), keys[order, 0], rows[order]
        self._blocks, self._digests = [], []
        if not np.array_equal(rows, np.arange(table.num_rows)):
            table = table.take(pa.array(rows))
        return table.set_column(1, GENERATIONS.field(1), pa.repeat(CLEAN, table.num_rows)).combine_chunks(), places

    def _where(self, row: int) -> str:
        block, place = divmod(row, _BLOCK)
        pending = block == len(self._blocks)
        return str(self._pending[place]["variant"] if pending else self._blocks[block].column("variant")[place].as_py())

    def _flush(self) -> None:
        from qualm.registry.sample import GENERATIONS

        if self._pending:
            self._blocks.append(pa.RecordBatch.from_pylist(self._pending, schema=GENERATIONS))
            self._pending = []


def _digest(columns: Columns) -> bytes:
    """Return a digest of an answer's columns except its recorded rating; 1 and 1.0 are equal."""
    return hashlib.blake2b(
        repr([(name, _numbers(columns[name])) for name in sorted(columns) if name != VERDICT]).encode(), digest_size=16
    ).digest()


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value + 0.0 if isinstance(value, float) else value * 1.0 if isinstance(value, int) and abs(value) < 2**53 else value


def separate_thinking(columns: Columns, thinking: Thinking) -> Columns:
    """Split thinking from an answer, dropping token columns; return others unchanged.

    Columns without thinking are returned unchanged.
    """
    thought, answer = split_thinking(columns.get("text") or "", thinking.tags)
    if thought is None:
        return columns
    rest = {name: value for name, value in columns.items() if name not in TOKEN_COLUMNS}
    return {**rest, "text": answer, "thinking": thought, **({"no_answer": REASONS[NO_ANSWER]} if answer is None else {})}


def _answers(record: Record, place: int) -> Iterator[tuple[tuple[int, int], Columns]]:
    for offset, draw in enumerate(record.draws):
        yield (place, record.draw + offset), {name: draw[name] for name in COLUMNS if name in draw}


def _plain(text: str) -> str:
    """Return a text on one line, without image marks."""
    return " ".join(text.replace("<image>", " ").split())
