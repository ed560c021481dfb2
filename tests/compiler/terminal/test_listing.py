from __future__ import annotations

from pathlib import Path

import pytest

from qualm.compiler.terminal.listing import plugin_table, print_plugin
from qualm.registry.plugins import rule


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_list_of_plugins_fits_the_terminal_and_cuts_no_word(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    plugin_table(None, as_json=False)
    told = capsys.readouterr().out
    lines = told.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= columns
    assert "…" not in told, "a name of a file that is cut is no name"
    assert [line for line in lines if line in rule.KINDS] == list(rule.KINDS), "a heading for every kind, in their order"
    listed = {line.split()[0] for line in lines if line[:1].strip()}
    assert {n for k in rule.KINDS for n in rule.names(k)} <= listed


def test_one_kind_is_listed_with_the_names_of_its_parameters(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    plugin_table("perturbations", as_json=False)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("cutout"))
    assert "takes: ratio, of, fill" in lines[at : at + 3]
    assert lines[-1] == "`qualm ls perturbations NAME` explains one"


def test_a_plugin_is_where_it_is_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(rule.ROOT)
    print_plugin("metrics", "ece", as_json=False)
    assert capsys.readouterr().out.startswith("ece  (metrics, runners/plugins/metrics/ece.py)\n")
    monkeypatch.chdir(tmp_path)
    print_plugin("metrics", "ece", as_json=False)
    assert f"(metrics, {rule.ROOT}/runners/plugins/metrics/ece.py)" in capsys.readouterr().out
