"""YAML with positions: text -> plain values, and for every value the file, line and column that it came from.

PyYAML composes the nodes; the values are made here, so that what YAML 1.1 would silently turn into something else
(`no` into False, `010` into 8, `1e-4` into text) is an error with a line number instead of a wrong benchmark, and so
that an alias bomb is counted before it is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from qualm.compiler.spec.errors import Position, Problem, Problems, SpecError, quoted
from qualm.registry.system.textfiles import TextFileError, is_file, read_text

MAX_BYTES = 1 << 20
MAX_VALUES = 200_000
MAX_DEPTH = 40
MAX_PARENTS = 20
MAX_PATH = 1024

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NUMBER_TEXT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")

Path_ = tuple[Any, ...]


@dataclass
class Document:
    """A loaded spec: plain values, and the position of each value and key."""

    data: Any
    marks: dict[Path_, Position]
    """Position of the value at each path."""
    key_marks: dict[Path_, Position]
    """Position of the key that leads to each path."""
    sources: dict[str, str]
    files: list[Path] = field(default_factory=list)
    """The spec and what it extends, nearest first."""
    problems: list[Problem] = field(default_factory=Problems)
    """Mistakes of the text itself, where it is read leniently."""
    unknown: set[Path_] = field(default_factory=set)
    """Paths whose value is unknown because of an earlier mistake; a placeholder stands there."""
    open: bool = False
    """True if the spec that it extends cannot be read, so unknown keys are possible."""
    original: dict[Path_, Path_] = field(default_factory=dict)
    """Original path of each list item that moved up when an earlier item was removed."""

    def mark(self, path: Path_, key: bool = False) -> Position:
        """Return the position of the value (or key) at a path, or of its nearest parent."""
        return self._mark(self.original.get(path, path), key)

    def _mark(self, path: Path_, key: bool) -> Position:
        if key and path in self.key_marks:
            return self.key_marks[path]
        while path not in self.marks:
            path = path[:-1]
        return self.marks[path]

    def problem(self, path: Path_, message: str, hint: str = "", key: bool = False) -> Problem:
        path = self.original.get(path, path)
        return Problem(self._mark(path, key), dotted(path), message, hint, path)

    def without(self, paths: set[Path_]) -> Document:
        """Return a copy without the values at `paths`; positions stay those of the file."""
        copy_of = replace(self, marks=dict(self.marks), original={})
        copy_of.data = self._copy((), (), self.data, paths, copy_of)
        return copy_of

    def _copy(self, old: Path_, new: Path_, value: Any, paths: set[Path_], target: Document) -> Any:
        if (origin := self.original.get(old, old)) != new:
            target.original[new] = origin
        if isinstance(value, dict):
            inner = ((k, v) for k, v in value.items() if (*old, k) not in paths)
            return {k: self._copy((*old, k), (*new, k), v, paths, target) for k, v in inner}
        if isinstance(value, list):
            left = [(i, v) for i, v in enumerate(value) if (*old, i) not in paths]
            return [self._copy((*old, i), (*new, n), v, paths, target) for n, (i, v) in enumerate(left)]
        return value


def dotted(path: Path_) -> str:
    """Return a path as text: ("metrics", 0, "ece") is "metrics[0].ece"."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def load(path: Path, root: Path | None = None) -> Document:
    """Return a spec with what it `extends`; SpecError for any mistake in the text.

    Raises:
        SpecError: with every problem of the text; nothing is partly loaded.
    """
    document = load_leniently(path, root or Path())
    if document.problems:
        raise SpecError(document.problems, document.sources)
    return document


def load_leniently(path: Path, root: Path) -> Document:
    """Return a spec without invalid YAML values, listed in `problems`; SpecError if no YAML.

    Raises:
        SpecError: it cannot be read at all, or is no YAML.
    """
    document = _load(path, root, [])
    return document.without(document.unknown) if document.unknown else document


def _load(path: Path, root: Path, children: list[Path]) -> Document:
    document = _parse(_read(path, root), relative_name(path, root))
    document.files = [path]
    parent = document.data.get("extends") if isinstance(document.data, dict) else None
    if parent is None:
        return document
    try:
        base = _load_parent(document, parent, path, root, children)
    except SpecError as error:
        document.problems.extend(error.problems)
        document.sources = {**error.sources, **document.sources}
        # From here on a missing key is no mistake: it may stand in what could not be read.
        document.open = True
        del document.data["extends"]
        return document
    if not isinstance(base.data, dict):
        return base
    del document.data["extends"]
    merged = Document({}, {(): document.marks[()]}, {}, {**base.sources, **document.sources}, [path, *base.files])
    merged.problems, merged.open = Problems([*base.problems, *document.problems]), base.open
    merged.unknown = document.unknown | {p for p in base.unknown if p not in document.marks}
    merged.data = _merge(base, document, (), merged)
    return merged


def _load_parent(document: Document, parent: Any, path: Path, root: Path, children: list[Path]) -> Document:
    """Return the document that `extends:` names; SpecError if unreadable or a circle."""
    at = ("extends",)
    if not isinstance(parent, str) or not parent.isprintable() or len(parent) > MAX_PATH:
        got = quoted(parent)
        raise SpecError([document.problem(at, f"expected the file name of another spec, got {got}")], document.sources)
    target = path.parent / (parent if parent.endswith((".yaml", ".yml")) else f"{parent}.yaml")
    if not is_file(target):
        raise SpecError([document.problem(at, f"expected a spec file, found nothing at {relative_name(target, root)}")], document.sources)
    # By file and not by name: links and `../` lead to the same spec in many ways.
    if any(target.samefile(p) for p in (path, *children) if is_file(p)):
        message = f"{relative_name(target, root)} extends this file in turn: a circle"
        raise SpecError([document.problem(at, message, "remove one `extends`")], document.sources)
    if len(children) == MAX_PARENTS:
        message = f"expected at most {MAX_PARENTS} specs that extend one another, got one more"
        raise SpecError([document.problem(at, message, "write what some of them say into one")], document.sources)
    return _load(target, root, [*children, path])


def _merge(base: Document, child: Document, path: Path_, out: Document) -> Any:
    """Return base and child merged by key, null removes; record positions in `out`."""
    below, above = _at(base.data, path), _at(child.data, path)
    result: dict[Any, Any] = {}
    # The base's order first, so that an override leaves the order of everything else as it was.
    for key in [*below, *(k for k in above if k not in below)]:
        at = (*path, key)
        if key in above and above[key] is None and key in below:
            continue
        if key in above and key in below and isinstance(above[key], dict) and isinstance(below[key], dict):
            out.marks[at], out.key_marks[at] = child.marks[at], child.key_marks[at]
            result[key] = _merge(base, child, at, out)
            continue
        source, value = (child, above[key]) if key in above else (base, below[key])
        for place in paths_in(value, at):
            out.marks[place] = source.marks[place]
            if place in source.key_marks:
                out.key_marks[place] = source.key_marks[place]
        result[key] = value
    return result


def paths_in(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield a value's path, then those of all values within it, parents first."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from paths_in(one, (*path, key))


def _at(data: Any, path: Path_) -> dict[Any, Any]:
    for part in path:
        data = data[part]
    return data if isinstance(data, dict) else {}


def relative_name(path: Path, root: Path) -> str:
    """Return a path relative to `root`, as POSIX text; unchanged if outside."""
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except (ValueError, OSError, RuntimeError):  # it lies elsewhere, or cannot be
        return str(path)


def _read(path: Path, root: Path) -> str:
    try:
        return read_text(path, MAX_BYTES, "a spec")
    except TextFileError as error:
        mark = Position(relative_name(path, root), max(1, error.line), max(1, error.col))
        raise SpecError([Problem(mark, "", error.reason, error.hint)]) from None


def parse(text: str, name: str) -> Document:
    """Return a YAML text's document; SpecError with all its problems."""
    document = _parse(text, name)
    if document.problems:
        raise SpecError(document.problems, document.sources)
    return document


def _parse(text: str, name: str) -> Document:
    """Return a YAML text's document, tolerable mistakes in `problems`; SpecError for others."""
    sources = {name: text}
    try:
        _limit_depth(text, name)
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise SpecError([_syntax(error, name, text)], sources) from None
    except yaml.YAMLError as error:
        raise SpecError([Problem(Position(name), "", f"not YAML: {' '.join(str(error).split())}")], sources) from None
    if node is None:
        raise SpecError([Problem(Position(name), "", "expected a spec, got an empty file", "`qualm new NAME` writes one to start from")])
    builder = _Builder(name)
    try:
        data = builder.build(node, (), 0)
    except SpecError as error:
        raise SpecError(error.problems, sources) from None
    return Document(data, builder.marks, builder.key_marks, sources, problems=builder.problems, unknown=builder.unknown)


def _syntax(error: yaml.MarkedYAMLError, name: str, text: str) -> Problem:
    place = error.problem_mark or error.context_mark
    mark = Position(name, place.line + 1, place.column + 1) if place else Position(name)
    problem = error.problem or "not YAML"
    lines = text.splitlines()
    line = lines[mark.line - 1] if mark.line <= len(lines) else ""
    if "\t" in line[: mark.col]:
        return Problem(mark, "", "expected spaces, got a tab", "YAML indents by spaces only")
    if "single document" in str(error):
        return Problem(mark, "", "expected one document, got a second ('---')")
    context = f" {error.context}" if error.context else ""
    return Problem(mark, "", f"not YAML: {problem}{context}")


def _limit_depth(text: str, name: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                place = event.start_mark
                mark = Position(name, place.line + 1, place.column + 1) if place else Position(name)
                raise SpecError([Problem(mark, "", f"nested more than {MAX_DEPTH} deep", "use fewer levels")], {name: text})
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Builder:
    """Builder of plain values from YAML nodes; records positions and problems."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.marks: dict[Path_, Position] = {}
        self.key_marks: dict[Path_, Position] = {}
        self.problems: list[Problem] = Problems()
        self.unknown: set[Path_] = set()
        self.values = 0

    def build(self, node: yaml.Node, path: Path_, depth: int) -> Any:
        self.marks[path] = self._mark(node)
        self.values += 1
        if self.values > MAX_VALUES or depth > MAX_DEPTH:
            many = f"more than {MAX_VALUES:,} values" if self.values > MAX_VALUES else f"more than {MAX_DEPTH} levels"
            message = f"expands to {many}"
            raise SpecError([Problem(self._mark(node), "", message, "an alias (*name) that repeats aliases?")])
        if not isinstance(node, yaml.ScalarNode) and node.tag not in (_TAG + "map", _TAG + "seq"):
            return self._bad(node, path, f"the tag {node.tag.replace(_TAG, '!!')} is not allowed in a spec", "remove it", None)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path_, depth: int) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        first: dict[Any, Position] = {}
        for key_node, value_node in self._pairs(node, path):
            mark = self._mark(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem(mark, dotted(path), "expected a name as key, got a list or mapping"))
                continue
            was_unknown = path in self.unknown
            key = self._scalar(key_node, path)
            if not was_unknown:
                self.unknown.discard(path)  # what is wrong is the key, not what it stands in
            if not isinstance(key, str):
                hint = f'write "{key_node.value}" in quotes if that name was meant'
                self.problems.append(Problem(mark, dotted(path), f"expected a name as key, got {key_node.value}", hint))
                continue
            if key in result:
                message = f"the key '{key}' stands here a second time; the first is in line {first[key].line}"
                self.problems.append(Problem(mark, dotted((*path, key)), message))
                continue
            first[key] = self.key_marks[(*path, key)] = mark
            result[key] = self.build(value_node, (*path, key), depth + 1)
        return result

    def _pairs(self, node: yaml.MappingNode, path: Path_, met: set[yaml.Node] | None = None) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Yield (key node, value node), including those merged by `<<` and not overridden.

        What was `met` on the way has given its pairs: mappings that merge each other end, and merges of merges stay few.
        """
        met = {node} if met is None else met
        own = {k.value for k, _ in node.value if isinstance(k, yaml.ScalarNode) and k.tag != _TAG + "merge"}
        for key, value in node.value:
            if key.tag != _TAG + "merge":
                yield key, value
                continue
            parents = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for parent in parents:
                if not isinstance(parent, yaml.MappingNode) or parent is node:
                    self.problems.append(Problem(self._mark(value), dotted(path), "expected << to name a mapping"))
                    continue
                if parent in met:
                    continue
                met.add(parent)
                for inner_key, inner_value in self._pairs(parent, path, met):
                    if not isinstance(inner_key, yaml.ScalarNode):
                        yield inner_key, inner_value
                    elif inner_key.value not in own:
                        own.add(inner_key.value)
                        yield inner_key, inner_value

    def _scalar(self, node: yaml.Node, path: Path_) -> Any:
        text, tag = str(node.value), node.tag
        if not tag.startswith(_TAG):
            return self._bad(node, path, f"the tag {tag.replace(_TAG, '!!')} is not allowed in a spec", "remove it", text)
        plain = not getattr(node, "style", None)
        match tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                if text.lower() in ("true", "false"):
                    return text.lower() == "true"
                hint = f'write "{text}" in quotes for the text, true or false for the boolean'
                return self._bad(node, path, f"'{text}' is a boolean to some YAML readers and text to others", hint, text)
            case "int":
                if _INT.fullmatch(text) and len(text) < 20:
                    return int(text)
                return self._bad(node, path, f"'{text}' is not a plain decimal number", "write it in decimals, or quoted as text", 0)
            case "float":
                if _FLOAT.fullmatch(text):
                    return float(text)
                return self._bad(node, path, f"expected a finite decimal number, got {text}", "", 0.0)
            case "str" | "timestamp" | "value":
                if plain and _NUMBER_TEXT.fullmatch(text):
                    better = re.sub(r"^([-+]?[0-9]+)\.?([eE])", r"\1.0\2", text)
                    better = re.sub(r"[eE]([0-9])", r"e+\1", better)
                    return self._bad(node, path, f"YAML reads {text} as text, not as a number", f"write {better}, or quote it", text)
                return text
        return self._bad(node, path, f"the tag {tag.replace(_TAG, '!!')} is not allowed in a spec", "remove it", text)

    def _bad(self, node: yaml.Node, path: Path_, message: str, hint: str, value: Any) -> Any:
        self.problems.append(Problem(self._mark(node), dotted(path), message, hint, path))
        self.unknown.add(path)
        return value

    def _mark(self, node: yaml.Node) -> Position:
        return Position(self.name, node.start_mark.line + 1, node.start_mark.column + 1)


_BEFORE = re.compile(r"(?:[&!]\S*\s+)*")
"""Anchors or tags before the text."""
_BLOCK = re.compile(r"[|>][-+0-9]*[^\n]*\n")
_ESCAPE = re.compile(r"\\(?:x..|u....|U........|.)", re.DOTALL)


def mark_within(document: Document, path: Path_, offset: int) -> Position:
    """Return the position in the file of character `offset` of the text at `path`.

    YAML may join or fold lines, but keeps all characters other than white space, so those are counted.
    """
    start = document.mark(path)
    value = _value_at(document, path)
    source = document.sources.get(start.file, "")
    lines = source.splitlines(keepends=True)
    if not isinstance(value, str) or start.line > len(lines):
        return start
    at = sum(map(len, lines[: start.line - 1])) + start.col - 1
    if before_it := _BEFORE.match(source, at):
        at = before_it.end()
    quote = source[at : at + 1] if source[at : at + 1] in ("'", '"') else ""
    if block := _BLOCK.match(source, at):
        at = block.end()
    at += len(quote)
    for character in value[:offset]:
        if not character.isspace():
            at = _past_space(source, at, quote)
            at += _width(source, at, quote)
    if value[offset : offset + 1].strip():
        at = _past_space(source, at, quote)
    before = source[:at]
    return Position(start.file, before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1)


def _value_at(document: Document, path: Path_) -> object:
    value = document.data
    for part in path:
        value = value[part]
    return value


def _past_space(source: str, at: int, quote: str) -> int:
    while at < len(source) and (source[at].isspace() or (quote == '"' and re.match(r"\\[\n ntr]", source[at : at + 2]))):
        at += 2 if source[at] == "\\" else 1
    return at


def _width(source: str, at: int, quote: str) -> int:
    """Return how many characters of `source` spell the one at `at` within quotes `quote`."""
    if quote == "'" and source.startswith("''", at):
        return 2
    escape = _ESCAPE.match(source, at) if quote == '"' else None
    return len(escape[0]) if escape else 1
