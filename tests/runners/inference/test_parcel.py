"""What is sent to a worker, and that a worker lays it out as it was: without Ray."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from qualm.runners.inference import driver
from qualm.runners.inference.driver import Parcel, pack_stage
from qualm.runners.inference.node import BUNDLE
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, make_stage


def stage(inputs: dict[str, Any]) -> Stage:
    return make_stage("t/infer-m", {"kind": "infer", "params": {"n": 1}, "inputs": inputs, "outputs": {}, "seed": 7}, Settings())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("specs/prompts", "runners/plugins/models", "data/scenes/images", "registry/data"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "params.yaml").write_text("default: t\n")
    (tmp_path / "specs/prompts/mine.md").write_text("Ask {question}")
    (tmp_path / "runners/plugins/models/parrot.py").write_text("def parrot(context): ...\n")
    (tmp_path / "data/scenes/samples.parquet").write_bytes(b"samples")
    (tmp_path / "data/scenes/images/0.parquet").write_bytes(b"0123456789")
    (tmp_path / "registry/data/not_asked_for").write_text("secret")
    (tmp_path / "qualm.toml").write_text("[servers]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_inputs_one_by_one_and_all_code_in_one(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "PIECE", 4)
    sent = Parcel(stage({"datasets": {"scenes": "data/scenes"}}))
    assert set(sent.files) == {BUNDLE, "data/scenes/samples.parquet", "data/scenes/images/0.parquet"}
    picture = sent.files["data/scenes/images/0.parquet"]
    assert picture == hashlib.sha256(b"0123456789").hexdigest() and [*sent.pieces(picture)] == [b"0123", b"4567", b"89"]
    (bundle,) = sent.pieces(sent.files[BUNDLE])
    assert hashlib.sha256(bundle).hexdigest() == sent.files[BUNDLE] == Parcel(stage({})).files[BUNDLE]
    names = set(zipfile.ZipFile(io.BytesIO(bundle)).namelist())
    assert {"params.yaml", "specs/prompts/mine.md", "runners/plugins/models/parrot.py", "code/qualm/runners/inference/run.py"} <= names
    assert not [name for name in names if "not_asked_for" in name or "toml" in name or "compiler" in name or name.endswith(".pyc")]
    (project / "runners/plugins/models/parrot.py").write_text("def parrot(context): return 1\n")
    assert Parcel(stage({})).files[BUNDLE] != sent.files[BUNDLE]


def test_what_is_sent_of_a_stage() -> None:
    key, raw = pack_stage(stage({"model": "m"}))
    again = make_stage(key, raw, Settings())
    assert (again.key, again.params, again.inputs, again.seed) == ("t/infer-m", {"n": 1}, {"model": "m"}, 7)


@pytest.mark.slow
def test_the_bundle_is_a_package_by_itself(project: Path, tmp_path: Path) -> None:
    sent = Parcel(stage({}))
    (bundle,) = sent.pieces(sent.files[BUNDLE])
    tree = tmp_path / "tree"
    zipfile.ZipFile(io.BytesIO(bundle)).extractall(tree)
    program = "import qualm.runners.inference.shards, qualm; from qualm.registry.plugins.registry import get; "
    program += "print(qualm.__file__); print(get('models', 'parrot').module, get('models', 'openai').module)"
    environment = {**os.environ, "PYTHONPATH": str(tree / "code")}
    done = subprocess.run([sys.executable, "-c", program], cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [
        str(tree / "code/qualm/__init__.py"),
        "qualm.project.models.parrot",
        "qualm.runners.plugins.models.openai",
    ], done.stderr
