"""Parameters compared with those of a lock; what is foretold of every state of a checkout, without DVC."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from qualm.compiler.plan.emit import MARKER_MD5, pipeline
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.rebuilds import Reason, differences, forecast, forecast_clone
from qualm.registry.system.dvc_objects import file_md5, object_path
from tests.support.projects.locked import locked_dep


def test_leaves_that_differ() -> None:
    old = {"params": {"k": 1, "names": ["a"], "gone": 2}}
    new = {"params": {"k": 1.5, "names": ["a"], "new": 3}}
    assert list(differences(old, new)) == [
        Reason("parameter", "gone", 2, None),
        Reason("parameter", "k", 1, 1.5),
        Reason("parameter", "new", None, 3),
    ]


PARAMETERS: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"n": 1}, {"n": True}, []),
    ({"n": 15}, {"n": 15.0}, []),
    ({"n": [1, 2]}, {"n": [True, 2.0]}, []),
    ({"n": None}, {"n": None}, []),
    ({"n": 1}, {"n": 1, "limit": None}, ["parameter limit: (none) -> null"]),
    ({"n": 1, "limit": None}, {"n": 1}, ["parameter limit: null -> (none)"]),
    ({"n": 1, "limit": None}, {"n": 1, "limit": 3}, ["parameter limit: (none) -> 3"]),
    ({"n": [{"a": None}]}, {"n": [{}]}, ["parameter n: [{'a': None}] -> [{}]"]),
]
"""Parameters in the lock and now, and what changed."""


def test_values_are_compared_as_dvc_compares_them(tmp_path: Path, forked_python: None) -> None:
    stages, lock = {}, {}
    for number, (old, new, changes) in enumerate(PARAMETERS):
        assert [str(reason) for reason in differences({"params": old}, {"params": new})] == changes
        name = f"{number}.json"
        (tmp_path / name).write_text(json.dumps({"params": new}))
        stages[f"s{number}"] = {"cmd": "true", "params": [{name: ["params"]}]}
        lock[f"s{number}"] = {"cmd": "true", "params": {name: {"params": old}}}
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\n    no_scm = true\n")
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    (tmp_path / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": lock}))
    status = subprocess.run([sys.executable, "-m", "dvc", "status", "--json"], cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(status.stdout).keys() == {f"s{number}" for number, (_, _, changes) in enumerate(PARAMETERS) if changes}


def test_keys_of_a_lock_may_be_of_any_type() -> None:
    old, new = {1: 0, "a": 1, None: 2}, {"a": 1, 2.5: 3}
    assert [(r.what, r.old, r.new) for r in differences(old, new)] == [("1", 0, None), ("2.5", None, 3), ("None", 2, None)]


PARAMS = "specs/s/stages/{}.json"


def stage(name: str, reads: dict[str, str], writes: dict[str, str], **more: Any) -> PlannedStage:
    told = {"params": {"n": 1}, "seed": 0, "code": ("code.py",), "desc": "", **more}
    return PlannedStage(name=name, kind="data", inputs=reads, outputs=writes, **told)


FIRST = stage("first", {"source": "source.txt"}, {"made": "made.txt"})
SECOND = stage("second", {"made": "made.txt"}, {"last": "last.txt"})
PLAN = Plan("s", "", (FIRST, SECOND))


class Made:
    """A checkout in which both stages have run, as its files, its lock and its cache say; DVC is not asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("source.txt", "code.py", "made.txt", "last.txt"):
            (root / name).write_text(name)
        (root / ".dvc").mkdir()
        (root / ".dvc/config").write_text("[core]\n    no_scm = true\n")
        self.lock: dict[str, Any] = {}
        for one in PLAN.stages:
            outs = [{"path": path, "hash": "md5", "md5": file_md5(root / path)} for path in one.outs]
            self.lock[one.name] = {
                "cmd": pipeline(PLAN)["stages"][one.name]["cmd"],
                "deps": [locked_dep(root, PLAN.marker, MARKER_MD5), *(locked_dep(root, path) for path in one.deps)],
                "params": {PARAMS.format(one.name): one.tracked},
                "outs": outs,
            }
            for out in outs:
                self.cached(out["path"]).parent.mkdir(parents=True, exist_ok=True)
                self.cached(out["path"]).write_text(out["path"])

    def cached(self, path: str) -> Path:
        return object_path(self.root / ".dvc/cache", hashlib.md5(path.encode(), usedforsecurity=False).hexdigest())

    def told(self, plan: Plan = PLAN) -> list[tuple[str, list[str]]]:
        (self.root / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": self.lock}))
        return [(f.action, list(map(str, f.reasons))) for f in forecast(plan, self.root, "s")]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


WAITS = ("perhaps", ["input made.txt may change"])


def test_nothing_has_changed(made: Made) -> None:
    assert made.told() == [("unchanged", []), ("unchanged", [])]
    found = forecast(PLAN, made.root, "s")
    assert found[0].as_json() == {"stage": "first", "kind": "data", "action": "unchanged", "reasons": []}


def test_what_was_never_run(made: Made) -> None:
    made.lock = {}
    assert made.told() == [("run", ["never run here"]), ("run", ["never run here", "input made.txt may change"])]


@pytest.mark.parametrize(
    ("later", "reasons"),
    [
        ({"params": {"n": 2}}, ["parameter n: 1 -> 2"]),
        ({"seed": 3}, ["parameter seed: 0 -> 3"]),
        ({"engine": {"forward": 2}}, ["our forward: version 1 -> 2"]),
        ({"code": ()}, ["input code.py is no longer read"]),
        ({"code": ("code.py", "source.txt")}, []),
        ({"outputs": {"made": "made.txt", "more": "more.txt"}}, ["new output more.txt"]),
        ({"inputs": {}}, ["input source.txt is no longer read"]),
    ],
)
def test_a_plan_that_is_another(made: Made, later: dict[str, Any], reasons: list[str]) -> None:
    first, second = made.told(Plan("s", "", (replace(FIRST, **later), SECOND)))
    assert first == ("run" if reasons else "unchanged", reasons)
    assert second == (WAITS if reasons else ("unchanged", []))


def test_files_that_are_others(made: Made) -> None:
    (made.root / "code.py").write_text("new")
    assert made.told() == [("run", ["code code.py changed"]), ("run", ["code code.py changed", "input made.txt may change"])]
    (made.root / "code.py").write_text("code.py")
    (made.root / "source.txt").write_text("new")
    assert made.told() == [("run", ["input source.txt changed"]), WAITS]
    (made.root / "source.txt").write_text("source.txt")
    (made.root / "source.txt").chmod(0o755)
    assert made.told() == [("run", ["input source.txt changed"]), WAITS], "to DVC a file that can be run is another"


def test_a_lock_that_is_another(made: Made) -> None:
    made.lock["first"]["cmd"] = "other"
    assert made.told()[0] == ("run", [f"command other -> {pipeline(PLAN)['stages']['first']['cmd']}"])
    made.lock["first"]["cmd"] = pipeline(PLAN)["stages"]["first"]["cmd"]
    made.lock["first"]["deps"] = [d for d in made.lock["first"]["deps"] if d["path"] != "source.txt"]
    made.lock["first"]["outs"].append({"path": "gone.txt", "hash": "md5", "md5": "0" * 32})
    reasons = ["input source.txt is new to this stage", "output gone.txt is no longer made"]
    assert made.told() == [("run", reasons), WAITS]


def test_outputs_that_are_gone_come_from_the_cache(made: Made) -> None:
    (made.root / "made.txt").unlink()
    (made.root / "last.txt").write_text("by hand")
    assert made.told() == [
        ("restore", ["output made.txt is not in the workspace"]),
        ("restore", ["output last.txt was changed by hand"]),
    ], "and what stands behind reads what it read"
    made.cached("made.txt").unlink()
    assert made.told() == [("run", ["output made.txt is not in the workspace"]), WAITS]


def test_what_is_missing_blocks_all_behind_it(made: Made) -> None:
    (made.root / "source.txt").unlink()
    assert made.told() == [
        ("blocked", ["missing source.txt: not found"]),
        ("blocked", ["waiting for first, which lacks something"]),
    ]


@pytest.mark.parametrize(
    ("path", "how"),
    [
        ("registry/data/mine/a.csv", "registry/data/mine: not here; `qualm fetch s` brings it, or says how you get it"),
        ("registry/data/mine", "registry/data/mine: not here; `qualm fetch s` brings it, or says how you get it"),
        ("reviews.csv", "reviews.csv: people's decisions on the test split; `qualm verify s SET` makes it"),
    ],
)
def test_how_what_is_missing_is_got(made: Made, path: str, how: str) -> None:
    key = "reviews" if path == "reviews.csv" else "data"
    first, second = made.told(Plan("s", "", (replace(FIRST, inputs={key: path}), SECOND)))
    assert first == ("blocked", [f"missing {how}"]) and second[0] == "blocked"


def test_data_that_a_dvc_file_tracks_can_be_pulled(made: Made) -> None:
    md5 = file_md5(made.root / "source.txt")
    (made.root / "source.txt.dvc").write_text(yaml.safe_dump({"outs": [{"md5": md5, "hash": "md5", "path": "source.txt"}]}))
    (made.root / "source.txt").unlink()
    assert made.told() == [("unchanged", []), ("unchanged", [])]
    (made.root / "source.txt.dvc").write_text(yaml.safe_dump({"outs": [{"md5": "0" * 32, "hash": "md5", "path": "source.txt"}]}))
    assert made.told() == [("run", ["input source.txt changed"]), WAITS]


def test_a_clone_has_what_the_locks_have(made: Made) -> None:
    made.told()
    for name in ("made.txt", "last.txt"):
        (made.root / name).unlink()
    assert forecast_clone([PLAN], made.root, "s") == {"s": []}
    (made.root / "code.py").write_text("new")
    reason, *_ = forecast_clone([PLAN], made.root, "s")["s"][1].reasons
    assert str(reason) == "code code.py changed"
    del made.lock["second"]
    made.told()
    assert [(f.stage, f.action) for f in forecast_clone([PLAN], made.root, "s")["s"]] == [("first", "run"), ("second", "run")]


def test_a_parameter_is_shown_in_sixty_characters() -> None:
    assert str(Reason("parameter", "a", None, True)) == "parameter a: (none) -> true"
    assert str(Reason("parameter", "a", "x" * 60, "y" * 61)) == f"parameter a: {'x' * 60} -> {'y' * 57}..."
    assert str(Reason("parameter", "engine.forward", None, 2)) == "our forward: version 1 -> 2"
