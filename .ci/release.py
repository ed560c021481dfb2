"""Build sdist and wheel of the committed tree, and play the tutorial and everyday tasks with the wheel (`make release`).

The wheel is installed in an empty environment without requirements.lock: with the newest releases that the bounds of pyproject.toml allow,
as a new user gets them. Only torch is pinned, to the version of requirements.lock, whose CPU build is small. Versions, sizes and times are
printed. The files stay in dist/. The first unexpected result ends the script with a message and status 1.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import everyday

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MAX_SAMPLES = 60
"""Samples of each dataset of the quickstart that the check runs."""


@contextmanager
def print_time(step: str) -> Iterator[None]:
    """Print the name of a step, and its duration once it is done."""
    start = time.monotonic()
    print(f"{step} ...", flush=True)
    yield
    print(f"{step}: {time.monotonic() - start:.0f} s", flush=True)


def run(*command: str | Path, folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a command and return its standard output; end the script if the command fails."""
    done = subprocess.run([str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def build_wheel(scratch: Path) -> Path:
    """Build the sdist from a clean clone and the wheel from the sdist. Return the wheel."""
    run("git", "clone", "-q", ROOT, scratch / "clone", folder=scratch)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", code, DIST, folder=scratch / "clone")
    (sdist,) = DIST.glob("*.tar.gz")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", DIST, sdist, folder=scratch)
    (wheel,) = DIST.glob("*.whl")
    for file in (sdist, wheel):
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")
    return wheel


def check_names(wheel: Path) -> None:
    """Check that `qualm` is the only name that can be imported from the wheel, and that it has the tested versions."""
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
    names = {name.partition("/")[0] for name in files}
    others = {name for name in names if not name.endswith(".dist-info")} - {"qualm"}
    if others or "qualm" not in names:
        sys.exit(f"{wheel.name}: expected `qualm` alone, found {', '.join(sorted(names))}")
    if "qualm/requirements.lock" not in files:
        sys.exit(f"{wheel.name}: expected qualm/requirements.lock, by which newer libraries are recognised")


def folder_size(folder: Path) -> str:
    """Return the size of all files below a folder, in MB."""
    return f"{sum(f.stat().st_size for f in folder.rglob('*') if f.is_file() and not f.is_symlink()) / 1e6:,.0f} MB"


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 of all files below a folder, byte code left out."""
    digest = hashlib.sha256()
    for file in sorted(f for f in folder.rglob("*") if f.is_file() and f.suffix != ".pyc"):
        digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def pinned_torch() -> str:
    """Return the requirement of torch in requirements.lock."""
    match = re.search(r"^torch==[^\s\\]+", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    return match[0] if match else sys.exit("requirements.lock: expected a line torch==VERSION")


def install_wheel(wheel: Path, scratch: Path) -> dict[str, str]:
    """Install the wheel in an empty environment, first without extras, then with models. Return the variables for its processes."""
    venv = scratch / "venv"
    run(sys.executable, "-m", "venv", venv, folder=scratch)
    pip = (venv / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
    for extra, pins in (("", ()), ("[models]", (pinned_torch(),))):
        with print_time(f"pip install {wheel.name}{extra}"):
            run(*pip, f"{wheel}{extra}", *pins, folder=scratch)
        print(f"environment: {folder_size(venv)}")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "QUALM", "VIRTUAL_ENV"))}
    return {**clean, "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def run_tutorial(scratch: Path, environment: dict[str, str]) -> None:
    """Type the tutorial's commands in a new project: init, run, show, doctor; then copy and validate every benchmark of the package."""
    project = scratch / "my-benchmark"

    def qualm(*arguments: str, folder: Path = project) -> str:
        with print_time(f"qualm {' '.join(arguments)}"):
            return run("qualm", *arguments, folder=folder, environment=environment)

    qualm("init", project.name, folder=scratch)
    params = project / "params.yaml"
    params.write_text(params.read_text(encoding="utf-8").replace("limit: null", f"limit: {MAX_SAMPLES}"), encoding="utf-8")
    print(qualm("run", "quickstart"), end="")
    if not (project / "results/quickstart/report.html").is_file():
        sys.exit("expected results/quickstart/report.html after the run, found none")
    print(qualm("show", "quickstart"), end="")
    print(qualm("doctor", "model", "quickstart:base", "--spec", "quickstart"), end="")
    for line in qualm("new", "--list").splitlines():
        name = line.split()[0]
        qualm("new", f"my_{name}", "--from", name)
        print(qualm("validate", f"my_{name}"), end="")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="qualm-release-") as folder:
        scratch = Path(folder)
        with print_time("build"):
            wheel = build_wheel(scratch)
        check_names(wheel)
        environment = install_wheel(wheel, scratch)
        print(run("qualm", "--version", "-v", folder=scratch, environment=environment), end="", flush=True)
        code = "import pathlib, qualm; print(pathlib.Path(qualm.__file__).parent)"
        package = Path(run("python", "-c", code, folder=scratch, environment=environment).strip())
        if not package.is_relative_to(scratch):
            sys.exit(f"expected the package of {scratch / 'venv'}, found {package}")
        before = folder_digest(package)
        run_tutorial(scratch, environment)
        (tasks := scratch / "everyday").mkdir()
        everyday.play(tasks, environment)
        if folder_digest(package) != before:
            sys.exit(f"{package}: expected an unchanged package after the run, found other files")
    print(f"ready: {', '.join(sorted(p.name for p in DIST.iterdir()))}")


if __name__ == "__main__":
    main()
