"""Counts of how answers ended: at the token limit, by a filter, refused, or empty."""

from collections import Counter

from qualm.registry.sample import CLEAN
from qualm.runners.data.aligned import read_greedy
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.section import Section
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import visible

FINISHES = ("length", "content_filter", "refusal")
"""Values of the column `finish`, in the order of the table."""


def endings_table(results: Report) -> Sheet | None:
    """Return counts of cut, filtered, refused, empty clean answers as a table; None if none."""
    rows = []
    for model, files in results.stage.inputs.get("generations", {}).items():
        for dataset, path in files.items():
            answers = read_greedy(path, ["variant", "draw", "finish", "no_answer"], CLEAN)
            finishes, reasons = (Counter(answers[name].drop_null().to_pylist()) for name in ("finish", "no_answer"))
            if not finishes and not reasons:
                continue
            without = "; ".join(f"{n:,} {visible(reason, 80)}" for reason, n in sorted(reasons.items()))
            ended = [f"{finishes[name]:,}" for name in FINISHES]
            rows.append([f"{visible(model, 80)} · {visible(dataset, 80)}", f"{answers.num_rows:,}", *ended, without or "0"])
    return Sheet(say.ENDINGS, [*say.ENDINGS_COLUMNS], rows, note=say.ENDINGS_NOTE) if rows else None


ASSETS = ["templates/endings.html"]
SECTION = Section("endings", say.ENDINGS, endings_table, "endings.html")
