"""Checking and compiling from the command line: exit codes, JSON for machines, no traceback whatever the input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qualm.registry.plugins.rule import ROOT
from tests.compiler.command_line import qualm


@pytest.mark.parametrize("spec", sorted(p.stem for p in (ROOT / "specs").glob("*.yaml")))
def test_our_own_specs_are_valid(spec: str) -> None:
    done = qualm("validate", spec, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ok"]


@pytest.mark.slow
def test_compiled_files_are_in_step() -> None:
    done = qualm("compile", "--check")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\x01\x02", b"caf\xe9: 1", b"a: [1, 2", b"- just\n- a list\n", b"text", b"a:\n\t- b\n", b"x: &a [*a]", b"{}", b"qualm: 1\n"],
)
def test_bad_files_give_one_message_and_exit_2(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    done = qualm("validate", str(path))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert f"{path}:" in done.stderr or "bad.yaml:" in done.stderr


def test_problems_as_json(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("qualm: 1\nname: bad\ndatasets: {a: {card: synthetic_scenes, tets: 1}}\n")
    done = qualm("validate", str(path), "--json")
    assert done.returncode == 2
    (problem,) = json.loads(done.stdout)["problems"]
    assert (problem["line"], problem["path"], problem["hint"]) == (3, "datasets.a.tets", "did you mean 'test'?")


def test_an_unknown_spec_names_the_nearest() -> None:
    done = qualm("plan", "quikstart")
    assert done.returncode == 2
    assert "did you mean 'quickstart'?" in done.stderr
