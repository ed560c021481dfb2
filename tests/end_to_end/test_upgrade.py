"""Answers survive an upgrade: a clone whose code changes as a release's would, its store and its stages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from qualm.runners.data.answers import ABOUT
from tests.end_to_end.clone import Clone, make_clone

pytestmark = pytest.mark.slow

COSTLY = {"data-scenes", "data-scenes_mc", "infer-base-scenes", "infer-base-scenes_mc", "judge"}
KEPT = "96 answers kept from version 0.1.0, 0 to compute"


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    made = make_clone(tmp_path / "clone", forked=True)
    assert made.repro() >= COSTLY
    return made


def renamed(clone: Clone) -> None:
    """The module that draws tokens moves up a folder, and a variable in it gets another name."""
    inference = clone.root / "runners/inference"
    text = (inference / "hf/sampling.py").read_text()
    assert "probabilities" in text
    (inference / "hf/sampling.py").unlink()
    (inference / "token_draws.py").write_text(text.replace("probabilities", "shares"))
    rooms = (clone.root / "runners", clone.root / "registry")
    importers = [path for room in rooms for path in room.rglob("*.py") if "qualm.runners.inference.hf.sampling" in path.read_text()]
    assert len(importers) >= 2
    for path in importers:
        path.write_text(path.read_text().replace("qualm.runners.inference.hf.sampling", "qualm.runners.inference.token_draws"))


def of_an_older_patch(clone: Clone) -> None:
    """The stored answers were computed by an older patch version of a library."""
    for about in list((clone.root / ".qualm/store").glob(f"*/{ABOUT}")):
        facts = json.loads(about.read_text())
        facts["libraries"]["torch"] = facts["libraries"]["torch"].rpartition(".")[0] + ".999"
        about.write_text(json.dumps(facts))
        about.parent.rename(about.parent.with_name(f"older-{about.parent.name[:8]}"))


def test_a_release_that_changes_no_number(clone: Clone) -> None:
    renamed(clone)
    of_an_older_patch(clone)
    (clone.root / "qualm/__init__.py").write_text((clone.root / "qualm/__init__.py").read_text().replace("0.1.0", "0.2.0"))
    text = clone.qualm("plan").stdout
    assert KEPT in text and not any(f"+ {name}" in text for name in COSTLY), text
    assert not clone.repro() & COSTLY
    before = {path: path.read_bytes() for path in (clone.root / "results/mini/generations").rglob("*.parquet")}
    shutil.rmtree(clone.root / ".dvc/cache/runs")
    clone.repro("--force", "infer-base-scenes")
    counters = clone.counters("infer-base-scenes")
    assert counters["answers computed"] == 0 and counters["answers stored"] == 48
    assert len(before) == 2 and {path: path.read_bytes() for path in before} == before


def test_a_changed_sampling_rule(clone: Clone) -> None:
    """No draws are asked for here, so nothing is computed; but the stage runs, since its parameters may have."""
    path = clone.root / "registry/plugins/engine_versions.py"
    text = path.read_text()
    old = '"draws": 1,'
    assert old in text
    path.write_text(text.replace(old, '"draws": 2,'))
    clone.qualm("compile")
    plan = clone.qualm("plan").stdout
    assert "our draws: version 1 -> 2" in plan and KEPT in plan
    assert clone.repro() & COSTLY >= {"infer-base-scenes", "infer-base-scenes_mc"}
    assert clone.counters("infer-base-scenes")["answers computed"] == 0
