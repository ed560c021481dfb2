"""What a deleted spec leaves behind is said, and removed on demand only."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.compiler.plan.compiled_files import HEADER, leftovers, list_compiled, remove
from tests.end_to_end.clone import Clone, make_clone


def two_specs(root: Path) -> Clone:
    """A clone with a second spec that was compiled and has results."""
    made = make_clone(root, "quickstart")
    made.qualm("new", "mine", "--extends", "quickstart")
    made.qualm("compile", "mine")
    (made.root / "results/mine/metrics.json").write_text("{}")
    return made


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return two_specs(tmp_path / "clone")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """One for all tests that expect nothing to change."""
    return two_specs(tmp_path_factory.mktemp("untouched") / "clone")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Two specs, one of them compiled into the root, both with results and records of runs."""
    for spec in ("gone", "here"):
        for name in (f"specs/{spec}/stages/infer.json", f"results/{spec}/a.json", f".qualm/runs/{spec}/b"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("{}")
    for spec, folder in (("gone", tmp_path), ("here", tmp_path / "specs/here")):
        (folder / "dvc.yaml").write_text(HEADER.format(spec=spec) + "stages: {}\n")
        (folder / "dvc.lock").write_text("schema: '2.0'\n")
    return tmp_path


def test_what_is_there_of_a_spec_that_is_gone(checkout: Path) -> None:
    (left,) = leftovers(checkout, ["here"])
    assert left == list_compiled(checkout, "gone") and left.spec == "gone"
    assert set(map(str, left.compiled)) == {"specs/gone/stages/infer.json", "dvc.yaml", "dvc.lock"}
    assert left.places == ["dvc.yaml", "dvc.lock", "specs/gone/", "results/gone/", ".qualm/runs/gone/"]
    assert leftovers(checkout, ["here", "gone"]) == []
    assert [one.spec for one in leftovers(checkout, [])] == ["gone", "here"]


def test_all_that_was_compiled_or_made_is_removed_and_nothing_else(checkout: Path) -> None:
    for name in ("notes.md", ".gitignore"):
        (checkout / "specs/gone" / name).write_text("a file of the user's")
    before = {path for path in checkout.rglob("*") if path.is_file()}
    (left,) = leftovers(checkout, ["here"])
    remove(checkout, left)
    removed = {"specs/gone/stages/infer.json", "dvc.yaml", "dvc.lock", "results/gone/a.json", ".qualm/runs/gone/b"}
    assert {str(path.relative_to(checkout)) for path in before if not path.exists()} == removed
    assert not (checkout / "specs/gone/stages").exists() and leftovers(checkout, ["here"]) == []
    for name in ("notes.md", ".gitignore"):
        (checkout / "specs/gone" / name).unlink()
    remove(checkout, list_compiled(checkout, "gone"))
    assert not (checkout / "specs/gone").exists(), "an empty folder goes too"


def test_of_results_on_another_disk_the_link_is_removed(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    scratch = tmp_path_factory.mktemp("scratch") / "gone"
    (checkout / "results/gone").rename(scratch)
    (checkout / "results/gone").symlink_to(scratch)
    (left,) = leftovers(checkout, ["here"])
    remove(checkout, left)
    assert not (checkout / "results/gone").is_symlink() and (scratch / "a.json").is_file()
    assert leftovers(checkout, ["here"]) == []


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "nobody", "../docs", "../specs"])
def test_what_is_not_left_over_is_not_removed(untouched: Clone, name: str) -> None:
    before = sorted(untouched.root.rglob("*.md"))
    done = untouched.qualm("clean", name, "--yes", check=False)
    assert done.returncode == 2 and sorted(untouched.root.rglob("*.md")) == before
    assert (untouched.root / "specs/quickstart.yaml").is_file()
