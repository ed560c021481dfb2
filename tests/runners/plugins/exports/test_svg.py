"""Figures in SVG: files that need nothing else."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from qualm.runners.plugins.exports.svg import svg
from tests.runners.plugins.exports.test_figures import drawable


def test_files_stand_alone(tmp_path: Path) -> None:
    made = drawable(tmp_path)
    svg(made, width="120")
    files = sorted(made.folder.iterdir())
    assert len(files) == made.counts["figures"] == 7
    for file in files:
        root = ET.parse(file).getroot()
        assert root.get("width") == "340.16pt" and not any("href" in name for e in root.iter() for name in e.attrib)
        assert [e.tag.rpartition("}")[2] for e in root][:2] == ["title", "desc"] and root[1].text
