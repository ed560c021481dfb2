"""Another repository uses this one: its data by `dvc get` and `dvc import`, its cards and code as an installed package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from qualm.registry.system.dvc_files import read_lock
from tests.end_to_end.clone import Clone, make_clone

pytestmark = [pytest.mark.remotes, pytest.mark.slow]

SPEC = """\
qualm: 1
name: theirs
datasets:
  scenes: {card: synthetic_scenes, level: easy, format: open, test: 6}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
inference: {max_new_tokens: 4}
judges: [rules]
metrics: [accuracy, ece]
compare: {interval: {bootstrap: 20}}
"""
STAGES = {"data-scenes", "infer-base-scenes", "judge", "score", "report"}


class Elsewhere(Clone):
    """A repository without a line of ours; qualm is a package of its Python."""

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        env = {**self.environment(), "PYTHONPATH": str(self.root.parent / "site-packages")}
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}"
        return done


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return make_clone(tmp_path_factory.mktemp("ours") / "qualm")


def test_get(ours: Clone, tmp_path: Path) -> None:
    here = Elsewhere(tmp_path / "empty")
    here.root.mkdir()
    here.dvc("get", str(ours.root), "registry/data/scene-vlm-base")
    assert (here.root / "scene-vlm-base/config.json").is_file()


def test_a_spec_elsewhere(ours: Clone, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-compile", "--target"]
    source = ours.copy(tmp_path / "source").root
    done = subprocess.run([*command, str(tmp_path / "site-packages"), str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    here = Elsewhere(tmp_path / "theirs")
    (here.root / "specs").mkdir(parents=True)
    (here.root / "specs/theirs.yaml").write_text(SPEC)
    (here.root / "params.yaml").write_text("default: theirs\n")
    (here.root / ".gitignore").write_text(".qualm/\n__pycache__/\n")
    (here.root / "registry/data").mkdir(parents=True)
    here.run("git", "init", "-q")
    here.dvc("init", "-q")
    here.dvc("import", str(ours.root), "registry/data/scene-vlm-base", "-o", "registry/data/scene-vlm-base")
    assert json.loads(here.qualm("data", "show", "synthetic_scenes", "--json").stdout)["where"] == "generated"
    (entry,) = [e for e in json.loads(here.qualm("data", "ls", "--json").stdout) if e["name"] == "scene-vlm-base"]
    assert entry["where"] == "here" and entry["card_name"] == "scene-vlm-base" and entry["origin"].startswith(str(ours.root))

    here.qualm("compile")
    assert not (here.root / "docs").exists()
    assert here.repro() == STAGES
    assert here.repro() == set()
    assert set(here.forecast("theirs").values()) == {"unchanged"}
    assert "Template" not in here.dvc("plots", "show", "--json").stderr
    here.commit("theirs")

    plugin = here.root.parent / "site-packages/qualm/runners/plugins/metrics/ece.py"  # another version of qualm is installed
    plugin.write_text(plugin.read_text() + "\n# A remark.\n")
    assert here.forecast("theirs")["score"] == "run" and here.forecast("theirs")["judge"] == "unchanged"
    here.qualm("compile")
    assert here.repro() == {"score", "report"}  # as in a checkout of ours
    assert all(not p["path"].endswith(".py") for entry in read_lock(here.root / "dvc.lock").values() for p in entry.get("deps", []))
