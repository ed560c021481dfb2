"""Every Eval Ever, schemas 0.2 and 0.3: data/COLLECTION/DEVELOPER/MODEL/UUID_samples.jsonl, a line per question and metric.

    schema_version, evaluation_id, model_id, evaluation_name, evaluation_result_id?, sample_id, interaction_type, input {raw, formatted,
    reference, choices}, output {raw, reasoning_trace}, answer_attribution, evaluation {score, is_correct}, error, metadata

`output.raw` lists all answers to a question: the first is scored, the others are sampled answers. A question has a line for each metric;
lines after the first that differ in their metric alone say nothing new. A line of the same metric with the same question is a repeat, as
Inspect's epochs are after conversion. `evaluation_name` is the task. Conversations of several turns are not read. The aggregate UUID.json
holds no answers, and its `file_path` is never followed.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qualm.registry import ENDED_THINKING
from qualm.registry.formats.faults import Fault
from qualm.registry.formats.json_stream import JsonStreamError, members, reject_duplicate_keys
from qualm.registry.formats.picture_lists import find_id_problem, picture_ids
from qualm.registry.recordings.jsonl import keys, rows
from qualm.registry.recordings.lm_eval import MalformedRowError, build_record, checked_id
from qualm.registry.recordings.options import option_index, take_lettered_options
from qualm.registry.recordings.record import ReadOptions, Record, RecordingError, excerpt, graded, short_fields, texts
from qualm.registry.recordings.signals import KEY, unpack

_LINE = {"schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id", "interaction_type"}
_AGGREGATE = {"schema_version", "evaluation_id", "evaluation_results"}
_SUFFIX = "_samples"
_LM_EVAL = "lm_eval_metrics"
"""Key of `metadata` that the converter of lm-eval's logs writes; its references to options are their numbers."""


def names(path: Path) -> frozenset[tuple[str, str]] | None:
    if path.suffix != ".jsonl" or not keys(path) >= _LINE:
        return None
    runs, tasks = {path.parent.name, path.stem.removesuffix(_SUFFIX)}, set[str]()
    for item in rows(path):
        if not isinstance(item, Fault):
            row = item[1]
            model = str(row.get("model_id"))
            runs |= {model, model.rpartition("/")[2], str(row.get("evaluation_id"))}
            tasks |= _tasks(row)
    return frozenset((run, task) for run in runs for task in tasks)


def _tasks(row: Mapping[str, Any]) -> set[str]:
    """Return the names of a row's task: one, or two in Qualm's exports."""
    name, metadata = str(row.get("evaluation_name")), row.get("metadata")
    return {name, name.partition(".")[2] or name} if isinstance(metadata, Mapping) and KEY in metadata else {name}


def is_aggregate(path: Path) -> bool:
    """Return whether a file is an Every Eval Ever log of scores alone."""
    try:
        with path.open("rb") as handle:
            if path.suffix != ".json" or not handle.read(64).lstrip().startswith(b"{"):
                return False
        return {key for key, _ in members(path, {"evaluation_results"})} >= _AGGREGATE
    except (JsonStreamError, OSError):
        return False


def read(path: Path, how: ReadOptions) -> Iterator[Record | Fault]:
    lines = ((item, set() if isinstance(item, Fault) else _tasks(item[1])) for item in rows(path))
    first: set[str] | None = None
    metrics: dict[tuple[str, str], tuple[str, ...]] = {}
    draws = Counter[tuple[str, str]]()
    for item, tasks in lines:
        if isinstance(item, Fault):
            yield item
            continue
        where, row = item
        first = tasks if first is None else first
        if how.task is None and tasks != first:
            both = " and ".join(repr(min(t, key=len)) for t in (first, tasks))
            which = "say which with `task:` at the dataset or `tasks:` at the model"
            raise RecordingError(f"{path}: holds several evaluations, {both}; {which}")
        if how.task is not None and how.task not in tasks:
            yield Fault(where, "row of another evaluation", excerpt(row.get("evaluation_name")), harmless=True)
            continue
        record = build_record(_record, where, row, how)
        if isinstance(record, Record):
            key = (record.id, record.question)
            judge = (row.get("metadata") or {}).get("judge")
            metric = (str(row.get("evaluation_name")), str(row.get("evaluation_result_id")), str(judge))
            if metrics.setdefault(key, metric) != metric:
                yield Fault(where, "another metric of the same question", excerpt(metric), harmless=True)
                continue
            record.draw = draws[key]
            draws[key] += len(record.draws)
        yield record


def _record(where: str, row: dict[str, Any], how: ReadOptions) -> Record:
    if row["interaction_type"] != "single_turn":
        raise MalformedRowError("not a single turn", excerpt(row["interaction_type"]))
    metadata, given, output = row.get("metadata") or {}, row["input"], row.get("output") or {}
    field = how.fields.get
    name = field("id", "sample_id")
    identifier = checked_id(metadata.get(name, row.get(name)) if "id" in how.fields else row["sample_id"], name)
    answers = _listed(output.get("raw"))
    if row.get("error") and not any(answer.strip() for answer in answers):
        raise MalformedRowError("ended in an error", excerpt(row["error"]))
    if not answers:
        raise MalformedRowError("no response", excerpt(output.get("raw")))
    record = Record(where, identifier, category=str(metadata.get(field("category", "category")) or ""))
    question = metadata.get(field("question", ""), given["raw"])
    record.question = record.prompt = question if isinstance(question, str) else ""
    prompts = (prompt for prompt in (given.get("formatted"), given["raw"]) if isinstance(prompt, str) and prompt)
    record.prompt = next(prompts, record.prompt)
    record.split = str(metadata.get("split") or "")
    target = metadata.get(field("target", ""))
    record.references = tuple(_listed(given.get("reference"))) if target is None else texts(target)
    record.choices = tuple(_listed(given.get("choices")))
    used = {KEY, _LM_EVAL, "category", "split", "variant", "judge", "answer_index", *how.fields.values()}
    record.meta = short_fields(metadata, used)
    if KEY in metadata:
        _read_signals(record, metadata, answers)
    else:
        record.draws = _draws(answers, _listed(output.get("reasoning_trace")))
        if len(record.draws) == 1:
            record.draws[0] |= graded(row["evaluation"].get("score"))
    _find_right_option(record, row)
    return record


def _listed(value: Any) -> list[str]:
    """Return a text as [text], None as [], a list of texts as is; else MalformedRowError."""
    value = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise MalformedRowError("expected a list of texts", excerpt(value))
    return value


def _draws(answers: list[str], thoughts: list[str]) -> list[dict[str, Any]]:
    """Return a dict per answer: its text, None after thinking alone, and `thinking` if given.

    With several answers, `thoughts` count only if there are as many; those of a single answer are joined.
    """
    if len(answers) == 1 and thoughts:
        thoughts = ["\n\n".join(thoughts)]
    if len(thoughts) != len(answers):
        return [{"text": answer} for answer in answers]
    silent = {"text": None, "no_answer": ENDED_THINKING}
    return [
        {"text": answer, **({"thinking": thought} if thought else {}), **(silent if thought and not answer.strip() else {})}
        for answer, thought in zip(answers, thoughts, strict=True)
    ]


def _read_signals(record: Record, metadata: Mapping[str, Any], answers: list[str]) -> None:
    """Set `draws` from the answers and the signals that Qualm exported, and the image count.

    MalformedRowError if the signals are not as many as the answers.
    """
    signals = json.loads(metadata[KEY], object_pairs_hook=reject_duplicate_keys)
    if not isinstance(signals, list) or len(signals) != len(answers):
        raise MalformedRowError(f"damaged '{KEY}'", f"expected signals of {len(answers)} answers, got {excerpt(signals)}")
    record.draws = [{"text": text, **unpack(more)} for text, more in zip(answers, signals, strict=True)]
    if isinstance(name := metadata.get("image_id"), str) and not find_id_problem(name):
        record.n_pictures = len(picture_ids(name))


def _find_right_option(record: Record, row: Mapping[str, Any]) -> None:
    """Set the right option and clear the references, or set `doubt`; drop false options.

    A list that only repeats the references is no list of options, and neither is one of fewer than two. The prompt's lettered options are
    taken instead if one of them is right.
    """
    if len(record.choices) < 2 or set(record.choices) == set(record.references):
        record.choices = ()
        take_lettered_options(record)
        return
    metadata = row.get("metadata") or {}
    index = metadata.get("answer_index") if KEY in metadata else None
    if isinstance(index, str) and index.isdecimal() and int(index) < len(record.choices):
        record.answer_index = int(index)
    else:
        places = {_place(reference, record.choices, _LM_EVAL in metadata) for reference in record.references}
        record.answer_index = places.pop() if len(places) == 1 else None
    if record.answer_index is None:
        record.doubt = f"no option, or several, fit the reference {excerpt(list(record.references))}"
    else:
        record.references = ()


def _place(reference: str, choices: tuple[str, ...], by_number: bool) -> int | None:
    if by_number and reference.strip().isdecimal() and int(reference) < len(choices):
        return int(reference) if option_index([reference], choices) in (None, int(reference)) else None
    return option_index([reference], choices)
