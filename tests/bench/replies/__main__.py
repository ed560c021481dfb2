"""Print the agreement of the judges with real replies: `python -m tests.bench.replies`. Exits with 1 where a bar is missed."""

from __future__ import annotations

import importlib
import sys

from tests.bench.replies.figures import REPLIES

SECTIONS = ("options", "open_answers", "abstentions")


def main() -> int:
    """Print a line per figure."""
    if not REPLIES.is_dir():
        print(f"no replies: {REPLIES} does not exist", file=sys.stderr)
        return 1
    missed = 0
    for section in SECTIONS:
        print(section.replace("_", " "))
        for figure in importlib.import_module(f"tests.bench.replies.{section}").figures():
            bar = f"at least {figure.at_least:.1%}" if figure.at_least is not None else ""
            bar += f"at most {figure.at_most:.1%}" if figure.at_most is not None else ""
            print(f"  {figure.name:<70} {figure.value:7.1%} of {figure.n:<5} {bar}{'' if figure.holds else '  MISSED'}")
            missed += not figure.holds
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
