"""What a command says to type next can be typed: each is run, in a shell, as it was printed."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest
import yaml
from PIL import Image

from tests.end_to_end.clone import Clone, make_clone
from tests.support.data.recordings import leh_open

pytestmark = pytest.mark.slow

SHELL = """
set -e
qualm() { PYTHONPATH=$ROOT "$PYTHON" -m qualm "$@"; }
dvc() { "$PYTHON" -m dvc "$@"; }
git() { command git -c user.name=t -c user.email=t@example.org "$@"; }
"""


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    made = make_clone(tmp_path / "clone", "quickstart", forked=True)
    made.commit("compiled")
    (made.root / "deep").mkdir()
    return made


def typed(clone: Clone, commands: str) -> str:
    """Lines as a person types them, in a folder of the project that is not its root."""
    environment = {**clone.environment(), "PYTHON": clone.python, "ROOT": str(clone.root)}
    done = subprocess.run(
        ["bash", "-c", SHELL + commands], cwd=clone.root / "deep", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def following(said: str) -> list[str]:
    """The commands that were printed as the next ones."""
    return [line.strip() for line in said.partition("next:")[2].splitlines() if line.strip()]


def uncommitted(clone: Clone) -> str:
    """What git does not have, less the objects that `dvc push` sends to the remote in the repository."""
    return clone.run("git", "status", "--porcelain", "--", ".", ":!registry/store").stdout


def signs(folder: Path, n: int) -> None:
    """A table of questions about n pictures."""
    folder.mkdir(exist_ok=True)
    for i in range(n):
        Image.new("RGB", (8, 8), (i, 0, 0)).save(folder / f"{i}.png")
    rows = [(f"{i}.png", f"Which sign is number {i}?", f"{i}") for i in range(n)]
    with (folder / "test.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "question", "answer"), *rows])


def test_data_of_ones_own_come_in_and_grow(clone: Clone, tmp_path: Path) -> None:
    folder = tmp_path / "my signs"
    signs(folder, 4)
    said = typed(clone, f"qualm data new signs --from '{folder}' --yes")
    add, spec = following(said)
    assert yaml.safe_load(spec.partition("in a spec: ")[2]) == {"datasets": {"signs": {"card": "signs"}}}
    commands = following(typed(clone, add))
    assert [c.split()[0] for c in commands] == ["git", "qualm", "dvc"] and "registry/cards/signs.yaml" in commands[0]
    typed(clone, "\n".join(commands))
    assert uncommitted(clone) == "", "card, record and ignore file are committed"

    signs(folder, 6)
    done = clone.qualm("data", "add", "signs", "--from", str(folder), check=False)
    assert done.returncode == 1 and "expected 4" in done.stderr and "found 6" in done.stderr and "--skip-bad" not in done.stderr
    before = (clone.root / "registry/cards/signs.yaml").read_text()
    commands = following(typed(clone, done.stderr.splitlines()[-1].strip()))
    after = (clone.root / "registry/cards/signs.yaml").read_text()
    changed = [(a, b) for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b]
    assert len(changed) == 2 and all(a.replace("4", "6") == b for a, b in changed), "two counts, and nothing else"
    assert [c.split()[0] for c in commands] == ["git", "qualm", "qualm", "dvc"]
    assert "2 added" in typed(clone, "\n".join(commands))
    assert uncommitted(clone) == ""


def test_data_that_grew_and_have_a_fault_are_refused_for_the_fault(clone: Clone, tmp_path: Path) -> None:
    signs(tmp_path / "signs", 4)
    typed(clone, f"qualm data new signs --from {tmp_path}/signs --yes && qualm data add signs --from {tmp_path}/signs")
    (tmp_path / "signs/9.png").write_bytes(b"<html>")
    done = clone.qualm("data", "add", "signs", "--from", str(tmp_path / "signs"), "--new-version", check=False)
    assert done.returncode == 1 and "9.png" in done.stderr and "--new-version" not in done.stderr


def test_the_counts_of_a_release_are_not_rewritten(clone: Clone, tmp_path: Path) -> None:
    (tmp_path / "part/hallusion_bench").mkdir(parents=True)
    (tmp_path / "part/HallusionBench.json").write_text("[{}]")
    Image.new("RGB", (8, 8)).save(tmp_path / "part/hallusion_bench/a.png")
    done = clone.qualm("data", "add", "hallusionbench", "--from", str(tmp_path / "part"), "--new-version", check=False)
    assert done.returncode == 1 and "--skip-bad" in done.stderr and uncommitted(clone) == ""


@pytest.mark.parametrize("tasks", [["capitals"], ["capitals", "rivers"]])
def test_a_log(clone: Clone, tmp_path: Path, tasks: list[str]) -> None:
    for task in tasks:
        rows = [leh_open(i, f"What is the capital of {place}?", "Lima", "Lima") for i, place in enumerate(("Peru", "Chile"))]
        folder = tmp_path / "log/org__model"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"samples_{task}_2026-01-01T00-00-00.000000.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    commands = following(typed(clone, f"qualm data add my_log --from {tmp_path}/log --card lm_eval_samples"))
    assert any(c.startswith("qualm data check my_log") for c in commands)
    assert "2 samples" in typed(clone, "\n".join(commands))


def test_a_new_spec(clone: Clone) -> None:
    commands = typed(clone, "qualm new mine --extends quickstart").splitlines()[1:]
    assert [c.split()[1] for c in commands] == ["validate", "plan", "fetch", "run"]
    typed(clone, "\n".join(commands[:2]))
