"""`qualm share`: what speaks against it, what it sends, what it finds lacking. The whole way is in tests/end_to_end/test_remotes.py."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.run.share import ShareRequest, _runs, share
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system.dvc_files import DvcStateError, read_lock
from qualm.registry.system.dvc_objects import file_md5, folder_md5, holds, object_path
from qualm.registry.system.dvc_remote import RemoteStore
from tests.support.projects.finished_project import SPEC, commit, finished_project, git, run, stored

pytestmark = pytest.mark.usefixtures("forked_python")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_project(tmp_path_factory.mktemp("share") / "project").root


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Project:
    return Project(shutil.copytree(original, tmp_path / "project"))


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]):
    """Share and give back what was told: (exit code 0 or 1, JSON)."""

    def call(project: Project, *, expect: bool, **wanted) -> dict:
        assert share(project, ShareRequest(**wanted), as_json=True) is expect
        return json.loads(capsys.readouterr().out)

    return call


def kinds(told: dict) -> list[str]:
    return [f["kind"] for f in told["findings"]]


def lab(project: Project) -> Path:
    return project.root.parent / "lab"


def test_all_is_sent_once(project: Project, told) -> None:
    first = told(project, expect=True)
    lock = read_lock(project.root / "dvc.lock")
    outs = [o["md5"] for entry in lock.values() for o in entry["outs"]]
    assert first["sent"] == len({*outs}) + 1  # the model too
    assert all(holds(lab(project), md5) for md5 in outs)
    assert first["runs"] == len(lock) and (lab(project) / "runs").is_dir()
    assert kinds(first) == ["local remote"] and not first["findings"][0]["blocks"]
    assert told(project, expect=True)["sent"] == 0


def test_outputs_of_earlier_commits_and_of_runs_nobody_committed_are_sent(project: Project, told) -> None:
    first = {o["path"]: o["md5"] for o in read_lock(project.root / "dvc.lock")["score"]["outs"]}
    lost, in_git = first["results/mini/scores.parquet"], first["results/mini/metrics.json"]
    run(project, "a run in between")
    between = [o["md5"] for o in read_lock(project.root / "dvc.lock")["score"]["outs"]]
    run(project, "later")
    commit(project.root)
    for md5 in (lost, in_git):
        (project.root / ".dvc/cache/files/md5" / md5[:2] / md5[2:]).unlink()
    shutil.rmtree(project.root / ".dvc/cache/runs/ab/score")
    found = told(project, expect=True)
    assert kinds(found) == ["local remote", "history"]
    what = f"neither here nor at the remote: 1 object of earlier commits: results/mini/scores.parquet ({lost})"
    assert found["findings"][1]["what"] == what
    assert all(holds(lab(project), md5) for md5 in between)


def test_what_is_neither_here_nor_there_is_named(project: Project, told) -> None:
    scores = next(o for o in read_lock(project.root / "dvc.lock")["score"]["outs"] if o["path"].endswith("scores.parquet"))
    (project.root / ".dvc/cache/files/md5" / scores["md5"][:2] / scores["md5"][2:]).unlink()
    found = told(project, expect=False)
    assert found["findings"][-1]["kind"] == "missing"
    assert f"results/mini/scores.parquet ({scores['md5']})" in found["findings"][-1]["what"]


def test_nothing_is_sent_while_something_is_not_committed(project: Project, told) -> None:
    (project.root / "specs/new.yaml").write_text("# to be\n")
    (project.root / "notes.txt").write_text("mine alone")
    (project.root / "dvc.lock").write_text((project.root / "dvc.lock").read_text() + "\n")
    found = told(project, expect=False)
    assert (found["sent"], found["needed"]) == (None, 0) and not lab(project).exists(), "nothing was looked for"
    assert [f["what"] for f in found["findings"] if f["blocks"]] == ["not committed: dvc.lock, specs/new.yaml"]
    assert told(project, expect=False, anyway=True)["sent"]


def test_the_specs_that_were_checked_are_named(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert share(project, ShareRequest(), as_json=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "a clone of this commit runs nothing of mini" in text and text.endswith("git clone ..., then qualm run mini")
    (project.root / "dvc.lock").unlink()
    commit(project.root)
    share(project, ShareRequest(), as_json=False)
    text = " ".join(capsys.readouterr().out.split())
    assert text.endswith("no spec has run here; `qualm run SPEC` first") and "runs nothing" not in text


@pytest.mark.slow
def test_one_spec_is_shared_although_another_is_out_of_date(project: Project, told) -> None:
    (project.root / "specs/other.yaml").write_text(SPEC.replace("name: mini", "name: other").replace("test: 6", "test: 7"))
    project.compile(["other"])
    (project.root / "specs/other/dvc.lock").write_text("schema: '2.0'\nstages:\n  score:\n    cmd: python3 specs/run.py other/score\n")
    commit(project.root)
    assert "out of date" in kinds(told(project, expect=False, dry=True))
    assert kinds(told(project, expect=True, spec="mini", dry=True)) == ["local remote"]
    (project.root / "specs/other/dvc.lock").unlink()
    with pytest.raises(ProjectError, match="'other' has not run here"):
        share(project, ShareRequest(spec="other"), as_json=True)


def test_a_stage_out_of_date_is_named_with_its_reason(project: Project, told) -> None:
    (project.root / "specs/mini.yaml").write_text(SPEC.replace("test: 6", "test: 7"))
    project.compile(["mini"])
    commit(project.root)
    found = told(project, expect=False, dry=True)
    (finding,) = [f for f in found["findings"] if f["kind"] == "out of date"]
    assert finding["what"].startswith("mini: in a clone, `qualm run mini` would run 2 stages, then any that depend on them (data-scenes: ")
    assert "parameter args.test: 6 -> 7; report: parameter spec_sha256: " in finding["what"]
    assert finding["todo"] == "`qualm run mini`, then commit its dvc.lock and results"


def test_results_that_git_is_told_to_ignore_are_named(project: Project, told) -> None:
    (project.root / ".gitignore").write_text("__pycache__/\n.qualm/\nmetrics.json\n")
    git(project.root, "rm", "-q", "--cached", "results/mini/metrics.json")
    commit(project.root)
    (finding,) = [f for f in told(project, expect=False)["findings"] if f["kind"] == "not in git"]
    assert "results/mini/metrics.json" in finding["what"]


def test_a_password_in_git_is_refused_and_a_remote_that_is_believed_is_mentioned(project: Project, told) -> None:
    config = project.root / ".dvc/config"
    config.write_text(config.read_text().replace("../../lab", "s3://lab/qualm") + "    secret_access_key = hunter2\n")
    commit(project.root)
    found = told(project, expect=False)
    assert kinds(found) == ["secret", "unverified"]
    assert "remote 'lab': secret_access_key stands in .dvc/config" in found["findings"][0]["what"]
    assert "hunter2" not in json.dumps(found)


def test_a_remote_of_this_machine_alone_is_mentioned(project: Project, told) -> None:
    (project.root / ".dvc/config.local").write_text(f"['remote \"backup\"']\n    url = {project.root.parent / 'backup'}\n")
    found = told(project, expect=True, remote="backup")
    assert kinds(found) == ["hidden remote", "local remote"]
    assert found["url"] == str(project.root.parent / "backup") and found["sent"] > 0


def test_a_remote_in_the_repository_is_refused(project: Project) -> None:
    config = project.root / ".dvc/config"
    config.write_text(config.read_text().replace("../../lab", "../registry/store"))
    with pytest.raises(ProjectError, match=r"remote 'lab' is a folder of this repository .*registry/store.* would go into git"):
        share(project, ShareRequest(), as_json=True)


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("lap", None, "there is no remote 'lap'; there are: lab. Add one by `dvc remote add -d lab URL`"),
        (None, "[core]\n    analytics = false\n", "no remote is the default; the project has none. Add one by"),
        (
            None,
            "['remote \"lab\"']\n    url = ../../lab\n",
            "no remote is the default; there are: lab. Choose one by `dvc remote default NAME`",
        ),
    ],
)
def test_which_remote(project: Project, name: str | None, config: str | None, message: str) -> None:
    if config is not None:
        (project.root / ".dvc/config").write_text(config)
    with pytest.raises(ProjectError) as caught:
        share(project, ShareRequest(name), as_json=True)
    assert str(caught.value).startswith(message)


def test_a_server_that_does_not_answer(project: Project) -> None:
    config = project.root / ".dvc/config"
    config.write_text(config.read_text().replace("../../lab", "webdav://127.0.0.1:9/lab"))
    commit(project.root)
    with pytest.raises(DvcStateError, match=r"remote 'lab': .*docs/how-to/sharing.md"):
        share(project, ShareRequest(), as_json=True)


def test_files_of_a_folder_that_was_never_pulled_here_are_looked_for_too(project: Project, told) -> None:
    files = {name: stored(project.root, name.encode()) for name in ("a", "b")}
    folder = folder_md5(files)
    place = object_path(project.root / ".dvc/cache", folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps([{"md5": md5, "relpath": name} for name, md5 in files.items()]))
    (project.root / "registry/data/mine.dvc").write_text(f"outs:\n- md5: {folder}\n  hash: md5\n  path: mine\n")
    commit(project.root)
    assert told(project, expect=True)["sent"]
    for md5 in (folder, *files.values()):
        object_path(project.root / ".dvc/cache", md5).unlink()
    object_path(lab(project), files["b"]).unlink()
    found = told(project, expect=False)
    assert f"neither here nor at the remote: 1 object that a clone needs: registry/data/mine/b ({files['b']})" in json.dumps(found)


def test_what_could_not_be_sent_is_named(project: Project, told, monkeypatch: pytest.MonkeyPatch) -> None:
    first = {o["path"]: o["md5"] for o in read_lock(project.root / "dvc.lock")["score"]["outs"]}["results/mini/scores.parquet"]
    run(project, "later")
    commit(project.root)
    needed = read_lock(project.root / "dvc.lock")["score"]["outs"][0]["md5"]
    put = RemoteStore.put
    refused = {first, needed}
    monkeypatch.setattr(RemoteStore, "put", lambda self, hashes: put(self, set(hashes) - refused) | (refused & set(hashes)))
    found = told(project, expect=False)
    assert kinds(found) == ["local remote", "missing"]  # what a clone needs is here, so it is not called lost
    what = found["findings"][-1]["what"]
    assert what.startswith("could not be sent: 2 objects: ") and f"results/mini/scores.parquet ({first})" in what and needed in what
    monkeypatch.undo()
    assert told(project, expect=True)["sent"] == 2


def test_a_lock_with_the_marks_of_a_merge_in_an_earlier_commit_is_mentioned(project: Project, told) -> None:
    text = (project.root / "dvc.lock").read_text()
    (project.root / "dvc.lock").write_text(f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> other\n")
    commit(project.root)
    (project.root / "dvc.lock").write_text(text)
    commit(project.root)
    found = told(project, expect=True)
    assert kinds(found) == ["local remote", "history"] and found["findings"][1]["what"].endswith("were not checked: dvc.lock")


def test_renamed_files_go_by_their_own_names(project: Project, told) -> None:
    (project.root / "specs/prompts/old.md").write_text("Is it so?\n")
    commit(project.root)
    git(project.root, "mv", "specs/prompts/old.md", "specs/prompts/new.md")
    (finding,) = [f for f in told(project, expect=False, dry=True)["findings"] if f["kind"] == "uncommitted"]
    assert finding["what"] == "not committed: specs/prompts/new.md, specs/prompts/old.md"


def test_a_damaged_object_is_not_sent_and_is_named(project: Project, told) -> None:
    lock = read_lock(project.root / "dvc.lock")
    md5 = next(o["md5"] for o in lock["score"]["outs"] if o["path"].endswith("scores.parquet"))
    damaged = object_path(project.root / ".dvc/cache", md5)
    damaged.write_bytes(bytes(reversed(damaged.read_bytes())))
    found = told(project, expect=False)
    assert f"damaged in DVC's cache and not sent: 1 object: results/mini/scores.parquet ({md5})" in [f["what"] for f in found["findings"]]
    assert not object_path(lab(project), md5).exists() and found["sent"] > 0


@pytest.mark.slow
def test_what_a_clone_would_still_run(project: Project) -> None:
    restored, unplanned = _runs(project.root, ["mini", "other"])
    stages = "data-scenes, infer-base-scenes, judge, score, report"
    assert restored.what == f"mini: a clone that pulled everything would still run or restore {stages}"
    assert unplanned.what.startswith("other cannot be planned in a clone: ") and unplanned.todo == "`qualm plan other`"


LIMITED = """
import resource, sys
from qualm.compiler.commands.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000_000, 20_000_000))
sys.argv = ["qualm", "share", "--anyway"]
main()
"""


@pytest.mark.slow
def test_a_remote_that_fills_up_is_left_without_halves(project: Project) -> None:
    big = stored(project.root, b"x" * 30_000_000)
    (project.root / "registry/data/big.dvc").write_text(f"outs:\n- md5: {big}\n  hash: md5\n  path: big\n")
    commit(project.root)
    done = subprocess.run([sys.executable, "-c", LIMITED], cwd=project.root, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "could not be sent: 1 object" in done.stdout, done.stderr
    sent = [file for file in lab(project).rglob("*") if file.is_file() and "runs" not in file.parts]
    assert sent and [file for file in sent if file_md5(file) != file.parent.name + file.name] == []


@pytest.mark.slow
def test_what_a_clone_finds_damaged_is_sent_again_only_where_that_is_asked_for(project: Project, told) -> None:
    assert told(project, expect=True)["sent"]
    md5 = next(o["md5"] for o in read_lock(project.root / "dvc.lock")["score"]["outs"] if o["path"].endswith("scores.parquet"))
    there = object_path(lab(project), md5)
    there.chmod(0o644)
    there.write_bytes(b"x")
    there.chmod(0o444)  # by which DVC trusts it
    found = told(project, expect=False, check=True)
    what = f"damaged or gone at the remote: 1 object: results/mini/scores.parquet ({md5})"
    assert found["damaged"] == [md5] and [f["what"] for f in found["findings"] if f["blocks"]] == [what]
    mended = told(project, expect=True, repair=True)
    assert mended["sent"] + len(mended["repaired"]) == 1 and mended["damaged"] == [] and "damaged" not in kinds(mended)
    assert file_md5(there) == md5
