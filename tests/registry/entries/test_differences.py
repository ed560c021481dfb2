"""Two versions of data: of official files and of made datasets, in the working tree and out of the cache, by revision and by digest."""

import json
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qualm.registry.entries.cli import app
from qualm.registry.entries.entries import EntryError
from qualm.registry.entries.versions import Version
from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.runtime.records import write_table
from tests.registry.conftest import make_repo, run_dvc, run_git
from tests.support.data.clevr_folder import clevr_folder

run = CliRunner()


@pytest.fixture(autouse=True)
def _here(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    monkeypatch.setenv("COLUMNS", "140")


def write(folder: Path, samples: dict[str, dict], pictures: dict[str, bytes]) -> None:
    rows = [
        {"sample_id": i, "question": "How many?", "references": ["two"], "image_id": "p", "answerable": True, "split": "test", "meta": {}}
        | s
        for i, s in samples.items()
    ]
    write_table(folder / "samples.parquet", rows, SAMPLES)
    write_table(
        folder / "images" / "00000.parquet", [{"image_id": i, "image": {"bytes": b, "path": ""}} for i, b in pictures.items()], IMAGES
    )


@pytest.fixture(scope="module")
def made_repo(tmp_path_factory: pytest.TempPathFactory, forked_python: None) -> Path:
    """A dataset that a stage made, in two committed versions and a third that is not committed."""
    repo = make_repo(tmp_path_factory.mktemp("made") / "repo")
    folder = repo / "results/mine/data/scenes"
    (repo / "dvc.yaml").write_text("stages: {data: {cmd: 'true', outs: [results/mine/data/a-card.json, results/mine/data/scenes]}}\n")
    for version, (samples, pictures) in enumerate(
        [
            ({"a": {}, "b": {}, "c": {}}, {"p": b"one"}),
            ({"a": {"question": "Why?"}, "c": {"meta": {"kind": "x"}, "references": ["2"]}, "d": {}}, {"p": b"one"}),
            ({"a": {"question": "Why?"}, "c": {"meta": {"kind": "x"}, "references": ["2"]}, "d": {}}, {"p": b"two"}),
        ]
    ):
        write(folder, samples, pictures)
        (folder.parent / "a-card.json").write_text("{}")
        if version < 2:
            run_dvc(repo, "commit", "--force", "data")
            run_git(repo, "add", "-A")
            run_git(repo, "commit", "-qm", f"v{version}")
            run_git(repo, "tag", f"v{version}")
    return repo


@pytest.fixture
def made(made_repo: Path, repo: Path) -> Path:
    """A copy of that project in `repo`; its dataset's folder."""
    shutil.copytree(made_repo, repo, dirs_exist_ok=True)
    return repo / "results/mine/data/scenes"


def compared(*arguments: str) -> dict:
    done = run.invoke(app, ["diff", *arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_samples_of_a_made_data_set_between_two_revisions(made: Path) -> None:
    samples = compared("results/mine/data/scenes@v0", "results/mine/data/scenes@v1")["samples"]
    assert samples == {"added": ["d"], "removed": ["b"], "changed": {"a": ["question"], "c": ["references", "meta"]}, "same": 0}


def test_another_picture_changes_its_samples(made: Path) -> None:
    found = compared("results/mine/data/scenes@v1")
    assert found["samples"]["changed"] == {i: ["picture"] for i in "acd"} and not found["samples"]["added"]
    assert found["files"]["changed"] == {"images/00000.parquet": []} and found["files"]["same"] == 1


def test_a_person_reads_it(made: Path) -> None:
    done = run.invoke(app, ["diff", "results/mine/data/scenes@v0", "results/mine/data/scenes@v1", "--exit-code"])
    assert done.exit_code == 1
    assert "samples: 1 added, 1 removed, 2 changed, 0 the same" in done.stdout
    assert "changed: question of 1, references of 1, meta of 1" in done.stdout
    assert "    + d\n    - b\n    ~ a  (question)\n    ~ c  (references, meta)\n" in done.stdout
    done = run.invoke(app, ["diff", "results/mine/data/scenes@v1", "results/mine/data/scenes@HEAD", "--exit-code"])
    assert done.exit_code == 0 and "samples: the files are the same" in done.stdout


@pytest.fixture(scope="module")
def clevr_repo(tmp_path_factory: pytest.TempPathFactory, forked_python: None) -> tuple[Path, dict[str, str]]:
    """Official files tracked in two versions, one question other in the second; the digest of each."""
    repo = make_repo(tmp_path_factory.mktemp("clevr") / "repo")
    folder = clevr_folder(repo / "registry/data/clevr", scenes=4)
    questions = folder / "questions/CLEVR_val_questions.json"
    digests = {}
    for version in ("first", "second"):
        run_dvc(repo, "add", "registry/data/clevr")
        run_git(repo, "add", "-A")
        run_git(repo, "commit", "-qm", version)
        with chdir(repo):
            digests[version] = json.loads(run.invoke(app, ["show", "clevr", "--json"]).stdout)["version"]
        raw = json.loads(questions.read_text())
        raw["questions"][0]["question"] = "What else is there?"
        questions.unlink()  # a link into the cache
        questions.write_text(json.dumps(raw))
    run_dvc(repo, "checkout", "--force", "registry/data/clevr.dvc")
    return repo, digests


@pytest.fixture
def clevr(clevr_repo: tuple[Path, dict[str, str]], repo: Path) -> dict[str, str]:
    """A copy of that project in `repo`; the digests."""
    shutil.copytree(clevr_repo[0], repo, dirs_exist_ok=True)
    return clevr_repo[1]


@pytest.mark.slow
def test_official_files_are_read_by_their_adapter(clevr: dict[str, str]) -> None:
    found = compared("clevr@HEAD~1")
    assert list(found["files"]["changed"]) == ["questions/CLEVR_val_questions.json"]
    (changed,) = found["samples"]["changed"].values()
    assert changed == ["question"] and not found["samples"]["added"] and not found["samples"]["removed"]
    assert compared(f"clevr@{clevr['first']}", f"clevr@{clevr['second']}")["samples"] == found["samples"]


def test_what_cannot_be_compared_is_said(clevr: dict[str, str]) -> None:
    for arguments, said in (
        (["clevr"], "clevr is what lies here; name a version to compare it with, such as clevr@HEAD"),
        (["clever"], "no entry or card named 'clever'; did you mean 'clevr'?"),
        (["clevr@nowhere"], "'nowhere' is neither a git revision here nor a digest of at least 6 characters"),
        (["clevr@123456abcdef"], "'123456abcdef' fits no version of registry/data/clevr; git has on record: "),
        (["clevrr@HEAD"], "registry/data/clevrr: nothing on record at HEAD"),
        (["pope@HEAD", "clevr"], "registry/data/pope: nothing on record at HEAD"),
        (["clevr@HEAD~1", "pope"], "pope: has never been added"),
        (["clevr@HEAD~1", "-O", "spit=val"], "-O spit=val: expected NAME=VALUE of clevr's parameters, which are: "),
        (["../elsewhere@HEAD", "clevr"], "lies outside of"),
    ):
        done = run.invoke(app, ["diff", *arguments])
        assert done.exit_code == 2 and said in done.stderr and "Traceback" not in done.output, arguments


@pytest.mark.slow
def test_files_that_nothing_reads_are_compared_as_files(
    repo: Path, model: Callable[..., Path], git: Callable[..., str], dvc: Callable[..., str]
) -> None:
    for name, said in (("scene-vlm-base", "the card 'scene-vlm-base' has no adapter"), ("nobody-knows", "no card says how to read them")):
        place = repo / "registry/data" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        model(name).rename(place)
        dvc(repo, "add", str(place.relative_to(repo)))
        git(repo, "add", "-A")
        git(repo, "commit", "-qm", name)
        (place / "config.json").unlink()
        (place / "config.json").write_text("{}")
        found = compared(f"{name}@HEAD")
        assert found["samples"] is None and found["why"] == said
        assert found["files"]["changed"] == {"config.json": []}


def test_a_version_that_no_store_has_is_said(repo: Path, made: Path) -> None:
    shutil.rmtree(repo / ".dvc/cache")
    done = run.invoke(app, ["diff", "results/mine/data/scenes@v0", "results/mine/data/scenes@v1"])
    assert done.exit_code == 2 and "the list of its files is in neither DVC's cache nor a remote on this disk" in done.stderr


def test_a_file_that_no_store_has_is_said(repo: Path, made: Path) -> None:
    for file in (repo / ".dvc/cache/files/md5").rglob("*"):
        if file.is_file() and file.suffix != ".dir":
            file.unlink()
    done = run.invoke(app, ["diff", "results/mine/data/scenes@v0", "results/mine/data/scenes@v1"])
    assert done.exit_code == 2 and ".parquet is not in DVC's cache; `git checkout` that revision and `dvc fetch results/mine" in done.stderr


def test_an_entry_is_fetched_by_its_path_from_the_root() -> None:
    version = Version("m@HEAD", "m", "0" * 32, {"a": "1" * 32}, None, None)
    with pytest.raises(EntryError, match="`dvc fetch registry/data/m`, then try again"):
        version.file("a")


def test_a_damaged_file_is_said(repo: Path, made: Path) -> None:
    for file in (repo / ".dvc/cache/files/md5").rglob("*"):
        if file.is_file() and file.suffix != ".dir":
            file.chmod(0o644)
            file.write_bytes(file.read_bytes()[:-1] + b"x")
    done = run.invoke(app, ["diff", "results/mine/data/scenes@v0", "results/mine/data/scenes@v1"])
    assert done.exit_code == 2 and ".parquet is damaged in DVC's cache: " in done.stderr
