"""A lock written stage by stage has the bytes that DVC writes."""

from __future__ import annotations

import io
from collections import OrderedDict
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dvc.utils.serialize._yaml import _dump, parse_yaml_for_update

from qualm.compiler.running.lock_text import HEAD, install, text_of, texts

ROOT = Path(__file__).parents[3]
ENTRY: dict[str, Any] = {
    "cmd": "python3 -m qualm.runners t/a",
    "deps": [{"path": "in: x.txt", "hash": "md5", "md5": "0" * 32, "size": 3}],
    "params": {
        "specs/t/stages/a.json": OrderedDict(
            params={
                "long": "word " * 60,
                "lines": "one\n\n  two: 'x' \"y\" # no comment\nthree\n",
                "odd": ["yes", "1e3", "", None, True, 1e-05, 1.5, -1, "é\u2028", "- a", "id001 is no anchor"],
                "empty": {},
                "none": [],
            },
            seed=7,
        )
    },
}


def whole(stages: dict[str, Any]) -> str:
    stream = io.StringIO()
    _dump({"schema": "2.0", "stages": {name: deepcopy(entry) for name, entry in stages.items()}}, stream)
    return stream.getvalue()


def test_the_lock_of_this_project() -> None:
    text = (ROOT / "dvc.lock").read_text()
    parts = texts(text)
    assert parts is not None and HEAD + "".join(parts.values()) == text
    stages = parse_yaml_for_update(text, "dvc.lock")["stages"]
    assert parts == {name: text_of(name, stages[name]) for name in stages}


def test_every_kind_of_value() -> None:
    text = whole({"a": ENTRY, "b": {"cmd": "x"}, "c@1": ENTRY | {"cmd": "y"}})
    parts = texts(text)
    assert parts is not None and [*parts] == ["a", "b", "c@1"]
    assert parts["a"] == text_of("a", ENTRY) and parts["b"] == "  b:\n    cmd: x\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD,
        "schema: '2.0'\nstages: {}\n",
        HEAD + "  a:\n    cmd: x\ndatasets: []\n",
        "# mine\n" + HEAD + "  a:\n    cmd: x\n",
        HEAD + "  a: {cmd: x}\n",
        HEAD + "  'yes':\n    cmd: x\n",
        HEAD + "  a:\n    cmd: x\n  a:\n    cmd: x\n",
        HEAD + "<<<<<<< ours\n  a:\n    cmd: x\n",
        HEAD + "  a:\n    cmd: &id001 x\n",
        HEAD + "  a:\n    cmd: x",
    ],
)
def test_what_dvc_did_not_write_is_left_to_it(text: str) -> None:
    assert texts(text) is None


@pytest.mark.parametrize("name", ["yes", "No", "1", "null", "1e3"])
def test_names_in_quotes_are_left_to_dvc(name: str) -> None:
    assert text_of(name, {"cmd": "x"}) is None


def test_twice_the_same_object_is_left_to_dvc() -> None:
    same = ["x"]
    assert text_of("a", {"deps": same, "outs": same}) is None


def test_dvc_writes_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dvc.dvcfile import Lockfile
    from dvc.stage import serialize

    tracked: list[str] = []
    written: list[str] = []
    plain: list[list[str]] = []
    monkeypatch.setattr(Lockfile, "dump_stages", lambda self, stages, **_: plain.append([s.name for s in stages]))
    monkeypatch.setattr(serialize, "to_lockfile", lambda stage, **_: {stage.name: stage.entry})

    def write(path: Path, text: str) -> None:
        written.append(text)
        path.write_text(text)

    install(write, lambda path, data: data["stages"].pop("gone", None))
    place = tmp_path / "dvc.lock"
    lock = SimpleNamespace(
        path=str(place), relpath="dvc.lock", repo=SimpleNamespace(scm_context=SimpleNamespace(track_file=tracked.append))
    )
    first, second = (SimpleNamespace(name=name, entry=ENTRY) for name in "ab")
    Lockfile.dump_stages(lock, [first])
    assert plain == [["a"]]  # there is no lock yet
    place.write_text(whole({"a": {"cmd": "old"}, "gone": {"cmd": "x"}}))
    Lockfile.dump_stages(lock, [first, second])
    assert place.read_text() == whole({"a": ENTRY, "b": ENTRY}) and tracked == ["dvc.lock"]
    Lockfile.dump_stages(lock, [second])
    assert tracked == ["dvc.lock"] and len(written) == 2 and len(plain) == 1  # what has not changed is not new to git
