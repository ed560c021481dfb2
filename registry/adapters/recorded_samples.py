"""Questions taken from an evaluation log, for those who have the log and not the data.

Evaluation tools log what was asked and what a right answer is beside what a model said (`qualm.registry.recordings` says which tools).
This takes the former, and `recorded` the latter, so that a log alone can be scored. docs/how-to/exchange.md has examples.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from qualm.registry import option_label
from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.formats.faults import Fault
from qualm.registry.formats.picture_lists import find_mark_problem, image_id_of, picture_ids
from qualm.registry.recordings import vlmevalkit as vek
from qualm.registry.recordings.parts import RecordingFile, choose, find_parts, task_of
from qualm.registry.recordings.record import ReadOptions, Record, RecordingError
from qualm.registry.sample import Image, Sample

MAX_NAMED = 20
"""Faults that a message lists; the rest are counted."""


def recorded_samples(
    context: AdapterContext,
    *,
    task: str | None = None,
    run: str | None = None,
    format: Literal[
        "auto", "lm-eval", "lmms-eval", "vlmevalkit", "inspect", "lighteval", "helm", "opencompass", "vlcb", "every-eval-ever", "table"
    ] = "auto",
    fields: dict[str, str] = {},  # noqa: B006 - a literal, never changed
    options: Literal["auto", "choices", "open"] = "auto",
    faults: Literal["stop", "leave_out"] = "stop",
    pictures: Literal["auto", "none"] = "auto",
    category_in_id: str | None = None,
    answer_is: Literal["auto", "letter", "text"] = "auto",
) -> Iterator[Image | Sample]:
    r"""Yield the questions of one task of another tool's log, in file order, images first.

    `sample_id` is the recording's: `doc_id` of lm-eval and lmms-eval, `index` of VLMEvalKit, `id` of Inspect, lighteval and HELM, the
    question's number of OpenCompass, or the `sample_id` of Every Eval Ever and of our exports. Images come from the log or, for
    VLMEvalKit, from the input table `TASK.tsv` beside the predictions. VLMEvalKit's rows whose indices differ by a multiple of 1,000,000
    are rotations of one question and one group. Otherwise questions on one image are a group.

    Args:
        task: The tool's name for the data; may be left out where the recording has one only, or one input table.
        run: Whose file they are read from: a folder, model or date; by default the first by path. The questions are the same in all.
        format: How the log is written; `auto` looks at the files.
        fields: Where the recording calls things otherwise: `{id: question_id, question: query, choices: options, target: gold,
            category: subject}`, of a table also `prediction` and `model`; of lm-eval fields of `doc`, of Inspect of `metadata`, of
            lighteval of `doc` or its `specific`, of HELM of an instance's `extra_data`, of Every Eval Ever of `metadata`.
        options: A question with options as one of multiple choice (`choices`), scored by a log-likelihood per option or by a judge that
            reads which option the reply names; or as an open one whose references are the right option's text and letter (`open`);
            `auto` = the former, where the right option is known.
        faults: Rows that are not as the format has them end the run (`stop`), or are listed and left out.
        pictures: Those in the log or in the input table beside it, or `none`.
        category_in_id: A regular expression that fits each whole id; its only group is the category: `val_(.+)_\d+` for
            `val_Art_Style_12`.
        answer_is: Of a table's questions with options, what the reference answer is: the option's letter, its text, or whichever fits one
            option only (`auto`); options may be letters in another order.

    Raises:
        AdapterError: nothing to read, or rows with faults.
    """
    source = context.need_source("recorded_samples")
    try:
        how = ReadOptions(fields, run=run or "", answer_is=answer_is)
        part, table, name = _choose_file(source, format, run, task, pictures, how)
        if answer_is != "auto" and part.format != "table":
            raise AdapterError(f"{part.path}: `answer_is: {answer_is}` needs `format: table`, and this is read as {part.format}")
        if part.format == "seedbench":
            raise AdapterError(f"{part.path}: SEED-Bench's predictions have no questions in them; `card: seedbench` reads those")
        recorded_pictures = _Pictures(table, pictures == "auto")
        yield from recorded_pictures.all()
        samples = _samples(context, part, how, name, options, faults, recorded_pictures)
        yield from samples if category_in_id is None else _take_categories(samples, category_in_id)
    except RecordingError as error:
        raise AdapterError(str(error)) from error


def _choose_file(
    source: Path, form: str, run: str | None, task: str | None, pictures: str, how: ReadOptions
) -> tuple[RecordingFile, Path | None, str]:
    """Return (question file, table of its images or None, task name); else AdapterError."""
    tables = vek.input_tables(source) if form in ("auto", "vlmevalkit") else {}
    if task in tables:
        return RecordingFile(tables[task], "vlmevalkit", frozenset()), tables[task], task
    parts = find_parts(source, form, how)
    if task is None:
        fitting = [name for name in tables if any(part.has(run, name) for part in parts)]
        if len(fitting) == 1:
            return RecordingFile(tables[fitting[0]], "vlmevalkit", frozenset()), tables[fitting[0]], fitting[0]
    part = choose(source, parts, run, task, first=True)
    if tables and part.format == "vlmevalkit" and pictures == "auto":
        there = ", ".join(sorted(tables)[:8])
        raise AdapterError(
            f"{part.path}: the tables with images beside it are of other tasks: {there}; say which by `task:`, or `pictures: none`"
        )
    return part, None, task or task_of(part, run)


def _take_categories(samples: Iterator[Image | Sample], pattern: str) -> Iterator[Image | Sample]:
    """Yield all items, samples with group 1 of `pattern` in their id as category; else raise."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise AdapterError(f"category_in_id: {pattern!r} is not a regular expression: {error}") from error
    if compiled.groups != 1:
        raise AdapterError(f"category_in_id: {pattern!r} has {compiled.groups} groups; put the category, and nothing else, in parentheses")
    for item in samples:
        if isinstance(item, Sample):
            match = compiled.fullmatch(item.sample_id)
            if match is None:
                raise AdapterError(f"category_in_id: {pattern!r} does not fit the id {item.sample_id!r}")
            item = replace(item, category=match[1])
        yield item


def _samples(
    context: AdapterContext, part: RecordingFile, how: ReadOptions, task: str, options: str, faults: str, pictures: _Pictures
) -> Iterator[Image | Sample]:
    ids: set[str] = set()
    notes = Counter[str]()
    rotated = part.format == "vlmevalkit" and vek.has_rotations(part.path)
    unclear = _ambiguous_ids(part, how) if faults == "leave_out" else set()
    bad_rows = [*pictures.faults]
    for item in part.read(how):
        if isinstance(item, Fault):
            if not item.harmless:
                bad_rows.append(item)
            continue
        if item.draw > 0:  # another answer to a question that has been met
            continue
        if item.id in ids or item.id in unclear:
            bad_rows.append(Fault(item.where, "an id that occurs twice" + ", with other questions" * (item.id in unclear), item.id))
            continue
        ids.add(item.id)
        if item.doubt:
            bad_rows.append(Fault(item.where, "unclear which option is right", item.doubt))
            continue
        if item.lacking and pictures.needed:
            bad_rows.append(Fault(item.where, "no usable images", item.lacking))
            continue
        images = _named_images(item.id, item.images) if pictures.needed else []
        yield from images
        image_id = image_id_of([image.image_id for image in images]) or pictures.owner.get(item.id)
        sample = _sample(item, task, options, image_id, rotated)
        if problem := find_mark_problem(sample.question, len(picture_ids(image_id))):
            bad_rows.append(Fault(item.where, "marks that do not fit the images", problem))
            continue
        notes.update(_notes(sample, item, part))
        yield sample
    for note, n in notes.items():
        context.note(f"{part.path}: {n:,} of {len(ids):,} questions {note}")
    if bad_rows:
        _report_faults(bad_rows, part.path, faults)


def _ambiguous_ids(part: RecordingFile, how: ReadOptions) -> set[str]:
    first: dict[str, int] = {}
    records = (item for item in part.read(how) if isinstance(item, Record) and item.draw == 0)
    contents = ((r.id, hash((r.question, r.choices, r.answer_index, r.references))) for r in records)
    return {name for name, question in contents if first.setdefault(name, question) != question}


def _named_images(name: str, files: Sequence[bytes]) -> list[Image]:
    """Return image files as `Image`s: one is called `name`, several `name (1)`, `name (2)`..."""
    return [Image(f"{name} ({k})" if len(files) > 1 else name, data) for k, data in enumerate(files, 1)]


def _sample(record: Record, task: str, options: str, image_id: str | None, rotated: bool) -> Sample:
    scorable = record.answer_index is not None or any("option_logits" in draw for draw in record.draws)
    as_choices = bool(record.choices) and (options == "choices" or (options == "auto" and scorable))
    question, references, place = record.question, record.references, record.answer_index
    if record.choices and not as_choices:
        question = "\n".join([question, *(f"{option_label(i)}. {text}" for i, text in enumerate(record.choices))])
        references = (record.choices[place], option_label(place)) if place is not None else references
    return Sample(
        sample_id=record.id,
        question=question,
        image_id=image_id,
        references=() if as_choices else references,
        choices=record.choices if as_choices else (),
        answer_index=place if as_choices else None,
        category=record.category,
        split=record.split or "test",
        source=f"recorded_samples/{task}",
        group=vek.question_of(record.id) if rotated and record.choices else next(iter(picture_ids(image_id)), ""),
        meta=record.meta,
    )


def _notes(sample: Sample, record: Record, part: RecordingFile) -> Iterator[str]:
    """Yield why a sample cannot be scored or shown, as predicates ("have no image; ...")."""
    if record.choices and record.answer_index is None:
        yield "have options of which none is known to be right, so that they cannot be scored; `fields: {target: NAME}` names the field"
    elif not sample.choices and not sample.references:
        yield "have neither options nor a reference answer, so that they cannot be scored; `fields: {target: NAME}` names the field"
    if sample.image_id is None and part.format == "vlmevalkit":
        yield "have no image; put the input table `TASK.tsv` beside the predictions"
    elif record.n_pictures and sample.image_id is None:
        yield "were asked about images, which are left out here"


def _report_faults(bad_rows: list[Fault], path: Path, faults: str) -> None:
    counts = Counter(f.reason for f in bad_rows)
    lines = [f"{f.where}: {f.reason}" + (f": {f.what}" if f.what else "") for f in bad_rows[:MAX_NAMED]]
    lines += [f"and {len(bad_rows) - MAX_NAMED} more"] if len(bad_rows) > MAX_NAMED else []
    summary = ", ".join(f"{n} x {reason}" for reason, n in counts.most_common())
    if faults == "stop":
        lines.append("look at the file, name its fields by `fields:`, or say `faults: leave_out` to go on without these rows")
        if "unclear which option is right" in counts:
            lines[-1] = f"say `answer_is: letter` or `answer_is: text` if the reference answers are letters or texts; {lines[-1]}"
        raise AdapterError(f"{path}: {len(bad_rows)} rows that cannot be read ({summary})\n" + "\n".join(lines))
    print(f"{path}: left out {len(bad_rows)} rows ({summary})", *lines, sep="\n  ", file=sys.stderr)


@dataclass
class _Pictures:
    """Reader of the images in a VLMEvalKit table; `owner` maps sample ids to image ids."""

    table: Path | None
    needed: bool
    owner: dict[str, str | None] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def all(self) -> Iterator[Image]:
        if self.table is None or not self.needed:
            return
        pointers: dict[str, str] = {}
        with_picture: dict[str, str | None] = {}
        for picture in vek.pictures(self.table):
            if picture.fault:
                self.faults.append(Fault(picture.fault.partition(": ")[0], "no usable image", picture.fault.partition(": ")[2]))
            elif picture.pointer:
                pointers[picture.id] = picture.pointer
            elif picture.data and picture.index not in with_picture:
                images = [replace(image, path=f"{image.image_id}.png") for image in _named_images(picture.index, picture.data)]
                self.owner[picture.id] = with_picture[picture.index] = image_id_of([image.image_id for image in images])
                yield from images
        for name, pointer in pointers.items():
            if pointer in with_picture:
                self.owner[name] = with_picture[pointer]
            else:
                what = f"row {name} points to row {pointer}, which has none"
                self.faults.append(Fault(self.table.name, "no usable image", what))
