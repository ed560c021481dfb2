"""Where a stage that is new in a lock comes to stand."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from ruamel.yaml import YAML

from qualm.compiler.running.lock_order import LockOrder


def order_of(root: Path, *names: str) -> LockOrder:
    order = LockOrder()
    stages = [SimpleNamespace(cmd="run", path=str(root / "dvc.yaml"), name=name) for name in names]
    order.learn([SimpleNamespace(cmd=None, path=str(root / "m.dvc"), name=None), *stages])
    return order


def arranged(root: Path, order: LockOrder, before: list[str], after: list[str]) -> list[str]:
    text = "schema: '2.0'\nstages:\n" + "".join(f"  {name}:\n    cmd: run\n" for name in before)
    (root / "dvc.lock").write_text(text)
    data = YAML().load("schema: '2.0'\nstages:\n" + "".join(f"  {name}:\n    cmd: run\n" for name in after))
    order.arrange(root / "dvc.lock", data)
    YAML().dump(data, io.StringIO())
    return list(data["stages"])


@pytest.mark.parametrize(
    ("before", "after", "then"),
    [
        (["a", "c"], ["a", "c", "b"], ["a", "b", "c"]),
        (["b", "c"], ["b", "c", "a"], ["a", "b", "c"]),
        (["a", "b"], ["a", "b", "c"], ["a", "b", "c"]),
        (["c", "a"], ["c", "a"], ["c", "a"]),  # what stood there before keeps its order
        (["c", "a"], ["c", "a", "b"], ["b", "c", "a"]),
        (["gone", "c"], ["gone", "c", "b"], ["gone", "b", "c"]),
        (["a"], ["a", "foreign"], ["a", "foreign"]),
    ],
)
def test_what_is_new_goes_before_what_comes_later(tmp_path: Path, before: list[str], after: list[str], then: list[str]) -> None:
    assert arranged(tmp_path, order_of(tmp_path, "a", "b", "c"), before, after) == then


def test_a_first_lock_and_other_files(tmp_path: Path) -> None:
    order = order_of(tmp_path, "a", "b")
    data = YAML().load("schema: '2.0'\nstages:\n  a:\n    cmd: run\n")
    order.arrange(tmp_path / "dvc.lock", data)
    assert list(data["stages"]) == ["a"]
    order.arrange(tmp_path / "x.dvc", {"outs": []})
    order.arrange(tmp_path / "dvc.lock", {})
