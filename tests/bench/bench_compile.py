"""What compiling and checking cost: the quickstart's `validate`, `plan` and no-op `run`, a spec of 10,000 cells, and 2,000 models.

    python tests/bench/bench_compile.py

Prints seconds on the clock and of the processor and peak memory of whole processes, as multiples of the processor time of the floor
(starting Python and importing Typer, Pydantic and PyYAML), and the no-op `dvc repro` of the large spec beside that of an empty pipeline.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))


Cost = tuple[float, float, float]
"""Seconds on the clock, seconds of the processor, peak MiB."""


def timed(command: list[str], cwd: Path, runs: int = 5) -> Cost:
    """Medians of a command and of all that it starts."""
    seconds, cpu, peak = [], [], 0.0
    environment = {**os.environ, "DVC_NO_ANALYTICS": "true", "PYTHONPATH": str(cwd)}
    for _ in range(runs):
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = process.stdout.read() if process.stdout else b""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds.append(time.perf_counter() - start)
        cpu.append(used.ru_utime + used.ru_stime)
        peak = max(peak, used.ru_maxrss / 1024)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(command)} exited {process.returncode}: {output.decode()}")
    return sorted(seconds)[len(seconds) // 2], sorted(cpu)[len(cpu) // 2], peak


def many_models(specs: Path, models: int = 500, parts: int = 4) -> None:
    """Specs of so many recorded models each; 500 is the most that one may have."""
    for part in range(parts):
        named = "".join(f"  m{i}: {{recorded: {{source: logs, run: run-{part}-{i}}}}}\n" for i in range(models))
        (specs / f"many{part}.yaml").write_text(
            f"qualm: 1\nname: many{part}\ndatasets:\n  d: {{card: lm_eval_samples, source: logs}}\nmodels:\n{named}"
            "judges: [rules]\nmetrics: [accuracy, f1_idk]\n"
        )


def large_spec() -> str:
    """20 models x 10 datasets x 17 variants x 3 estimators = 10,200 cells."""
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
        for name in ("config.json", "chat_template.jinja", "processor_config.json", "tokenizer.json", "model.safetensors"):
            (clone / f"registry/data/m{i}" / name).write_text(str(i))
    subprocess.run(
        [sys.executable, "-m", "dvc", "commit", "-q", "-f"], cwd=clone, check=True, env={**os.environ, "DVC_NO_ANALYTICS": "true"}
    )
    return len(stages)


def main() -> None:
    floor = timed([sys.executable, "-c", "import typer, pydantic, yaml, rich"], ROOT)
    rows = [("floor: Python + Typer, Pydantic, PyYAML, Rich", *floor)]
    noop = (
        subprocess.run([sys.executable, "-m", "qualm", "plan", "--exit-code"], cwd=ROOT, check=False, capture_output=True).returncode == 0
    )
    for command in (["validate"], ["plan"], ["compile", "--check"], *([["run"]] if noop else [])):
        rows.append((f"qualm {' '.join(command)} (all our specs)" if "--check" in command else f"qualm {command[0]} quickstart",
                     *timed([sys.executable, "-m", "qualm", *command], ROOT)))  # fmt: skip
    if not noop:
        print("the no-op `qualm run` is left out: here the quickstart has not run, or is out of date")
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
        many_models(clone / "specs")
        parts = [f"many{part}" for part in range(4)]
        rows.append(("qualm compile, 2,000 models in 4 specs", *timed([sys.executable, "-m", "qualm", "compile", *parts], clone, 3)))
    print(f"{'what':<50} {'seconds':>8} {'s of CPU':>9} {'peak MiB':>9} {'CPU x floor':>12}")
    for what, seconds, cpu, peak in rows:
        print(f"{what:<50} {seconds:8.2f} {cpu:9.2f} {peak:9.0f} {cpu / floor[1]:12.1f}")


if __name__ == "__main__":
    main()
