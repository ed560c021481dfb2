"""The report of 26 models on 2 datasets: CPU seconds, and how many of those the charts take.

python tests/bench/bench_report.py [MODELS]
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
from qualm.runners.stages import report  # noqa: E402
from tests.runners.reporting.conftest import Fabric  # noqa: E402

CHARTS = ("reliability", "risk_coverage", "set_sizes", "right_and_wrong", "quartiles", "dots", "lines", "bumps")


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
    """Print what a report takes."""
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


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 26)
