"""Results against a revision."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.mark.slow
def test_diff_against_a_revision(tmp_path: Path) -> None:
    from tests.end_to_end.clone import make_clone

    clone = make_clone(tmp_path / "clone", "quickstart")
    clone.run("git", "add", "-A")
    clone.run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "compiled")
    assert "no difference" in clone.qualm("diff").stdout
    spec = clone.root / "specs/quickstart.yaml"
    spec.write_text(spec.read_text().replace("examples: 48", "examples: 12"))
    found = json.loads(clone.qualm("diff", "HEAD", "--json").stdout)
    assert {"stage": "report", "change": "parameter examples: 48 -> 12"} in found["parameters"]
    assert any(line.startswith("+report") for line in found["spec_diff"])
    for words in (["quickstart"], ["quickstart", "HEAD"], [str(spec), "HEAD"]):
        assert json.loads(clone.qualm("diff", *words, "--json").stdout) == found, words
    assert clone.qualm("diff", "no-such-revision", check=False).returncode == 2
