"""What stands in the way of sharing: which remote is meant, and every obstacle with what to do about it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.project.rebuilds import Forecast, Reason
from qualm.compiler.run.share import MAX_LISTED, SECRETS, Obstacle, ShareTarget, find_remote, obstacles, out_of_date, specs_to_share
from qualm.compiler.spec.errors import ProjectError
from tests.support.projects.finished_project import SPEC, commit, finished_project, git


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_project(tmp_path_factory.mktemp("shareable") / "project").root


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Project:
    return Project(shutil.copytree(original, tmp_path / "project"))


@pytest.fixture
def bare(tmp_path: Path) -> Project:
    """A project in git with nothing in it: enough for remotes and files."""
    for folder in ("specs", ".dvc"):
        (tmp_path / "bare" / folder).mkdir(parents=True)
    (tmp_path / "bare/params.yaml").write_text("default: mini\n")
    (tmp_path / "bare/.dvc/.gitignore").write_text("/config.local\n/tmp\n/cache\n")
    git(tmp_path / "bare", "init", "-q")
    return Project(tmp_path / "bare")


def configure(project: Project, text: str, file: str = "config") -> None:
    (project.root / ".dvc" / file).write_text(text)


LAB = "[core]\n    remote = lab\n['remote \"lab\"']\n    url = ../../lab\n"
FAR = "['remote \"far\"']\n    url = s3://bucket/qualm\n"


def test_the_remote_that_is_meant(bare: Project) -> None:
    configure(bare, LAB + FAR)
    assert find_remote(bare, None) == ShareTarget("lab", str(bare.root.parent / "lab"))
    far = find_remote(bare, "far")
    assert (far.name, far.url, far.folder) == ("far", "s3://bucket/qualm", None)
    assert find_remote(bare, "lab").folder == bare.root.parent / "lab"


@pytest.mark.parametrize(
    ("config", "name", "message"),
    [
        (LAB + FAR, "lba", "there is no remote 'lba'; there are: far, lab. Add one by `dvc remote add -d lab URL`"),
        (FAR, None, "no remote is the default; there are: far. Choose one"),
        ("", None, "no remote is the default; the project has none. Add one"),
    ],
)
def test_no_such_remote(bare: Project, config: str, name: str | None, message: str) -> None:
    configure(bare, config)
    with pytest.raises(ProjectError, match=f"^{message}"):
        find_remote(bare, name)


def test_a_remote_in_this_repository_goes_into_git(bare: Project) -> None:
    inside = "[core]\n    remote = in\n['remote \"in\"']\n    url = ../store\n"
    configure(bare, inside)
    with pytest.raises(
        ProjectError, match=r"^remote 'in' is a folder of this repository \(.*store\): what is pushed there would go into git"
    ):
        find_remote(bare, None)


def kinds(project: Project, to: ShareTarget | None = None, specs: tuple[str, ...] = ()) -> dict[str, Obstacle]:
    return {o.kind: o for o in obstacles(project, to or find_remote(project, None), list(specs))}


@pytest.mark.slow
def test_a_finished_project_can_be_shared(project: Project) -> None:
    assert list(kinds(project, specs=("mini",))) == ["local remote"]


@pytest.fixture
def quiet(bare: Project) -> Project:
    configure(bare, "[core]\n    remote = far\n" + FAR + "    verify = true\n")
    commit(bare.root)
    return bare


def test_nothing_speaks_against_a_server_that_is_not_trusted(quiet: Project) -> None:
    assert kinds(quiet) == {}
    configure(quiet, (quiet.root / ".dvc/config").read_text().replace("verify = true", "verify = false"))
    commit(quiet.root)
    (obstacle,) = kinds(quiet).values()
    assert (obstacle.kind, obstacle.blocks) == ("unverified", False)
    assert obstacle.todo == "`dvc remote modify far verify true`, and commit .dvc/config"


def test_files_that_git_does_not_have_as_they_are(quiet: Project) -> None:
    root = quiet.root
    for name in ("notes.txt", "docs/a.md"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("of nobody's concern")
    assert kinds(quiet) == {}
    (root / "some.dvc").write_text("outs: []\n")
    (root / "registry").mkdir()
    (root / "registry/new.yaml").write_text("")
    (root / "params.yaml").write_text("default: other\n")
    (obstacle,) = kinds(quiet).values()
    assert obstacle == Obstacle(
        "uncommitted", "not committed: params.yaml, registry/, some.dvc", "commit them (`git add`, `git commit`), or put them aside"
    )


@pytest.mark.parametrize(
    ("count", "end"), [(MAX_LISTED, "s7.yaml"), (MAX_LISTED + 1, "s7.yaml and 1 more"), (1008, "s1003.yaml and 1,000 more")]
)
def test_at_most_eight_are_named(quiet: Project, count: int, end: str) -> None:
    (quiet.root / "specs").mkdir(exist_ok=True)
    (quiet.root / "specs/first.yaml").write_text("")
    commit(quiet.root)
    (quiet.root / "specs/first.yaml").unlink()
    commit(quiet.root)
    for n in range(count):
        (quiet.root / f"specs/s{n}.yaml").write_text("")
    git(quiet.root, "add", "-A")
    (obstacle,) = kinds(quiet).values()
    assert obstacle.what.endswith(f"specs/{end}") and obstacle.what.count(", ") == MAX_LISTED - 1


URLS = {
    "ssh://host/x": ("password",),
    "webdavs://host/x": ("token",),
    "s3://bucket/x": ("secret_access_key", "session_token", "sse_customer_key"),
    "azure://box/x": ("sas_token", "account_key", "connection_string", "client_secret"),
    "oss://bucket/x": ("oss_key_secret",),
    "gdrive://folder/x": ("gdrive_client_secret",),
}
"""Kinds of remotes, each with those secrets of its settings."""


def test_every_secret_is_of_some_kind_of_remote() -> None:
    assert sorted(SECRETS) == sorted(secret for secrets in URLS.values() for secret in secrets)


@pytest.mark.parametrize(("url", "secret"), [(url, secret) for url, secrets in URLS.items() for secret in secrets])
def test_what_nobody_else_should_read(quiet: Project, url: str, secret: str) -> None:
    text = (quiet.root / ".dvc/config").read_text().replace("s3://bucket/qualm", url)
    configure(quiet, f"{text}    {secret} = hunter2\n")
    commit(quiet.root)
    (obstacle,) = kinds(quiet).values()
    assert (obstacle.kind, obstacle.blocks) == ("secret", True) and "hunter2" not in str(obstacle)
    assert obstacle.what == f"remote 'far': {secret} stands in .dvc/config, which git shares"
    assert obstacle.todo.startswith(f"`dvc remote modify --unset far {secret}`, set it with --local")


def test_a_remote_of_this_machine_alone(quiet: Project) -> None:
    configure(quiet, "['remote \"own\"']\n    url = ssh://host/x\n    password = hunter2\n    verify = True\n", "config.local")
    (quiet.root / ".dvc/.gitignore").write_text("/config.local\n")
    commit(quiet.root)
    (obstacle,) = kinds(quiet, find_remote(quiet, "own")).values()
    assert obstacle == Obstacle(
        "hidden remote",
        "remote 'own' is known on this machine only: clones will not find it",
        "`dvc remote add own ssh://host/x` without --local, and commit .dvc/config",
        blocks=False,
    )


def forecasts(count: int) -> list[Forecast]:
    return [Forecast(f"s{n}", "score", "run", (Reason("new", f"n{n}"), Reason("code", "x"))) for n in range(count)]


def test_what_would_run_in_a_clone() -> None:
    blocked = Forecast("t", "infer", "blocked", (Reason("new", "its input is missing"),))
    found = list(out_of_date({"a": [*forecasts(3), blocked], "b": [], "c": forecasts(4)}))
    assert [o.what for o in found] == [
        "a: in a clone, `qualm run a` would run 3 stages, then any that depend on them (s0: n0; s1: n1; s2: n2)",
        "a: in a clone, 1 stage could not run (t: its input is missing)",
        "c: in a clone, `qualm run c` would run 4 stages, then any that depend on them (s0: n0; s1: n1; s2: n2 and 1 more)",
    ]
    assert all(o.blocks and o.kind == "out of date" for o in found)
    assert found[1].todo == "`qualm plan a` says what is missing" and found[2].todo == "`qualm run c`, then commit its dvc.lock and results"


def test_specs_that_have_run(project: Project) -> None:
    (project.root / "specs/other.yaml").write_text(SPEC.replace("name: mini", "name: other"))
    assert (
        specs_to_share(project)
        == ["mini"]
        == specs_to_share(project, "mini")
        == specs_to_share(project, str(project.root / "specs/mini.yaml"))
    )
    with pytest.raises(ProjectError, match="'other' has not run here: there is nothing to share; `qualm run other`"):
        specs_to_share(project, "other")


def test_a_spec_is_shared_with_those_whose_models_it_reads(project: Project) -> None:
    makes = SPEC.replace("name: mini", "name: makes").replace("test: 6", "test: 6, train: 6").replace("metrics: [accuracy]\n", "")
    (project.root / "specs/makes.yaml").write_text(makes + "finetunes:\n  tuned: {sft: {base: base, train: [scenes]}}\n")
    (project.root / "specs/reads.yaml").write_text(
        SPEC.replace("name: mini", "name: reads").replace("artifact: scene-vlm-base", 'artifact: "makes:tuned"')
    )
    (project.root / "specs/reads").mkdir()
    (project.root / "specs/reads/dvc.lock").write_text((project.root / "dvc.lock").read_text())
    assert specs_to_share(project, "reads") == ["reads", "makes"]
    assert specs_to_share(project) == ["mini", "reads"]


def test_inputs_that_a_clone_would_lack(project: Project) -> None:
    (project.root / ".gitignore").write_text("__pycache__/\n.qualm/\nmetrics.json\n/registry/data/scene-vlm-base.dvc\n")
    git(project.root, "rm", "-q", "--cached", "results/mini/metrics.json", "registry/data/scene-vlm-base.dvc")
    (project.root / "registry/data/scene-vlm-base").mkdir()
    commit(project.root)
    obstacle = kinds(project, specs=("mini",))["not in git"]
    assert (
        obstacle.what == "a clone will lack, since neither git nor DVC keeps them: registry/data/scene-vlm-base, results/mini/metrics.json"
    )
    assert obstacle.todo == "`git add -f` them, or `dvc add` them" and obstacle.blocks
    (project.root / "results/mini/metrics.json").unlink()  # what is not here is not told: the forecast tells it
    assert kinds(project, specs=("mini",))["not in git"].what.endswith("them: registry/data/scene-vlm-base")
