"""Proposal of adapter and columns for a folder of a user's data.

A person confirms or changes it; it is written to a card and nothing is proposed again after that.
"""

import base64
import binascii
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from os.path import commonprefix
from pathlib import Path, PurePosixPath
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._fields import field_names, value_at
from qualm.registry.adapters._mapped import TRUTH, Columns, files_by_split, image_path
from qualm.registry.adapters._official import read_records, read_rows
from qualm.registry.adapters._parquet import rows as parquet_rows
from qualm.registry.adapters._pictures import cell_content
from qualm.registry.adapters._table_pictures import POINTER
from qualm.registry.entries.layout import JUNK, matches
from qualm.registry.formats.columnar import SUFFIXES as COLUMNAR
from qualm.registry.formats.json_stream import JsonStreamError, members, values
from qualm.registry.formats.pictures import is_image_name
from qualm.registry.formats.text_tables import TextTableError, rows
from qualm.registry.system.file_names import SHARD, missing_shards
from qualm.registry.text import list_in_text, one_line

TEXTS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
TABLES = ((".parquet",), (".arrow",), TEXTS)
"""Kinds of tables; where a folder has several, those of the first are taken."""
CACHED = "cache-"
"""Prefix of cache files that `datasets` leaves in a saved dataset."""
SPLITS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev"), "test": ("test", "testing")}
SUFFIXES: dict[str, tuple[str, ...]] = {
    "vlmevalkit_tsv": (".tsv", ".csv"),
    "coco_folder": (".json",),
    "image_table": tuple(suffix for kind in TABLES for suffix in kind),
}
"""Suffixes that each adapter reads, most specific adapter first; Parquet and Arrow are tried before all of them."""
HEAD = 200
"""Records that are looked at."""
MAX_FILES = 1_000_000
PROBED = 20
"""Images of each split that are looked for."""
MAX_TEXTS_PER_LIST = 10
"""One text in so many must have a separator for it to be proposed."""
MAX_SLICE_LENGTH = 40
"""Characters of a value that samples are grouped by."""
LIST_COLUMNS = ("images", "image_paths", "pictures", "photos", "imgs")
NAMES = {
    "image": (
        *("image", "image_path", "img", "picture", "photo", "file_name", "filename", "file", "path", "image_file", "img_path"),
        *LIST_COLUMNS,
    ),
    "question": ("question", "query", "prompt", "instruction", "text", "problem"),
    "answer": (
        *("answer", "answers", "label", "gt_answer", "ground_truth", "target", "correct", "correct_answer", "multiple_choice_answer"),
        *("answer_key", "answerkey", "gold", "caption"),
    ),
    "id": ("id", "question_id", "qid", "index", "uid", "sample_id"),
    "category": ("category", "question_type", "type", "kind", "subject", "category_id"),
    "answerable": ("answerable", "is_answerable", "has_answer", "has_answers"),
    "unanswerable": ("unanswerable", "is_unanswerable", "is_impossible", "impossible", "not_answerable", "no_answer"),
}
"""Usual names of columns, the likeliest first."""
LEAVES = ("text", "value", "answer", "answers")
"""Usual names of the field that holds the words, in a record under a usual name: `answers.text`."""
SEPARATOR = "|"
LISTS = ("choices", "options", "candidates")
SERIES = (("A", "B"), ("a", "b"), ("choice_a", "choice_b"), ("option_a", "option_b"), ("optionA", "optionB"), ("choice1", "choice2"))
"""First two names of columns with one option each; the series goes on by letter or number."""


class NewCardError(Exception):
    """Error that no card can be proposed or written, with the remedy."""


@dataclass
class Proposal:
    """Result of `propose`: an adapter, its arguments, example values and notes."""

    adapter: str
    args: dict[str, Any]
    columns: dict[str, str] = field(default_factory=dict)
    """Column -> a value of it, shortened."""
    notes: list[str] = field(default_factory=list)
    """Observations that did not become part of the card."""
    suffixes: frozenset[str] = frozenset()
    """Suffixes of the images that the table names."""


def propose(folder: Path, adapter: str | None = None, files: Mapping[str, str] | None = None) -> Proposal:
    """Return the likeliest adapter and arguments for a folder; NewCardError if none."""
    listed = list_names(folder)
    reader = adapter or _adapter(folder, listed)
    notes: list[str] = []
    by_split = dict(files) if files else _splits([n for n in _tables(listed, reader) if _fits(folder, n, reader)], notes)
    notes += [f"missing: {name}" for name in missing_shards(listed)]
    heads = _first_records(folder, reader, by_split)
    records = [record for _, record in heads]
    if reader == "image_table":
        names = dict.fromkeys(name for record in records for name in field_names(record))
        names = {n: None for n in names if not any(other.startswith(f"{n}.") for other in names if other != n)}
        records = [{name: _value(record, name) for name in names} for record in records]
        heads = [(split, record) for (split, _), record in zip(heads, records, strict=True)]
    columns = {name: _example([r.get(name) for r in records]) for name in dict.fromkeys(name for r in records for name in r)}
    args: dict[str, Any] = {"files": by_split}
    if reader == "vlmevalkit_tsv":
        if "image" not in columns and "image_path" in columns:
            args["images"] = _images(folder, listed, heads, ["image_path"], by_split)
        return Proposal(reader, args, columns, notes)
    args |= _mapping(records, columns, reader, notes)
    if reader == "coco_folder":
        args["images"] = _images(folder, listed, heads, ["file_name"], by_split)
    elif reader == "image_table" and not args["image"] and any(map(is_image_name, listed)):
        notes.append("no column of images was found: the questions are asked without one (`-O image=COLUMN` names it)")
    elif reader == "image_table" and args["image"]:
        columns_of = [args["image"]] if isinstance(args["image"], str) else args["image"]
        args["images"] = _images(folder, listed, heads, columns_of, by_split)
        named = (cell_content(cell)[1] for _, r in heads for column in columns_of for cell in _cells(r.get(column)))
        return Proposal(reader, args, columns, notes, frozenset(PurePosixPath(name).suffix for name in named if name))
    return Proposal(reader, args, columns, notes)


def list_names(folder: Path) -> list[str]:
    """Return the sorted paths of a folder's files, no links or junk; NewCardError for too many."""
    paths: list[str] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f not in JUNK and not os.path.islink(f"{parent}/{f}")]  # noqa: PTH114 - of a million
        inside = Path(parent).relative_to(folder).as_posix()
        paths += [n if inside == "." else f"{inside}/{n}" for n in names if n not in JUNK and not os.path.islink(f"{parent}/{n}")]  # noqa: PTH114
        if len(paths) > MAX_FILES:
            raise NewCardError(f"{folder}: more than {MAX_FILES:,} files; put the dataset into a folder of its own")
    return sorted(paths)


def _adapter(folder: Path, listed: Sequence[str]) -> str:
    """Return the name of the first adapter that reads `listed` files; else NewCardError."""
    if _tables(listed, "image_table") and not _tables(listed, "image_table")[0].lower().endswith(TEXTS):
        return "image_table"
    for adapter in SUFFIXES:
        if any(_fits(folder, n, adapter) for n in _tables(listed, adapter)):
            return adapter
    kinds = ", ".join(sorted({PurePosixPath(n).suffix or n for n in listed})[:20]) or "nothing"
    raise NewCardError(f"{folder}: expected Parquet, CSV, TSV, JSON or JSON Lines with questions; there is: {kinds}")


def _tables(listed: Sequence[str], adapter: str) -> list[str]:
    """Return the tables of the first format present (Parquet, Arrow, text) for an adapter."""
    names = [n for n in listed if n.lower().endswith(SUFFIXES[adapter]) and not PurePosixPath(n).name.startswith(CACHED)]
    return next((of_kind for kind in TABLES if (of_kind := [n for n in names if n.lower().endswith(kind)])), [])


def _value(record: Mapping[str, Any], name: str) -> Any:
    """Return a record's value at a dotted field; None if its structure differs."""
    try:
        return value_at(record, name, "")
    except AdapterError:
        return None


def _fits(folder: Path, name: str, adapter: str) -> bool:
    """Return whether a JSON or VLMEvalKit file fits this adapter by its head; True for others."""
    try:
        if adapter == "vlmevalkit_tsv":
            return _is_vlmevalkit(folder / name)
        if adapter in ("coco_folder", "image_table") and name.lower().endswith(".json"):
            coco = {"images", "annotations"} <= _keys(folder / name)
            return coco if adapter == "coco_folder" else not coco and isinstance(next(values(folder / name))[1], dict)
    except (TextTableError, JsonStreamError, StopIteration, OSError):
        return False
    return True


def _is_vlmevalkit(path: Path) -> bool:
    """Return whether a table has VLMEvalKit's columns; a CSV also needs images or their paths."""
    lines = (cells for _, cells in rows(path))
    head = next(lines, [])
    if not {"index", "question"} <= set(head):
        return False
    if path.suffix.lower() == ".tsv" or "image_path" in head:
        return True
    cell = dict(zip(head, next(lines, []), strict=False)).get("image", "")
    try:
        return len(cell) > POINTER and bool(base64.b64decode(cell, validate=True))
    except (binascii.Error, ValueError):
        return False


def _keys(path: Path) -> set[str]:
    with path.open("rb") as handle:
        if not handle.read(1024).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
            return set()
    try:
        return {key for key, _ in members(path, None)}
    except JsonStreamError:
        return set()


def _splits(names: Sequence[str], notes: list[str]) -> dict[str, str]:
    """Return {split: path or pattern} by words in names; all are `test` if none names a split.

    Where some names have a split, files without one are left out, which is appended to `notes`.
    """
    by_split: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_split[_split(name)].append(name)
    others = by_split.pop("", [])
    if not by_split:
        by_split["test"] = others
    elif others:
        notes.append(f"not taken, since no split is in their names: {', '.join(others[:5])}{'...' if len(others) > 5 else ''}")
    return {split: _pattern(split, by_split[split], names) for split in SPLITS if by_split[split]}


def _split(name: str) -> str:
    """Return "train", "val" or "test" as a path's folders or name say, innermost first; or ""."""
    for part in reversed(PurePosixPath(name.lower()).parts):
        words = set(re.split(r"[^a-z]+", part))
        if split := next((split for split, words_of_split in SPLITS.items() if set(words_of_split) & words), ""):
            return split
    return ""


def _pattern(split: str, matching: Sequence[str], names: Sequence[str]) -> str:
    odd = next((n for n in matching if re.search(r"[\[\]*?]", n)), None)
    if odd is not None:
        raise NewCardError(f"{odd!r}: a file name with one of [ ] * ?, which stand for others in patterns; rename it")
    if len(matching) == 1:
        return SHARD.sub(r"*-of-\1", matching[0]) if missing_shards(matching) else matching[0]
    begin, suffix = commonprefix(list(matching)).rstrip("0123456789"), PurePosixPath(matching[0]).suffix  # noqa: RUF071 - of characters
    for pattern in (f"{begin}*{suffix}", f"{begin}**/*{suffix}" if begin.endswith("/") or not begin else ""):
        if pattern and [n for n in names if matches(pattern, n)] == sorted(matching):
            return pattern
    raise NewCardError(f"{split}: no pattern fits {', '.join(matching[:5])} and no other file; say `-O 'files={{{split}: PATTERN}}'`")


def _first_records(folder: Path, adapter: str, files: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    records: list[tuple[str, dict[str, Any]]] = []
    try:
        for split, _, path in files_by_split(folder, files):
            read = _coco if adapter == "coco_folder" else _table
            records += [(split, record) for record in islice(read(path), HEAD)]
    except AdapterError as error:
        raise NewCardError(str(error)) from error
    if not records:
        raise NewCardError(f"{folder}: {', '.join(files.values())}: no records")
    return records


def _table(path: Path) -> Iterator[dict[str, Any]]:
    lenient = AdapterContext(path.parent, bad=lambda error: None)  # only a proposal: errors are reported when the data are read
    if path.suffix.lower() in COLUMNAR:
        yield from (row for _, row in parquet_rows(path, context=lenient))
        return
    if path.suffix.lower() in (".csv", ".tsv"):
        yield from (row for _, row in read_rows(path, "a table of questions", context=lenient))
        return
    for where, record in read_records(path, "a list or lines of questions", context=lenient):
        if not isinstance(record, dict):
            raise NewCardError(f"{where}: expected an object of keys, got {record!r:.60}")
        yield record


def _coco(path: Path) -> Iterator[dict[str, Any]]:
    from qualm.registry.adapters.coco_folder import image_file_names

    names = image_file_names(path)
    for _, record in read_records(path, "a COCO-style annotation file", "annotations"):
        if isinstance(record, dict):
            yield {**record, "file_name": names.get(str(record.get("image_id")), "")}


def _mapping(records: Sequence[Mapping[str, Any]], columns: Iterable[str], adapter: str, notes: list[str]) -> dict[str, Any]:
    """Return {adapter parameter: column or value} by names and contents; append to `notes`."""
    there = list(columns)
    lower = {name.lower(): name for name in there}
    mapping: dict[str, Any] = {key: _find_column(key, lower, records) for key in NAMES}
    choices = _choices(records, there)
    if mapping["id"] is not None and len(counts := Counter(str(r.get(mapping["id"])) for r in records)) < len(records):
        often, times = counts.most_common(1)[0]
        notes.append(f"not taken as ids, since {one_line(often)!r} stands in {times} rows: {one_line(mapping['id'])}")
        mapping["id"] = None
    if mapping["answerable"] is not None or mapping["unanswerable"] is None:
        del mapping["unanswerable"]
    if mapping["answerable"] is None:
        del mapping["answerable"]
    if adapter == "coco_folder":
        del mapping["image"]
        mapping.pop("unanswerable", None)  # which annotations of COCO's kind do not have
        if mapping["question"] is None:
            mapping |= {"per": "image", "instruction": "Describe the picture."} if mapping["answer"] == "caption" else {}
    mapping["choices"] = choices
    if adapter == "image_table":
        mapping["image"] = _image_columns(records, there, mapping["image"])
        if (separator := _separator(records, choices or [mapping["answer"]])) is not None:
            mapping["separator"] = separator
            several = "options" if choices else "answers"
            notes.append(f"texts are parted at '{separator}' into several {several} (`-O separator=null` takes them whole)")
    image = mapping.get("image")
    empty = any(r.get(image) in ([], "[]", None) for r in records) if isinstance(image, str) else _has_empty_record(records, image or [])
    if empty and adapter == "image_table":
        mapping["text_only"] = True
        notes.append("rows without an image are questions without one (`text_only`)")
    if choices:
        mapping["answer_is"], *others = _answer_is(records, mapping["answer"], choices)
        if others:
            which = f"answers are read as {mapping['answer_is']}, and could be {' or '.join(others)}"
            notes.append(f"{which}: look at the samples, or say `-O answer_is=...`")
    if adapter != "coco_folder":
        read = {*choices, *(v for v in mapping.values() if isinstance(v, str)), *(image if isinstance(image, list) else [])}
        mapping["meta"] = [n for n in there if n not in read and _is_sliceable([r.get(n) for r in records])]
    return mapping


def _find_column(key: str, lower: Mapping[str, str], records: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the column or dotted field for parameter `key`; None if none fits.

    `lower` is {lower-case name: column}. Columns with one of the parameter's usual names come first, then fields of such columns, then
    fields of any column.
    """
    usual_names = NAMES[key]
    of_others = {name for other, names in NAMES.items() if other != key for name in names} - set(usual_names) | set(LISTS)
    in_record = [f"{name}.{leaf}" for name in usual_names for leaf in (*LEAVES, *usual_names)]
    within = [n for leaf in usual_names for n in lower if n.endswith(f".{leaf}") and n.partition(".")[0] not in of_others]
    found = (lower[name] for name in (*usual_names, *in_record, *within) if name in lower)
    if key in ("answerable", "unanswerable"):
        truth_words = (name for name in found if all(str(r.get(name)).strip().lower().removesuffix(".0") in TRUTH for r in records))
        return next(truth_words, None)
    if key in ("id", "category"):
        return next((name for name in found if not any(isinstance(r.get(name), list | dict) for r in records)), None)
    return next(found, None)


def _image_columns(records: Sequence[Mapping[str, Any]], columns: Sequence[str], usual: str | None) -> str | list[str] | None:
    """Return the column(s) whose cells are images, else `usual`, else numbered ones; or None."""
    holding = [n for n in columns if any(_is_picture(r.get(n)) for r in records)]
    if not holding:
        return usual if usual is not None else _numbered_columns(columns)
    first = usual if usual in holding else holding[0]
    series = _numbered_columns(holding)
    return series if series is not None and first in series else first


def _separator(records: Sequence[Mapping[str, Any]], columns: Sequence[str | None]) -> str | None:
    """Return "|" if it separates answers or options in these columns, else None."""
    texts = [v for r in records for c in columns if c is not None and isinstance(v := r.get(c), str) and v and not _listed(v)]
    parted = [[part.strip() for part in text.split(SEPARATOR)] for text in texts if SEPARATOR in text]
    whole = all(part and all(part.count(a) == part.count(b) for a, b in ("()", "[]", "{}")) for parts in parted for part in parts)
    return SEPARATOR if parted and whole and len(parted) * MAX_TEXTS_PER_LIST >= len(texts) else None


def _numbered_columns(columns: Sequence[str]) -> list[str] | None:
    """Return columns `image_1`, `image_2`... by number; None if fewer than two."""
    series: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in columns:
        found = re.fullmatch(r"(.*?)[_ -]?(\d{1,3})", name.lower())
        if found is not None and found[1] in NAMES["image"]:
            series[found[1]].append((int(found[2]), name))
    return next(([name for _, name in sorted(of)] for of in series.values() if len(of) > 1), None)


def _has_empty_record(records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bool:
    """Return whether some record has a value in none of `columns`; False without columns."""
    return bool(columns) and any(not any(_cells(r.get(n)) for n in columns) for r in records)


def _is_sliceable(values: Sequence[Any]) -> bool:
    """Return whether values are short and some repeat, so that slices make sense."""
    present = [v for v in values if v not in (None, "")]
    short = all(isinstance(v, str | int | bool) and len(str(v)) <= MAX_SLICE_LENGTH for v in present)
    return short and len(set(map(str, present))) < len(present)


def _is_picture(value: Any) -> bool:
    """Return whether a cell, or its first item, is bytes, base64 or a {bytes, path} record.

    A path as text is none; a record with a path and no bytes is one.
    """
    value = value[0] if isinstance(value, list) and value else value
    if isinstance(value, dict):
        return set(value) == {"bytes", "path"}
    return isinstance(value, bytes) or (isinstance(value, str) and cell_content(value)[0] is not None)


def _choices(records: Sequence[Mapping[str, Any]], there: Sequence[str]) -> list[str]:
    for name in there:
        head, _, leaf = name.lower().partition(".")
        if head in LISTS and leaf in ("", *LEAVES) and any(_listed(r.get(name)) or _parted(r.get(name)) for r in records):
            return [name]
    for first, second in SERIES:
        if first in there and second in there:
            stem, start = first[:-1], first[-1]
            series = [f"{stem}{chr(ord(start) + i)}" for i in range(26 if start.isalpha() else 9)]
            return [name for i, name in enumerate(series) if all(s in there for s in series[: i + 1])]
    return []


def _parted(value: Any) -> bool:
    return isinstance(value, str) and len([part for part in value.split(SEPARATOR) if part.strip()]) > 1


def _listed(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, str) and value.lstrip().startswith("["))


def _answer_is(records: Sequence[Mapping[str, Any]], answer: str | None, choices: Sequence[str]) -> list[str]:
    """Return the values of `answer_is` that fit, the likeliest first; ["text"] if none fits.

    Of values with equal outcomes only the first is returned.
    """
    answered = [r for r in records if answer is not None and r.get(answer) not in (None, "")]
    readings: dict[tuple[int | None, ...], str] = {}
    for form in ("letter", "text", "index", "index_from_1"):
        columns = Columns("", instruction="?", answer=answer, answer_is=form, choices=choices, separator=SEPARATOR)
        try:
            samples = [columns.sample(r, None, "", "", "") for r in answered]
        except AdapterError:
            continue
        if any(sample.choices for sample in samples):
            readings.setdefault(tuple(sample.answer_index for sample in samples), form)
    return list(readings.values()) or ["text"]


def _images(
    folder: Path, listed: Sequence[str], heads: Sequence[tuple[str, Mapping[str, Any]]], columns: Sequence[str], files: Mapping[str, str]
) -> str:
    """Return the folder of the images that records name, maybe with `{split}`, else ".".

    `heads` are (split, record) pairs; `columns` hold the images' names.
    """
    named = [(split, path) for split, r in heads for column in columns for cell in _cells(r.get(column)) if (path := cell_content(cell)[1])]
    probes = [(split, name) for split in files for name in [n for s, n in named if s == split][:PROBED]]
    tops = dict.fromkeys(str(PurePosixPath(*PurePosixPath(n).parts[:depth])) for depth in (1, 2, 3) for n in listed if "/" in n)
    each = dict.fromkeys(top.replace(split, "{split}", 1) for top in tops for split in files if split in top) if len(files) > 1 else {}
    pictures_in = {place: sum(_exists(folder, image_path(place, split, name)) for split, name in probes) for place in (".", *each, *tops)}
    best = max(pictures_in, key=lambda place: pictures_in[place])  # the first of those with most: where names come again, each split's own
    return best if pictures_in[best] else "."


def _cells(value: Any) -> list[Any]:
    """Return the items of a list (also one as JSON or Python text), or [value]; none empty."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        items = list_in_text(value)
        value = value if items is None else items
    cells = value if isinstance(value, list) else [value]
    return [cell for cell in cells if cell not in (None, "")]


def _exists(folder: Path, name: str) -> bool:
    try:
        return (folder / name).is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _example(column: Sequence[Any]) -> str:
    value = next((v for v in column if v not in (None, "", [])), None)
    text = "an image" if _is_picture(value) else "" if value is None else str(value)
    text = one_line(" ".join(text[:200].split()))
    return f"{text[:37]}..." if len(text) > 40 else text
