"""The pipeline, drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes.command_line import qualm


@pytest.mark.parametrize(("form", "start"), [("mermaid", "flowchart LR"), ("dot", "digraph"), ("svg", "<svg")])
def test_graphs(form: str, start: str) -> None:
    done = qualm("graph", "quickstart", "--format", form)
    assert done.returncode == 0
    assert done.stdout.startswith(start)
    assert "infer x 3" in done.stdout


def test_the_svg_graph_is_well_formed() -> None:
    from xml.etree import ElementTree

    ElementTree.fromstring(qualm("graph", "quickstart", "--format", "svg", "--full").stdout)


def test_a_graph_in_a_file(tmp_path: Path) -> None:
    done = qualm("graph", "quickstart", "-o", str(tmp_path / "g.mmd"))
    assert done.stdout == f"wrote {tmp_path / 'g.mmd'}\n" and (tmp_path / "g.mmd").read_text().startswith("flowchart LR\n")
