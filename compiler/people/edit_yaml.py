"""Writing a chosen strength into a spec: the value changes, and every other byte of the file stays.

YAML writers that keep comments still lay lines out anew, so nothing is written by one: the parser says where the value stands, the
text is spliced there, and what comes out must parse to what was meant, or nothing is written.
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.spec.yaml_positions import load, parse, relative_name
from qualm.registry.formats import atomic, textfiles
from qualm.registry.formats.disk_errors import explained
from qualm.runners.tools.strengths.knobs import written

SECTION = "perturbations"
Mode = Literal["replace", "add"]
MARK = "# calibrated: "
"""How a comment begins that is ours to replace."""


@dataclass(frozen=True)
class EditTarget:
    """One entry of `perturbations:` and a parameter of it."""

    file: Path
    index: int
    plugin: str
    parameter: str
    point: float | None = None
    """The value of a sweep that is meant, None for all of them."""


def holds(path: Path, root: Path) -> Path:
    """The file that a spec's `perturbations:` stand in: itself, or what it extends."""
    document = load(path, root)
    name = document.mark((SECTION,)).file
    return next(f for f in document.files if relative_name(f, root) == name)


def write(place: EditTarget, value: float, mode: Mode, comment: str = "") -> str:
    """Change the file; gives a line that says what was done.

    Args:
        mode: `replace` what is there, or `add` the value to a sweep.
        comment: how the value was found, put above the entry in the place of an older one; none if empty.

    Raises:
        ProjectError: the value stands there already, or the text cannot be changed without changing more. The file is as it was.
    """
    raw = textfiles.read_bytes(place.file)
    before = raw.decode("utf-8-sig")
    after = respelled(before, place, value, mode, comment)
    try:
        with atomic.file(place.file) as partial:
            partial.write_bytes((b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b"") + after.encode())
            partial.chmod(place.file.stat().st_mode)
    except OSError as error:
        raise ProjectError(explained(error, str(place.file))) from error
    what = "added" if mode == "add" else "set"
    return f"{place.file.name}: {place.plugin}: {place.parameter}: {what} {written(value)}"


def respelled(text: str, place: EditTarget, value: float, mode: Mode, comment: str = "") -> str:
    """The file's text with the new value; see `write`."""
    name = place.file.name
    content = _new_value(parse(text, name).data, place, value, mode)
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    section = next(v for k, v in root.value if k.value == SECTION)
    entry = section.value[place.index]
    start, end, new = _edit(text, entry, place, content)
    edited = text[:start] + new + text[end:]
    if comment:
        line_of = section if section.flow_style else entry
        edited = _commented(edited, line_of.start_mark.line if not section.flow_style else _key_line(root), place, comment)
    if parse(edited, name).data[SECTION] != _meant(parse(text, name).data, place, content)[SECTION]:
        raise ProjectError(
            f"{name}: {place.plugin}: cannot be changed here alone; write it yourself: {place.parameter}: {_spelled(content)}"
        )
    return edited


def _new_value(data: Any, place: EditTarget, value: float, mode: Mode) -> Any:
    """What the parameter shall be: a number or a list of them."""
    entry = data[SECTION][place.index]
    current = (entry[place.plugin] or {}).get(place.parameter) if isinstance(entry, dict) else None
    new = int(value) if value == int(value) else value
    if mode == "add":
        old = current if isinstance(current, list) else [] if current is None else [current]
        if new in old:
            raise ProjectError(f"{place.plugin}: {place.parameter}: {written(value)} is there already; nothing was written")
        return [*old, new] if old else new
    if isinstance(current, list) and place.point is not None:
        if new in current and new != place.point:
            raise ProjectError(f"{place.plugin}: {place.parameter}: {written(value)} is there already; nothing was written")
        return [new if x == place.point else x for x in current]
    return new


def _meant(data: Any, place: EditTarget, content: Any) -> Any:
    data = copy.deepcopy(data)
    entry = data[SECTION][place.index]
    args = dict(entry[place.plugin] or {}) if isinstance(entry, dict) else {}
    data[SECTION][place.index] = {place.plugin: {**args, place.parameter: content}}
    return data


def _edit(text: str, entry: yaml.Node, place: EditTarget, content: Any) -> tuple[int, int, str]:
    """Which characters give way to which."""
    pair = f"{place.parameter}: {_spelled(content)}"
    if isinstance(entry, yaml.ScalarNode):
        bare = text[entry.start_mark.index : entry.end_mark.index]
        return entry.start_mark.index, entry.end_mark.index, f"{bare}: {{{pair}}}"
    key, args = entry.value[0]
    if isinstance(args, yaml.ScalarNode):  # `blur:` and nothing, or null
        colon = text.index(":", key.end_mark.index) + 1
        return colon, max(colon, args.end_mark.index), f" {{{pair}}}"
    value = next((v for k, v in args.value if k.value == place.parameter), None)
    if value is None:
        if not args.value:
            return args.start_mark.index, args.end_mark.index, f"{{{pair}}}"
        last = args.value[-1][1].end_mark.index
        if args.flow_style:
            return last, last, f", {pair}"
        first = args.value[0][0].start_mark
        return first.index, first.index, f"{pair}{_newline(text)}{' ' * first.column}"
    return _change(text, value, content)


def _change(text: str, value: yaml.Node, content: Any) -> tuple[int, int, str]:
    start, end = value.start_mark.index, value.end_mark.index
    if isinstance(value, yaml.SequenceNode) and isinstance(content, list):
        items = value.value
        if len(content) > len(items):  # one more, behind the last
            last = items[-1]
            between = ", " if value.flow_style else f"{_newline(text)}{' ' * (value.start_mark.column)}- "
            return last.end_mark.index, last.end_mark.index, f"{between}{_spelled(content[-1])}"
        old = [float(i.value) if isinstance(i, yaml.ScalarNode) else None for i in items]
        changed = [i for i, x in enumerate(old) if x != content[i]]
        if not changed:
            return start, start, ""
        node = items[changed[0]]
        return node.start_mark.index, node.end_mark.index, _spelled(content[changed[0]])
    if isinstance(value, yaml.SequenceNode) and not value.flow_style:
        last = value.value[-1].end_mark.index
        colon = text.rindex(":", 0, start)
        return colon + 1, last, f" {_spelled(content)}"
    return start, end, _spelled(content)


def _commented(text: str, line: int, place: EditTarget, comment: str) -> str:
    """A comment above a line, at its indentation; the one that an earlier calibration of the parameter left gives way."""
    lines = text.splitlines(keepends=True)
    indent = lines[line][: len(lines[line]) - len(lines[line].lstrip(" "))]
    head = f"{indent}{MARK}{place.plugin}.{place.parameter} "
    first = line
    while first and lines[first - 1].startswith(f"{indent}{MARK}"):
        first -= 1
    others = [old for old in lines[first:line] if not old.startswith(head)]
    lines[first:line] = [*others, f"{head}{' '.join(comment.split())}{_newline(text)}"]
    return "".join(lines)


def _key_line(root: Any) -> int:
    return next(int(k.start_mark.line) for k, _ in root.value if k.value == SECTION)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _spelled(value: Any) -> str:
    return f"[{', '.join(map(written, value))}]" if isinstance(value, list) else written(value)
