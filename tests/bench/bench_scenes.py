"""Scenes per second and memory of the `synthetic_scenes` adapter: `python tests/bench/bench_scenes.py [SCENES] [WORKERS]`.

Counts whole scenes: graph, questions, picture, PNG. The goal is 300 a second on two cores at the quickstart's level.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from qualm.registry.adapters import AdapterContext, count_processes
from qualm.registry.adapters.synthetic_scenes import synthetic_scenes
from qualm.registry.sample import Image


def peak_mib() -> tuple[float, float]:
    return tuple(resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main() -> None:
    scenes = int(sys.argv[1]) if len(sys.argv) > 1 else 6000
    workers = count_processes(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(f"{'level':8}{'scenes':>8}{'workers':>9}{'scenes/s':>10}{'x goal':>8}{'peak MiB':>10}{'at 1/2':>8}{'worker':>8}")
    for level, share in (("easy", 1.0), ("medium", 0.3), ("hard", 0.1)):
        wanted = max(200, int(scenes * share))
        with tempfile.TemporaryDirectory() as folder:
            start, seen, half = time.perf_counter(), 0, 0.0
            for item in synthetic_scenes(AdapterContext(Path(folder), 7, workers=workers), level=level, test=3 * wanted):
                seen += isinstance(item, Image)
                if seen == wanted // 2 and not half:
                    half = peak_mib()[0]
            rate = seen / (time.perf_counter() - start)
        own, child = peak_mib()
        print(f"{level:8}{seen:8}{workers:9}{rate:10.0f}{rate / 300:8.2f}{own:10.0f}{half:8.0f}{child:8.0f}", flush=True)


if __name__ == "__main__":
    main()
