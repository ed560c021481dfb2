"""Results of earlier commits and of experiments: read from git and DVC's cache, compared with today's, never checked out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.results import compare
from qualm.compiler.results.at_revision import benchmark_at, commit_of
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.parameters import nested_paths
from qualm.registry.system.dvc_objects import file_md5, folder_md5, object_path
from tests.compiler.results.test_compare import Checkout, flips, of
from tests.support.projects.finished_project import commit, git

BEFORE, AFTER = flips(120, 0.5, 1), flips(120, 0.8, 2)


class History(Checkout):
    """A checkout whose commits have compiled stages, a lock, and objects in the cache."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (root / "specs").mkdir()
        (root / ".gitignore").write_text("/results\n/.dvc/cache\n/.dvc/tmp\n/.qualm\n")
        git(root, "init", "-q")

    def keep(self, spec: str, answers: dict[str, Sequence[int | None]], place: str = "dvc.lock") -> str:
        """Answer, score and commit; the commit."""
        self.add(spec, answers)
        (stage,) = self.plan(spec).stages
        assert isinstance(stage, PlannedStage)
        (self.root / f"specs/{spec}/stages").mkdir(parents=True, exist_ok=True)
        (self.root / f"specs/{spec}/stages/score.json").write_text(json.dumps(stage.as_json()))
        (self.root / f"specs/{spec}.yaml").write_text("qualm: 1\n")
        deps = [{"path": path, "hash": "md5", "md5": self._cached(self.root / path)} for path in nested_paths(stage.inputs)]
        outs = [{"path": p, "md5": self._cached(self.root / p)} for p in nested_paths(stage.outputs) if (self.root / p).is_file()]
        entry = {"cmd": f"python3 specs/run.py {spec}/score", "deps": deps, "outs": outs}
        (self.root / place).write_text(yaml.safe_dump({"schema": "2.0", "stages": {"score": entry}}))
        commit(self.root)
        return git(self.root, "rev-parse", "HEAD").strip()

    def _cached(self, path: Path) -> str:
        if path.is_file():
            return self._store(file_md5(path), path.read_bytes())
        files = {p.relative_to(path).as_posix(): self._cached(p) for p in path.rglob("*") if p.is_file()}
        listed = [{"md5": files[name], "relpath": name} for name in sorted(files)]
        return self._store(folder_md5(files), json.dumps(listed).encode())

    def _store(self, md5: str, content: bytes) -> str:
        place = object_path(self.root / ".dvc/cache", md5)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        return md5


@pytest.fixture
def history(tmp_path: Path) -> History:
    found = History(tmp_path)
    found.keep("s", {"m": BEFORE})
    found.keep("s", {"m": AFTER})
    return found


def scored(history: History, a: str, b: str, **more) -> dict:
    return compare.compare_scores(history, None, a, b, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "score"}'])
def test_a_stage_that_another_version_compiled(history: History, text: str) -> None:
    (history.root / "specs/s/stages/score.json").write_text(text)
    commit(history.root)
    with pytest.raises(ProjectError, match=r"[0-9a-f]{10}:specs/s/stages/score\.json: not a stage as this version compiles them \("):
        benchmark_at(history, "HEAD", "s")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("a", "b", "revision", "names"),
    [
        ("HEAD~1:s", "s", None, ("HEAD~1:s", "s")),
        ("HEAD~1:s:m", "m", None, ("HEAD~1:s:m", "m")),
        ("HEAD~1:s:m", "s:m", None, ("HEAD~1:s:m", "s:m")),
        ("HEAD~1::m", "HEAD:s:m", None, ("HEAD~1::m", "HEAD:s:m")),
        ("m", "m", "HEAD~1", ("HEAD~1:m", "m")),
        ("s", "s", "HEAD~1", ("HEAD~1:s", "s")),
        ("s:m", "m", "HEAD~1", ("HEAD~1:s:m", "m")),
    ],
)
def test_then_and_now_are_paired_by_sample(history: History, a: str, b: str, revision: str | None, names: tuple[str, str]) -> None:
    found = scored(history, a, b, revision=revision)
    assert (found["a"], found["b"], found["paired"]) == (*names, True)
    row = of(found, "accuracy")
    assert (row["a"], row["b"], row["n"]) == (pytest.approx(np.mean(BEFORE)), pytest.approx(np.mean(AFTER)), 120)
    assert found["mcnemar"][0]["only_b"] == sum(y > x for x, y in zip(BEFORE, AFTER, strict=True))
    assert any("metrics those of this checkout" in note for note in found["notes"])


def test_two_branches_side_by_side(history: History) -> None:
    history.keep("s", {"m": BEFORE})
    git(history.root, "branch", "longer")
    found = scored(history, "HEAD~1:s", "longer:s")
    assert of(found, "accuracy")["delta"] == pytest.approx(np.mean(BEFORE) - np.mean(AFTER))


def test_a_spec_that_was_not_the_default_one_has_its_own_lock(history: History) -> None:
    (history.root / "specs/other").mkdir()
    history.keep("other", {"m": AFTER}, place="specs/other/dvc.lock")
    found = scored(history, "HEAD~1:s", "HEAD:other")
    assert of(found, "accuracy")["delta"] == 0


def test_an_experiment_goes_by_its_name(history: History) -> None:
    made = history.keep("s", {"m": BEFORE})
    git(history.root, "reset", "-q", "--hard", "HEAD~1")
    base = git(history.root, "rev-parse", "HEAD").strip()
    git(history.root, "update-ref", f"refs/exps/{base[:2]}/{base[2:]}/runic-poem", made)
    git(history.root, "update-ref", "refs/exps/stash", made)
    assert commit_of(history, "runic-poem") == made  # type: ignore[arg-type]
    assert of(scored(history, "HEAD:s", "runic-poem:s"), "accuracy")["b"] == pytest.approx(np.mean(BEFORE))
    git(history.root, "update-ref", f"refs/exps/aa/{base[2:]}/runic-poem", base)
    with pytest.raises(ProjectError, match="'runic-poem' is the name of 2 experiments; give the commit"):
        commit_of(history, "runic-poem")  # type: ignore[arg-type]


def test_what_is_damaged_in_the_cache_is_not_compared(history: History) -> None:
    for file in (history.root / ".dvc/cache/files/md5").glob("*/*"):
        file.chmod(0o644)
        file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(ProjectError, match=r"HEAD~1:s: results/s/.* is damaged in DVC's cache: .*; remove that file"):
        scored(history, "HEAD~1:s", "s")


def test_what_the_cache_lacks_is_named_and_fetched(history: History) -> None:
    lab = history.root.parent / "lab"
    (lab / "files").mkdir(parents=True)
    shutil.copytree(history.root / ".dvc/cache/files", lab / "files", dirs_exist_ok=True)
    shutil.rmtree(history.root / ".dvc/cache")
    with pytest.raises(ProjectError, match=r"HEAD~1:s: not in DVC's cache here: results/s/data .*`--pull` fetches them"):
        scored(history, "HEAD~1:s", "s")
    with pytest.raises(ProjectError, match="no remote is the default"):
        scored(history, "HEAD~1:s", "s", pull=True)
    (history.root / ".dvc/config").write_text(f"[core]\n    remote = lab\n['remote \"lab\"']\n    url = {lab}\n")
    (lab / "files").rename(lab / "away")
    with pytest.raises(
        ProjectError, match=r"neither in DVC's cache here nor on the default remote: results/s/data .*`qualm share` at that"
    ):
        scored(history, "HEAD~1:s", "s", pull=True)
    (lab / "away").rename(lab / "files")
    found = scored(history, "HEAD~1:s", "s", pull=True)
    assert of(found, "accuracy")["a"] == pytest.approx(np.mean(BEFORE))


@pytest.mark.parametrize(
    ("a", "message"),
    [
        ("HAED:s", "'HAED' is neither a git revision nor a DVC experiment here"),
        ("HEAD:t", "HEAD has no spec 't'; there are: s"),
        ("HEAD:s:n", "HEAD:s:n: 'n' is no model of that spec; there are: m"),
        ("HEAD:s:", "'HEAD:s:' and 'm': one is a model, the other a spec"),
    ],
)
def test_errors_say_what_there_is(history: History, a: str, message: str) -> None:
    with pytest.raises(ProjectError) as caught:
        scored(history, a, "m")
    assert message in str(caught.value)


def test_before_the_first_commit_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="nothing is committed yet to compare with; commit this state first: git add -A && git commit"):
        commit_of(History(tmp_path), "HEAD")


def test_a_repository_that_git_does_not_read(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(ProjectError, match="'HEAD~1' cannot be looked up: git rev-parse: fatal: detected dubious ownership"):
        scored(history, "HEAD~1:s", "s")


def test_a_project_that_cannot_be_written_is_compared_all_the_same(history: History) -> None:
    (history.root / ".qualm").mkdir(exist_ok=True)
    (history.root / ".qualm" / "revisions").write_text("no folder can be made here")
    assert of(scored(history, "HEAD~1:s", "s"), "accuracy")["a"] == pytest.approx(np.mean(BEFORE))


def test_a_commit_whose_benchmark_was_not_run(history: History) -> None:
    (history.root / "dvc.lock").unlink()
    commit(history.root)
    with pytest.raises(ProjectError, match="HEAD: 's' was compiled but not run there"):
        benchmark_at(history, "HEAD", "s")  # type: ignore[arg-type]
    shutil.rmtree(history.root / "specs/s")
    commit(history.root)
    with pytest.raises(ProjectError, match="HEAD: 's' has no compiled score stage"):
        benchmark_at(history, "HEAD", "s")  # type: ignore[arg-type]
