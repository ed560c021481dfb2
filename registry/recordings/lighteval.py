"""lighteval, `--save-details`: OUT/details/MODEL/DATE/details_TASK_DATE.parquet, a row per document.

    doc {id, query, choices, gold_index, images, specific, ...}, model_response {input, text, logprobs, output_tokens, ...}, metric

What a task is scored by says which of these a row has. Generation: `text`, one per sample that was drawn; `choices` are then the right
answers, or the options where `gold_index` is one of several. Log-likelihood: no text, and in `logprobs` the log-likelihood of each
choice as the prompt's continuation, summed over its tokens; these become `option_logits`. Log-probabilities of an answer's tokens are
taken where there are as many as tokens. Images lie in `doc.images`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qualm.registry import LETTERS
from qualm.registry.formats.faults import Fault
from qualm.registry.formats.picture_lists import MAX_IMAGES
from qualm.registry.formats.plausible import ImplausibleReason, option_log_probabilities
from qualm.registry.recordings.lm_eval import MalformedRowError, build_record
from qualm.registry.recordings.options import parse_lettered, take_lettered_options
from qualm.registry.recordings.record import ReadOptions, Record, RecordingError, excerpt, short_fields, texts, verdict
from qualm.registry.recordings.tables import columnar_columns, columnar_rows

_NAME = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:+-]+)")
_METRICS = ("metric", "__metric__", "metrics")
POST_PROCESSED = "post_processed"
_DOC = ("id", "query", "choices", "gold_index", "images", "specific", "task_name")
_RESPONSE = ("input", "text", "text_post_processed", "reasonings", "logprobs", "output_tokens")


def names(path: Path) -> frozenset[tuple[str, str]] | None:
    if path.suffix != ".parquet" or _columns(path) is None:
        return None
    match, folders = _NAME.fullmatch(path.stem), path.parts[-4:-1]
    task = match["task"] if match else path.stem
    runs = {*folders[-2:], "/".join(folders[:2]), *([match["date"]] if match else [])}
    return frozenset((run, name) for run in runs for name in {task, task.rpartition("|")[0] or task})


def _columns(path: Path) -> tuple[str, str] | None:
    """Return (column of documents, column of responses) of a file; None if it lacks them."""
    there = set(columnar_columns(path))
    return next((pair for pair in (("doc", "model_response"), ("__doc__", "__model_response__")) if there.issuperset(pair)), None)


def read(path: Path, how: ReadOptions) -> Iterator[Record | Fault]:
    columns = _columns(path)
    if columns is None:
        raise RecordingError(f"{path}: expected columns doc and model_response, as lighteval's details have")
    if how.filter not in (None, POST_PROCESSED):
        raise RecordingError(f"{path}: no filter '{how.filter}'; lighteval's details have '{POST_PROCESSED}'")
    doc, response = columns
    fields = {*_DOC, *(name.partition(".")[0] for name in how.fields.values())}
    fields_read = [*(f"{doc}.{name}" for name in sorted(fields)), *(f"{response}.{name}" for name in _RESPONSE), *_METRICS]
    for where, row in columnar_rows(path, fields_read):
        metrics = next((row[name] for name in _METRICS if row.get(name) is not None), None)
        yield build_record(_record, where, {"doc": row.get(doc), "model_response": row.get(response), "metrics": metrics}, how)


def _record(where: str, row: dict[str, Any], how: ReadOptions) -> Record:
    doc, response = row["doc"], row["model_response"]
    if not isinstance(doc, Mapping) or not isinstance(response, Mapping):
        raise MalformedRowError("no document or no response", excerpt(row))
    specific = doc.get("specific")
    specific = {k: v for k, v in specific.items() if v is not None} if isinstance(specific, Mapping) else {}
    fields_of_task = {name: specific.get(field, doc.get(field)) for name, field in how.fields.items()}
    identifier = fields_of_task.get("id", doc.get("id"))
    if not isinstance(identifier, str | int) or isinstance(identifier, bool) or not str(identifier):
        raise MalformedRowError("no id", f"'{how.fields.get('id', 'id')}' is {excerpt(identifier)}")
    query = fields_of_task.get("question", doc.get("query"))
    record = Record(where, str(identifier), question=query if isinstance(query, str) else "")
    sent = response.get("input")
    record.prompt = sent if isinstance(sent, str) and sent else record.question
    record.category = str(fields_of_task.get("category") or specific.get("category") or "")
    record.meta = short_fields(specific, ("category", *how.fields.values()))
    _pictures(record, doc.get("images"))
    choices = [texts(choice) for choice in fields_of_task.get("choices", doc.get("choices")) or ()]
    gold = fields_of_task.get("target", doc.get("gold_index"))
    places = gold if isinstance(gold, list) else [gold]
    right = [place for place in places if isinstance(place, int) and not isinstance(place, bool) and 0 <= place < len(choices)]
    answers = response.get("text") if how.filter is None else response.get("text_post_processed")
    if not answers and response.get("logprobs") and how.filter is None:
        _by_likelihood(record, [" ".join(choice).strip() for choice in choices], right, response["logprobs"])
    else:
        _in_words(record, choices, right, answers, response)
    if len(record.draws) == 1:
        record.draws[0] |= verdict(row.get("metrics"))
    return record


def _by_likelihood(record: Record, choices: list[str], right: list[int], numbers: Any) -> None:
    if not isinstance(numbers, list) or len(numbers) != len(choices):
        raise MalformedRowError("not one log-likelihood per option", f"{excerpt(numbers)} for {len(choices)} choices")
    if len(choices) < 2:
        raise MalformedRowError("no answer: the likelihood of a text", excerpt(numbers))
    _take_options(record, choices)
    record.answer_index = right[0] if len(right) == 1 else None
    record.doubt = "" if len(right) == 1 else f"{len(right)} options are right"
    checked = option_log_probabilities(numbers)
    record.impossible = [f"option_logits: {checked}"] if isinstance(checked, ImplausibleReason) else []
    record.draws = [{} if isinstance(checked, ImplausibleReason) else {"option_logits": checked}]


def _in_words(record: Record, choices: list[tuple[str, ...]], right: list[int], answers: Any, response: Mapping[str, Any]) -> None:
    if not isinstance(answers, list) or not answers or not all(isinstance(text, str) for text in answers):
        raise MalformedRowError("no response", excerpt(answers))
    record.draws = [{"text": text} for text in answers]
    for draw, thought in zip(record.draws, response.get("reasonings") or (), strict=False):
        draw |= {"thinking": thought} if isinstance(thought, str) and thought else {}
    numbers: Any = response.get("logprobs") or ()
    tokens: Any = response.get("output_tokens") or ()
    if len(answers) == len(tokens) == 1 and len(numbers) == len(tokens[0] or ()) > 0:
        record.draws[0]["token_logprobs"] = list(numbers)
    if len(choices) > 1 and len(right) == 1:
        _take_options(record, [" ".join(choice).strip() for choice in choices])
        record.answer_index = right[0]
        return
    record.references = tuple(text for place in right for text in choices[place])
    take_lettered_options(record)


def _take_options(record: Record, choices: list[str]) -> None:
    """Set a record's options: `choices`, or matching lettered ones, cut out of its question."""
    question, options = parse_lettered(record.question) or ("", ())
    named = zip(LETTERS, options, choices, strict=False)
    if question and len(options) == len(choices) and all(c in (letter, option) or c[:2] == f"{letter}." for letter, option, c in named):
        record.question, record.choices = question, options
        return
    record.choices = tuple(choices)


def _pictures(record: Record, cells: Any) -> None:
    pictures = cells if isinstance(cells, list) else []
    record.n_pictures = len(pictures)
    data = [cell.get("bytes") if isinstance(cell, Mapping) else cell for cell in pictures]
    if len(pictures) > MAX_IMAGES:
        record.lacking = f"it has {len(pictures):,} images; more than {MAX_IMAGES} cannot be read"
    else:
        record.images = tuple(one for one in data if isinstance(one, bytes) and one)
        if len(record.images) < len(data):
            record.images, record.lacking = (), "an image of it is not in the log (`pictures: none` takes the question without)"
