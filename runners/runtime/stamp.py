"""Commit, machine and time of a run, which a report shows without being part of its content: as JSON and as a picture.

Both lie beside the records of runs, `.qualm/runs/SPEC/`, local and never an input of anything.
"""

import json
import os
import platform
import sys
import textwrap
import time
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from qualm.registry.dvc.git import head
from qualm.registry.formats import atomic
from qualm.registry.machine import peak_memory, processor_name

FILE = "made.json"
_STYLE = "text{font:13px system-ui,sans-serif;fill:#333}.k{fill:#777}@media(prefers-color-scheme:dark){text{fill:#ddd}.k{fill:#999}}"
_WIDTH, _LINE, _GAP = 360, 17, 8  # as narrow as a telephone, so that it is not made smaller there
_LONGEST = 48
"""Letters that fit a line: those of a commit are digits and narrow letters."""


def here(root: Path = Path()) -> dict[str, Any]:
    """The commit of the checkout, whether it has changes besides, the machine, and the time."""
    commit, dirty = head(root)
    return {
        "git": commit,
        "git_dirty": dirty,
        "machine": platform.machine(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "ended": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }


def used() -> dict[str, Any]:
    """What this process has taken of the machine: most memory at a time, and of each GPU that it worked on the name and the most.

    A GPU's peak is that of torch's tensors, since the batch size was last measured; other processes of the stage are not in it.
    """
    facts: dict[str, Any] = {"peak_memory": peak_memory()}
    torch = sys.modules.get("torch")  # who has not imported it has used no GPU
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        peaks = [(torch.cuda.get_device_name(i), torch.cuda.max_memory_allocated(i)) for i in range(torch.cuda.device_count())]
        facts["gpus"] = [{"name": name, "peak_memory": peak} for name, peak in peaks if peak]
    return facts


def write_stamp(spec: str, root: Path = Path()) -> None:
    """Leave both files for a spec whose results have just been made, or brought up to date."""
    folder = root / ".qualm" / "runs" / spec
    facts = here(root)
    if gpus := _gpus(folder):
        facts["gpus"] = gpus
    atomic.write_text(folder / FILE, json.dumps(facts, indent=1, sort_keys=True) + "\n")
    atomic.write_text(folder / "made.svg", picture(facts))


def read_stamp(spec: str, root: Path) -> dict[str, Any] | None:
    """The facts that were left; None where there are none."""
    try:
        facts = json.loads((root / ".qualm" / "runs" / spec / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None


def facts_in_words(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    commit = f"{facts['git']}{' with uncommitted changes' if facts['git_dirty'] else ''}" if facts["git"] else "no git repository"
    return [
        ("Git commit", commit),
        ("Machine", f"{facts['processor']} ({facts['machine']}, {facts['cores']} cores)"),
        *([("GPUs of its stages", ", ".join(facts["gpus"]))] if facts.get("gpus") else []),
        ("Ended", facts["ended"]),
    ]


def _gpus(folder: Path) -> list[str]:
    """Names of the GPUs that the stages of a spec have used here, by the records of their last runs."""
    names: set[str] = set()
    for path in folder.glob("*.json"):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        gpus = record.get("gpus") if isinstance(record, dict) else None
        names.update(str(gpu["name"]) for gpu in gpus or () if isinstance(gpu, dict) and "name" in gpu)
    return sorted(names)


def picture(facts: Mapping[str, Any]) -> str:
    """The facts as an SVG of plain text."""
    lines, y = [], 14
    for key, value in facts_in_words(facts):
        text, y = named_lines(key, value, y)
        lines.append(text)
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y - 14}"><style>{_STYLE}</style>{"".join(lines)}</svg>\n'


def named_lines(key: str, value: str, y: int) -> tuple[str, int]:
    """A name and below it what it names, whole, over as many lines as it takes; and where the next one begins."""
    lines = textwrap.wrap(value, _LONGEST) or [""]
    below = "".join(f'<tspan x="0" dy="{_LINE}">{escape(line)}</tspan>' for line in lines)
    return f'<text><tspan class="k" x="0" y="{y}">{escape(key)}</tspan>{below}</text>', y + _LINE * (1 + len(lines)) + _GAP
