"""Marks of folders whose answers are not to be used, set by an audit."""

from __future__ import annotations

import json
from pathlib import Path

from qualm.registry.formats import atomic

REFUSED = "refused.json"
"""In a store's folder: that its answers are not to be used, and why."""


def refuse(folder: Path, why: str) -> None:
    """Say of a folder's answers that they are not to be used: no store reads it from then on, and none writes to it."""
    atomic.write_text(folder / REFUSED, json.dumps({"why": why}) + "\n")


def accept(folder: Path) -> bool:
    """Take that back; whether it was said."""
    was_refused = bool(refusal(folder))
    (folder / REFUSED).unlink(missing_ok=True)
    return was_refused


def refusal(folder: Path) -> str:
    """Why a folder's answers are not to be used; empty if they are."""
    try:
        return str(json.loads((folder / REFUSED).read_text(encoding="utf-8"))["why"]) or "unknown"
    except FileNotFoundError:
        return ""
    # A mark that cannot be read still refuses: the safe reading of a damaged "do not use".
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"
