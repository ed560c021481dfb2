"""Build sdist and wheel of the committed tree, install the wheel in an empty environment, and run a small benchmark from `qualm init`.

`make release` calls it. The files stay in dist/. Sizes and times are printed; anything unexpected ends it with a message and status 1.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
SAMPLES = 60
"""Of each data set of the quickstart."""


@contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.monotonic()
    print(f"{what} ...", flush=True)
    yield
    print(f"{what}: {time.monotonic() - start:.0f} s", flush=True)


def run(*command: str | Path, folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def build(scratch: Path) -> Path:
    """The sdist from a clean clone, the wheel from the sdist; returns the wheel."""
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
    """That nothing can be imported from the wheel but `qualm`."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition("/")[0] for name in archive.namelist()}
    others = {name for name in names if not name.endswith(".dist-info")} - {"qualm"}
    if others or "qualm" not in names:
        sys.exit(f"{wheel.name}: expected `qualm` alone, found {', '.join(sorted(names))}")


def size(folder: Path) -> str:
    return f"{sum(f.stat().st_size for f in folder.rglob('*') if f.is_file() and not f.is_symlink()) / 1e6:,.0f} MB"


def digest(folder: Path) -> str:
    """Of all files of a package but byte code."""
    total = hashlib.sha256()
    for file in sorted(f for f in folder.rglob("*") if f.is_file() and f.suffix != ".pyc"):
        total.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return total.hexdigest()


def install(wheel: Path, scratch: Path) -> dict[str, str]:
    """The wheel in an empty environment, first light and then with models; returns the variables of its processes."""
    venv = scratch / "venv"
    run(sys.executable, "-m", "venv", venv, folder=scratch)
    pip = (venv / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--constraint", ROOT / "requirements.lock")
    for extra in ("", "[models]"):
        with timed(f"pip install {wheel.name}{extra}"):
            run(*pip, f"{wheel}{extra}", folder=scratch)
        print(f"environment: {size(venv)}")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "QUALM", "VIRTUAL_ENV"))}
    return {**clean, "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="qualm-release-") as place:
        scratch = Path(place)
        with timed("build"):
            wheel = build(scratch)
        check_names(wheel)
        environment = install(wheel, scratch)
        where = "import pathlib, qualm; print(pathlib.Path(qualm.__file__).parent)"
        package = Path(run("python", "-c", where, folder=scratch, environment=environment).strip())
        if not package.is_relative_to(scratch):
            sys.exit(f"expected the package of {scratch / 'venv'}, found {package}")
        before = digest(package)
        project = scratch / "my-benchmark"
        with timed("qualm init, qualm run"):
            run("qualm", "init", project.name, folder=scratch, environment=environment)
            params = project / "params.yaml"
            params.write_text(params.read_text().replace("limit: null", f"limit: {SAMPLES}"))
            print(run("qualm", "run", folder=project, environment=environment), end="")
        for benchmark in run("qualm", "new", "--list", folder=project, environment=environment).splitlines():
            name = benchmark.split()[0]
            run("qualm", "new", f"my_{name}", "--from", name, folder=project, environment=environment)
            print(run("qualm", "validate", f"my_{name}", folder=project, environment=environment), end="")
        if not (project / "results/quickstart/report.html").is_file():
            sys.exit("the run left no report")
        if digest(package) != before:
            sys.exit(f"{package}: the run wrote into the installed package")
    print(f"ready: {', '.join(sorted(p.name for p in DIST.iterdir()))}")


if __name__ == "__main__":
    main()
