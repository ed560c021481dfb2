"""A metric's bins changed in a spec of 26 models, and `qualm run` again: validation, plan, DVC, scores, report, as a user waits for them.

    python tests/bench/bench_rerun.py [MODELS]

A new project with recorded answers to 2 datasets, nine conformal settings, ten metrics with 1,000 resamples and slices by category. The
first run makes everything, the second has nothing to do, the third has other `bins` of `ece` (over all rows and over test rows).
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.bench_rescore import CATEGORIES  # noqa: E402
from tests.bench.bench_score import LETTERS, datasets  # noqa: E402

SPEC = """\
qualm: 1
name: b
datasets:
  mmbench: {card: vlm_uncertainty_bench, dataset: mmbench}
  oodcv: {card: vlm_uncertainty_bench, dataset: oodcv}
conformal:
  published:
    scores: [lac, aps: {ties: sorted}]
    quantile: numpy_higher
    precision: single
    calibration: {fraction: 0.5, seed: 42, split: rows}
  published_standard_quantile: {scores: [lac, aps: {ties: sorted}], precision: single, calibration: {fraction: 0.5, seed: 42, split: rows}}
  published_grouped: {scores: [lac, aps: {ties: sorted}], precision: single, calibration: {fraction: 0.5, seed: 42, split: groups}}
  ours: {scores: [lac, aps], calibration: {fraction: 0.5, seed: 42, split: groups}}
  share: {scores: [lac, aps], calibration: {fraction: [0.1, 0.2, 0.3, 0.4, 0.5], split: groups}}
metrics:
  - accuracy
  - coverage
  - set_size
  - uncertainty_aware_accuracy
  - ece: {bins: 15, rows: [all, test]}
  - mce: {bins: 15, rows: [all, test]}
  - option_rate: {option: [E, F]}
slices: [category]
compare: {interval: {bootstrap: 1000}}
models:
"""
QUALM = [sys.executable, "-m", "qualm"]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "DVC_NO_ANALYTICS": "true",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}


def recorded(source: Path, models: int) -> None:
    """Outputs as VLM-Uncertainty-Bench wrote them."""
    import numpy as np

    for name, (base, truth, groups) in datasets().items():
        numbers = {group: k for k, group in enumerate(dict.fromkeys(groups))}
        for m in range(models):
            noisy = base + np.random.default_rng([m, len(truth)]).normal(0, 0.1 * m, base.shape)
            rows = []
            for i, (logits, answer, group) in enumerate(zip(noisy.tolist(), truth, groups, strict=True)):
                own = {
                    "id": i,
                    "question": "?",
                    "answer": LETTERS[answer],
                    "logits": logits,
                    **{letter: letter.lower() for letter in "ABCD"},
                }
                rows.append(own | {"category": f"c{i % CATEGORIES[name]:02d}", "image_path": f"{numbers[group]}.jpg"})
            path = source / f"output/m{m:02d}/{name}.pkl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(pickle.dumps(rows))


def timed(what: str, command: list[str], project: Path) -> None:
    """Run it, and print the seconds of the clock and of all its processes."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, cwd=project, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"{what}: {wall:.1f} s of the clock, {used:.1f} s of CPU; load {os.getloadavg()[0]:.1f}", flush=True)


def main(models: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, project = Path(folder) / "source", Path(folder) / "project"
        recorded(source, models)
        timed("a project", [*QUALM, "init", str(project)], Path(folder))
        timed("its data", [*QUALM, "data", "add", "vlm_uncertainty_bench", "--from", str(source)], project)
        lines = "".join(f"  m{m:02d}: {{recorded: {{source: vlm_uncertainty_bench, run: m{m:02d}}}}}\n" for m in range(models))
        spec = project / "specs/b.yaml"
        spec.write_text(SPEC + lines)
        timed("qualm run, from nothing", [*QUALM, "run", "b"], project)
        timed("qualm run, nothing to do", [*QUALM, "run", "b"], project)
        spec.write_text(spec.read_text().replace("ece: {bins: 15", "ece: {bins: 10"))
        timed("qualm run, the bins of ece changed", [*QUALM, "run", "b"], project)
        for stage in ("score", "report"):
            print(f"    of it {stage}: {json.loads((project / f'.qualm/runs/b/{stage}.json').read_text())['seconds']:.1f} s of the clock")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 26)
