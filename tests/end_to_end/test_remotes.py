"""One lab, four kinds of remotes, real servers: what one shares, another's clone pulls and runs nothing; damage is seen and mended.

`.ci/services` installs the servers and `make test-remotes` runs this; without them the kinds that need them are skipped, unless
QUALM_SERVICES=required says that they must be there, as in CI.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from qualm.registry.system.dvc_files import read_lock
from tests.end_to_end.clone import Clone, make_clone
from tests.support.servers.remote_servers import Remote, missing, place, serve

pytestmark = [pytest.mark.remotes, pytest.mark.slow]

SPEC = """\
qualm: 1
name: mini
title: The first title
datasets:
  scenes: {card: synthetic_scenes, level: easy, format: open, test: 6}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
inference: {max_new_tokens: 4}
judges: [rules]
metrics: [accuracy, ece: {bins: 15}]
compare: {interval: {bootstrap: 20}}
"""
SECOND = SPEC.replace("first", "second").replace("bins: 15", "bins: 10")
STAGES = {"data-scenes", "infer-base-scenes", "judge", "score", "report"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """Two commits, each with its results."""
    clone = make_clone(tmp_path_factory.mktemp("remotes") / "clone", text=SPEC)
    assert clone.repro() == STAGES
    clone.commit("first")
    clone.spec.write_text(SECOND)
    clone.qualm("compile")
    assert clone.repro() == {"score", "report"}
    clone.commit("second")
    return clone


@dataclass
class Lab:
    """The clone of who shares, the remote, and clones of colleagues."""

    mine: Clone
    remote: Remote
    folder: Path

    def colleague(self, name: str) -> Clone:
        clone = self.mine.clone(self.folder / name)
        self.credentials(clone)
        return clone

    def credentials(self, clone: Clone) -> None:
        for option, value in self.remote.secrets.items():
            clone.dvc("remote", "modify", "--local", "lab", option, value)


@pytest.fixture(params=["folder", "ssh", "webdav", "s3"])
def lab(request: pytest.FixtureRequest, finished: Clone, tmp_path: Path) -> Iterator[Lab]:
    if why := missing(request.param):
        (pytest.fail if os.environ.get("QUALM_SERVICES") == "required" else pytest.skip)(why)
    with serve(request.param, tmp_path / "server") as remote:
        found = Lab(finished.copy(tmp_path / "mine"), remote, tmp_path)
        found.mine.dvc("remote", "add", "-d", "lab", remote.url)
        for option, value in {**remote.settings, "verify": "true"}.items():
            found.mine.dvc("remote", "modify", "lab", option, value)
        found.credentials(found.mine)
        found.mine.commit("A remote for the lab")
        yield found


def test_what_one_shares_another_has(lab: Lab) -> None:
    assert "a clone of this commit runs nothing" in lab.mine.qualm("share").stdout

    pulled = lab.colleague("pulled")
    pulled.dvc("pull", "--run-cache")
    assert pulled.repro() == set()
    assert set(pulled.forecast().values()) == {"unchanged"}
    assert (pulled.root / "results/mini/report.html").read_bytes() == (lab.mine.root / "results/mini/report.html").read_bytes()

    lazy = lab.colleague("lazy")
    assert lazy.repro("--pull") == set()
    lazy.spec.write_text(SPEC)  # an edit that somebody else has tried before
    lazy.qualm("compile")
    assert lazy.repro("--pull") == set()
    assert "The first title" in (lazy.root / "results/mini/report.html").read_text()

    lock = read_lock(lab.mine.root / "dvc.lock")
    scores = next(o["md5"] for o in lock["score"]["outs"] if o["path"].endswith("scores.parquet"))
    lab.remote.write(place(scores), b"PAR1, or so it says")
    victim = lab.colleague("victim")
    assert victim.dvc("pull", check=False).returncode != 0
    assert not (victim.root / "results/mini/scores.parquet").exists()
    if "://" in lab.remote.url:  # in a folder DVC has just taken the damaged object away
        said = lab.mine.qualm("share", "--check", check=False)
        assert said.returncode == 1
        assert f"damaged or gone at the remote: 1 object: results/mini/scores.parquet ({scores})" in said.stdout
    mended = json.loads(lab.mine.qualm("share", "--repair", "--json").stdout)
    assert mended["good"] and mended["sent"] + len(mended["repaired"]) == 1
    victim.dvc("pull")
    assert victim.repro() == set()

    lab.remote.delete(place(scores))
    assert "1 object sent" in lab.mine.qualm("share", "--check").stdout
