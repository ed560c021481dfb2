"""Streaming of huge JSON files: members of an object, items of a list, or JSON Lines.

GQA's files are objects of a gigabyte; VQA's hold lists of millions of answers; POPE's are JSON Lines named `.json`. Loading such a file
takes ten times its size in memory.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

CHUNK = 1 << 20
MAX_LENGTH = 2**27
"""Characters of one value, or bytes of one line, that are read into memory; more is refused."""
MAX_PARTS = 2**22
"""Items and members of one value; each takes some seventy bytes, where it may have been two in the file."""
_SPACE = " \t\r\n"
_SPACES = re.compile(f"[{_SPACE}]*")
_ENDS = _SPACE + ",:}]"
_CUT = 16
"""Characters at the end of the buffer where an error may be a token cut in two; earlier errors are real."""
_HTML = ("<!doctype", "<html", "<head", "<?xml")


class JsonStreamError(Exception):
    """Error of a file that is cut or not the expected JSON; names file and line."""


class BadTextError(JsonStreamError):
    r"""Error of a value with half a surrogate pair; reading can go on after it."""


def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object's (key, value) pairs as dict; ValueError if a key repeats."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r:.60} occurs twice")
    return mapping


def members(
    path: Path, spread: Collection[str] | None = (), bad: Callable[[JsonStreamError], None] | None = None, unique_keys: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of a JSON object's members, lists of `spread` keys item by item.

    Args:
        spread: members of which each item of their list is given alone, as (key, item); None = all. One that is no list comes whole.
        bad: told of values with half of a surrogate pair, which are then left out; None = they are given as they are.
        unique_keys: refuse values that have a key twice, as two records have of which a part between is lost.

    Raises:
        JsonStreamError: the file is not an object, or is cut off.
    """
    with _open(path) as handle:
        reader = _Reader(path, handle, "object", unique_keys)
        for _ in reader.entries("{", "}", "a JSON object"):
            key = reader.key()
            listed = (spread is None or key in spread) and reader.peek() == "["
            for _ in reader.entries("[", "]", "a list") if listed else (None,):
                for value in (reader.decoded(),) if bad is None else _value(reader, bad):
                    yield key, value
        reader.end()


def values(path: Path, under: str | None = None, bad: Callable[[JsonStreamError], None] | None = None) -> Iterator[tuple[int, Any]]:
    """Yield (line number, record) of a JSON list or JSON Lines; `under`: of that key's list.

    Args:
        under: the records are the list under this key of one JSON object; `*` = the object's members, each as (key, value).
        bad: called with lines that are not valid JSON, and with values that hold half of a surrogate pair; both are then left out. None
            raises. A broken list has nothing behind its break, so it is always raised.

    Raises:
        JsonStreamError: the file is something else, is cut off, is not UTF-8, or has no such key.
    """
    if under is None and first_byte(path) == b"{":
        yield from lines(path, bad)
        return
    with _open(path) as handle:
        reader = _Reader(path, handle, "list" if under is None else "object")
        if under is not None:
            yield from _members(reader, under, bad)
        else:
            if reader.peek("is empty") != "[":
                reader.fail(f"expected a JSON list or lines of JSON objects, it begins with {reader.next_characters()!r}")
            yield from _items(reader, "a list", bad)
            reader.end()


def count(path: Path) -> int | None:
    """Return the number of records in a JSON file: items, lines or members; None without any.

    Records are items of a list, lines of JSON Lines, or of an object the items of its longest list; without lists, its members where each
    is an object (questions by id).
    """
    begins = first_byte(path)
    if begins == b"{" and _has_lines(path):
        return sum(1 for _ in lines(path))
    with _open(path) as handle:
        reader = _Reader(path, handle, "list" if begins == b"[" else "object")
        if begins == b"[":
            items = reader.skip()
            reader.end()
            return items
        if reader.peek("is empty") != "{":
            reader.fail(f"not JSON: expected an object or a list, it begins with {reader.next_characters()!r}")
        longest, objects, all_objects = -1, 0, True
        for _ in reader.entries("{", "}", "a JSON object"):
            reader.key()
            if reader.peek() == "[":
                longest = max(longest, reader.skip())
            else:
                objects += 1
                all_objects &= isinstance(reader.decoded(), dict)
        reader.end()
    return longest if longest >= 0 else objects if objects and all_objects else None


def _has_lines(path: Path) -> bool:
    """Return whether the first two non-empty lines look like two JSON objects."""
    last, is_start = b"", True
    with path.open("rb") as handle:
        for part in iter(lambda: handle.readline(CHUNK), b""):
            if is_start and last and part.strip():
                return last == b"}" and part.lstrip().startswith(b"{")
            last, is_start = part.rstrip()[-1:] or last, part.endswith(b"\n")
    return False


def _members(reader: _Reader, under: str, bad: Callable[[JsonStreamError], None] | None) -> Iterator[tuple[int, Any]]:
    is_there, keys = under == "*", list[str]()
    for _ in reader.entries("{", "}", "a JSON object"):
        line, key = reader.line(), reader.key()
        if under == "*":
            for value in _value(reader, bad):
                yield line, (key, value)
        elif key == under:
            is_there = True
            yield from _items(reader, f"a list under '{key}'", bad)
        else:
            keys.append(key)
            reader.skip()
    if not is_there:
        raise JsonStreamError(f"{reader.path}: expected a list under '{under}', found the keys {', '.join(map(repr, keys[:20])) or 'none'}")
    reader.end()


def _items(reader: _Reader, what: str, bad: Callable[[JsonStreamError], None] | None) -> Iterator[tuple[int, Any]]:
    for _ in reader.entries("[", "]", what):
        line = reader.line()
        for value in _value(reader, bad):
            yield line, value


def _value(reader: _Reader, bad: Callable[[JsonStreamError], None] | None) -> tuple[Any, ...]:
    """Return (next value,); () after passing invalid text to `bad`, without which it raises."""
    try:
        return (reader.value(),)
    except BadTextError as error:
        if bad is None:
            raise
        bad(error)
        return ()


def first_byte(path: Path) -> bytes:
    """Return a file's first byte after byte order mark and spaces; b"" if none."""
    with path.open("rb") as handle:
        return handle.read(CHUNK).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]


def lines(path: Path, bad: Callable[[JsonStreamError], None] | None = None) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) of non-empty JSON lines; invalid ones go to `bad`, or raise.

    Lines that are no JSON or have half of a surrogate pair are invalid. A line that is too long always raises JsonStreamError.
    """
    with path.open("rb") as handle:
        for number, line in enumerate(iter(lambda: handle.readline(MAX_LENGTH + 1), b""), 1):
            if len(line) > MAX_LENGTH:
                raise JsonStreamError(f"{path}: line {number}: more than {MAX_LENGTH:,} bytes; no record has so many")
            if not line.strip():
                continue
            try:
                if why := too_many_parts(line):
                    raise ValueError(why)
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                value = json.loads(text)
                _check_text(value, text, 0, len(text), path, number)
            except BadTextError as error:
                fault: JsonStreamError = error
            except (ValueError, RecursionError) as error:
                message = f"line {number}: expected one JSON value: {str(error).partition('; use sys.')[0]}; it begins with {line[:40]!r}"
                fault = JsonStreamError(f"{path}: {not_utf8_line(number, error) if isinstance(error, UnicodeDecodeError) else message}")
            else:
                yield number, value
                continue
            if bad is None:
                raise fault
            bad(fault)


def too_many_parts(text: str | bytes, begin: int = 0) -> str:
    """Return why the JSON text from `begin` has more than MAX_PARTS values; "" if it has not."""
    if len(text) - begin <= 2 * MAX_PARTS:
        return ""
    occurrences: Callable[[Any, int], int] = text.count
    parts = sum(occurrences(sign, begin) for sign in (b",[{" if isinstance(text, bytes) else ",[{"))
    return f"one value of {parts:,} parts; at most {MAX_PARTS:,} are read" if parts > MAX_PARTS else ""


def _check_text(value: Any, text: str, begin: int, end: int, path: Path, line: int) -> None:
    """Raise BadTextError if a value of text[begin:end] has half a surrogate pair."""
    if text.find("\\", begin, end) < 0:  # mostly: one character is looked for ten times as fast
        return
    if text.find("\\ud", begin, end) < 0 and text.find("\\uD", begin, end) < 0:
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        near = error.object[max(0, error.start - 20) : error.start + 20]
        raise BadTextError(f"{path}: line {line}: half of a surrogate pair, which no text can hold: {near!r}") from None


class _Reader:
    """Forward-only JSON reader that holds only the text of the current value."""

    def __init__(self, path: Path, handle: TextIO, what: str, unique_keys: bool = False) -> None:
        self.path, self._handle, self._what = path, handle, what
        self._text, self._at = "", 0
        self._lines, self._counted = 1, 0
        self._decoder = json.JSONDecoder(object_pairs_hook=reject_duplicate_keys if unique_keys else None)

    def line(self) -> int:
        self._lines += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._lines

    def next_characters(self) -> str:
        return self._text[self._at : self._at + 20]

    def fail(self, message: str) -> NoReturn:
        web = self._text[self._at : self._at + 20].lower().startswith(_HTML)
        hint = "; it is a web page: the download met a login or error page, fetch it again" if web else ""
        raise JsonStreamError(f"{self.path}: line {self.line()}: {message}{hint}")

    def peek(self, at_end: str = "the file stops in the middle") -> str:
        """Skip spaces; return the next character, unconsumed; at the end raise with `at_end`."""
        while True:
            self._at = _SPACES.match(self._text, self._at).end()  # type: ignore[union-attr] # it matches nothing, too
            if self._at < len(self._text):
                return self._text[self._at]
            self._more(at_end)

    def value(self) -> Any:
        """Consume and return the next JSON value; BadTextError for half a surrogate."""
        self.peek()
        line = self.line()
        value, begin = self._decoded()
        _check_text(value, self._text, begin, self._at, self.path, line)
        return value

    def decoded(self) -> Any:
        """Consume and return the next JSON value without checking its texts."""
        return self._decoded()[0]

    def _decoded(self) -> tuple[Any, int]:
        """Consume the next value; return (value, its start in the buffer)."""
        self.peek()
        while True:
            if why := too_many_parts(self._text, self._at):
                self.fail(why)
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                if self._text[end : end + 1] and self._text[end] in _ENDS:
                    begin, self._at = self._at, end
                    return value, begin
                self._more("the file stops in the middle", end)  # a number that is cut in two, perhaps
            except json.JSONDecodeError as error:
                if error.pos < len(self._text) - _CUT and not error.msg.startswith("Unterminated string"):
                    self._broken(error.msg, error.pos)
                self._more(error.msg, error.pos)
            except RecursionError:
                self.fail("nested too deeply")
            except ValueError as error:  # a number of thousands of digits
                self.fail(str(error).partition(";")[0])

    def skip(self) -> int:
        """Consume the next value; return its number of items if it is a list, else 0."""
        if self.peek() != "[":
            self.decoded()
            return 0
        items = 0
        for _ in self.entries("[", "]", "a list"):
            self.decoded()
            items += 1
        return items

    def key(self) -> str:
        try:
            key = self.value()
        except BadTextError as error:
            raise JsonStreamError(str(error)) from None  # a value without its key is none
        if not isinstance(key, str) or self.peek() != ":":
            self.fail(f"expected a key and ':', got {key!r:.60} and {self.next_characters()!r}")
        self._at += 1
        self.peek()
        return key

    def entries(self, opening: str, closing: str, expected: str) -> Iterator[None]:
        """Yield before each entry of an object or list, which the caller must consume."""
        if self.peek() != opening:
            self.fail(f"expected {expected}, it begins with {self.next_characters()!r}")
        self._at += 1
        first = True
        while (sign := self.peek()) != closing:
            if not first:
                if sign != ",":
                    self.fail(f"expected ',' or '{closing}', got {self.next_characters()!r}")
                self._at += 1
                self.peek()
            first = False
            yield
        self._at += 1

    def end(self) -> None:
        """Raise JsonStreamError if more than white space follows; read to the file's end."""
        while True:
            self._at = _SPACES.match(self._text, self._at).end()  # type: ignore[union-attr] # it matches nothing, too
            if self._at < len(self._text):
                self.fail(f"expected the end of the file behind the JSON {self._what}, got {self.next_characters()!r}")
            self.line()
            self._text, self._at, self._counted = self._read(CHUNK), 0, 0
            if not self._text:
                return

    def _more(self, message: str, wrong: int | None = None) -> None:
        self.line()
        if len(self._text) - self._at > MAX_LENGTH:
            self.fail(f"one value of more than {MAX_LENGTH:,} characters; no record has so many")
        chunk = self._read(max(CHUNK, len(self._text) - self._at))
        if not chunk:
            self._broken(message, wrong)
        self._text, self._at, self._counted = self._text[self._at :] + chunk, 0, 0

    def _broken(self, message: str, wrong: int | None) -> NoReturn:
        near = self._text[self._at :][-60:] if wrong is None else self._text[max(self._at, wrong - 30) : wrong + 30]
        if wrong is not None:
            self._at = max(self._at, wrong)
        self.fail(f"expected a whole JSON {self._what}: {message}: {near!r}")

    def _read(self, size: int) -> str:
        try:
            return self._handle.read(size)
        except UnicodeDecodeError as error:
            raise JsonStreamError(f"{self.path}: {not_utf8(self.path)}") from error


def not_utf8(path: Path) -> str:
    """Return a message: where a file stops being UTF-8, and how to convert it."""
    with path.open("rb") as handle:
        if handle.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            return "not UTF-8 but UTF-16; `iconv -f UTF-16 -t UTF-8` makes it so"
        handle.seek(0)
        number, decoder = 1, codecs.getincrementaldecoder("utf-8")()
        while piece := handle.readline(CHUNK):  # a line may be as long as the file
            try:
                decoder.decode(piece, piece.endswith(b"\n"))
            except UnicodeDecodeError as error:
                return not_utf8_line(number, error)
            number += piece.endswith(b"\n")
    return "not UTF-8"


def not_utf8_line(number: int, error: UnicodeDecodeError) -> str:
    """Return a message: line, the value of the first byte not UTF-8, text near it, a remedy."""
    near = error.object[max(0, error.start - 10) : error.start + 10]
    hint = "`iconv -f LATIN1 -t UTF-8` if that is what it is"
    return f"line {number}: not UTF-8: byte 0x{error.object[error.start]:02x} in {near!r}; {hint}"


def _open(path: Path) -> TextIO:
    return path.open(encoding="utf-8-sig", newline="")
