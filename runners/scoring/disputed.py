"""Answers on which a recorded log's own verdict differs from ours."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry.text import visible
from qualm.runners.data.aligned import Floats, Samples

MAX_DISPUTED = 0.02
"""Share of answers on which log and judge may disagree without a warning."""
MAX_EXAMPLES = 5
RIGHT_FROM = 0.5
"""The least rating that counts as right, of theirs and ours."""


def describe_dispute(samples: Samples, answers: pa.Table, correct: Floats, where: str) -> str:
    """Return a warning if log and judge differ on over 2% of the answers; otherwise "".

    Args:
        samples: The dataset.
        answers: one model's greedy answers, with `text` and, if the log has verdicts, `verdict`.
        correct: (n,) ratings of the judge, NaN where unscored.
        where: Path of the answers, for messages.
    """
    if "verdict" not in answers.column_names or not pc.any(pc.is_valid(answers["verdict"])).as_py():
        return ""
    rows = samples.rows_of(answers["sample_id"], where)
    theirs = np.asarray(pc.fill_null(answers["verdict"], np.nan).to_numpy(), dtype=np.float64)
    ours = correct[rows]
    both = ~np.isnan(theirs) & ~np.isnan(ours)
    others = np.flatnonzero(both & ((theirs >= RIGHT_FROM) != (ours >= RIGHT_FROM)))
    if len(others) <= MAX_DISPUTED * both.sum():
        return ""
    shown = answers.take(pa.array(others[:MAX_EXAMPLES])).select(["sample_id", "text"]).to_pylist()
    references = samples.table["references"].take(pa.array(rows[others[:MAX_EXAMPLES]])).to_pylist()
    examples = [
        f"{_short(row['sample_id'])}: answer {_short(row['text'])}, reference {_short(' | '.join(of or ()))}, "
        f"log {'right' if theirs[k] >= RIGHT_FROM else 'wrong'}, ours {'right' if ours[k] >= RIGHT_FROM else 'wrong'}"
        for row, of, k in zip(shown, references, others, strict=False)
    ]
    return f"on {len(others):,} of {both.sum():,} answers the log's own verdict is another one than the judge's: {'; '.join(examples)}"


def _short(text: str | None) -> str:
    line = " ".join((text or "").split())
    return repr(visible(line if len(line) <= 60 else f"…{line[-58:]}", 60))
