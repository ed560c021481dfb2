"""`registry/fetch.lock`: the commits and checksums of the data and models that this project uses.

Git keeps it. Whatever is fetched again, here or on another machine, is compared with it. Specs that name a hub model by a branch or
tag are compiled with the commit of this file.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from qualm.registry.system import atomic, textfiles

FILE = Path("registry/fetch.lock")
BRANCH = "main"
"""The branch of a hub repository for which no revision is given."""


class FetchError(Exception):
    """Error of a file that could not be fetched: which, why, what to do."""


@dataclass(frozen=True)
class Pin:
    """Record in the lock for an entry or hub model: source, commit, checksums."""

    source: str
    revision: str
    """Commit of the hub; empty for plain addresses, which only the checksums pin."""
    sha256: dict[str, str] = field(default_factory=dict)


def read(root: Path) -> dict[str, Pin]:
    """Return {entry, or MODEL@REVISION: its pin}, {} without lock file; FetchError if damaged."""
    path = root / FILE
    if not path.exists():
        return {}
    try:
        pins = {str(name): Pin(**pin) for name, pin in json.loads(textfiles.read_text(path)).items()}
        if not all(isinstance(v, str) for p in pins.values() for v in (p.source, p.revision, *p.sha256, *p.sha256.values())):
            raise TypeError("values that are no text")
    except (textfiles.TextFileError, ValueError, TypeError, AttributeError) as error:
        raise FetchError(f"{path}: damaged ({error}); restore it from git, or delete it to pin again") from error
    return pins


def model_key(repo: str, revision: str | None) -> str:
    return f"{repo}@{revision or BRANCH}"


def write(root: Path, new: Mapping[str, Pin]) -> None:
    """Add or replace these pins in the project's lock; all others stay."""
    pins = {**read(root), **new}
    text = json.dumps({key: asdict(pins[key]) for key in sorted(pins)}, indent=1, sort_keys=True, ensure_ascii=False)
    atomic.write_text(root / FILE, f"{text}\n")
