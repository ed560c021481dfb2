"""`dvc repro` of a spec that reads a model of another spec builds that model first; editing the other spec rebuilds both."""

from pathlib import Path

import pytest

from tests.end_to_end.clone import make_clone

pytestmark = pytest.mark.slow

MAKER = """\
qualm: 1
name: maker
datasets:
  lessons: {card: synthetic_scenes, level: easy, format: open, train: 8, test: 0}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
finetunes:
  tuned: {sft: {base: base, train: [lessons], steps: 2, batch: 8}}
"""
READER = """\
qualm: 1
name: reader
datasets:
  asked: {card: synthetic_scenes, level: easy, format: open, test: 6}
models:
  theirs: {hf_vlm: {artifact: "maker:tuned"}}
judges: [rules]
metrics: [accuracy]
"""
MADE = {"data-lessons", "finetune-tuned"}
READ = {"data-asked", "infer-theirs-asked", "judge", "score", "report"}


def test_the_other_spec_is_built_first(tmp_path: Path) -> None:
    clone = make_clone(tmp_path / "clone", forked=True)
    (clone.root / "specs/maker.yaml").write_text(MAKER)
    (clone.root / "specs/reader.yaml").write_text(READER)
    clone.qualm("compile", "maker", "reader")
    assert set(clone.forecast("reader").values()) <= {"run", "perhaps"}
    assert clone.repro("specs/reader/dvc.yaml") == MADE | READ
    assert clone.repro("specs/reader/dvc.yaml") == set()
    assert set(clone.forecast("reader").values()) == {"unchanged"}
    (clone.root / "specs/maker.yaml").write_text(MAKER.replace("steps: 2", "steps: 3"))
    clone.qualm("compile", "maker", "reader")
    assert clone.forecast("reader")["infer-theirs-asked"] == "perhaps"
    executed = clone.repro("specs/reader/dvc.yaml")
    assert {"finetune-tuned", "infer-theirs-asked"} <= executed and "data-asked" not in executed
