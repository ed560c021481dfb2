"""Arguments that an adapter needs to read an entry: none, or the first of several parts."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from qualm.registry.entries.entries import Entry
from qualm.registry.entries.infer_columns import NewCardError, list_names
from qualm.registry.entries.new_card import try_out
from qualm.registry.formats.pictures import is_image_name
from qualm.registry.plugins.registry import REQUIRED, get

MAX_CANDIDATES = 20
"""Parts that are tried."""


def options_for(entry: Entry) -> str | None:
    """Return options that make an entry readable, " -O task=arc" or ""; None if none do."""
    card = entry.details
    if card is None or card.adapter is None:
        return None
    for args in islice(_candidates(entry, card.adapter, card.args), MAX_CANDIDATES):
        try:
            try_out(entry.path, card.adapter, {**card.args, **args}, 1)
        except NewCardError:
            continue
        return "".join(f" -O {name}={value}" for name, value in args.items())
    return None


def _candidates(entry: Entry, adapter: str, args: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield {} if no parameter is required, then {parameter: task or file stem} to try.

    The parameter is the single required one, or `task` if none is required. Without either, no more follows.
    """
    parameters = {p.name: p for p in get("datasets", adapter).parameters}
    required = [name for name, p in parameters.items() if p.default is REQUIRED and name not in args]
    if not required:
        yield {}
    naming = required if len(required) == 1 else ["task"] if not required and "task" in parameters else []
    for name in naming:
        yield from ({name: part} for part in dict.fromkeys([*_tasks(entry.path), *_stems(entry.path)]))


def _tasks(folder: Path) -> list[str]:
    from qualm.registry.recordings.parts import find_parts, task_of
    from qualm.registry.recordings.record import RecordingError

    try:
        return [task_of(part, None) for part in find_parts(folder)]
    except RecordingError:
        return []


def _stems(folder: Path) -> list[str]:
    names = (PurePosixPath(name) for name in list_names(folder))
    return sorted({name.stem for name in names if not is_image_name(name.name)})
