"""The report of 26 models on 2 datasets: CPU seconds, and how many of those the charts take beside Altair's of the same rows.

    python tests/bench/bench_report.py [MODELS]

Until charts that a page has one of per model were written as SVG directly, each was a chart of Altair put through its converter. The old
drawing of one kind, reliability, stands here as it was, so that both are timed in the same run on the same machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from qualm.runners.reporting import charts  # noqa: E402
from qualm.runners.reporting.load import read_report  # noqa: E402
from qualm.runners.reporting.svg import draw, unchecked  # noqa: E402
from qualm.runners.runtime.colours import ACCENT, INK, MUTED  # noqa: E402
from qualm.runners.stages import report  # noqa: E402
from tests.runners.reporting.conftest import Fabric  # noqa: E402

CHARTS = ("reliability", "risk_coverage", "set_sizes", "right_and_wrong", "quartiles", "dots", "lines", "bumps")


@unchecked
def before(rows: list[dict[str, Any]], name: str) -> str:
    """A reliability diagram by Altair."""
    import altair as alt

    unit = alt.Scale(domain=[0, 1])
    x = alt.X("bin_low:Q", scale=unit, axis=alt.Axis(labels=False, ticks=False, title=None, grid=False))
    y = alt.Y("accuracy:Q", scale=unit)
    base = alt.Chart(alt.InlineData(values=rows))
    bars = base.transform_calculate(accuracy="min(datum.accuracy, datum.confidence)").mark_rect(color=ACCENT)
    bars = bars.encode(x=x, x2="bin_high:Q", y=y, y2=alt.datum(0))
    gaps = base.mark_rect(opacity=0.55).encode(x=x, x2="bin_high:Q", y=y, y2="confidence:Q")
    line = [{"bin_low": 0, "accuracy": 0}, {"bin_low": 1, "accuracy": 1}]
    diagonal = alt.Chart(alt.InlineData(values=line)).mark_line(color=INK, strokeDash=[3, 3]).encode(x=x, y=y)
    share = base.mark_rect(color=MUTED).encode(x=alt.X("bin_low:Q", scale=unit), x2="bin_high:Q", y=alt.Y("n:Q"), y2=alt.datum(0))
    top = alt.layer(bars, gaps, diagonal).properties(width=190, height=150)
    return draw(alt.vconcat(top, share.properties(width=190, height=30), spacing=4), name)


def counted(seconds: dict[str, float], calls: dict[str, int]) -> None:
    """Have every kind of chart add up what it takes."""
    for kind in CHARTS:
        drawing = getattr(charts, kind)

        def timed(*args: Any, drawing: Any = drawing, kind: str = kind, **more: Any) -> str:
            start = time.process_time()
            svg: str = drawing(*args, **more)
            seconds[kind] = seconds.get(kind, 0.0) + time.process_time() - start
            calls[kind] = calls.get(kind, 0) + 1
            return svg

        setattr(charts, kind, timed)


def main(models: int) -> None:
    """Print what a report takes, and one kind of chart before and after."""
    root = Path(tempfile.mkdtemp())
    os.chdir(root)
    fabric = Fabric(root, models=tuple(f"model-{i}" for i in range(models)), datasets=("choice-a", "choice-b"), n=200)
    stage = fabric.stage()
    seconds: dict[str, float] = {}
    calls: dict[str, int] = {}
    counted(seconds, calls)
    start = time.process_time()
    page = report.render(read_report(stage))
    whole = time.process_time() - start
    drawn, many = sum(seconds.values()), sum(calls.values())
    print(f"{models} models x 2 datasets: {whole:.1f} s of CPU, {len(page) / 2**20:.1f} MiB; {many} charts {drawn:.2f} s")
    bins = [row for row in fabric.csv["reliability"] if (row["model"], row["dataset"]) == ("model-0", "choice-a")]
    before(bins, "warm")
    start = time.process_time()
    for i in range(20):
        before(bins, f"n{i}")
    middle = time.process_time()
    for _ in range(20):
        charts.reliability(bins)
    end = time.process_time()
    each, now = (middle - start) / 20, (end - middle) / 20
    print(f"a reliability diagram: by Altair {each * 1e3:.0f} ms, directly {now * 1e3:.2f} ms: {each / now:.0f} times as fast")
    print(f"{many} charts at that pace: {many * each:.0f} s, the report {whole - drawn + many * each:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 26)
