"""YAML with positions: text -> plain values, and for every value the file, line and column that it came from.

PyYAML composes the nodes; the values are made here, so that what YAML 1.1 would silently turn into something else
(`no` into False, `010` into 8, `1e-4` into text) is an error with a line number instead of a wrong benchmark, and so
that an alias bomb is counted before it is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from compiler.errors import Mark, Problem, SpecError

MAX_BYTES = 1 << 20
MAX_VALUES = 200_000
MAX_DEPTH = 40
MAX_PARENTS = 20

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NUMBER_TEXT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")

Path_ = tuple[Any, ...]


@dataclass
class Document:
    """A loaded spec: its values, and where each of them stands."""

    data: Any
    marks: dict[Path_, Mark]
    """Where the value at a path begins."""
    key_marks: dict[Path_, Mark]
    """Where the key that leads to a path stands."""
    sources: dict[str, str]
    files: list[Path] = field(default_factory=list)
    """The spec and what it extends, nearest first."""

    def mark(self, path: Path_, key: bool = False) -> Mark:
        """The place of a path, or of the nearest parent that stands in a file."""
        if key and path in self.key_marks:
            return self.key_marks[path]
        while path not in self.marks:
            path = path[:-1]
        return self.marks[path]

    def problem(self, path: Path_, message: str, hint: str = "", key: bool = False) -> Problem:
        return Problem(self.mark(path, key), dotted(path), message, hint)


def dotted(path: Path_) -> str:
    """`('metrics', 0, 'ece')` -> `metrics[0].ece`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def load(path: Path, root: Path | None = None) -> Document:
    """Read a spec and everything it `extends`.

    Raises:
        SpecError: with every problem of the text; nothing is partly loaded.
    """
    return _load(path, root or Path(), [])


def _load(path: Path, root: Path, children: list[Path]) -> Document:
    document = parse(_read(path, root), _shown(path, root))
    document.files = [path]
    parent = document.data.get("extends") if isinstance(document.data, dict) else None
    if parent is None:
        return document
    at = ("extends",)
    if not isinstance(parent, str):
        raise SpecError([document.problem(at, "expected the file name of another spec")], document.sources)
    target = path.parent / (parent if parent.endswith((".yaml", ".yml")) else f"{parent}.yaml")
    if target.resolve() in [p.resolve() for p in (path, *children)] or len(children) >= MAX_PARENTS:
        raise SpecError([document.problem(at, f"{_shown(target, root)} extends this file in turn: a circle")], document.sources)
    if not target.is_file():
        raise SpecError([document.problem(at, f"expected a spec file, found nothing at {_shown(target, root)}")], document.sources)
    base = _load(target, root, [*children, path])
    if not isinstance(base.data, dict):
        return base
    del document.data["extends"]
    merged = Document({}, {(): document.marks[()]}, {}, {**base.sources, **document.sources}, [path, *base.files])
    merged.data = _merge(base, document, (), merged)
    return merged


def _merge(base: Document, child: Document, path: Path_, out: Document) -> Any:
    """Mappings merge key by key; anything else in the child replaces; null in the child removes."""
    below, above = _at(base.data, path), _at(child.data, path)
    result: dict[Any, Any] = {}
    for key in [*below, *(k for k in above if k not in below)]:
        at = (*path, key)
        if key in above and above[key] is None and key in below:
            continue
        if key in above and key in below and isinstance(above[key], dict) and isinstance(below[key], dict):
            out.marks[at], out.key_marks[at] = child.marks[at], child.key_marks[at]
            result[key] = _merge(base, child, at, out)
            continue
        source, value = (child, above[key]) if key in above else (base, below[key])
        for place, found in ((source.marks, out.marks), (source.key_marks, out.key_marks)):
            found.update({p: m for p, m in place.items() if p[: len(at)] == at})
        result[key] = value
    return result


def _at(data: Any, path: Path_) -> dict[Any, Any]:
    for part in path:
        data = data[part]
    return data if isinstance(data, dict) else {}


def _shown(path: Path, root: Path) -> str:
    try:
        return str(path.resolve().relative_to(root.resolve()))
    except ValueError:
        return str(path)


def _read(path: Path, root: Path) -> str:
    name = _shown(path, root)
    here = Mark(name)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise SpecError([Problem(here, "", f"expected a spec of at most {MAX_BYTES:,} bytes, got {size:,}")])
        raw = path.read_bytes()
    except OSError as error:
        raise SpecError([Problem(here, "", f"cannot be read: {error.strerror}")]) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        mark = Mark(name, before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1)
        got = f"byte 0x{raw[error.start]:02x}"
        raise SpecError([Problem(mark, "", f"expected UTF-8 text, got {got}", "save the file as UTF-8")]) from None


def parse(text: str, name: str) -> Document:
    """Text -> values with positions. `name` is how messages call the file."""
    sources = {name: text}
    try:
        _limit_depth(text, name)
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise SpecError([_syntax(error, name, text)], sources) from None
    except yaml.YAMLError as error:
        raise SpecError([Problem(Mark(name), "", f"not YAML: {' '.join(str(error).split())}")], sources) from None
    if node is None:
        raise SpecError([Problem(Mark(name), "", "expected a spec, got an empty file", "`qualm new NAME` writes one to start from")])
    builder = _Builder(name)
    data = builder.build(node, (), 0)
    if builder.problems:
        raise SpecError(builder.problems, sources)
    return Document(data, builder.marks, builder.key_marks, sources)


def _syntax(error: yaml.MarkedYAMLError, name: str, text: str) -> Problem:
    place = error.problem_mark or error.context_mark
    mark = Mark(name, place.line + 1, place.column + 1) if place else Mark(name)
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
                mark = Mark(name, place.line + 1, place.column + 1) if place else Mark(name)
                raise SpecError([Problem(mark, "", f"nested more than {MAX_DEPTH} deep")], {name: text})
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Builder:
    """Makes values of composed nodes, counting as it goes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.marks: dict[Path_, Mark] = {}
        self.key_marks: dict[Path_, Mark] = {}
        self.problems: list[Problem] = []
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
        first: dict[Any, Mark] = {}
        for key_node, value_node in self._pairs(node, path):
            mark = self._mark(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem(mark, dotted(path), "expected a name as key, got a list or mapping"))
                continue
            key = self._scalar(key_node, path)
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
        """The node's pairs, with those of `<<: *alias`, and of what that merges in turn, behind its own and not over them.

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
                return self._bad(node, path, f"'{text}' is not a number that DVC can compare", "write a finite decimal number", 0.0)
            case "str" | "timestamp" | "value":
                if plain and _NUMBER_TEXT.fullmatch(text):
                    better = re.sub(r"^([-+]?[0-9]+)\.?([eE])", r"\1.0\2", text)
                    better = re.sub(r"[eE]([0-9])", r"e+\1", better)
                    return self._bad(node, path, f"YAML reads {text} as text, not as a number", f"write {better}, or quote it", text)
                return text
        return self._bad(node, path, f"the tag {tag.replace(_TAG, '!!')} is not allowed in a spec", "remove it", text)

    def _bad(self, node: yaml.Node, path: Path_, message: str, hint: str, value: Any) -> Any:
        self.problems.append(Problem(self._mark(node), dotted(path), message, hint))
        return value

    def _mark(self, node: yaml.Node) -> Mark:
        return Mark(self.name, node.start_mark.line + 1, node.start_mark.column + 1)
