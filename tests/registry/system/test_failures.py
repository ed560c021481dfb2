"""Unexpected errors: one line for the terminal, a log with traceback and versions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from qualm.registry.system.failures import MAX_CHARACTERS, TRACEBACK, log_error, print_traceback, summarize_error
from qualm.registry.system.versions import describe_versions


def raised() -> Exception:
    try:
        raise KeyError("absent") from ValueError("the \ud800 reason")
    except KeyError as error:
        return error


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError("CUDA error\n  in kernel"), "RuntimeError: CUDA error in kernel"),
        (AssertionError(), "AssertionError"),
        (ValueError("a" * 1000), f"ValueError: {'a' * MAX_CHARACTERS}..."),
    ],
)
def test_the_summary_is_one_line(error: Exception, summary: str) -> None:
    assert summarize_error(error) == summary


def test_the_log_has_the_traceback_with_causes_and_the_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = log_error(raised(), "quickstart/score", tmp_path)
    (log,) = (tmp_path / ".qualm/logs").iterdir()
    assert said == f"traceback in .qualm/logs/{log.name}" and log.name.startswith("quickstart.score-20")
    text = log.read_text()
    assert "\n".join(describe_versions()) in text
    assert "ValueError: the \\ud800 reason" in text and f'File "{__file__}"' in text and text.endswith("KeyError: 'absent'\n")


def test_logs_of_one_second_are_apart(tmp_path: Path) -> None:
    assert len({log_error(raised(), "a", tmp_path) for _ in range(5)}) == 5


def test_outside_of_a_project_the_log_is_a_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    said = log_error(raised(), "qualm-init", None)
    (log,) = tmp_path.iterdir()
    assert said == f"traceback in {log}"


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / ".qualm").write_text("a file")
    said = log_error(raised(), "a", tmp_path)
    assert said.startswith("traceback not written (") and said.endswith(f"{TRACEBACK}=1 prints it")


def test_the_traceback_is_printed_only_if_the_environment_asks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(TRACEBACK, raising=False)
    print_traceback(KeyError("x"))
    assert capsys.readouterr().err == ""
    monkeypatch.setenv(TRACEBACK, "1")
    print_traceback(KeyError("x"))
    assert capsys.readouterr().err == "KeyError: 'x'\n"
