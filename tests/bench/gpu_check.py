"""Check the inference engine on a GPU in at most ten minutes: results, speed, memory and suspicions from reading the code.

The GPU machine needs Python with torch and transformers 5.18 or newer, and no network. What else
Qualm imports travels as wheels. Type here, where there is a network, with the Python version of the GPU machine:

    python tests/bench/gpu_check.py --collect .whl --python 3.12 --present pyarrow

`--present` names packages that the GPU machine has. Without it pyarrow's 55 MB travel too, 59 MB in all. Copy the repository with this
folder to the GPU machine and type there:

    python3 tests/bench/gpu_check.py --wheels .whl --out gpu_check.json

The models have random weights of published sizes in bfloat16 and are made in place (`tests/support/models/full_size.py`). Each part of the
check runs in a process of its own with a time limit. Every line is printed and saved as soon as it is known. Lines that begin with PROBLEM
set the exit status to 1. `--quick` runs all parts on tiny models on a CPU.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WHEELS = (
    "accelerate",
    "annotated-types",
    "peft",
    "psutil",
    "pyarrow",
    "pydantic",
    "pydantic-core",
    "typing-extensions",
    "typing-inspection",
)
"""What the check imports beside torch, transformers and their requirements."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_12_x86_64", "manylinux2010_x86_64")
PART_SECONDS = {"smolvlm-256m": 110, "suspicions": 130, "qwen2-vl-2b": 130, "qwen2-vl-7b": 150, "llava-1.5-7b": 150}
"""Parts in the order in which they run, with their time limits in seconds."""
QUICK_PARTS = ("smolvlm-256m", "suspicions", "qwen2-vl-2b", "llava-1.5-7b")
"""One model of each family."""
MIN_SECONDS = 20
"""A part is not started with less time than this."""


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--collect", type=Path, metavar="FOLDER", help="download the wheels into this folder and stop")
    parser.add_argument("--python", default=f"{sys.version_info[0]}.{sys.version_info[1]}", help="Python version of the GPU machine")
    parser.add_argument("--present", nargs="*", default=[], metavar="PACKAGE", help="packages that the GPU machine has")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="install what is missing from these wheels, into a temporary folder")
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"), help="JSON file of all results")
    parser.add_argument("--minutes", type=float, default=9.5, help="time limit of the whole check")
    parser.add_argument("--only", nargs="+", choices=list(PART_SECONDS), help="parts to run")
    parser.add_argument("--quick", action="store_true", help="tiny models on the CPU, in one process")
    return parser.parse_args(arguments)


def collect_wheels(folder: Path, python: str, present: Sequence[str]) -> None:
    """Download the pinned wheels for Linux on x86-64."""
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE))
    versions = {name.lower().replace("_", "-"): version for name, version in pinned.items()}
    wanted = [f"{name}=={versions[name]}" for name in WHEELS if name not in present]
    platforms = [option for platform in PLATFORMS for option in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--implementation", "cp"]
    subprocess.run([*command, "--python-version", python, *platforms, "--dest", str(folder), *wanted], check=True)
    size = sum(file.stat().st_size for file in folder.glob("*.whl"))
    print(f"{len(wanted)} wheels, {size / 1e6:.0f} MB, in {folder}")


def install_missing(wheels: Path, target: Path) -> list[str]:
    """Install the carried packages that this Python lacks and return their names."""
    carried = {file.name.split("-")[0].lower().replace("_", "-") for file in wheels.glob("*.whl")}
    missing = sorted(name for name in carried if not is_installed(name))
    if missing:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir"]
        subprocess.run([*command, "--find-links", str(wheels), "--target", str(target), *missing], check=True)
    return missing


def is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def run_part(parts: Sequence[str], seconds: float, out: Path, environment: dict[str, str], quick: bool) -> dict[str, Any]:
    """Run parts in a process of their own and return what it saved; a process that takes too long is killed."""
    command = [sys.executable, "-m", "tests.bench.gpu.parts", *parts, "--seconds", f"{seconds:.0f}", "--out", str(out)]
    try:
        status = subprocess.run([*command, *(["--quick"] if quick else [])], cwd=ROOT, env=environment, timeout=seconds + 5).returncode
        ended = "" if status == 0 else f"exit status {status}"
    except subprocess.TimeoutExpired:
        ended = f"killed after {seconds + 5:.0f} s"
    saved = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"findings": []}
    return {**saved, "ended": ended}


def main() -> int:
    chosen = parse_arguments()
    if chosen.collect:
        collect_wheels(chosen.collect, chosen.python, chosen.present)
        return 0
    start = time.monotonic()
    results: dict[str, Any] = {"quick": chosen.quick, "parts": {}, "skipped": []}
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site")
        results["installed"] = install_missing(chosen.wheels.resolve(), site) if chosen.wheels else []
        # A package that installs a folder `tests` of its own would hide ours, which is no regular package.
        (site / "tests").mkdir(parents=True)
        (site / "tests" / "__init__.py").write_text(f"__path__ = [{str(ROOT / 'tests')!r}]\n", encoding="utf-8")
        path = os.pathsep.join([str(site), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        # A process for each part: a CUDA error or a kill ends one part alone, and its memory is free again.
        batches = [chosen.only or list(QUICK_PARTS)] if chosen.quick else [[part] for part in chosen.only or PART_SECONDS]
        for parts in batches:
            left = 60 * chosen.minutes - (time.monotonic() - start)
            name, limit = " ".join(parts), min(left, sum(PART_SECONDS[part] for part in parts)) - 5
            if limit < MIN_SECONDS:
                print(f"skipped: {name}, {left:.0f} s left", flush=True)
                results["skipped"].append(name)
                continue
            results["parts"][name] = run_part(parts, limit, Path(folder, f"{parts[0]}.json"), environment, chosen.quick)
            if results["parts"][name]["ended"]:
                print(f"PROBLEM {name}: {results['parts'][name]['ended']}", flush=True)
            results["seconds"] = round(time.monotonic() - start, 1)
            chosen.out.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(f"{results.get('seconds', 0):.0f} s in all; saved in {chosen.out}")
    return int(any(part["ended"] for part in results["parts"].values()))


if __name__ == "__main__":
    sys.exit(main())
