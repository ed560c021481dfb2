"""The walk notes calls from room to room, and no others."""

from __future__ import annotations

import json
from pathlib import Path

from qualm.registry.plugins.imports import read_facts
from qualm.registry.system import textfiles
from tests.bench.walk import ROOT, room_of, walk


def test_a_plugin_s_room_is_its_folder() -> None:
    assert room_of(str(ROOT / "runners/plugins/metrics/ece.py")) == "runners/plugins/metrics"
    assert room_of(str(ROOT / "qualm/runners/scoring/bootstrap.py")) == "runners/scoring"
    assert room_of(str(ROOT / "runners/__main__.py")) is None, "as `house` counts"
    assert room_of(str(ROOT / "tests/bench/walk.py")) is None
    assert room_of(json.__file__) is None


def test_a_call_between_rooms_is_noted_and_one_within_a_room_is_not(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("import json\n")
    noted = walk(lambda: read_facts(file, "module"))
    assert noted.rooms == ["registry/plugins", "registry/system"]
    assert noted.calls == {("registry/plugins", "registry/system"): 1}
    assert noted.both_ways == []
    assert walk(lambda: textfiles.read_text(file)).calls == {}
