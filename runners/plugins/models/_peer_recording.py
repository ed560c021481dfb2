"""Answers logged by another tool, as generations of our samples: matched by id or by question, never by place.

What cannot be matched, contradicts itself or is not as its format has it is left out, and kept in a list with the file and
line of each row, which the `infer` stage counts and writes down.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from qualm.registry.formats.faults import Fault
from qualm.registry.picture_lists import picture_ids
from qualm.registry.recordings.parts import RecordingFile, choose, find_parts
from qualm.registry.recordings.record import LETTERS, PER_TOKEN, How, Record, RecordingError
from qualm.registry.recordings.signals import COLUMNS
from qualm.runners.contracts.models import ModelError
from qualm.runners.prompts.thinking import NO_ANSWER, REASONS, UNPARTED, Thinking, parted

ADAPTER = "recorded_samples"
"""Samples of this adapter name the task they are from."""

IMPOSSIBLE = "impossible numbers, undefined here"

Columns = dict[str, Any]


class PeerRecording:
    """The files of one recording, and which of them is a run's answers to a dataset."""

    def __init__(
        self,
        source: Path,
        run: str | None,
        form: str,
        tasks: Mapping[str, str],
        match: str,
        how: How,
        check_questions: bool,
        thinking: Thinking | None = None,
    ) -> None:
        self.source, self.run, self.form, self.tasks = source, run, form, tasks
        self.match, self.how, self.check_questions, self.thinking = match, replace(how, run=run), check_questions, thinking
        self.left_out: list[Fault] = []
        """Rows of the last lookup that gave no generation, and samples of it that have none, in order of the file."""

    def lookup(self, dataset: str, samples: pa.Table) -> pa.Table:
        """Rows of GENERATIONS of these SAMPLES, in their order, draws in theirs.

        Raises:
            ModelError: no recording of this dataset, or one that has not a single answer to it.
        """
        from qualm.registry.sample import CLEAN, GENERATIONS

        self.left_out = []
        rows = samples.select(["sample_id", "question", "choices", "answer_index", "source", "image_id"]).to_pylist()
        try:
            part = self._part(dataset, {row["source"] or "" for row in rows})
            answers = self._matched(part, rows)
        except RecordingError as error:
            raise ModelError(str(error)) from error
        if rows and not answers:
            raise ModelError(self._nothing(part, dataset, rows))
        answered = {place for place, _ in answers}
        for place, row in enumerate(rows):
            if place not in answered:
                self.left_out.append(Fault(part.path.name, "sample without an answer", row["sample_id"]))
        generations = [
            {"sample_id": rows[place]["sample_id"], "variant": CLEAN, "draw": draw, **answers[place, draw]}
            for place, draw in sorted(answers)
        ]
        return pa.Table.from_pylist(generations, schema=GENERATIONS)

    def prompts(self, dataset: str, samples: pa.Table) -> dict[str, str]:
        """What the model was sent, as far as the recording keeps it, by sample.

        Raises:
            ModelError, RecordingError: no recording of this dataset.
        """
        rows = samples.select(["sample_id", "question", "choices", "answer_index", "source", "image_id"]).to_pylist()
        places, by_sample = _places(rows, self.match), dict[str, str]()
        for item in self._part(dataset, {row["source"] or "" for row in rows}).read(self.how):
            if isinstance(item, Record) and item.prompt:
                place = places.get(item.id if self.match == "id" else _plain(item.question))
                if place is not None and self._fault(item, place, rows) is None:
                    by_sample.setdefault(rows[place]["sample_id"], item.prompt)
        return by_sample

    def _part(self, dataset: str, sources: set[str]) -> RecordingFile:
        official = {source.partition("/")[2] for source in sources if source.partition("/")[0] == ADAPTER}
        task = self.tasks.get(dataset) or (official.pop() if len(official) == len(sources) == 1 else None)
        return choose(self.source, find_parts(self.source, self.form), self.run, task, fallback=dataset)

    def _matched(self, part: RecordingFile, rows: list[dict[str, Any]]) -> dict[tuple[int, int], Columns]:
        """(place of the sample, draw) -> the answer's columns."""
        places = _places(rows, self.match)
        matches: dict[tuple[int, int], Columns] = {}
        first: dict[tuple[int, int], str] = {}
        contradicted: dict[tuple[int, int], str] = {}
        for item in part.read(self.how):
            fault = item if isinstance(item, Fault) else None
            if isinstance(item, Record):
                place = places.get(item.id if self.match == "id" else _plain(item.question))
                fault = self._fault(item, place, rows)
            if fault is not None:
                self.left_out.append(fault)
                continue
            assert isinstance(item, Record) and place is not None
            self.left_out += [Fault(item.where, IMPOSSIBLE, reason) for reason in item.impossible]
            for key, answer in _answers(item, place):
                columns = answer if self.thinking is None else answered(answer, self.thinking)
                if self.thinking is None and parted(answer.get("text") or "")[0] is not None:
                    self.left_out.append(Fault(item.where, UNPARTED, harmless=True))
                if key not in matches:
                    matches[key], first[key] = columns, item.where
                elif matches[key] == columns:
                    self.left_out.append(Fault(item.where, "says the same again", f"as {first[key]}", harmless=True))
                else:
                    contradicted[key] = item.where
        for key, where in contradicted.items():
            self.left_out.append(Fault(where, "contradicts another row", f"{first[key]}; neither is used"))
            del matches[key]
        return matches

    def _fault(self, record: Record, place: int | None, rows: list[dict[str, Any]]) -> Fault | None:
        """Why a row is no answer to the sample it names; None if it is one."""
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
        if record.shown and record.shown != pictures:
            return Fault(record.where, "another number of pictures", f"{record.shown}, sample {sample['sample_id']} has {pictures}")
        if choices and record.choices:
            only_letters = record.choices == tuple(LETTERS[: len(record.choices)])
            if not only_letters and [_plain(c) for c in record.choices] != [_plain(c) for c in choices]:
                return Fault(record.where, "other options than the sample's", f"sample {sample['sample_id']}")
            if None not in (record.answer_index, sample["answer_index"]) and record.answer_index != sample["answer_index"]:
                return Fault(record.where, "another option is right there", f"sample {sample['sample_id']}")
        texts = (_plain(record.question), _plain(record.prompt))
        question = _plain(sample["question"] or "")
        if any(texts) and not any(question in text or (text and text in question) for text in texts):
            return Fault(record.where, "another question than the sample's", f"{record.question[:60]!r}, sample: {question[:60]!r}")
        return None

    def _nothing(self, part: RecordingFile, dataset: str, rows: list[dict[str, Any]]) -> str:
        """Why a whole recording fits a dataset nowhere."""
        reasons = [f"{f.where}: {f.reason}" + (f": {f.what}" if f.what else "") for f in self.left_out if not f.harmless][:5]
        by = "id" if self.match == "id" else "question"
        mine = ", ".join(repr((row["sample_id"] if by == "id" else row["question"])[:60]) for row in rows[:3])
        hint = "say `match: question`, or name the field that holds your ids: `fields: {id: NAME}`" if by == "id" else "say `match: id`"
        lines = "".join(f"\n  {line}" for line in reasons)
        return f"{part.path}: not one answer to dataset '{dataset}', whose samples have by {by}: {mine}; {hint}{lines}"


def _places(rows: list[dict[str, Any]], match: str) -> dict[str, int]:
    """What a row is known by -> its place; -1 where several samples are known by it."""
    places: dict[str, int] = {}
    for place, row in enumerate(rows):
        key = row["sample_id"] if match == "id" else _plain(row["question"] or "")
        places[key] = -1 if key in places else place
    return places


def answered(columns: Columns, thinking: Thinking) -> Columns:
    """An answer's columns, its thinking in a column of its own; what is of its tokens is then not known of the answer alone."""
    thought, answer = parted(columns.get("text") or "", thinking.tags)
    if thought is None:
        return columns
    rest = {name: value for name, value in columns.items() if name not in (*PER_TOKEN, "image_divergence", "uniform_divergence")}
    return {**rest, "text": answer, "thinking": thought, **({"no_answer": REASONS[NO_ANSWER]} if answer is None else {})}


def _answers(record: Record, place: int) -> Iterator[tuple[tuple[int, int], Columns]]:
    for offset, draw in enumerate(record.draws):
        yield (place, record.draw + offset), {name: draw[name] for name in COLUMNS if name in draw}


def _plain(text: str) -> str:
    """Text without the differences that prompts make: layout and image marks."""
    return " ".join(text.replace("<image>", " ").split())
