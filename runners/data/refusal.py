"""Marks of folders whose answers are not to be used, set by an audit."""

from __future__ import annotations

import json
from pathlib import Path

from qualm.registry.system import atomic

REFUSED = "refused.json"
"""File in a store's folder that forbids the use of its answers and says why."""


def refuse(folder: Path, why: str) -> None:
    """Mark a folder's answers as refused: no store reads it or writes to it."""
    atomic.write_text(folder / REFUSED, json.dumps({"why": why}) + "\n")


def accept(folder: Path) -> bool:
    """Remove the mark that refuses a folder's answers; return whether there was one."""
    was_refused = bool(refusal(folder))
    (folder / REFUSED).unlink(missing_ok=True)
    return was_refused


def refusal(folder: Path) -> str:
    """Return why a folder's answers are refused, "unknown" if unreadable; "" if they are not."""
    try:
        return str(json.loads((folder / REFUSED).read_text(encoding="utf-8"))["why"]) or "unknown"
    except FileNotFoundError:
        return ""
    # A mark that cannot be read still refuses: the safe reading of a damaged "do not use".
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"
