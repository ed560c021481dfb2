"""Header of compiled files, which names their spec."""

import re
from pathlib import Path

HEADER = "# Compiled from specs/{spec}.yaml by `qualm compile`. Do not edit: edit the spec and compile again.\n"


_OURS = re.compile(r"^# Compiled from specs/([^ ]+)\.yaml by `qualm compile`")


def owner(path: Path) -> str | None:
    """Return the spec that a dvc.yaml was compiled from; None if it is not compiled."""
    try:
        with path.open(encoding="utf-8") as lines:
            match = _OURS.match(lines.readline())
    except (OSError, UnicodeDecodeError):
        return None
    return match.group(1) if match else None
