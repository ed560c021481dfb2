"""What people found valid of a data set without pairs, as the report's table says it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from qualm.runners.reporting.sections.data_sets import data_sets


def share(name: str, **counts: int) -> dict[str, Any]:
    kinds = {k: counts.get(k, 0) for k in ("valid", "invalid", "misplaced", "unresolved", "unreviewed")}
    decided = sum(n for k, n in kinds.items() if k != "unreviewed")
    found = {"share": kinds["valid"] / decided, "low": 0.1, "high": 0.9} if decided else {"share": None, "low": None, "high": None}
    return {"category": name, **kinds, **found}


def test_a_data_set_that_people_curated(tmp_path: Path) -> None:
    facts = {
        "splits": ["val"], "unreviewed": "drop", "decisions": {"applied": 5, "skipped": 0, "stale": 1, "gone": 1},
        "unit": "question", "units": {"all": 6, "kept": 2, "dropped": {"misplaced": 3, "unreviewed": 1}},
        "categories": [share("other", valid=2, misplaced=3, unreviewed=1), share("all", valid=2, misplaced=3, unreviewed=1)],
        "subsets": [share("image", valid=2, misplaced=3), share("text", unreviewed=1)],
        "agreement": {"reviewers": [{"reviewer": "ann", "valid": 2, "invalid": 0, "misplaced": 3}], "shared": 0},
    }  # fmt: skip
    (tmp_path / "verification.json").write_text(json.dumps(facts))
    stage = SimpleNamespace(params={}, inputs={"datasets": {"photos": str(tmp_path), "other": str(tmp_path / "none")}})
    (block,) = data_sets(SimpleNamespace(stage=stage))  # type: ignore[arg-type]
    (sheet,) = block.sheets
    assert sheet.header == ["category", "valid (Wilson 95%)", "valid", "invalid", "wrong subset", "tied", "unreviewed"]
    assert [r[0] for r in sheet.rows] == ["other", "all", "subset image", "subset text"]
    assert sheet.rows[2][1:] == ["40.0% (10.0% – 90.0%)", "2", "0", "3", "0", "0"]
    assert sheet.rows[3][1] == "undefined: none decided"
    assert "decided val questions" in sheet.note and "Of 6 questions 2 stay (dropped: 3 wrong subset, 1 unreviewed)." in sheet.note
    assert "2 decisions were about questions that have changed" in sheet.note and "pair" not in sheet.note
    assert block.sentences == ["One reviewer (ann) has decided; agreement needs two."]
