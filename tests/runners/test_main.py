"""The command of every stage: its exit statuses, what it says, and in which order it locks, runs and records."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from qualm.registry.system.failures import TRACEBACK
from qualm.registry.text import ProjectError
from qualm.runners import __main__ as command
from qualm.runners.inference.devices import DeviceError
from qualm.runners.runtime.settings import Settings, SettingsError
from qualm.runners.runtime.stage import PluginFailedError, StageError


@pytest.fixture
def stage(monkeypatch, tmp_path):
    """A stage without files: `done` is what was done for it in order; `launcher`, `parallel`, `first` and `work` may be changed."""
    of = SimpleNamespace(done=[], launcher="", parallel=True, first=True, work=lambda stage: None)
    counters = Counter()

    def run(one):
        of.done.append("run")
        of.work(one)

    @contextlib.contextmanager
    def only_writer(one):
        of.done.append("lock")
        yield
        of.done.append("unlock")

    def read_stage(key, settings):
        assert key == "s/x"
        return SimpleNamespace(kind="score", settings=settings, counters=counters)

    def tell(event, **facts):
        of.done.append((event, facts["stage"], facts["counts"]) if event == "done" else (event, facts["stage"]))

    for name, stands in {
        "registry.system.guard.guard": lambda: of.done.append("guard"),
        "runners.runtime.die_with_parent.die_with_parent": lambda: of.done.append("bound"),
        "runners.runtime.settings.read_settings": lambda: Settings(launcher=of.launcher),
        "runners.runtime.settings.is_first": lambda: of.first,
        "runners.runtime.stage.read_stage": read_stage,
        "runners.runtime.stage.only_writer": only_writer,
        "runners.runtime.stage.write_record": lambda one, seconds: of.done.append("record") or of.done.append(0 <= seconds < 60),
        "runners.runtime.intact.check_inputs": lambda one, root: of.done.append(("inputs", root)),
        "runners.contracts.stages.stage_kind": lambda kind: SimpleNamespace(parallel=of.parallel, run=lambda: run),
        "runners.runtime.status.tell": tell,
    }.items():
        monkeypatch.setattr(f"qualm.{name}", stands)
    for name in (command.LAUNCHED, "QUALM_STATUS_FILE", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    of.counters = counters
    return of


BEGUN = ["guard", "bound", ("started", "s/x")]


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["a/b", "c/d"], 2), (["-h"], 0), (["--help"], 0), (["-h", "a/b"], 0)])
def test_how_it_is_called(arguments, code, capsys, stage):
    assert command.main(arguments) == code and stage.done == []
    assert capsys.readouterr().err.startswith("usage: python -m qualm.runners SPEC/STAGE")


def test_a_stage_runs_behind_its_lock_and_is_recorded(stage, capsys):
    assert command.main(["s/x"]) == 0
    assert stage.done == [*BEGUN, ("inputs", Path.cwd()), "lock", "run", "record", True, "unlock"]
    assert capsys.readouterr().out.startswith("s/x: done (0.") and os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    stage.counters |= Counter({"rows": 1200, "bytes": 3})
    assert command.main(["s/x"]) == 0 and capsys.readouterr().out.startswith("s/x: 1,200 rows, 3 bytes (0.")


def test_what_it_counted_is_told_to_whoever_reads(stage, monkeypatch, capsys):
    monkeypatch.setenv("QUALM_STATUS_FILE", "here")
    stage.counters["rows"] = 2
    assert command.main(["s/x"]) == 0 and stage.done[-1] == ("done", "s/x", "2 rows") and capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (StageError("no such file"), 1, "qualm: stage s/x: no such file\n"),
        (ProjectError("'s' has no dataset 'd'"), 1, "qualm: stage s/x: 's' has no dataset 'd'\n"),
        (DeviceError("no float64"), 1, "qualm: stage s/x: no float64\n"),
        (SettingsError("odd"), 1, "qualm: stage s/x: odd\n"),
        (ModuleNotFoundError("m", name="torch.nn"), 1, "qualm: stage s/x: torch.nn is not installed: `pip install 'qualm-bench["),
        (
            OSError(28, "No space left", "t.parquet"),
            1,
            "qualm: stage s/x: t.parquet: the disk is full; make room (`df -h` shows where), then",
        ),
        (KeyboardInterrupt(), 130, "qualm: stage s/x: interrupted; what was done is kept"),
    ],
)
def test_how_it_fails(stage, capsys, error, code, said):
    def work(one):
        raise error

    stage.work = work
    assert command.main(["s/x"]) == code and capsys.readouterr().err.startswith(said) and "record" not in stage.done


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("absent"), "unexpected KeyError: 'absent'"),
        (ModuleNotFoundError("no module", name="surely_nobodys"), "unexpected ModuleNotFoundError: no module"),
        (ConnectionResetError("reset"), "unexpected ConnectionResetError: reset"),
        (
            PluginFailedError("mine.py:3: mine: failed on metric 'mine': KeyError: 'x'"),
            "mine.py:3: mine: failed on metric 'mine': KeyError: 'x'",
        ),
    ],
)
def test_an_unexpected_error_is_one_line_and_a_log(stage, capsys, monkeypatch, error, said):
    def work(one):
        raise error

    stage.work = work
    monkeypatch.delenv(TRACEBACK, raising=False)
    assert command.main(["s/x"]) == 1 and "record" not in stage.done
    (log,) = Path(".qualm/logs").iterdir()
    assert capsys.readouterr().err == f"qualm: stage s/x: {said}; traceback in {log}\n" and log.name.startswith("s.x-")
    text = log.read_text()
    assert "in work" in text and "\nbase: " in text
    monkeypatch.setenv(TRACEBACK, "1")
    assert command.main(["s/x"]) == 1
    said_too = capsys.readouterr().err
    assert said_too.startswith("Traceback ") and said_too.splitlines()[-1].startswith(f"qualm: stage s/x: {said}; ")


def test_a_launcher_starts_the_stage_where_it_can_be_shared(stage, monkeypatch, capsys):
    calls = []

    def started(words, env, check):
        calls.append((words, env[command.LAUNCHED], check))
        return SimpleNamespace(returncode=3)

    monkeypatch.setattr("subprocess.run", started)
    stage.launcher = "srun --comment 'a b'"
    assert command.main(["s/x"]) == 3 and stage.done == [*BEGUN, ("inputs", Path.cwd())]
    assert calls == [(["srun", "--comment", "a b", sys.executable, "-P", "-m", "qualm.runners", "s/x"], "1", False)]
    stage.parallel = False
    assert command.main(["s/x"]) == 0 and "run" in stage.done and len(calls) == 1
    stage.parallel, stage.done = True, []
    monkeypatch.setenv(command.LAUNCHED, "1")
    assert command.main(["s/x"]) == 0 and stage.done == [*BEGUN, "lock", "run", "record", True, "unlock"] and len(calls) == 1


def test_a_launcher_that_is_not_there(stage, capsys):
    stage.launcher = "/nowhere/srun"
    assert command.main(["s/x"]) == 1
    assert capsys.readouterr().err.startswith("qualm: stage s/x: the launcher of qualm.toml cannot be started: ")


def test_other_processes_of_a_training_hold_no_lock_and_record_nothing(stage, capsys):
    stage.first = False
    assert command.main(["s/x"]) == 0 and stage.done == [*BEGUN, "run"] and capsys.readouterr().out == ""
