"""Write a chosen strength into a spec by ruamel.yaml, which keeps comments, quotes and the order of keys."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.util import load_yaml_guess_indent

from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.spec.yaml_positions import load, parse, relative_name
from qualm.registry.system import atomic, textfiles
from qualm.registry.system.disk_errors import explain_error
from qualm.runners.review.knobs import format_strength

SECTION = "perturbations"
Mode = Literal["replace", "add"]
MARK = "# calibrated: "
"""Beginning of the comments that a later calibration replaces."""


@dataclass(frozen=True)
class EditTarget:
    """Place in a spec file to edit: one parameter of a perturbation, or a point of its sweep."""

    file: Path
    index: int
    plugin: str
    parameter: str
    point: float | None = None
    """Value of a sweep to replace; None for all of them."""


def perturbations_file(path: Path, root: Path) -> Path:
    """Return the file that holds a spec's `perturbations:`: its own or one it extends."""
    document = load(path, root)
    name = document.mark((SECTION,)).file
    return next(f for f in document.files if relative_name(f, root) == name)


def write(place: EditTarget, value: float, mode: Mode, comment: str = "") -> str:
    """Write a strength into a spec file and return a message; ProjectError if impossible.

    Args:
        mode: `replace` what is there, or `add` the value to a sweep.
        comment: how the value was found, put above the entry in the place of an older one; none if empty.

    Raises:
        ProjectError: the value is there already, or other entries would change too. The file is as it was.
    """
    raw = textfiles.read_bytes(place.file)
    after = edited(raw.decode("utf-8-sig"), place, value, mode, comment)
    try:
        with atomic.file(place.file) as partial:
            partial.write_bytes((b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b"") + after.encode())
            partial.chmod(place.file.stat().st_mode)
    except OSError as error:
        raise ProjectError(explain_error(error, str(place.file))) from error
    done = say.VALUE_ADDED if mode == "add" else say.VALUE_SET
    return done.format(file=place.file.name, plugin=place.plugin, parameter=place.parameter, value=format_strength(value))


def edited(text: str, place: EditTarget, value: float, mode: Mode, comment: str = "") -> str:
    """Return the YAML text with one value set; ProjectError if it cannot be set alone."""
    expected = parse(text, place.file.name).data
    content = _set(expected[SECTION], place, value, mode)
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 1 << 20
    document, _, offset = load_yaml_guess_indent(text.replace("\r\n", "\n"), yaml=yaml)
    yaml.indent(sequence=(offset or 0) + 2, offset=offset or 0)
    _set(document[SECTION], place, value, mode)
    stream = io.StringIO()
    yaml.dump(document, stream)
    after = stream.getvalue()
    if parse(after, place.file.name).data != expected:
        pair = f"{place.parameter}: {content}"
        raise ProjectError(f"{place.file.name}: {place.plugin}: cannot be changed here alone; write it yourself: {pair}")
    after = _commented(after, place, comment) if comment else after
    return after.replace("\n", "\r\n") if "\r\n" in text else after


def _set(entries: Any, place: EditTarget, value: float, mode: Mode) -> Any:
    """Set the parameter in `entries`; return the value or sweep; ProjectError for duplicates."""
    entry = entries[place.index]
    if not isinstance(entry, dict):
        beside = entries.ca.items.pop(place.index, None) if isinstance(entries, CommentedSeq) else None
        entry = entries[place.index] = CommentedMap({entry: None})
        if beside:  # ruamel.yaml would write the comment of `- blur  # why` before a mapping
            entry.ca.items[place.plugin] = [None, None, beside[0], None]
    if not entry[place.plugin]:
        entry[place.plugin] = CommentedMap()
        entry[place.plugin].fa.set_flow_style()
    args = entry[place.plugin]
    current = args.get(place.parameter)
    new = int(value) if value == int(value) else value
    values = current if isinstance(current, list) else [] if current is None else [current]
    is_point = mode == "replace" and isinstance(current, list) and place.point is not None
    if new in values and (mode == "add" or (is_point and new != place.point)):
        raise ProjectError(f"{place.plugin}: {place.parameter}: {format_strength(value)} is there already; nothing was written")
    if is_point:
        values[values.index(place.point)] = new
    elif mode == "add" and isinstance(current, list):
        current.append(new)
    else:
        args[place.parameter] = [*values, new] if mode == "add" and values else new
    return args[place.parameter]


def _commented(text: str, place: EditTarget, comment: str) -> str:
    """Return the text with the comment above the entry, replacing that of an earlier call."""
    entries = YAML().load(text)
    block = not entries[SECTION].fa.flow_style()
    line, _ = entries[SECTION].lc.item(place.index) if block else entries.lc.key(SECTION)
    lines = text.splitlines(keepends=True)
    indent = lines[line][: len(lines[line]) - len(lines[line].lstrip(" "))]
    head = f"{indent}{MARK}{place.plugin}.{place.parameter} "
    first = line
    while first and lines[first - 1].startswith(f"{indent}{MARK}"):
        first -= 1
    others = [old for old in lines[first:line] if not old.startswith(head)]
    lines[first:line] = [*others, f"{head}{' '.join(comment.split())}\n"]
    return "".join(lines)
