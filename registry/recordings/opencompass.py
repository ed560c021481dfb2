"""OpenCompass: WORK/predictions/MODEL/DATASET.json, an object with an entry per question ("0", "1", ...), or the details of its results.

    generation       {origin_prompt, prediction, gold}, prediction a text or, of several draws, a list of texts
    PPL              {"label: A": {testing input, prompt, PPL}, ..., prediction, gold}
    log-likelihood   {"label: A": {testing input, prompt, Loglikelihood}, ..., prediction, gold}
    CLP              {testing input, prompt, choices, prediction, pred_label, gold}, prediction the probability of each choice

PPL is, despite its name, the mean negative log-likelihood of a token of prompt and option together, and the smallest is the
prediction; `option_logits` are it negated: they rank the options as OpenCompass does, and their softmax is flatter than the
probability of the options. A large dataset lies in pieces, DATASET_0.json, DATASET_1.json..., which are one task here. Where there
are no predictions, WORK/results/MODEL/DATASET.json has the answers too if it was written with `--dump-eval-details`. A right
answer that is empty or 0 is not logged (`if gold:`). There are no images and no log-probabilities of tokens.
"""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from qualm.registry.formats.faults import Fault
from qualm.registry.formats.json_stream import JsonStreamError, members
from qualm.registry.recordings.lm_eval import MalformedRowError, build_record, checked_id
from qualm.registry.recordings.options import option_index, take_lettered_options
from qualm.registry.recordings.record import ReadOptions, Record, RecordingError, excerpt, texts, verdict

LABEL = "label: "
DETAILS = "details"
EXTRACTED = "extracted"
_PIECE = re.compile(r"(?P<task>.+)_(?P<number>\d+)")
_QUESTION = re.compile(r"\d+")
_IDS = {"id", "pid", "qid", "question_id"}
_ENTRY = ("prediction", "predictions", "origin_prediction", "pred")


def names(path: Path) -> frozenset[tuple[str, str]] | None:
    if path.suffix != ".json":
        return None
    folder = path.parent.parent
    if folder.name == "results" and (folder.parent / "predictions" / path.parent.name).is_dir():
        return None  # the answers themselves lie beside
    if not _is_opencompass(path):
        return None
    piece = _piece(path)
    if piece is not None and piece[1] > 0:
        return None  # read with the first
    return frozenset({(path.parent.name, piece[0] if piece else path.stem), (folder.parent.name, piece[0] if piece else path.stem)})


def _piece(path: Path) -> tuple[str, int] | None:
    """Return (task, piece number) if a task's file is split in pieces; else None."""
    match = _PIECE.fullmatch(path.stem)
    if match is None or path.with_name(f"{match['task']}.json").exists() or not path.with_name(f"{match['task']}_0.json").exists():
        return None
    return match["task"], int(match["number"])


def _is_opencompass(path: Path) -> bool:
    try:
        for key, value in members(path):
            if key == DETAILS:
                return any(_is_entry(entry) for _, entry in _numbered(value))
            if _QUESTION.fullmatch(key):
                return _is_entry(value) and not (value.keys() & _IDS)  # OpenCompass has no ids but the numbers
            if isinstance(value, Mapping | list) and path.parent.parent.name != "results":
                return False
    except (JsonStreamError, OSError):
        return False
    return False


def _is_entry(value: Any) -> bool:
    return isinstance(value, Mapping) and any(name in value for name in _ENTRY)


def read(path: Path, how: ReadOptions) -> Iterator[Record | Fault]:
    if how.filter not in (None, EXTRACTED):
        raise RecordingError(f"{path}: no filter '{how.filter}'; the details of OpenCompass's results have '{EXTRACTED}'")
    piece = _piece(path)
    pieces = (path.with_name(f"{piece[0]}_{n}.json") for n in count()) if piece else iter((path,))
    before = 0
    for file in pieces:
        if not file.exists():
            return
        entries = 0
        try:
            for name, entry in _entries(file):
                entries += 1
                identifier = str(int(name) + before) if _QUESTION.fullmatch(name) and len(name) < 19 else name
                yield build_record(_record, f"{file.name} {name[:40]!r}", {"id": identifier, "entry": entry}, how)
        except JsonStreamError as error:
            raise RecordingError(str(error)) from error
        except OSError as error:
            raise RecordingError(f"{file}: {error}") from error
        before += entries


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    for key, value in members(path, unique_keys=True):
        if key == DETAILS:
            yield from _numbered(value)
        elif _QUESTION.fullmatch(key):
            yield key, value


def _numbered(details: Any) -> Iterator[tuple[str, Any]]:
    """Yield (number as text, question) of `details`: its items, or its entries of numeric key."""
    pairs = enumerate(details) if isinstance(details, list) else details.items() if isinstance(details, Mapping) else ()
    yield from ((str(key), value) for key, value in pairs if _QUESTION.fullmatch(str(key)))


def _record(where: str, row: dict[str, Any], how: ReadOptions) -> Record:
    entry = row["entry"]
    if not isinstance(entry, dict):
        raise MalformedRowError("not an object", excerpt(entry))
    field = how.fields.get
    identifier = checked_id(entry.get(field("id", "")) if field("id") else row["id"], str(field("id")))
    record = Record(where, identifier, category=str(entry.get(field("category", "category")) or ""))
    record.question, record.prompt = _wording(entry.get("origin_prompt", entry.get("prompt", entry.get("testing input"))))
    if isinstance(entry.get(field("question", "")), str):
        record.question = entry[field("question", "")]
    target = next((entry[name] for name in (field("target", "gold"), "references", "answer") if entry.get(name) is not None), None)
    labels = {name.removeprefix(LABEL): value for name, value in _labelled(entry) if isinstance(value, Mapping)}
    if labels:
        _by_label(record, labels, target)
    elif isinstance(entry.get("choices"), list) and isinstance(entry.get("prediction"), list):
        _by_probability(record, entry, target)
    else:
        record.references = texts(target)
        record.draws = [{"text": text} for text in _answers(entry, how)]
        take_lettered_options(record)
    if len(record.draws) == 1:
        record.draws[0] |= verdict(entry)
    return record


def _labelled(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of an entry's options: keys "label: A", or labels with likelihoods."""
    yield from ((name, value) for name, value in entry.items() if name.startswith(LABEL))
    nested = entry.get("origin_prediction")
    if isinstance(nested, Mapping):
        yield from ((name, value) for name, value in nested.items() if isinstance(value, Mapping) and {"PPL", "Loglikelihood"} & {*value})


def _wording(prompt: Any) -> tuple[str, str]:
    """Return (last user turn, whole prompt); "" for other types, an error for several rounds."""
    if isinstance(prompt, str):
        return prompt, prompt
    if not isinstance(prompt, list):
        return "", ""
    if any(isinstance(turn, list) for turn in prompt):
        raise MalformedRowError("several rounds; a sample is one turn", excerpt(prompt))
    turns = [(str(turn.get("role", "")).lower(), str(turn.get("prompt", turn.get("content", "")))) for turn in prompt]
    questions = [text for role, text in turns if role in ("human", "user")]
    return questions[-1] if questions else "", "\n".join(text for _, text in turns)


def _answers(entry: Mapping[str, Any], how: ReadOptions) -> list[str]:
    names = ("predictions", "pred") if how.filter == EXTRACTED else ("prediction", "origin_prediction", "predictions", "pred")
    answer = next((entry[name] for name in names if entry.get(name) is not None), None)
    if isinstance(answer, Mapping):  # beside the answer, what the run noted of it
        answer = answer.get("prediction")
    answers = [answer] if isinstance(answer, str) else answer
    if not isinstance(answers, list) or not answers or not all(isinstance(text, str) for text in answers):
        raise MalformedRowError("no response", excerpt(answer))
    return answers


def _by_label(record: Record, labels: Mapping[str, Mapping[str, Any]], target: Any) -> None:
    numbers = [-_number(value["PPL"]) if "PPL" in value else _number(value["Loglikelihood"]) for value in labels.values()]
    if len(numbers) < 2:
        raise MalformedRowError("not one number per option", excerpt(labels))
    first = next(iter(labels.values()))
    questions = _wording(first.get("testing input", first.get("prompt")))
    record.question, record.prompt = (record.question or questions[0], _wording(first.get("prompt"))[1] or record.prompt or questions[1])
    _options(record, tuple(labels), target)
    record.draws = [{"option_logits": numbers}]


def _by_probability(record: Record, entry: Mapping[str, Any], target: Any) -> None:
    shares = [_number(value) for value in entry["prediction"]]
    if len(shares) != len(entry["choices"]) or len(shares) < 2 or any(not 0 < share <= 1 for share in shares):
        raise MalformedRowError("not one probability per option", excerpt(entry["prediction"]))
    record.prompt = _wording(entry.get("prompt"))[1] or record.prompt
    _options(record, tuple(map(str, entry["choices"])), target)
    record.draws = [{"option_logits": [math.log(share) for share in shares]}]


def _options(record: Record, choices: tuple[str, ...], target: Any) -> None:
    record.choices = choices
    place = target if isinstance(target, int) and not isinstance(target, bool) and str(target) not in choices else None
    record.answer_index = place if place is not None and 0 <= place < len(choices) else option_index(texts(target), choices)
    record.doubt = "" if record.answer_index is not None else f"no option fits the right answer {excerpt(target)}"


def _number(value: Any) -> float:
    number = float(value)
    if not math.isnan(number):  # an option's perplexity may be infinite: the model rules it out
        return number
    raise MalformedRowError("a number that cannot be", excerpt(value))
