"""SEED-Bench's released predictions, line by line, held to questions of the card and read by a judge."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.parts import find_parts
from qualm.registry.recordings.record import ReadOptions
from qualm.registry.recordings.seedbench import names, read
from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.models import ModelContext
from qualm.runners.plugins.judges.first_character import first_character
from qualm.runners.plugins.models.recorded import recorded
from qualm.runners.runtime.settings import Settings

FIXTURE = Path(__file__).resolve().parents[4] / "shared/fixtures/seedbench/GPT-4V_SEED-Bench-1.head50.txt"
LINE = '{"question_id": "101669", "prediction": "A", "gt_answer": "B"}'


def predictions(folder, *lines, name="GPT-4V.json"):
    path = folder / "evaluate_result" / "SEED-Bench-1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))
    return path


def test_objects_with_commas_between(tmp_path):
    path = predictions(tmp_path, f"{LINE},", LINE.replace("101669", "7").replace('"A"', '"The answer is C"'))
    assert names(path) == {("GPT-4V", "seedbench"), ("GPT-4V", "SEED-Bench-1")}
    first, second = read(path, ReadOptions())
    assert (first.where, first.id, first.draws, first.answer_index) == ("GPT-4V.json:1", "101669", [{"text": "A"}], 1)
    assert (second.id, second.draws, second.choices) == ("7", [{"text": "The answer is C"}], ("A", "B", "C", "D"))
    assert [p.format for p in find_parts(tmp_path)] == ["seedbench"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (LINE.replace('"101669"', "null"), "no id"),
        (LINE.replace('"A"', "3"), "no response"),
        (LINE.replace('"B"', '"E"'), "a right answer that is not a letter"),
        ('{"question_id": "1", "predic', "not JSON"),
    ],
)
def test_lines_that_are_none(tmp_path, line, reason):
    good, bad = read(predictions(tmp_path, LINE, line), ReadOptions())
    assert good.id == "101669" and isinstance(bad, Fault) and (bad.where, bad.reason) == ("GPT-4V.json:2", reason)


def test_other_files_are_not_taken_for_it(tmp_path):
    for name, text in (("a.json", "[]"), ("b.jsonl", '{"question_id": 1}'), ("c.png", LINE), ("SEED-Bench.json", '{"questions": []}')):
        (tmp_path / name).write_text(text)
        assert names(tmp_path / name) is None


@pytest.mark.skipif(not FIXTURE.is_file(), reason=f"SEED-Bench's released predictions are not at {FIXTURE}")
def test_released_predictions_against_questions(tmp_path):
    lines = FIXTURE.read_text().splitlines()
    rows = [json.loads(line.rstrip(",")) for line in lines]
    predictions(tmp_path, *lines)
    choices = ["one", "two", "three", "four"]
    right = ["ABCD".index(r["gt_answer"]) for r in rows]
    right[0] = (right[0] + 1) % 4  # a dataset that says otherwise
    given = [
        {"sample_id": r["question_id"], "question": "?", "choices": choices, "answer_index": i, "source": "seedbench"}
        for r, i in zip(rows, right, strict=True)
    ]
    model = recorded(ModelContext("m", tmp_path, None, Settings(progress=False)), source=str(tmp_path), run="GPT-4V", format="seedbench")
    found = model.lookup("seed", pa.Table.from_pylist(given, schema=SAMPLES)).to_pylist()
    assert [r["sample_id"] for r in found] == [r["question_id"] for r in rows[1:]]
    assert [f.reason for f in model.left_out] == ["another option is right there", "sample without an answer"]
    judged = first_character(["?"] * 49, [["", r["gt_answer"]] for r in rows[1:]], [row["text"] for row in found], [choices] * 49)
    assert sum(j.rating for j in judged) == sum(r["prediction"] == r["gt_answer"] for r in rows[1:]) == 33
