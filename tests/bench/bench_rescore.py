"""Scoring 26 models x 2 datasets under nine conformal settings, with slices, twice: the tables must have the same bytes.

    python tests/bench/bench_rescore.py [MODELS] [--profile]

Settings and metrics are those of `specs/vlm_uncertainty_bench`, without what came after the paper, on the models that `bench_score` makes;
134,784 scores of 26 models.
"""

from __future__ import annotations

import cProfile
import hashlib
import json
import os
import pstats
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from qualm.compiler.plan.make import make_plan  # noqa: E402
from qualm.compiler.spec.resolve import read_run_wide, resolve_file  # noqa: E402
from qualm.registry.parameters import to_lists  # noqa: E402
from qualm.registry.sample import SAMPLES  # noqa: E402
from qualm.runners.runtime.records import read_table, write_table  # noqa: E402
from qualm.runners.runtime.settings import Settings  # noqa: E402
from qualm.runners.runtime.stage import Stage  # noqa: E402
from qualm.runners.stages import calibrate, score  # noqa: E402
from tests.bench.bench_score import prepare  # noqa: E402

LATER = ("more_scores", "within_category", "published_within_situation")
NEW = ("brier", "ece_classwise", "ece_smooth")
CATEGORIES = {"mmbench": 20, "oodcv": 14}


def parameters() -> dict[str, Any]:
    """Of the score stage."""
    resolved = resolve_file(ROOT / "specs/vlm_uncertainty_bench.yaml", ROOT, read_run_wide(ROOT))
    (planned,) = (stage for stage in make_plan(resolved, ROOT).stages if stage.kind == "score")
    params: dict[str, Any] = to_lists(json.loads(json.dumps(planned.params)))
    params["conformal"] = [s for s in params["conformal"] if s["label"] not in LATER]
    params["metrics"] = [m for m in params["metrics"] if m["label"] not in NEW]
    for later in ("calibrators", "macro_averages"):
        params.pop(later, None)
    return params | {"slices": ["category"]}


def with_categories(inputs: dict[str, Any]) -> None:
    for name, folder in inputs["datasets"].items():
        path = Path(folder) / "samples.parquet"
        rows = read_table(path, SAMPLES).to_pylist()
        for i, row in enumerate(rows):
            row["category"] = f"c{i % CATEGORIES[name]:02d}"
        write_table(path, rows, SAMPLES)


def scored(params: dict[str, Any], inputs: dict[str, Any]) -> dict[str, str]:
    """Run the stage and say what its CPU time was; digests of what it wrote."""
    names = {"scores": "parquet", "metrics": "json", "reliability": "csv", "risk_coverage": "csv", "set_sizes": "csv"}
    names |= {"rankings": "parquet", "estimator_comparisons": "parquet"}
    outputs = {name: f"results/{name}.{kind}" for name, kind in names.items()}
    stage = Stage("b/score", "b", "score", "score", params, inputs, outputs, 7, Settings())
    start, wall = time.process_time(), time.perf_counter()
    score.run(stage)
    used, wall = time.process_time() - start, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{stage.counters['scores']:,} scores: {used:.1f} s of CPU, {wall:.1f} s; peak {peak:,.0f} MiB; {stage.counters}", flush=True)
    return {name: hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12] for name, path in outputs.items()}


def main(models: int, profile: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        inputs, _ = prepare(models)
        with_categories(inputs)
        params = parameters()
        sets = {"sets": "sets.parquet", "thresholds": "thresholds.parquet"}
        start = time.process_time()
        calibrate.run(Stage("b/calibrate", "b", "calibrate", "calibrate", {"settings": params["conformal"]}, inputs, sets, 7, Settings()))
        print(f"calibrate: {time.process_time() - start:.1f} s of CPU", flush=True)
        inputs |= sets
        profiler = cProfile.Profile()
        if profile:
            profiler.enable()
        first = scored(params, inputs)
        if profile:
            profiler.disable()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(35)
            pstats.Stats(profiler).sort_stats("cumtime").print_stats(45)
        print(first)
        assert scored(params, inputs) == first


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a.isdigit()]
    main(int(arguments[0]) if arguments else 26, "--profile" in sys.argv)
