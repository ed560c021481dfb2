"""`registry/fetch.lock`: from which commit this project's data were fetched, and what SHA-256 each file had.

Git keeps it. What is fetched again, here or on another machine, is held to it; a card's checksums count beside it.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from qualm.registry.entries.fetching.download import FetchError
from qualm.registry.formats import atomic, textfiles

FILE = Path("registry/fetch.lock")


@dataclass(frozen=True)
class Pin:
    """What was fetched of one entry."""

    source: str
    revision: str
    """Commit of the hub; empty for plain addresses, which only the checksums pin."""
    sha256: dict[str, str] = field(default_factory=dict)


def read(root: Path) -> dict[str, Pin]:
    """Return entry -> pin; raise FetchError for a damaged file."""
    path = root / FILE
    if not path.exists():
        return {}
    try:
        pins = {str(name): Pin(**pin) for name, pin in json.loads(textfiles.read_text(path)).items()}
        if not all(isinstance(v, str) for p in pins.values() for v in (p.source, p.revision, *p.sha256, *p.sha256.values())):
            raise TypeError("values that are no text")
    except (textfiles.TextFileError, ValueError, TypeError, AttributeError) as error:
        raise FetchError(f"{path}: damaged ({error}); restore it from git, or delete it to pin anew") from error
    return pins


def write(root: Path, name: str, pin: Pin) -> None:
    """Set one entry's pin and leave the others."""
    pins = {**read(root), name: pin}
    text = json.dumps({key: asdict(pins[key]) for key in sorted(pins)}, indent=1, sort_keys=True, ensure_ascii=False)
    atomic.write_text(root / FILE, f"{text}\n")
