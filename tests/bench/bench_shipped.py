"""Time every stage of the shipped spec `vlm_uncertainty_bench_full` on 26 models and two datasets.

    python tests/bench/bench_shipped.py [--models 26] [--keep FOLDER]

Logits are made; numbers of questions, rotations, pictures, categories and situations are those of the released outputs of MMBench and
OODCV-VQA. Stages run as DVC runs them, one thread each. `--keep` leaves the project in a folder, where `python -m qualm.runners STAGE`
can be profiled.
"""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.bench_recorded import cost  # noqa: E402

SPEC = "vlm_uncertainty_bench"
SITUATIONS = {"texture": 512, "iid": 463, "shape": 455, "context": 382, "pose": 374, "weather": 358, "occlusion": 300}
CATEGORIES = {
    **{"image_scene": 105, "celebrity_recognition": 99, "function_reasoning": 81, "object_localization": 81, "attribute_recognition": 77},
    **{"structuralized_imagetext_understanding": 78, "physical_property_reasoning": 75, "action_recognition": 56, "image_quality": 54},
    **{"image_style": 53, "image_emotion": 50, "nature_relation": 48, "identity_reasoning": 45, "spatial_relationship": 45, "ocr": 40},
    **{"attribute_comparison": 44, "social_relation": 43, "future_prediction": 42, "image_topic": 36, "physical_relation": 24},
}
"""Distinct questions of MMBench by category."""
ROWS = {"mmbench": 4377, "oodcv": 2844}
PICTURES = 2347
"""Of OODCV-VQA."""


def questions(dataset: str) -> list[dict[str, Any]]:
    """Records of a dataset without answers: rotations of MMBench's questions, OODCV's questions on shared pictures."""
    rng = np.random.default_rng(ROWS[dataset])
    options = {letter: f"option {letter}" for letter in "ABCD"}
    if dataset == "mmbench":
        categories = [name for name, n in CATEGORIES.items() for _ in range(n)]
        # Two to four rotations of each question, as many in all as the files have rows.
        rotations = np.full(len(categories), 3)
        rotations[rng.choice(len(categories), ROWS[dataset] - 3 * len(categories), replace=False)] += 1
        places = [(i, k) for i, n in enumerate(rotations) for k in range(n)]
        rows = [{"id": i + k * 1_000_000, "image_path": f"{i}.jpg", "category": categories[i]} for i, k in places]
    else:
        pictures = rng.permutation(np.r_[np.arange(PICTURES), rng.choice(PICTURES, ROWS[dataset] - PICTURES, replace=False)])
        situations = rng.permutation([name for name, n in SITUATIONS.items() for _ in range(n)])
        rows = [{"id": i, "image_path": f"{p}.jpg", "situation": str(s)} for i, (p, s) in enumerate(zip(pictures, situations, strict=True))]
    truth = rng.integers(0, 4, len(rows))
    return [{**row, **options, "question": "?", "answer": "ABCD"[y]} for row, y in zip(rows, truth, strict=True)]


def make_project(project: Path, models: int) -> None:
    """Write the spec without the datasets that nobody here has, made outputs of its models, and the compiled stages."""
    (project / "specs").mkdir(parents=True)
    spec = yaml.safe_load((ROOT / f"specs/{SPEC}.yaml").read_text(encoding="utf-8"))
    full = yaml.safe_load((ROOT / f"specs/{SPEC}_full.yaml").read_text(encoding="utf-8"))
    spec = {
        **spec,
        **{key: value for key, value in full.items() if key not in ("extends", "datasets", "models", "conformal", "macro_averages")},
    }
    spec["name"] = "shipped"
    spec["models"] = dict(list(full["models"].items())[:models])
    spec["report"].pop("published")
    (project / "specs/shipped.yaml").write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
    (project / "params.yaml").write_text("default: shipped\n")
    for dataset in spec["datasets"]:
        records = questions(dataset)
        truth = np.array(["ABCD".index(record["answer"]) for record in records])
        hard = np.random.default_rng(1).normal(0, 1, (len(records), 6))
        for m, name in enumerate(spec["models"]):
            own = np.random.default_rng([m, len(records)]).normal(0, 1, hard.shape)
            logits = 1.5 * (hard + own) + (1.5 + m / 10) * np.eye(6)[truth]
            path = project / f"registry/data/{SPEC}/output/{name}/{dataset}.pkl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(pickle.dumps([{**record, "logits": row} for record, row in zip(records, logits, strict=True)]))
    for command in (["git", "init", "-q"], [sys.executable, "-m", "qualm", "compile", "shipped"]):
        subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL)


def measure(project: Path) -> None:
    """Run the stages in order and print what each kind costs."""
    order = ["data", "infer", "calibrate", "score", "report"]
    stages = sorted((project / "specs/shipped/stages").glob("*.json"), key=lambda path: order.index(path.stem.partition("-")[0]))
    costs: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for stage in stages:
        costs[stage.stem.partition("-")[0]].append(cost([sys.executable, "-m", "qualm.runners", f"shipped/{stage.stem}"], project))
    print(f"{'stage':<10} {'runs':>5} {'s':>8} {'s of CPU':>9} {'peak MiB':>9}")
    for kind, of in costs.items():
        seconds, cpu, peak = zip(*of, strict=True)
        print(f"{kind:<10} {len(of):>5} {sum(seconds):8.1f} {sum(cpu):9.1f} {max(peak):9.0f}")
    whole = sum(cpu for kind in ("score", "report") for _, cpu, _ in costs[kind])
    print(f"score and report: {whole:.0f} s of CPU (under 180 wanted of 26 models)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=26)
    parser.add_argument("--keep", type=Path, help="folder for the project, which must not exist")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        project = chosen.keep or Path(scratch, "project")
        make_project(project, chosen.models)
        measure(project)


if __name__ == "__main__":
    main()
