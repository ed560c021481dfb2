"""Reading of text files: specs, cards, `.dvc` files, locks, settings, plugins.

Only a regular file is opened, links followed, so that a pipe does not hang and `/dev/zero` does not fill the memory; a file has a largest
size, is UTF-8, and every error is one line that names the place and what was expected. YAML is bounded before it becomes values.
"""

import os
import stat
import sys
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 8 << 20
"""Default limit of a text file; a lock of a thousand stages has a few MB."""
MAX_DEPTH = 40
MAX_VALUES = 300_000
"""Values of one YAML text, those counted again that an alias repeats."""
MAX_DIGITS = 64
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_WARNINGS: set[str] = set()
_READ = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC"))
"""Without the flags that Windows does not have."""
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class TextFileError(Exception):
    """Error of an unreadable text file: place, expected, found, remedy."""

    def __init__(self, where: str | Path, reason: str, line: int = 0, col: int = 0, hint: str = "") -> None:
        self.where, self.reason, self.line, self.col, self.hint = str(where), reason, line, col, hint
        notes = [f"line {line}, column {col}"] * bool(line) + [hint] * bool(hint)
        super().__init__(f"{where}: {reason}" + (f" ({'; '.join(notes)})" if notes else ""))


class NoFileError(TextFileError):
    """Error that no file is at this path."""


def is_file(path: str | Path) -> bool:
    """Return whether a path is a regular file, also through links; never raise."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - a path with a NUL or of 5,000 characters too
    except (OSError, ValueError):
        return False


def read_bytes(path: str | Path, limit: int = MAX_BYTES, what: str = "a file") -> bytes:
    """Return all bytes of a regular file; TextFileError if above `limit` bytes.

    `what` describes the file in messages.

    Raises:
        NoFileError: there is none.
        TextFileError: it is no regular file, larger than `limit`, or cannot be read.
    """
    try:
        _check_kind(path, os.stat(path).st_mode)  # noqa: PTH116 - before it is opened: opening some devices does something
        handle = os.open(path, _READ)
        with os.fdopen(handle, "rb") as file:
            state = os.fstat(handle)
            _check_kind(path, state.st_mode)
            content = file.read(limit + 1) if state.st_size <= limit else b""
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoFileError(path, f"cannot be read: {error.strerror}") from None
    except OSError as error:
        raise TextFileError(path, f"cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise TextFileError(path, "cannot be read: a path holds no NUL character") from None
    if max(state.st_size, len(content)) > limit:
        raise TextFileError(path, f"expected {what} of at most {limit:,} bytes, got {max(state.st_size, len(content)):,}")
    return content


def _check_kind(path: str | Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        what = next((name for test, name in _KINDS if test(mode)), "something else")
        raise TextFileError(path, f"cannot be read: expected a file, got {what}")


def read_text(path: str | Path, limit: int = MAX_BYTES, what: str = "a file") -> str:
    """Return a UTF-8 file's text without byte order mark; TextFileError otherwise."""
    return decoded(read_bytes(path, limit, what), path)


def decoded(raw: bytes, where: str | Path) -> str:
    """Return UTF-8 bytes as text without byte order mark; TextFileError at bad bytes."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line, col = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        raise TextFileError(where, f"expected UTF-8 text, got byte 0x{raw[error.start]:02x}", line, col, "save the file as UTF-8") from None


def read_yaml(path: str | Path, loader: type[Any] | None = None, limit: int = MAX_BYTES) -> Any:
    """Return a YAML file's document as plain values; TextFileError if invalid."""
    return parse_yaml(read_text(path, limit), str(path), loader)


def parse_yaml(text: str | bytes, where: str, loader: type[Any] | None = None) -> Any:
    """Return a YAML text's document as plain values, None if empty; else TextFileError.

    Raises:
        TextFileError: it is no YAML, nested deeper than MAX_DEPTH, expands to more than MAX_VALUES, or a value of it cannot be held.
    """
    kind = loader or safe_loader()
    try:
        check_bounds(text, where, kind)
        reader = kind(text)
        try:
            node = reader.get_single_node()
            values, depth = expanded_size(node, {})
            if values > MAX_VALUES or depth > MAX_DEPTH + 1:
                raise TextFileError(
                    where, f"expands to more than {MAX_VALUES:,} values or {MAX_DEPTH} levels: an alias (*name) that repeats aliases?"
                )
            return None if node is None else reader.construct_document(node)
        finally:
            reader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise TextFileError(where, f"not YAML: {' '.join((error.problem or 'expected something else here').split())}", *at) from None
    except yaml.YAMLError as error:
        raise TextFileError(where, f"not YAML: {' '.join(str(error).split())}") from None
    except (ValueError, OverflowError, KeyError, AttributeError, TypeError, IndexError) as error:
        raise TextFileError(where, f"a value that Python cannot represent: {error}") from None  # a number of 5,000 digits, the 40th of May


def warn(message: str) -> None:
    """Print a warning to standard error, unless this process printed it before."""
    if message not in _WARNINGS:
        _WARNINGS.add(message)
        print(f"qualm: warning: {message}", file=sys.stderr)


def shorten(value: Any) -> str:
    """Return a value's `repr` for a message, cut to 60 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "a value too large to show"
    return text if len(text) <= 60 else f"{text[:57]}..."


def safe_loader() -> type[Any]:
    """Return PyYAML's C safe loader class, or the Python one if it is missing."""
    loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return loader


def check_bounds(text: str | bytes, where: str, loader: type[Any]) -> None:
    """Raise TextFileError if YAML is nested too deeply or has too many values."""
    depth = 0
    for values, event in enumerate(yaml.parse(text, Loader=loader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or values > MAX_VALUES:
            reason = f"nested more than {MAX_DEPTH} deep" if depth > MAX_DEPTH else f"more than {MAX_VALUES:,} values"
            mark = event.start_mark
            raise TextFileError(where, reason, *((mark.line + 1, mark.column + 1) if mark else (0, 0)))


def expanded_size(node: Any, sizes_by_id: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return (number of values, depth) of a YAML node with aliases expanded."""
    if node is None or isinstance(node, yaml.ScalarNode):
        if node is not None and node.tag in _NUMBERS and len(node.value) > MAX_DIGITS:
            raise ValueError(f"a number of {len(node.value):,} characters")
        return 1, 1
    if id(node) not in sizes_by_id:
        sizes_by_id[id(node)] = MAX_VALUES + 1, MAX_DEPTH + 1  # until it is known: what contains itself has no end
        children = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        sizes = [expanded_size(child, sizes_by_id) for child in children]
        sizes_by_id[id(node)] = 1 + sum(size for size, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)
    return sizes_by_id[id(node)]
