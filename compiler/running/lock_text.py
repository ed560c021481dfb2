"""`dvc.lock` as the texts of its stages, of which a run writes one anew at a time.

DVC parses and formats the whole lock for each stage that has ended, with comments kept: half of its work in a pipeline of eight stages, and
more in a longer one. What a stage's text is does not depend on the others, so only that one is formatted, by DVC's own formatter, and the
bytes are the same. A lock that is not as DVC writes it is left to DVC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

HEAD = "schema: '2.0'\nstages:\n"
_NAME = re.compile(r"^  ([A-Za-z_][^\s:'\"&*#]*):$", re.MULTILINE)
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Names that YAML puts in quotes."""


def texts(lock: str) -> dict[str, str] | None:
    """The text of each stage, in order; None where the lock holds anything else."""
    body = lock.removeprefix(HEAD)
    if body == lock or not lock.endswith("\n") or not re.match(_NAME, body):
        return None
    # Whatever we would not write ourselves (anchors, quoted names, text at the margin) is left to DVC's own parser.
    if re.search(r"^(?!  |$)|^  (?! )(?![A-Za-z_][^\s:'\"&*#]*:$)|[&*]id\d", body[:-1], re.MULTILINE):
        return None
    starts = [match.start() for match in _NAME.finditer(body)]
    names = _NAME.findall(body)
    if len({*names}) != len(names):
        return None
    return {name: body[start:end] for name, start, end in zip(names, starts, [*starts[1:], len(body)], strict=True)}


def text_of(name: str, entry: Any) -> str | None:
    """The text of one stage as DVC formats it; None where it stands for itself in no lock."""
    from dvc.utils.serialize import dumps_yaml

    # The whole of a lock with this stage alone: indentation and quoting come out as DVC has them, and `texts` checks it.
    whole: str = dumps_yaml({"schema": "2.0", "stages": {name: entry}})
    parts = texts(whole) if name.lower() not in _WORDS else None
    return parts[name] if parts is not None and [*parts] == [name] else None


def install(write: Callable[[Path, str], None], arrange: Callable[[Path, Any], None]) -> None:
    """Have DVC write stages so.

    Args:
        write: replaces a file.
        arrange: moves what is new in `{"stages": {NAME: ...}}` to its place, before a lock is written.
    """
    from dvc.dvcfile import Lockfile, logger
    from dvc.stage import serialize
    from dvc.utils.serialize import loads_yaml

    plain = Lockfile.dump_stages

    def dump_stages(self: Any, stages: list[Any], **options: Any) -> None:
        place = Path(self.path)
        whole = place.read_text(encoding="utf-8") if place.is_file() else ""
        parts = texts(whole)
        entries = {stage.name: serialize.to_lockfile(stage, **options)[stage.name] for stage in stages if parts is not None}
        new = {name: text_of(name, entry) for name, entry in entries.items()}
        if parts is None or None in new.values():
            # All or nothing: a lock of which DVC formats a part would mix two ways of writing.
            plain(self, stages, **options)
            return
        # Compared as data, as DVC does: only a real change is logged and handed to git.
        changed = any(name not in parts or loads_yaml(parts[name])[name] != entry for name, entry in entries.items())
        parts.update({name: text for name, text in new.items() if text is not None})
        arrange(place, {"stages": parts})
        write(place, HEAD + "".join(parts.values()))
        if changed:
            logger.info("Updating lock file '%s'", self.relpath)
            self.repo.scm_context.track_file(self.relpath)

    Lockfile.dump_stages = dump_stages
