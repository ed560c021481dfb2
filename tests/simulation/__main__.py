"""How often intervals hold the truth, into docs/explanation/statistics.md: `python -m tests.simulation [--minutes 20] [--samples 200]`.

Cells are done in the order in which they were measured longest ago (never before all), as many as fit into the minutes; what is known
stays in .qualm/simulation.jsonl and in the page, so that a later call goes on. `--before FILE` adds a column of another version's.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from tests.simulation.intervals import KINDS, LEVEL, RESAMPLES, Held, cells, simulate

ROOT = Path(__file__).resolve().parents[2]
PAGE, KNOWN = ROOT / "docs/explanation/statistics.md", ROOT / ".qualm/simulation.jsonl"
START, END = "<!-- simulated -->", "<!-- end of simulated -->"
Key = tuple[str, int, int, float]


def read(file: Path) -> dict[Key, Held]:
    """The last measurement of each metric and cell."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    found = (Held(**json.loads(line)) for line in lines)
    return {(h.metric, h.n, h.groups, h.value): h for h in found}


def table(known: dict[Key, Held], before: dict[Key, Held]) -> str:
    """A row per metric, questions and groups; a column per true value."""
    values = sorted({key[3] for key in known})
    heads = [f"{value:g}{kind}" for value in values for kind in ((" before", "") if before else ("",))]
    lines = [f"| metric | questions | groups | {' | '.join(heads)} |", "|---" * (3 + len(heads)) + "|"]
    order = [name for names in KINDS.values() for name in names]
    for metric, n, groups in sorted({key[:3] for key in known}, key=lambda key: (order.index(key[0]), *key[1:])):
        entries = []
        for value in values:
            both = (before, known) if before else (known,)
            entries += [_entry(of.get((metric, n, groups, value))) for of in both]
        lines.append(f"| `{metric}` | {n:,} | {groups} | {' | '.join(entries)} |")
    return "\n".join(lines)


def _entry(held: Held | None) -> str:
    if held is None:
        return ""
    if not held.printed:
        return "none"
    few = f" ({held.printed / held.samples:.0%} printed)" if held.printed < held.samples else ""
    return f"{held.share:.2f}{few}".replace("0.", ".", 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--before", type=Path)
    chosen = parser.parse_args()
    end, known = time.monotonic() + 60 * chosen.minutes, read(KNOWN)
    place = {key: k for k, key in enumerate(known)}

    def measured(cell: tuple[str, int, int, float]) -> int:
        return place.get((KINDS[cell[0]][0], *cell[1:]), -1)

    KNOWN.parent.mkdir(exist_ok=True)
    with threadpool_limits(1), KNOWN.open("a", encoding="utf-8") as file:
        for cell in sorted(cells(), key=measured):
            if time.monotonic() > end:
                break
            for held in simulate(*cell, chosen.samples):
                row: dict[str, Any] = vars(held)
                file.write(json.dumps(row) + "\n")
            file.flush()
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(START)
    error = (LEVEL * (1 - LEVEL) / chosen.samples) ** 0.5
    facts = f"{chosen.samples} samples a cell, {RESAMPLES} resamples, nominal {LEVEL:.0%}; standard error of .95: {error:.3f}."
    body = f"{START}\n{facts}\n\n{table(read(KNOWN), read(chosen.before) if chosen.before else {})}\n{END}"
    PAGE.write_text(head + body + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
