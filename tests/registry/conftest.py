"""Real DVC repositories to add things to, and small official files to add."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

CONFIG = """[core]
    analytics = false
    remote = store
['remote "store"']
    url = ../registry/store
"""


def run_dvc(root: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "dvc", *arguments], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.email=t@example.org", "-c", "user.name=t", "-c", "protocol.file.allow=always"]
    return subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def dvc(forked_python: None) -> Callable[..., str]:
    """Runs DVC in a folder and returns what it says."""
    return run_dvc


@pytest.fixture
def git() -> Callable[..., str]:
    """Runs git in a folder, as somebody, and returns what it says."""
    return run_git


def make_repo(root: Path) -> Path:
    """Create a project: git, DVC and the in-repository remote."""
    (root / ".dvc").mkdir(parents=True)
    run_git(root, "init", "-q")
    (root / ".dvc/config").write_text(CONFIG)
    (root / ".dvc/.gitignore").write_text("/config.local\n/tmp\n/cache\n")
    (root / ".dvcignore").write_text(".qualm/\n__pycache__/\n/registry/store/\n")
    (root / ".gitignore").write_text(".qualm/\n")
    return root


@pytest.fixture
def repo(tmp_path: Path, forked_python: None) -> Path:
    """A project: git, DVC and the in-repository remote."""
    return make_repo(tmp_path / "repo")


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder that fits the card `scene-vlm-base`."""

    def make(name: str = "model", seed: int = 0) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        save_file({"w": np.random.default_rng(seed).normal(size=(8, 8))}, folder / "model.safetensors")
        for file in ("config.json", "tokenizer_config.json", "tokenizer.json", "processor_config.json"):
            (folder / file).write_text(json.dumps({"of": file}))
        (folder / "chat_template.jinja").write_text("<b>{{ messages }}</b>\n")
        return folder

    return make


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """A folder that fits the card `vlm_uncertainty_bench`."""
    folder = tmp_path / "bench"
    for run in ("A-7b", "B.13b"):
        (folder / "output" / run).mkdir(parents=True)
        rows = [{"id": i, "answer": "A"} for i in range(2844)]
        (folder / "output" / run / "oodcv.pkl").write_bytes(pickle.dumps(rows))
    (folder / "tables").mkdir()
    (folder / "tables/acc.csv").write_text("model,acc\nA,0.5\n")
    (folder / "README.md").write_text("not named by the card")
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[Path], set[str]]:
    """Everything in a project that a failed add must leave as it was (DVC's and our own bookkeeping aside)."""

    def look(root: Path) -> set[str]:
        return {
            f"{p.relative_to(root)} {p.stat().st_mtime_ns if p.is_file() else ''}"
            for p in root.rglob("*")
            if not {".git", ".qualm"} & set(p.relative_to(root).parts) and ".dvc/" not in f"{p.relative_to(root)}/"
        }

    return look


@pytest.fixture(autouse=True, scope="module")
def _no_foreign_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DVC_GLOBAL_CONFIG_DIR", str(tmp_path_factory.getbasetemp() / "no-user-dvc"))
        patch.setenv("DVC_SYSTEM_CONFIG_DIR", str(tmp_path_factory.getbasetemp() / "no-system-dvc"))
        yield
