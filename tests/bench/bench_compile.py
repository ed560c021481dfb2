"""What compiling and checking cost: the quickstart's `validate` and `plan`, and a spec of 10,000 cells.

    python tests/bench/bench_compile.py

Prints wall seconds and peak memory of whole processes, the floor (starting Python and importing Typer, Pydantic and
PyYAML) beside them, and the no-op `dvc repro` of the large spec beside that of an empty pipeline.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))


def timed(command: list[str], cwd: Path, runs: int = 5) -> tuple[float, float]:
    """Median wall seconds and peak MiB of a command."""
    seconds, peak = [], 0.0
    environment = {**os.environ, "DVC_NO_ANALYTICS": "true", "PYTHONPATH": str(cwd)}
    for _ in range(runs):
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = process.communicate()[0]
        seconds.append(time.perf_counter() - start)
        peak = max(peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(command)} exited {process.returncode}: {output.decode()}")
    return sorted(seconds)[len(seconds) // 2], peak


def large_spec() -> str:
    """20 models x 10 data sets x 17 variants x 3 estimators = 10,200 cells."""
    models = "".join(f"  m{i}: {{hf_vlm: {{artifact: m{i}}}}}\n" for i in range(20))
    datasets = "".join(f"  d{i}: {{card: synthetic_scenes, test: {i + 1}}}\n" for i in range(10))
    radii = ", ".join(map(str, range(1, 17)))
    return (
        f"qualm: 1\nname: large\ndatasets:\n{datasets}models:\n{models}perturbations: [blur: {{radius: [{radii}]}}]\n"
        "judges: [rules]\nestimators: [perplexity, mean_token_entropy, max_sequence_probability]\n"
        "conformal: {half: {scores: [lac, aps]}}\nmetrics: [accuracy, ece, auroc, set_size]\n"
    )


def finish(clone: Path) -> int:
    """Pretend that every stage has run: write its outputs and let `dvc commit` record them. Returns the number of stages."""
    import yaml

    stages = yaml.safe_load((clone / "dvc.yaml").read_text())["stages"]
    for stage in stages.values():
        for key in ("outs", "metrics", "plots"):
            for out in stage.get(key, []):
                path = clone / (out if isinstance(out, str) else next(iter(out)))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(str(path.relative_to(clone)))
    for i in range(20):
        (clone / f"registry/data/m{i}").mkdir(parents=True)
        (clone / f"registry/data/m{i}/config.json").write_text(str(i))
    subprocess.run(
        [sys.executable, "-m", "dvc", "commit", "-q", "-f"], cwd=clone, check=True, env={**os.environ, "DVC_NO_ANALYTICS": "true"}
    )
    return len(stages)


def main() -> None:
    floor = timed([sys.executable, "-c", "import typer, pydantic, yaml, rich"], ROOT)
    rows = [("floor: Python + Typer, Pydantic, PyYAML, Rich", *floor)]
    for command in (["validate"], ["plan"], ["compile", "--check"]):
        rows.append((f"qualm {' '.join(command)} (all our specs)" if "--check" in command else f"qualm {command[0]} quickstart",
                     *timed([sys.executable, "-m", "qualm", *command], ROOT)))  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        clone = Path(scratch) / "clone"
        keep = ("compiler", "registry", "runners")
        for name in keep:
            shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__", "store", "data"))
        (clone / "specs").mkdir()
        (clone / "specs/large.yaml").write_text(large_spec())
        (clone / "params.yaml").write_text("default: large\n")
        for command in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
            subprocess.run(command, cwd=clone, check=True)
        (clone / "dvc.yaml").write_text("stages: {}\n")
        empty = timed([sys.executable, "-m", "dvc", "repro"], clone, 3)
        rows.append(("qualm compile, 10,200 cells", *timed([sys.executable, "-m", "qualm", "compile", "large"], clone)))
        stages = finish(clone)
        rows.append((f"qualm plan, 10,200 cells in {stages} stages", *timed([sys.executable, "-m", "qualm", "plan"], clone, 3)))
        rows.append(("dvc repro of an empty project", *empty))
        rows.append((f"dvc repro, nothing to do, {stages} stages", *timed([sys.executable, "-m", "dvc", "repro"], clone, 3)))
    print(f"{'what':<50} {'seconds':>8} {'peak MiB':>9} {'x floor':>8}")
    for what, seconds, peak in rows:
        print(f"{what:<50} {seconds:8.2f} {peak:9.0f} {seconds / floor[0]:8.1f}")


if __name__ == "__main__":
    main()
