"""Rows of a recording that gave no generation: counted by reason, and listed by file and line where a person can look."""

import csv
import sys
from collections import Counter
from collections.abc import Sequence

from qualm.registry.formats.faults import Fault
from qualm.registry.formats.text_tables import inert
from qualm.runners.runtime.stage import LOCAL, Stage

SHOWN = 5
"""Rows of one reason that are printed; all are in the list."""


def report(dataset: str, faults: Sequence[Fault], stage: Stage) -> None:
    """Count faults as `left out (REASON)`, print the first of each, write all to `.qualm/runs/SPEC/STAGE.DATASET.left_out.csv`."""
    path = LOCAL / "runs" / stage.spec / f"{stage.name}.{dataset}.left_out.csv"
    path.unlink(missing_ok=True)
    if not faults:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["where", "reason", "what"])
        writer.writerows(map(inert, (f.where, f.reason, f.what)) for f in faults)
    for reason, n in Counter(f.reason for f in faults).items():
        stage.count(**{f"left out ({reason})": n})
        mine = [f for f in faults if f.reason == reason]
        if mine[0].harmless:
            continue
        print(f"{stage.key}: {dataset}: {n} x {reason}; all in {path}", file=sys.stderr)
        for fault in mine[:SHOWN]:
            print(f"  {fault.where}" + (f": {fault.what}" if fault.what else ""), file=sys.stderr)
