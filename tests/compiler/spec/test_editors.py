"""The JSON Schema of specs beside the specs: written where it is not there or another, hidden from git."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from qualm.compiler.spec.json_schema import FIRST_LINE, SCHEMA, schema_text, write_schema


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "specs").mkdir()
    return tmp_path


def test_it_is_written_and_git_does_not_see_it(root: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    write_schema(root)
    assert (root / "specs" / SCHEMA).read_text() == schema_text() and "properties" in json.loads(schema_text())
    seen = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=root, check=True, capture_output=True, text=True).stdout
    assert seen == ""


def test_what_is_in_step_stays(root: Path) -> None:
    write_schema(root)
    path = root / "specs" / SCHEMA
    os.utime(path, (1, 1))
    write_schema(root)
    assert path.stat().st_mtime == 1
    path.write_text("{}")
    write_schema(root)
    assert path.read_text() == schema_text()


def test_a_list_of_the_user_s_own_stays(root: Path) -> None:
    (root / "specs/.gitignore").write_text("*.bak\n")
    write_schema(root)
    assert (root / "specs/.gitignore").read_text() == "*.bak\n" and (root / "specs" / SCHEMA).is_file()


def test_editors_find_it_by_the_first_line() -> None:
    assert FIRST_LINE == "# yaml-language-server: $schema=./spec.schema.json\n"
