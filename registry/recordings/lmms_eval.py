"""lmms-eval, `--log_samples`: OUT/MODEL/DATE_samples_TASK.jsonl, a line per document.

    doc_id, input, target, resps, filtered_resps, token_counts, doc_hash, input_media, and a key per metric

`resps` is left out there where it equals `filtered_resps`; lists of one are opened. The document itself is not logged. Its
models return the mean loss of an option's tokens where lm-evaluation-harness has a log-likelihood, and the smallest is the
prediction (`api/task.py`); so numbers of which none is negative are losses, and `option_logits` are them negated. A loss is
never negative: rows of negative numbers are log-likelihoods and stay as they are. Of the options only the letters are known.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qualm.registry import option_label
from qualm.registry.formats.faults import Fault
from qualm.registry.recordings import options as in_log
from qualm.registry.recordings.jsonl import keys, rows
from qualm.registry.recordings.lm_eval import (
    MalformedRowError,
    build_record,
    checked_id,
    draws,
    generated_texts,
    log_likelihoods,
    run_and_task,
)
from qualm.registry.recordings.record import ReadOptions, Record, excerpt, letter_index, short_fields, texts, verdict
from qualm.registry.recordings.signals import KEY

_NAME = re.compile(r"(?P<date>\d{8}_\d{6})_samples_(?P<task>.+)")
FIELDS = ("doc_id", "input", "target", "resps", "filtered_resps", "token_counts", "doc_hash", "input_media", "doc", "sample_id", KEY)


def names(path: Path) -> frozenset[tuple[str, str]] | None:
    first = keys(path) if path.suffix == ".jsonl" else set()
    if not {"doc_id", "filtered_resps"} <= first or "arguments" in first:
        return None
    return run_and_task(path, _NAME)


def read(path: Path, how: ReadOptions) -> Iterator[Record | Fault]:
    for item in rows(path):
        yield item if isinstance(item, Fault) else build_record(_record, *item, how)


def _record(where: str, row: dict[str, Any], how: ReadOptions) -> Record:
    logged = row.get("doc")
    doc: dict[str, Any] = logged if isinstance(logged, dict) else {}
    field = how.fields.get
    name = field("id", "doc_id")
    identifier = checked_id(row.get(name, doc.get(name)) if field("id") else row.get("sample_id", row.get("doc_id")), name)
    record = Record(where, identifier, category=str(row.get(field("category", "category")) or ""))
    record.prompt = row["input"] if isinstance(row.get("input"), str) else ""
    question = row.get(field("question", ""), doc.get(field("question", "question")))
    record.question = question if isinstance(question, str) else record.prompt
    record.meta = short_fields(row, (*FIELDS, "category", *how.fields.values()))
    responses = row.get("resps", row.get("filtered_resps")) if how.filter is None else row.get("filtered_resps")
    target = row.get(field("target", "target"))
    logged = {} if "sample_id" in row else verdict({name: value for name, value in row.items() if name not in FIELDS})
    numbers = log_likelihoods(responses) if isinstance(responses, list) and responses and isinstance(responses[0], list) else None
    if numbers is None:
        if isinstance(responses, list) and len(responses) == 2 and responses[1] in ("True", "False"):
            raise MalformedRowError("no answer: the likelihood of a text", excerpt(responses))
        record.references = texts(target)
        record.draws = draws([{"text": text} for text in generated_texts(responses)], row)
        record.draws = [draw | logged for draw in record.draws] if len(record.draws) == 1 else record.draws
        options = in_log.listed_options(doc, (field("choices", "choices"), *in_log.FIELDS))
        if not (options and in_log.take_options(record, options)) and "sample_id" not in row:
            in_log.take_lettered_options(record)
        return record
    if len(numbers) < 2:
        raise MalformedRowError("not one number per option", f"{len(numbers)} numbers")
    choices = doc.get(field("choices", "choices"))
    listed = tuple(map(str, choices)) if isinstance(choices, list) and len(choices) == len(numbers) else ()
    record.choices = listed or tuple(map(option_label, range(len(numbers))))
    record.answer_index, record.doubt = _right_option(str(target).strip(), listed, len(numbers))
    record.draws = [draw | logged for draw in draws([{"option_logits": logits(numbers)}], row)]
    return record


def logits(numbers: list[float]) -> list[float]:
    """Return losses negated, or log-likelihoods unchanged; MalformedRowError if signs mix."""
    if all(v >= 0 for v in numbers):
        return [-v for v in numbers]
    if all(v <= 0 for v in numbers):
        return numbers
    raise MalformedRowError("neither losses nor log-likelihoods", excerpt(numbers))


def _right_option(target: str, choices: tuple[str, ...], n: int) -> tuple[int | None, str]:
    by_text = choices.index(target) if choices.count(target) == 1 else None
    places = {c for c in (by_text, letter_index(target, n)) if c is not None}
    if target.isdecimal() and int(target) < n:
        places.add(int(target))
    if len(places) == 1:
        return places.pop(), ""
    return None, f"{'several options fit' if places else 'no option fits'} the target {excerpt(target)}"
