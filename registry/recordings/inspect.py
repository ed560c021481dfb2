"""Inspect (inspect_ai) logs, EvalLog version 2: `.eval`, a zip with a member per sample and epoch, and `.json`, one object.

    eval {task, model, created, eval_id, run_id...}, samples [{id, epoch, input, choices, target, output, scores, metadata, error}]

An epoch is a draw: epoch 1 is the answer that is scored (draw 0), epoch k + 1 is draw k; where a call gave several choices
they are draws one after another. Token log-probabilities are there where the run asked for them, of the tokens that the
provider reports, which mostly leaves out the end of sequence. A sample that ended in an error has no answer.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from qualm.registry import CUT_SHORT, ENDED_THINKING, LETTERS
from qualm.registry.formats.faults import Fault
from qualm.registry.formats.json_stream import JsonStreamError, members, reject_duplicate_keys
from qualm.registry.formats.picture_lists import MARK, MAX_IMAGES
from qualm.registry.recordings.options import take_lettered_options
from qualm.registry.recordings.record import (
    ODD,
    ReadOptions,
    Record,
    RecordingError,
    excerpt,
    graded,
    letter_index,
    short_fields,
    texts,
    verdict,
)
from qualm.registry.recordings.signals import KEY, SignalError, unpack

OTHER_MEMBERS = ("header.json", "summaries.json", "reductions.json", "samples/", "_journal/")
"""Members of a log beside its samples and its journal."""
_ATTACHMENT = "attachment://"
_SEEN_FIRST = ("version", "status", "eval", "invalidated", "tags", "metadata")
"""Members of a JSON log that may come before what tells which it is."""


def names(path: Path) -> frozenset[tuple[str, str]] | None:
    head = _eval_header(path)
    if not isinstance(head, Mapping) or not isinstance(head.get("task"), str) or "model" not in head:
        return None
    runs = {str(head[k]) for k in ("model", "created", "eval_id", "run_id") if head.get(k)} | {path.parent.name, path.stem}
    return frozenset((run, task) for run in runs for task in {head["task"], head["task"].rpartition("/")[2]})


def read(path: Path, how: ReadOptions) -> Iterator[Record | Fault]:
    try:
        for where, sample in _samples(path):
            if isinstance(sample, Fault):
                yield sample
                continue
            try:
                yield _record(where, sample, how)
            except SignalError as error:
                yield Fault(where, f"damaged '{KEY}'", str(error))
            except ODD as error:
                yield Fault(where, "not a sample of EvalLog 2", f"{type(error).__name__}: {error}")
    except JsonStreamError as error:
        raise RecordingError(str(error)) from error
    except (LogArchiveError, OSError) as error:
        raise RecordingError(f"{path}: {error}") from error


def _eval_header(path: Path) -> Any:
    """Return a log's `eval` object: model, task, ids; None if the file is no log."""
    try:
        if path.suffix == ".eval":
            with Archive(path) as archive:
                name = next((n for n in ("header.json", "_journal/start.json") if n in archive.members), None)
                return json.loads(archive.read(name)).get("eval") if name else None
        if path.suffix == ".json":
            with path.open("rb") as handle:
                if not handle.read(64).lstrip().startswith(b"{"):
                    return None
            for key, value in members(path, {"samples"}):
                if key == "eval":
                    return value
                if key not in _SEEN_FIRST:
                    return None
    except (LogArchiveError, JsonStreamError, OSError, ValueError, AttributeError, RecursionError):
        return None
    return None


def _samples(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".json":
        number = 0
        for key, value in members(path, {"samples"}, unique_keys=True):
            if key == "samples" and isinstance(value, dict):
                yield f"{path.name} samples[{number}]", value
                number += 1
        return
    with Archive(path) as archive:
        for name in archive.members:
            where = f"{path.name} {name}"
            if not name.startswith("samples/") or not name.endswith(".json"):
                if not name.startswith("_journal/") and name not in OTHER_MEMBERS:
                    yield where, Fault(where, "a member that no log has", harmless=True)
                continue
            try:
                yield where, json.loads(archive.read(name), object_pairs_hook=reject_duplicate_keys)
            except (LogArchiveError, ValueError, RecursionError) as error:
                yield where, Fault(where, "a damaged member", str(error))


def _record(where: str, sample: dict[str, Any], how: ReadOptions) -> Record | Fault:
    metadata = sample.get("metadata") or {}
    field = how.fields.get
    name = metadata.get(field("id", ""), sample.get(field("id", ""))) if field("id") else sample["id"]
    if not isinstance(name, str | int) or isinstance(name, bool):
        return Fault(where, "no id", f"'{field('id', 'id')}' is {excerpt(name)}")
    if sample.get("error"):
        error = sample["error"]
        return Fault(where, "ended in an error", excerpt(error.get("message") if isinstance(error, dict) else error))
    attachments = sample.get("attachments") or {}
    record = Record(where, str(name), category=str(metadata.get(field("category", "category")) or ""))
    _read_input(record, sample.get("input"), attachments)
    question = metadata.get(field("question", "question"))
    record.question = question if isinstance(question, str) else record.prompt
    record.choices = tuple(map(str, sample.get("choices") or ()))
    target = metadata.get(field("target")) if field("target") else sample.get("target")
    references = texts(target)
    if record.choices and len(references) == 1:
        record.answer_index = _option_index(references[0], record.choices)
    record.references = () if record.answer_index is not None else references
    if not record.choices:
        take_lettered_options(record)
    record.split = str(metadata.get("split") or "")
    record.meta = short_fields(metadata, {"question", "category", "split", "choices", *how.fields.values()})
    output = sample.get("output") or {}
    choices = output.get("choices") or []
    if not choices:
        return Fault(where, "no output", excerpt(output.get("error")))
    epoch = sample.get("epoch", 1)
    if not isinstance(epoch, int) or epoch < 1:
        return Fault(where, "no epoch", excerpt(epoch))
    record.draw = (epoch - 1) * len(choices)
    record.draws = [_answer(choice, attachments) for choice in choices]
    signals = (output.get("metadata") or {}).get(KEY)
    if signals is not None:
        record.draws[0] |= unpack(signals)
    elif len(record.draws) == 1:
        scores = sample.get("scores")
        first = next(iter(scores.values()), None) if isinstance(scores, dict) else None
        value = first.get("value") if isinstance(first, dict) else None
        record.draws[0] |= verdict(value) if isinstance(value, dict) else graded(value)
    return record


def _option_index(target: str, choices: tuple[str, ...]) -> int | None:
    """Return the index of the option with this label or, if none has it, this text; else None.

    Inspect labels options "A" to "Z", and from the 27th on "1", "2"...
    """
    place = letter_index(target, len(choices))
    if place is None and target.isdecimal() and 1 <= int(target) <= len(choices) - len(LETTERS):
        place = len(LETTERS) + int(target) - 1
    return place if place is not None else choices.index(target) if target in choices else None


def _answer(choice: Mapping[str, Any], attachments: Mapping[str, str]) -> dict[str, Any]:
    content = choice["message"]["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    columns: dict[str, Any] = {"text": "\n".join(_attached(part["text"], attachments) for part in parts if part.get("type") == "text")}
    thoughts = [part for part in content if part.get("type") == "reasoning"] if isinstance(content, list) else []
    if thoughts:  # log-probabilities are of these tokens too
        reasoning = "\n\n".join(_attached(str(part.get("reasoning") or part.get("summary") or ""), attachments) for part in thoughts)
        columns |= {"thinking": reasoning} if reasoning else {}
        if not columns["text"].strip():
            cut = choice.get("stop_reason") in ("max_tokens", "model_length")
            columns |= {"text": None, "no_answer": CUT_SHORT if cut else ENDED_THINKING}
        return columns
    logprobs = (choice.get("logprobs") or {}).get("content")
    if isinstance(logprobs, list):
        columns["token_logprobs"] = [token.get("logprob") if isinstance(token, dict) else token for token in logprobs]
    return columns


def _read_input(record: Record, messages: Any, attachments: Mapping[str, str]) -> None:
    """Set a record's prompt, images and their number, or what is `lacking`."""
    if isinstance(messages, str):
        record.prompt = _attached(messages, attachments)
        return
    content = [m["content"] for m in messages or () if m.get("role") == "user"]
    turns = [c if isinstance(c, list) else [{"type": "text", "text": c}] for c in content]
    parts = [part for turn in turns for part in turn]
    parts = [part for part in parts if part.get("type") in ("text", "image")]
    texts_of = [_attached(part["text"], attachments) if part["type"] == "text" else None for part in parts]
    record.prompt = "\n".join(text for text in texts_of if text is not None)
    first = next((i for i, text in enumerate(texts_of) if text), len(texts_of))
    if texts_of.count(None) > 1 and None in texts_of[first:] and MARK not in record.prompt:
        record.prompt = "".join(MARK if text is None else text for text in texts_of)
    images = [_decoded(_attached(part["image"], attachments)) for part in parts if part["type"] == "image"]
    if sum(any(part.get("type") == "image" for part in turn) for turn in turns) > 1:
        record.lacking = "it has images in several turns, and a sample is one turn (`pictures: none` takes it without)"
        return
    record.n_pictures = len(images)
    if None in images:
        record.lacking = "an image of it is not in the log (`pictures: none` takes the question without)"
    elif len(images) > MAX_IMAGES:
        record.lacking = f"it has {len(images):,} images; more than {MAX_IMAGES} cannot be read"
    else:
        record.images = tuple(image for image in images if image is not None)


def _attached(text: str, attachments: Mapping[str, str]) -> str:
    return attachments.get(text.removeprefix(_ATTACHMENT), text) if text.startswith(_ATTACHMENT) else text


def _decoded(url: str) -> bytes | None:
    head, _, data = url.partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64"):
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


MAX_MEMBER = 256 * 2**20
"""Bytes that one member may unpack to; one sample of a log is one member."""
FREE, RATIO = 8 * 2**20, 100
"""A member that unpacks to more than so many times its size is refused, beyond this many bytes; so is an archive, beyond ten times them."""
_ZSTANDARD = 93


class LogArchiveError(Exception):
    """Error of a refused or damaged archive or member, with the reason."""


class Archive:
    """Context manager that reads members of an untrusted zip into memory, checked.

    Inspect compresses with Zstandard, which Python's zipfile opens only from 3.14 on, so compressed bytes are unpacked here, no further
    than a limit, and checked against the archive's checksum.
    """

    def __init__(self, path: Path) -> None:
        """Read a zip's list of members; LogArchiveError if damaged or a bomb."""
        self._handle = path.open("rb")
        try:
            with zipfile.ZipFile(self._handle) as directory:
                self.members = {info.filename: info for info in directory.infolist()}  # of two of one name the last counts
            if sum(info.compress_size for info in self.members.values()) > path.stat().st_size:
                raise LogArchiveError("its members overlap, as in archives made to exhaust memory; it is refused: copy the log again")
            if (size := sum(info.file_size for info in self.members.values())) > max(10 * FREE, RATIO * path.stat().st_size):
                raise LogArchiveError(f"unpacks to {size:,} bytes, more than {RATIO} times its size; it is refused")
        except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError) as error:
            self._handle.close()
            raise LogArchiveError(f"not a whole zip archive: {error}; copy it again") from error
        except LogArchiveError:
            self._handle.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._handle.close()

    def read(self, name: str, limit: int = MAX_MEMBER) -> bytes:
        """Return a member's unpacked bytes; LogArchiveError above `limit` or damaged.

        Raises:
            LogArchiveError: it unpacks to more than `limit`, or more than 8 MiB and 100 times its size; is damaged, encrypted, or
                compressed in another way.
        """
        info = self.members[name]
        limit = min(limit, max(FREE, RATIO * info.compress_size))
        if info.file_size > limit:
            raise LogArchiveError(f"unpacks to {info.file_size:,} bytes; more than {limit:,} are refused")
        if info.flag_bits & 1:
            raise LogArchiveError("is encrypted; zip the log again without a password")
        self._handle.seek(info.header_offset)
        header = self._handle.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            raise LogArchiveError("has no header where the directory says: damaged, copy it again")
        self._handle.seek(sum(struct.unpack("<HH", header[26:30])), 1)
        data = _unpacked(self._handle.read(info.compress_size), info.compress_type, limit)
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise LogArchiveError("is damaged: length or checksum differ from the directory's; copy it again")
        return data


def _unpacked(data: bytes, method: int, limit: int) -> bytes:
    if method == zipfile.ZIP_STORED:
        return data
    try:
        if method == zipfile.ZIP_DEFLATED:
            content = zlib.decompressobj(-15).decompress(data, limit + 1)
        elif method == _ZSTANDARD:
            import pyarrow as pa

            content = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(limit + 1)
        else:
            raise LogArchiveError(f"is compressed by method {method}; stored, deflated and Zstandard are read: zip the log again")
    except (zlib.error, OSError) as error:
        raise LogArchiveError(f"is damaged: {error}") from error
    if len(content) > limit:
        raise LogArchiveError(f"unpacks to more than {limit:,} bytes, which are refused")
    return content
