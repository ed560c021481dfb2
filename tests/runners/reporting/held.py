"""What a section of the report shows, whole, held to tests/golden/sections.json: every sentence, number, order and row that is drawn.

After a change that is meant: HELD=write pytest tests/runners/reporting/sections
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from qualm.runners.reporting import charts

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "sections.json"
DRAWINGS = (
    "lines",
    "rank_lines",
    "dumbbells",
    "scatter",
    "bars",
    "dots",
    "ranked_dots",
    "reliability",
    "risk_coverage",
    "set_sizes",
    "quartiles",
)


def rows_of_drawings(patch: pytest.MonkeyPatch) -> None:
    """Have every drawing be the rows that it is given, which are easier to compare than shapes; those have golden files of their own."""
    for kind in DRAWINGS:
        patch.setattr(charts, kind, lambda *given, kind=kind, **named: [kind, *given, named])


def held(name: str, shown: Any, folder: Path) -> None:
    """Compare with the golden file; pictures but by their kind, and paths but below `folder`."""
    text = json.dumps(shown, default=_plain, ensure_ascii=False, indent=1, sort_keys=True).replace(f"{folder}/", "")
    plain = json.loads(text, parse_float=lambda number: float(f"{float(number):.9g}"))
    golden = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    if os.environ.get("HELD") == "write":
        lines = [f"{json.dumps(key)}: {json.dumps(of, ensure_ascii=False)}" for key, of in sorted({**golden, name: plain}.items())]
        GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        return
    assert plain == golden[name]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return sorted(value) if isinstance(value, set | frozenset) else str(value)
