"""lm-evaluation-harness, `--log_samples`: OUT/MODEL/samples_TASK_DATE.jsonl, a line per document and filter.

    doc_id, doc, target, arguments, resps, filtered_resps, filter, metrics, doc_hash, prompt_hash, target_hash, and a key per metric

Generation: `resps` is [[text, ...]], one text per repeat. Multiple choice: one request per option, whose response is
[[log-likelihood of the option as the prompt's continuation, whether it is the greedy one]]; these become `option_logits`,
whose softmax is the probability over the options that its own Brier score uses. Numbers are text there.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qualm.registry.formats.faults import Fault
from qualm.registry.formats.picture_lists import find_id_problem, picture_ids
from qualm.registry.formats.plausible import ImplausibleReason, option_log_probabilities
from qualm.registry.recordings.jsonl import keys, rows
from qualm.registry.recordings.options import FIELDS, listed_options, take_lettered_options, take_options
from qualm.registry.recordings.record import ODD, VERDICTS, ReadOptions, Record, excerpt, letter_index, short_fields, texts, verdict
from qualm.registry.recordings.signals import KEY, SignalError, unpack

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:+-]+)")


class MalformedRowError(Exception):
    """Error of a row unlike its format: the reason, and the value found."""

    def __init__(self, reason: str, what: str = "") -> None:
        super().__init__(reason, what)
        self.reason, self.what = reason, what


def names(path: Path) -> frozenset[tuple[str, str]] | None:
    if path.suffix != ".jsonl" or not {"doc_id", "arguments", "filtered_resps"} <= keys(path):
        return None
    return run_and_task(path, _NAME)


def run_and_task(path: Path, pattern: re.Pattern[str]) -> frozenset[tuple[str, str]]:
    """Return {(run, task)} of a file: one pair for its folder, one for the date in its name.

    If its name does not match `pattern`, the only pair is (folder, whole name).
    """
    match = pattern.fullmatch(path.stem)
    if match is None:
        return frozenset({(path.parent.name, path.stem)})
    return frozenset((run, match["task"]) for run in (path.parent.name, match["date"]))


def read(path: Path, how: ReadOptions) -> Iterator[Record | Fault]:
    chosen = how.filter
    for item in rows(path):
        if isinstance(item, Fault):
            yield item
            continue
        where, row = item
        filtered = str(row.get("filter", "none"))
        chosen = filtered if chosen is None else chosen
        if filtered != chosen:
            yield Fault(where, "row of another filter", filtered, harmless=True)
            continue
        yield build_record(_record, where, row, how)


def build_record(
    make: Callable[[str, dict[str, Any], ReadOptions], Record], where: str, row: dict[str, Any], how: ReadOptions
) -> Record | Fault:
    """Return make(where, row, how), or a Fault with the reason if the row is malformed."""
    try:
        return make(where, row, how)
    except MalformedRowError as error:
        return Fault(where, error.reason, error.what)
    except SignalError as error:
        return Fault(where, f"damaged '{KEY}'", str(error))
    except ODD as error:
        return Fault(where, "not a row of this format", f"{type(error).__name__}: {error}")


def checked_id(identifier: Any, field: str) -> str:
    """Return an id as text; MalformedRowError, which names its field, if it is no text or whole number."""
    if not isinstance(identifier, str | int) or isinstance(identifier, bool):
        raise MalformedRowError("no id", f"'{field}' is {excerpt(identifier)}")
    return str(identifier)


def _record(where: str, row: dict[str, Any], how: ReadOptions) -> Record:
    doc = row.get("doc")
    doc = doc if isinstance(doc, dict) else {}
    requests = _requests(row.get("arguments"))
    responses = row.get("resps") if how.filter is None else row.get("filtered_resps")
    if not isinstance(responses, list) or not responses:
        raise MalformedRowError("no response", excerpt(responses))
    field = how.fields.get
    name = field("id")
    identifier = doc.get(name, row.get(name)) if name else doc.get("sample_id", row.get("doc_id"))
    record = Record(where, checked_id(identifier, name or "doc_id"), category=str(doc.get(field("category", "category")) or ""))
    record.prompt = str(requests[0][0]) if requests and requests[0] else ""
    names = [field("question", "")] if field("question") else ["question", "query"]
    question = next((doc[name] for name in names if isinstance(doc.get(name), str)), None)
    record.question = question or record.prompt
    record.split = str(doc.get("split") or "")
    if "sample_id" in doc and isinstance(name := doc.get("image_id"), str) and not find_id_problem(name):  # an export of ours
        record.n_pictures = len(picture_ids(name))
    target = doc.get(field("target")) if field("target") else row.get("target")
    likelihoods = log_likelihoods(responses)
    if likelihoods is None:
        if requests and len(requests[0]) < 2:
            raise MalformedRowError("no answer: the likelihood of a text", excerpt(responses))
        answers = generated_texts(responses)
        record.references = texts(target)
        record.draws = draws([{"text": text} for text in answers], row)
        _in_words(record, doc, field("choices"))
    else:
        continuations = [str(r[1]).strip() if len(r) > 1 else "" for r in requests]
        if len(likelihoods) < 2 or len(continuations) != len(likelihoods):
            raise MalformedRowError("not one log-likelihood per option", f"{len(likelihoods)} for {len(continuations)} continuations")
        record.choices = _choices(doc.get(field("choices", "choices")), continuations)
        record.answer_index, record.doubt = _right_option(target, doc, record.choices, continuations, row, likelihoods)
        checked = option_log_probabilities(likelihoods)
        record.impossible = [f"option_logits: {checked}"] if isinstance(checked, ImplausibleReason) else []
        record.draws = draws([{} if isinstance(checked, ImplausibleReason) else {"option_logits": checked}], row)
    # The metrics of an export of ours are our own; what another log said lies under its key.
    logged = {} if "sample_id" in doc else verdict({name: row.get(name) for name in row.get("metrics") or VERDICTS})
    record.draws = [draw | logged for draw in record.draws] if len(record.draws) == 1 else record.draws
    used = {"question", "query", "choices", "answer", "split", "category", *how.fields.values(), "sample_id"}
    meta = doc.get("meta")
    record.meta = {**short_fields(meta if isinstance(meta, dict) else {}), **short_fields(doc, used)}
    return record


def _in_words(record: Record, doc: Mapping[str, Any], name: str | None) -> None:
    """Set options and right option of a record whose answers are texts, if known."""
    options = listed_options(doc, (name,) if name else FIELDS)
    if "sample_id" in doc:
        right = doc.get("answer_index")
        if options and isinstance(right, int) and 0 <= right < len(options):
            take_options(record, options, right)
    elif not (options and take_options(record, options)):
        take_lettered_options(record)


def log_likelihoods(responses: Sequence[Any]) -> list[float] | None:
    """Return each [number, flag] response's log-likelihood; None if any is no such pair.

    MalformedRowError if a number is NaN.
    """
    likelihoods = []
    for response in responses:
        while isinstance(response, list) and len(response) == 1 and isinstance(response[0], list):
            response = response[0]
        if not (isinstance(response, list) and len(response) == 2 and str(response[1]) in ("True", "False")):
            return None
        try:
            likelihoods.append(float(response[0]))
        except (TypeError, ValueError):
            return None
    if any(v != v for v in likelihoods):
        raise MalformedRowError("a log-likelihood is not a number", excerpt(responses))
    return likelihoods


def generated_texts(responses: Any) -> list[str]:
    """Return the texts of a request's responses, flat; else MalformedRowError."""
    if isinstance(responses, str):
        return [responses]
    if isinstance(responses, list) and responses:
        if len(responses) == 1 and isinstance(responses[0], list):
            return generated_texts(responses[0])
        if all(isinstance(r, str) for r in responses):
            return list(responses)
        if all(isinstance(r, list) and len(r) == 1 and isinstance(r[0], str) for r in responses):
            return [r[0] for r in responses]
    raise MalformedRowError("responses are neither texts nor log-likelihoods", excerpt(responses))


def draws(native: list[dict[str, Any]], row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each answer's columns with the signals under Qualm's key in `row`, if any.

    MalformedRowError if the signals are not as many as the answers.
    """
    own_columns = row.get(KEY)
    if own_columns is None:
        return native
    signals = own_columns.get("signals") if isinstance(own_columns, Mapping) else None
    if not isinstance(signals, list) or len(signals) != len(native):
        raise MalformedRowError(f"damaged '{KEY}'", f"expected signals of {len(native)} answers, got {excerpt(signals)}")
    return [{**own, **unpack(more)} for own, more in zip(native, signals, strict=True)]


def _requests(arguments: Any) -> list[list[Any]]:
    if isinstance(arguments, dict):
        ordered = sorted(arguments.items(), key=lambda item: int(item[0].rpartition("_")[2]) if item[0][-1:].isdigit() else 0)
        return [list(v.values()) if isinstance(v, dict) else [v] for _, v in ordered]
    if isinstance(arguments, list):
        return [list(v) if isinstance(v, list) else [v] for v in arguments]
    raise MalformedRowError("no arguments", excerpt(arguments))


def _choices(options: Any, continuations: list[str]) -> tuple[str, ...]:
    """Return `options` as texts if there is one per continuation, else the continuations."""
    if isinstance(options, dict):
        options = options.get("text")
    if isinstance(options, list) and len(options) == len(continuations) and all(isinstance(c, str) for c in options):
        return tuple(options)
    return tuple(continuations)


def _right_option(
    target: Any, doc: Mapping[str, Any], choices: tuple[str, ...], continuations: list[str], row: Mapping[str, Any], numbers: list[float]
) -> tuple[int | None, str]:
    """Return (index of the right option, "") or (None, why it is unknown).

    `numbers` are the log-likelihoods of the options. A target may be its number, its text or its letter, and is logged as text. If two of
    them disagree ("1" among options that are numbers), an export of ours says which holds; else the logged `acc` decides if it can: the
    likeliest option is right exactly if it is 1.
    """
    index = doc.get("answer_index")
    if isinstance(index, int) and "sample_id" in doc and 0 <= index < len(choices):
        return index, ""
    text = str(target).strip()
    found = (_place(text, choices), _place(text, continuations), letter_index(text, len(choices)))
    places = {place for place in found if place is not None}
    if text.isdecimal() and int(text) < len(choices):
        places.add(int(text))
    candidates = places
    if len(candidates) > 1 and row.get("acc") in (0, 1):
        best = max(range(len(numbers)), key=numbers.__getitem__)
        candidates = candidates & {best} if row["acc"] else candidates - {best}
    if len(candidates) == 1:
        return candidates.pop(), ""
    return None, f"{'several options fit' if places else 'no option fits'} the target {excerpt(target)}"


def _place(text: str, options: Sequence[str]) -> int | None:
    bare = [o.strip() for o in options]
    return bare.index(text) if bare.count(text) == 1 else None
