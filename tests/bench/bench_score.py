"""Scoring 26 models x 2 datasets with 1,000 grouped bootstrap resamples per cell, beside per-row loops without any.

    python tests/bench/bench_score.py [MODELS] [RESAMPLES]

The loops are of the kind that VLM-Uncertainty-Bench released: one pass of Python over the rows for each of calibration,
sets, coverage, accuracy and option rates, and torchmetrics for the calibration errors; they give point estimates alone.
Ours are the real stages `calibrate` and `score`, files read and written included. Models are the released runs with
seeded noise on their logits where the fixtures lie beside the repository, else synthetic ones of the same shape.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from qualm.registry.formats.vub_layout import LayoutError, answer_index, logits, read_records  # noqa: E402
from qualm.registry.sample import CLEAN, GENERATIONS, SAMPLES  # noqa: E402
from qualm.runners.runtime.records import write_table  # noqa: E402
from qualm.runners.runtime.settings import Settings  # noqa: E402
from qualm.runners.runtime.stage import Stage  # noqa: E402
from qualm.runners.stages import calibrate, score  # noqa: E402
from tests.support.projects.stages import ref  # noqa: E402

FIXTURES = ROOT.parent / "shared" / "fixtures" / "vlm_uncertainty_bench"
SHAPES = {"mmbench": (4377, 1176), "oodcv": (2844, 2347)}
LETTERS = "ABCDEF"


def datasets() -> dict[str, tuple[np.ndarray, np.ndarray, list[str]]]:
    """Logits, answers and groups of each dataset."""
    made = {}
    for name, (n, n_groups) in SHAPES.items():
        rng = np.random.default_rng(n)
        try:
            records = read_records(FIXTURES, "llava-v1.6-vicuna-13b", name)
            keys = [str(r["id"] % 1_000_000) if name == "mmbench" else r["image_path"] for r in records]
            made[name] = np.stack([logits(r) for r in records]), np.array([answer_index(r) for r in records]), keys
        except LayoutError:
            truth = rng.integers(0, 4, n)
            made[name] = rng.normal(0, 2, (n, 6)) + 3 * np.eye(6)[truth], truth, [str(g) for g in rng.integers(0, n_groups, n)]
    return made


def prepare(models: int) -> tuple[dict[str, Any], list[tuple[np.ndarray, np.ndarray]]]:
    """Write the inputs of the stages into the current folder; the same numbers as arrays for the loops."""
    inputs: dict[str, Any] = {"datasets": {}, "generations": {}}
    arrays = []
    for name, (base, truth, groups) in datasets().items():
        ids = [str(i) for i in range(len(truth))]
        rows = [
            {"sample_id": i, "question": "?", "choices": list(LETTERS), "answer_index": int(y), "group": g, "answerable": True}
            for i, y, g in zip(ids, truth, groups, strict=True)
        ]
        write_table(Path("data") / name / "samples.parquet", rows, SAMPLES)
        inputs["datasets"][name] = f"data/{name}"
        for m in range(models):
            noisy = base + np.random.default_rng([m, len(truth)]).normal(0, 0.1 * m, base.shape)
            arrays.append((noisy, truth))
            columns = {f.name: pa.nulls(len(ids), f.type) for f in GENERATIONS}
            columns |= {"sample_id": pa.array(ids), "variant": pa.array([CLEAN] * len(ids)), "draw": pa.array([0] * len(ids), pa.int16())}
            columns["option_logits"] = pa.array(noisy.tolist(), pa.list_(pa.float64()))
            path = f"generations/m{m:02d}/{name}.parquet"
            write_table(Path(path), pa.table(columns, schema=GENERATIONS), GENERATIONS)
            inputs["generations"].setdefault(f"m{m:02d}", {})[name] = path
    return inputs, arrays


def ours(inputs: dict[str, Any], resamples: int) -> int:
    """Both stages; returns the number of cells scored."""
    rule = {"fraction": 0.5, "seed": 42, "split": "rows"}
    setting = {"label": "published", "scores": [ref("lac"), ref("aps", ties="sorted")], "alpha": 0.1}
    setting |= {"quantile": "numpy_higher", "empty_set": "argmax", "precision": "single", "calibration": rule}
    sets = {"sets": "sets.parquet", "thresholds": "thresholds.parquet"}
    calibrate.run(Stage("b/calibrate", "b", "calibrate", "calibrate", {"settings": [setting]}, inputs, sets, 7, Settings()))
    rates = [ref("option_rate", letter, option=letter) for letter in "EF"]
    metrics = [ref(m) for m in ("accuracy", "coverage", "set_size", "uncertainty_aware_accuracy")] + rates
    metrics += [ref("ece", rows="all"), ref("mce", rows="all")]
    params = {"metrics": metrics, "slices": [], "interval": {"bootstrap": resamples, "level": 0.95}}
    params |= {"judge": None, "confidence": "sequence", "conformal": [setting]}
    names = ["scores", "metrics", "reliability", "risk_coverage", "set_sizes"]
    stage = Stage("b/score", "b", "score", "score", params, inputs | sets, {n: f"{n}.out" for n in names}, 7, Settings())
    score.run(stage)
    return stage.counters["scores"]


def softmax(row: np.ndarray) -> np.ndarray:
    powers = np.exp(row - row.max())
    return powers / powers.sum()


def loops(rows: list[dict[str, Any]]) -> list[float]:
    """Point estimates of one model on one dataset, row by row."""
    import torch
    from sklearn.model_selection import train_test_split
    from torchmetrics.classification import MulticlassCalibrationError

    cal, test = train_test_split(rows, train_size=0.5, random_state=42)
    level = np.ceil((len(cal) + 1) * 0.9) / len(cal)
    found = []
    scores = [1 - softmax(row["logits"])[LETTERS.index(row["answer"])] for row in cal]
    limit = np.quantile(scores, level, method="higher")
    lac_sets = {}
    for row in test:
        probs = softmax(row["logits"])
        chosen = [LETTERS[k] for k, p in enumerate(probs) if p >= 1 - limit]
        lac_sets[row["id"]] = chosen or [LETTERS[int(np.argmax(probs))]]
    scores = []
    for row in cal:
        probs = softmax(row["logits"])
        order = np.argsort(probs)[::-1]
        sums = np.take_along_axis(probs, order, axis=0).cumsum()
        scores.append(np.take_along_axis(sums, order.argsort(), axis=0)[LETTERS.index(row["answer"])])
    limit = np.quantile(scores, level, method="higher")
    aps_sets = {}
    for row in test:
        probs = softmax(row["logits"])
        order = np.argsort(probs)[::-1]
        sums = np.take_along_axis(probs, order, axis=0).cumsum()
        chosen, k = [], 0
        while k < len(sums) and sums[k] <= limit:
            chosen.append(LETTERS[order[k]])
            k += 1
        aps_sets[row["id"]] = chosen or [LETTERS[order[0]]]
    right = [LETTERS[int(np.argmax(softmax(row["logits"])))] == row["answer"] for row in test]
    for sets in (lac_sets, aps_sets):
        covered = [row["answer"] in sets[row["id"]] for row in test]
        size = np.mean([len(s) for s in sets.values()])
        found += [float(np.mean(covered)), float(size), float(np.mean(right) * np.sqrt(6) / size)]
    for letter in "EF":
        found.append(float(np.mean([LETTERS[int(np.argmax(softmax(row["logits"])))] == letter for row in test])))
    probs = torch.tensor(np.stack([softmax(row["logits"]) for row in rows]))
    truth = torch.tensor([LETTERS.index(row["answer"]) for row in rows])
    for norm in ("l1", "max"):
        found.append(float(MulticlassCalibrationError(num_classes=6, n_bins=15, norm=norm)(probs, truth)))
    return found


def main(models: int, resamples: int) -> None:
    import torch
    import torchmetrics.classification  # noqa: F401 - imported before the clock starts, for both sides
    from sklearn.model_selection import train_test_split  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        inputs, arrays = prepare(models)
        rows = [
            [{"id": i, "logits": x, "answer": LETTERS[y]} for i, (x, y) in enumerate(zip(matrix, truth, strict=True))]
            for matrix, truth in arrays
        ]
        start, start_cpu = time.perf_counter(), time.process_time()
        cells = ours(inputs, resamples)
        our_time, our_cpu = time.perf_counter() - start, time.process_time() - start_cpu
        start, start_cpu = time.perf_counter(), time.process_time()
        for each in rows:
            loops(each)
        their_time, their_cpu = time.perf_counter() - start, time.process_time() - start_cpu
    print(f"{models} models x {len(SHAPES)} datasets, {os.cpu_count()} cores, torch {torch.__version__}")
    print(f"ours:  {our_time:6.2f} s ({our_cpu:.2f} s of processor) for {cells} cells with {resamples} grouped resamples each")
    print(f"loops: {their_time:6.2f} s ({their_cpu:.2f} s of processor) for point estimates alone, rows in memory")
    print(f"ratio ours / loops: {our_time / their_time:.2f}, of processor time {our_cpu / their_cpu:.2f} (at most 1 wanted)")


if __name__ == "__main__":
    main(*(int(a) for a in [*sys.argv[1:], *["26", "1000"][len(sys.argv) - 1 :]]))
