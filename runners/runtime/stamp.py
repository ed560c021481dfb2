"""Commit, machine and time of a run, shown beside a report and not part of it: as JSON and as an image.

Both are in `.qualm/runs/SPEC/`, local and never an input.
"""

import json
import os
import platform
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from qualm.registry.machine import peak_memory, processor_name
from qualm.registry.system import atomic
from qualm.registry.system.git import head_commit

FILE = "made.json"
_STYLE = "text{font:13px system-ui,sans-serif;fill:#333}.k{fill:#777}@media(prefers-color-scheme:dark){text{fill:#ddd}.k{fill:#999}}"
WIDTH = 360  # fits a phone
_LINE, _GAP = 17, 8
_LINE_WIDTH = 48
"""Characters per line; those of a commit are narrow."""


def run_facts(root: Path = Path()) -> dict[str, Any]:
    """Return a run's facts by name: git commit, architecture, processor, cores, end time."""
    commit, dirty = head_commit(root)
    return {
        "git": commit,
        "git_dirty": dirty,
        "machine": platform.machine(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "ended": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }


def memory_used() -> dict[str, Any]:
    """Return {"peak_memory": of this process, "gpus": [{name, peak_memory}] if it used any}.

    A GPU's peak counts torch's tensors since the batch size was last measured, without other processes of the stage.
    """
    facts: dict[str, Any] = {"peak_memory": peak_memory()}
    torch = sys.modules.get("torch")  # without importing it
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        peaks = [(torch.cuda.get_device_name(i), torch.cuda.max_memory_allocated(i)) for i in range(torch.cuda.device_count())]
        facts["gpus"] = [{"name": name, "peak_memory": peak} for name, peak in peaks if peak]
    return facts


def write_stamp(spec: str, root: Path = Path()) -> None:
    """Write a spec's run facts and the GPUs of its stages, as JSON and as an SVG image."""
    folder = root / ".qualm" / "runs" / spec
    facts = run_facts(root)
    if gpus := _gpus(folder):
        facts["gpus"] = gpus
    atomic.write_text(folder / FILE, json.dumps(facts, indent=1, sort_keys=True) + "\n")
    atomic.write_text(folder / "made.svg", facts_svg(facts))


def read_stamp(spec: str, root: Path) -> dict[str, Any] | None:
    """Return the facts that `write_stamp` wrote for a spec; None without any."""
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
    names: set[str] = set()
    for path in folder.glob("*.json"):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        gpus = record.get("gpus") if isinstance(record, dict) else None
        names.update(str(gpu["name"]) for gpu in gpus or () if isinstance(gpu, dict) and "name" in gpu)
    return sorted(names)


def facts_svg(facts: Mapping[str, Any]) -> str:
    """Return an SVG of text with the facts of a run."""
    lines, y = [], 14
    for key, value in facts_in_words(facts):
        text, y = named_lines(key, value, y)
        lines.append(text)
    return text_svg(lines, y - 14)


def text_svg(lines: Sequence[str], height: int) -> str:
    """Return an SVG with a style for light and dark pages around `lines`, its text elements."""
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"><style>{_STYLE}</style>{"".join(lines)}</svg>\n'


def named_lines(key: str, value: str, y: int) -> tuple[str, int]:
    """Return (SVG text of a name above its wrapped value, y of the next line)."""
    lines = textwrap.wrap(value, _LINE_WIDTH) or [""]
    below = "".join(f'<tspan x="0" dy="{_LINE}">{escape(line)}</tspan>' for line in lines)
    return f'<text><tspan class="k" x="0" y="{y}">{escape(key)}</tspan>{below}</text>', y + _LINE * (1 + len(lines)) + _GAP
