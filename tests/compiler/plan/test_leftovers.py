"""What a deleted spec leaves behind is said, and removed on demand only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.clone import Clone, make_clone

pytestmark = pytest.mark.slow


def two_specs(root: Path) -> Clone:
    """A clone with a second spec that was compiled and has results."""
    made = make_clone(root, "quickstart")
    made.qualm("new", "mine", "--extends", "quickstart")
    made.qualm("compile")
    (made.root / "results/mine/metrics.json").write_text("{}")
    return made


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return two_specs(tmp_path / "clone")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """One for all tests that expect nothing to change."""
    return two_specs(tmp_path_factory.mktemp("untouched") / "clone")


def test_compiling_says_what_is_left_and_cleaning_removes_it(clone: Clone) -> None:
    assert "left of" not in clone.qualm("compile").stdout
    (clone.root / "specs/mine.yaml").unlink()
    for command in (["compile"], ["compile", "--check"]):
        line = next(line for line in clone.qualm(*command).stdout.splitlines() if "left of" in line)
        assert "specs/mine/" in line and "results/mine/" in line
    assert "would remove: results/mine/" in clone.qualm("clean", "mine").stdout
    assert (clone.root / "results/mine/metrics.json").is_file() and (clone.root / "specs/mine/dvc.yaml").is_file()
    (clone.root / "specs/mine/notes.md").write_text("a file of the user's")
    assert "removed: specs/mine/" in clone.qualm("clean", "mine", "--yes").stdout
    assert not (clone.root / "results/mine").exists() and not (clone.root / "specs/mine/dvc.yaml").exists()
    assert (clone.root / "specs/mine/notes.md").is_file(), "what was not compiled stays"
    assert "left of" not in clone.qualm("compile").stdout
    assert (clone.root / "dvc.yaml").is_file() and (clone.root / "results/quickstart").is_dir()


def test_a_default_spec_that_was_renamed(clone: Clone) -> None:
    """Its pipeline lay in the root, where now that of the new default lies."""
    text = (clone.root / "specs/quickstart.yaml").read_text()
    (clone.root / "specs/quickstart.yaml").unlink()
    (clone.root / "specs/mine.yaml").unlink()
    (clone.root / "specs/other.yaml").write_text(text.replace("name: quickstart", "name: other"))
    (clone.root / "params.yaml").write_text("default: other\nseed: 7\n")
    said = clone.qualm("compile").stdout
    assert "left of 'quickstart'" in said and "left of 'mine'" in said
    clone.qualm("clean", "quickstart", "--yes")
    assert "specs/other.yaml" in (clone.root / "dvc.yaml").read_text()
    assert "left of 'quickstart'" not in clone.qualm("compile").stdout


@pytest.mark.parametrize("name", ["quickstart", "nobody", "../docs", "../specs"])
def test_what_is_not_left_over_is_not_removed(untouched: Clone, name: str) -> None:
    before = sorted(untouched.root.rglob("*.md"))
    done = untouched.qualm("clean", name, "--yes", check=False)
    assert done.returncode == 2 and sorted(untouched.root.rglob("*.md")) == before
    assert (untouched.root / "specs/quickstart.yaml").is_file()
