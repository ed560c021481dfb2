"""DVC's commands as forks: which ones, what they have, and that all else is DVC's."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qualm.compiler.running.forks import COMMAND, Forks, _waited, installed, started
from qualm.runners.runtime.settings import Settings

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("python3 -m qualm.runners mini/infer-m0-scenes", "mini/infer-m0-scenes"),
        ("python3 -m qualm.runners mini/infer && touch x", None),
        ("torchrun -m qualm.runners mini/infer", None),
        ("python3 -m qualm.runners", None),
    ],
)
def test_only_the_command_of_compiled_stages(command: str, key: str | None) -> None:
    match = COMMAND.fullmatch(command)
    assert (match and match[1]) == key


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of our code, which a test may change."""
    for name in ("registry", "runners", "qualm"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "data", "store", "cards"))
    (tmp_path / "params.yaml").write_text("default: t\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_stage_says_what_it_would_say(project: Path) -> None:
    forks = Forks({**os.environ, "PYTHONPATH": str(project)})
    with (project / "words").open("w+b") as words, Path(os.devnull).open("rb") as nothing:
        streams = (nothing.fileno(), words.fileno(), words.fileno())
        environment = {**os.environ, "PYTHONPATH": str(project), "DVC_STAGE": "none"}
        assert forks.run("t/none", project, environment, streams) == 1
        assert "qualm: stage t/none: specs/t/stages/none.json: not found; run `qualm compile`" in (project / "words").read_text()
        assert forks.run("t/none", project.parent, environment, streams) is None  # not where the forks are
        state = (project / "runners/runtime/stage.py").stat()
        os.utime(project / "runners/runtime/stage.py", ns=(state.st_atime_ns, state.st_mtime_ns + 1))
        assert forks.run("t/none", project, environment, streams) is None  # its code has changed
        forks.close()
        assert forks.run("t/none", project, environment, streams) is None
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_stage_has_its_environment_and_nothing_of_that_of_the_forks(project: Path) -> None:
    own = {**os.environ, "PYTHONPATH": str(project), "DVC_STAGE": "none"}
    forks = Forks({**own, "QUALM_WORKERS": "many"})
    said = {}
    for name, environment in (("without", own), ("with", {**own, "QUALM_WORKERS": "several"})):
        with (project / name).open("w+b") as words, Path(os.devnull).open("rb") as nothing:
            assert forks.run("t/none", project, environment, (nothing.fileno(), words.fileno(), words.fileno())) == 1
        said[name] = (project / name).read_text()
    forks.close()
    assert "none.json: not found" in said["without"] and "WORKERS" not in said["without"]
    assert "several" in said["with"], "what is set otherwise is the stage's"


@pytest.mark.parametrize("settings", [Settings(devices=2), Settings(nodes=2), Settings(launcher="srun"), Settings(forks=False)])
def test_where_several_processes_do_a_stage_or_nobody_wants_it_dvc_starts_it(settings: Settings) -> None:
    import dvc.stage.run

    before = dvc.stage.run._run
    with started(settings) as forks, installed(forks):
        assert dvc.stage.run._run is before


def test_streams_are_the_files_that_dvc_names_or_our_own(tmp_path: Path) -> None:
    given = []
    forks: Any = SimpleNamespace(run=lambda key, folder, environment, streams: given.append((key, folder, environment, streams)) or 0)
    with (tmp_path / "words").open("wb") as words:
        for more in ({}, {"stdout": words}, {"stderr": words}):
            assert _waited(forks, "t/a", {"cwd": str(tmp_path), "env": {"A": "1"}, **more}) == 0
        own = words.fileno()
    assert given == [("t/a", tmp_path, {"A": "1"}, streams) for streams in ((0, 1, 2), (0, own, 2), (0, 1, own))]


def test_dvc_begins_stages_as_forks_and_all_else_itself(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dvc.stage.run
    from dvc.stage.exceptions import StageCmdFailedError

    begun = []
    monkeypatch.setattr(dvc.stage.run, "_run", lambda executable, command, **options: begun.append(command))
    monkeypatch.setenv("PYTHONPATH", str(project))
    before = signal.getsignal(signal.SIGINT)
    with (project / "words").open("w+b") as words, started(Settings()) as forks, installed(forks):
        options = {"cwd": str(project), "env": dict(os.environ), "stdout": words, "stderr": words}
        dvc.stage.run._run(None, "touch x", **options)
        with pytest.raises(StageCmdFailedError, match="exited with 1"):
            dvc.stage.run._run(None, "python3 -m qualm.runners t/none", **options)
        assert begun == ["touch x"] and "none.json: not found" in (project / "words").read_text()
        dvc.stage.run._run(None, "python3 -m qualm.runners t/none", **{**options, "cwd": str(project.parent)})
        assert begun == ["touch x", "python3 -m qualm.runners t/none"], "where forks cannot, DVC does"
    assert signal.getsignal(signal.SIGINT) is before
