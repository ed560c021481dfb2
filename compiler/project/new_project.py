"""`qualm init`: create a project with the quickstart as a start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from qualm.compiler.project.checkout import Project
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.places import PACKAGE
from qualm.registry.system import textfiles
from qualm.registry.system.dvc_files import read_dvc_file
from qualm.registry.system.dvc_objects import listing, object_path

SPEC = "specs/quickstart.yaml"
MODEL = "registry/data/scene-vlm-base.dvc"
"""The quickstart's model; the package holds its files as a DVC remote does."""
STORE = PACKAGE / "registry" / "store"

FILES = {
    "params.yaml": """\
# Run-wide parameters: which spec `dvc repro` in the root runs, and what every spec falls back to where it is silent.
# A spec's own value wins. Resolved when a spec is compiled: `qualm compile`.
default: quickstart
seed: 7
limit: null        # samples per dataset, drawn by seed and stratified by category; null = all
dtype: float32     # of models that name none
""",
    "qualm.toml": """\
# How this machine runs benchmarks; git ignores this file. Nothing here makes a run compute again; last digits may differ by rounding.
# device = "auto"    # cpu, cuda, mps
# batch_size = 0     # prompts in one forward pass; 0 = by the device
# workers = 0        # processes that make data; 0 = one per core
""",
    ".gitattributes": "# Results depend on bytes: git must not turn line ends into those of Windows.\n* -text\n",
    ".gitignore": ".venv/\n.qualm/\nqualm.toml\n__pycache__/\n*.pyc\n",
    ".dvcignore": "# What DVC never looks into: local state, environments, byte code.\n.venv/\n.qualm/\n__pycache__/\n*.pyc\n",
    "registry/cards/.gitkeep": "",
    "registry/data/.gitignore": "/scene-vlm-base\n",
    "runners/plugins/metrics/.gitkeep": "",
    "README.md": """\
# {name}

A benchmark of what vision-language models know that they do not know, run by Qualm (`qualm-bench`).

```
qualm plan        # what would run, and why
qualm run         # specs/quickstart.yaml, a line per stage; ends with the path of a report
qualm new mine    # a spec of your own
```

- `specs/` what to measure; `results/` what came out; `params.yaml` which spec is the default.
- `registry/cards/`, `registry/data/`: data of your own, by `qualm data new` and `qualm data add`.
- `runners/plugins/KIND/NAME.py`: a metric, estimator, model... of your own, found without being installed; `qualm ls` lists the kinds.
- `qualm.toml`: how this machine runs it.
""",
}


def write_project(folder: Path) -> str:
    """Create a project with the quickstart in `folder`; return advice on what is next.

    Raises:
        ProjectError: the folder is not empty, or git or DVC cannot be started.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectError(f"{folder}: expected a new name or an empty folder; name another")
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _filled(folder)
    except BaseException:
        for path in (folder,) if is_new else tuple(folder.iterdir()):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        raise


def _filled(folder: Path) -> str:
    for command in (["git", "init", "-q"], [sys.executable, "-P", "-m", "dvc", "init", "-q"]):
        _run(folder, command)
    texts = {path: text.format(name=folder.resolve().name) for path, text in FILES.items()}
    for path, text in (texts | {path: textfiles.read_text(PACKAGE / path) for path in (SPEC, MODEL)}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8", newline="\n")
    (folder / ".dvc" / "config").write_text("[core]\n    analytics = false\n", encoding="utf-8", newline="\n")
    _copy_model(folder / ".dvc" / "cache")
    Project(folder).compile()
    _run(folder, ["git", "add", "-A"])
    return say.PROJECT_MADE.format(folder=folder)


def _copy_model(cache: Path) -> None:
    md5 = read_dvc_file(PACKAGE / MODEL)["outs"][0]["md5"]
    for name in (md5, *(listing(STORE, md5) or {}).values()):
        target = object_path(cache, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(object_path(STORE, name), target)


def _run(folder: Path, command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "DVC_NO_ANALYTICS": "true"},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise ProjectError(f"{command[0]} is not installed; a project needs git and DVC: install it and try again") from None
    if done.returncode != 0:
        raise ProjectError(f"{folder}: `{' '.join(command)}` ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
