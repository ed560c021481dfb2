"""Simulate worlds of known truth, and write what was counted into tests/simulation/tables.md.

`python -m tests.simulation [--minutes 12] [--samples 200] [--only QUESTION] [--anew]`. Every row of every table is drawn in batches, those
with the fewest samples first, until each has so many or the minutes are over. `tallies.jsonl` beside this file keeps what was counted, so
that a later call goes on; `--anew` drops it, as is needed after a change of the product.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.simulation.drawing import QUESTIONS, fill
from tests.simulation.page import insert_tables
from tests.simulation.tallies import Tallies

PAGE = Path(__file__).with_name("tables.md")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=QUESTIONS, action="append", help="a table (default: all)")
    parser.add_argument("--anew", action="store_true", help="drop what was counted of these tables")
    chosen = parser.parse_args()
    questions = {name: of for name, of in QUESTIONS.items() if name in (chosen.only or QUESTIONS)}
    tallies = Tallies.read()
    if chosen.anew:
        tallies = Tallies({key: of for key, of in tallies.items() if key[0] not in questions})
    fill(tallies, questions, chosen.samples, time.monotonic() + 60 * chosen.minutes, chosen.processes)
    PAGE.write_text(insert_tables(PAGE.read_text(encoding="utf-8"), QUESTIONS, tallies), encoding="utf-8")


if __name__ == "__main__":
    main()
