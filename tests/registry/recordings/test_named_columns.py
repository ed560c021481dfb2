"""Any table of ids, answers and references, whatever it is written in and whatever its columns are called."""

from __future__ import annotations

import base64
import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.recorded_samples import recorded_samples
from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.parts import choose, find_parts
from qualm.registry.recordings.record import ReadOptions, Record, RecordingError
from qualm.registry.sample import Image, Sample
from tests.support.data.small_pictures import png

ROWS: list[dict[str, Any]] = [
    {"id": "q1", "question": "Colour?", "answer": "red", "prediction": "It is red."},
    {"id": "q2", "question": "How many?", "answer": "3", "prediction": "4"},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="") as handle:
            writer = csv.DictWriter(handle, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for cells in (list(rows[0]), *(list(row.values()) for row in rows)):
            book.active.append(cells)
        book.save(path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(rows))
    return path


def records(source: Path, run: str | None = None, **fields: str) -> list[Record]:
    how = ReadOptions(fields, run=run)
    part = choose(source, find_parts(source, "auto", how), run, None)
    found = list(part.read(how))
    assert not [item for item in found if isinstance(item, Fault)]
    return [item for item in found if isinstance(item, Record)]


def said(made: list[Record]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(r.id, r.draws[0]["text"], r.references) for r in made]


LONG = 'Let me see:\n- first, second, third, fourth\n- "quoted", yes\n\nAnswer: red, or\treddish'


@pytest.mark.parametrize("suffix", ["json", "jsonl", "csv", "xlsx", "parquet"])
def test_long_replies_of_several_lines(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / f"gpt.{suffix}", [{**row, "prediction": LONG} for row in ROWS])
    assert [r.draws[0]["text"] for r in records(tmp_path)] == [LONG, LONG]


EXPECTED = [("q1", "It is red.", ("red",)), ("q2", "4", ("3",))]


@pytest.mark.parametrize("suffix", ["json", "jsonl", "csv", "tsv", "xlsx", "parquet"])
def test_every_kind_of_file(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / f"gpt.{suffix}", ROWS)
    made = records(tmp_path)
    assert said(made) == EXPECTED
    assert [r.question for r in made] == ["Colour?", "How many?"]


@pytest.mark.parametrize(
    "content",
    [
        {row["id"]: {k: v for k, v in row.items() if k != "id"} for row in ROWS},
        {"config": {"temperature": 0}, "results": ROWS},
        {key: [row[key] for row in ROWS] for key in ROWS[0]},
        {"columns": list(ROWS[0]), "data": [list(row.values()) for row in ROWS]},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_shapes_of_json(tmp_path: Path, content: Any, indent: int | None) -> None:
    (tmp_path / "gpt.json").write_text(json.dumps(content, indent=indent))
    assert said(records(tmp_path)) == EXPECTED


def test_json_lines_under_the_name_json_and_answers_by_id(tmp_path: Path) -> None:
    (tmp_path / "gpt.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert said(records(tmp_path)) == EXPECTED
    (tmp_path / "gpt.json").write_text(json.dumps({"q1": "red", "q2": "4"}))
    assert said(records(tmp_path)) == [("q1", "red", ()), ("q2", "4", ())]


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        (("question_id", "gt_answer", "response"), {}),
        (("pid", "ground_truth", "model_answer"), {}),
        (("Index", "Reference", "Output"), {}),
        (("key", "truth", "says"), {"id": "key", "target": "truth", "prediction": "says"}),
        (("qid", "label", "answer"), {"prediction": "answer"}),
    ],
)
def test_names_of_columns(tmp_path: Path, names: tuple[str, ...], fields: dict[str, str]) -> None:
    renamed = dict(zip(("id", "answer", "prediction"), names, strict=True))
    write(tmp_path / "gpt.json", [{renamed.get(k, k): v for k, v in row.items()} for row in ROWS])
    assert said(records(tmp_path, **fields)) == EXPECTED


def test_two_columns_that_could_be_meant_are_named(tmp_path: Path) -> None:
    write(tmp_path / "gpt.json", [{**ROWS[0], "response": "long"}])
    with pytest.raises(RecordingError, match=r"prediction and response could each be the answer of the model; say which, `fields: \{pred"):
        records(tmp_path)
    assert records(tmp_path, prediction="response")[0].draws == [{"text": "long"}]
    write(tmp_path / "gpt.json", [{**ROWS[0], "gt": "blue"}])
    with pytest.raises(RecordingError, match="answer and gt could each be the reference"):
        records(tmp_path)
    with pytest.raises(RecordingError, match=r"fields: target: no column 'truth'; there are: id, question"):
        records(tmp_path, target="truth")


def test_models_are_files_folders_or_a_column(tmp_path: Path) -> None:
    for model in ("gpt", "llava"):
        write(tmp_path / "flat" / f"{model}.json", [{**row, "prediction": model} for row in ROWS])
        write(tmp_path / "folders" / model / "vqa.jsonl", [{**row, "prediction": model} for row in ROWS])
        write(tmp_path / "tasks" / "vqa" / f"{model}.csv", [{**row, "prediction": model} for row in ROWS])
    write(tmp_path / "column" / "all.parquet", [{**row, "model": m, "prediction": m} for m in ("gpt", "llava") for row in ROWS])
    for layout in ("flat", "folders", "tasks", "column"):
        for model in ("gpt", "llava"):
            assert {r.draws[0]["text"] for r in records(tmp_path / layout, model)} == {model}
            assert len(records(tmp_path / layout, model)) == 2
    tasks = {layout: {t for p in find_parts(tmp_path / layout) for _, t in p.names} for layout in ("flat", "folders", "tasks", "column")}
    assert tasks == {"flat": {"flat"}, "folders": {"vqa"}, "tasks": {"vqa"}, "column": {"all"}}


def questions(source: Path, **args: Any) -> tuple[list[Sample], list[Image]]:
    items = list(recorded_samples(AdapterContext(source, source=source), format="table", **args))
    return [i for i in items if isinstance(i, Sample)], [i for i in items if isinstance(i, Image)]


def test_questions_come_from_the_first_of_several_models(tmp_path: Path) -> None:
    for model in ("gpt", "llava"):
        write(tmp_path / f"{model}.json", ROWS)
    samples, _ = questions(tmp_path)
    assert [(s.sample_id, s.question, s.references) for s in samples] == [("q1", "Colour?", ("red",)), ("q2", "How many?", ("3",))]


@pytest.mark.parametrize(
    "options",
    [{"choices": ["cat", "dog"]}, {"options": "['cat', 'dog']"}, {"A": "cat", "B": "dog"}, {"options": '["cat", "dog"]'}],
)
@pytest.mark.parametrize("answer", ["B", "dog"])
def test_options_in_a_list_or_in_columns(tmp_path: Path, options: dict[str, Any], answer: str) -> None:
    write(tmp_path / "gpt.json", [{"id": 1, "question": "Which?", **options, "answer": answer, "prediction": "(B)"}])
    (sample,), _ = questions(tmp_path)
    assert (sample.sample_id, sample.choices, sample.answer_index) == ("1", ("cat", "dog"), 1)


def test_an_empty_column_between_options_moves_no_letter(tmp_path: Path) -> None:
    row = {"A": "cat", "B": "dog", "C": "", "D": "cow", "E": "pig", "answer": "D", "prediction": "D"}
    write(tmp_path / "m.json", [{"id": 1, "question": "Which?", **row}])
    (sample,), _ = questions(tmp_path)
    assert (sample.choices, sample.answer_index) == (("cat", "dog", "", "cow", "pig"), 3)


@pytest.mark.parametrize(("answer_is", "place"), [("letter", 2), ("text", 1)])
def test_options_that_are_letters_in_another_order(tmp_path: Path, answer_is: Any, place: int) -> None:
    """As in MMMU-Pro, where 32 questions have options such as B, C, D, A; MathVista's reference answers are texts."""
    rows = [{"id": "q", "question": "Which?", "options": ["B", "C", "D", "A"], "answer": "C", "prediction": "C"}]
    write(tmp_path / "m.json", rows)
    with pytest.raises(AdapterError, match="say `answer_is: letter` or `answer_is: text`"):
        questions(tmp_path)
    ((sample,), _) = questions(tmp_path, answer_is=answer_is)
    assert sample.answer_index == place


def test_an_option_may_look_like_a_list(tmp_path: Path) -> None:
    """As in MathVista: `[0, 2]` is one of the options and not two reference answers."""
    write(tmp_path / "m.json", [{"id": "q", "choices": ["[3, 2]", "[0, 2]"], "answer": "[0, 2]", "prediction": "B"}])
    ((sample,), _) = questions(tmp_path)
    assert (sample.answer_index, sample.references) == (1, ())


def test_numbered_rows_with_ids_are_a_table(tmp_path: Path) -> None:
    """As in MathVista; OpenCompass numbers its entries, which have no ids, in the same way."""
    row = {"pid": "1", "question": "How many?", "answer": "3", "response": "It is 3.", "prediction": "3"}
    (tmp_path / "output_m.json").write_text(json.dumps({"1": row}))
    assert said(records(tmp_path, "output_m", prediction="response")) == [("1", "It is 3.", ("3",))]


def test_ids_may_hold_the_category(tmp_path: Path) -> None:
    """As in BLINK, whose files map ids to letters."""
    (tmp_path / "m.json").write_text(json.dumps({"val_Art_Style_1": "(A)", "val_IQ_Test_12": "(B)"}))
    how: dict[str, Any] = {"fields": {"prediction": "prediction", "target": "prediction"}}
    samples, _ = questions(tmp_path, category_in_id=r"val_(.+)_\d+", **how)
    assert [(s.category, s.references) for s in samples] == [("Art_Style", ("(A)",)), ("IQ_Test", ("(B)",))]
    for pattern, message in (
        ("(", "not a regular expression"),
        ("val_.+", "has 0 groups"),
        (r"val_(Art.+)_\d+", "does not fit the id 'val_IQ_Test_12'"),
    ):
        with pytest.raises(AdapterError, match=message):
            questions(tmp_path, category_in_id=pattern, **how)


def test_several_answers_and_images_in_the_row(tmp_path: Path) -> None:
    picture = base64.b64encode(png(3)).decode()
    row = {"id": 7.0, "question": "?", "answer": ["a", "b"], "prediction": ["x", "y"], "image": picture, "level": "hard"}
    write(tmp_path / "gpt.json", [row])
    (record,) = records(tmp_path)
    assert (record.id, record.references, [d["text"] for d in record.draws]) == ("7", ("a", "b"), ["x", "y"])
    assert record.meta == {"level": "hard"}
    (sample,), (image,) = questions(tmp_path)
    assert image.data == png(3) and sample.image_id == image.image_id


def test_rows_without_id_or_answer_are_faults(tmp_path: Path) -> None:
    write(tmp_path / "gpt.json", [*ROWS, {**ROWS[0], "id": None}, {**ROWS[0], "id": "q3", "prediction": None}])
    (part,) = find_parts(tmp_path)
    faults = [item for item in part.read(ReadOptions()) if isinstance(item, Fault)]
    assert [fault.reason for fault in faults] == ["no id", "no answer"]


def test_a_tool_of_its_own_comes_before_plain_tables(tmp_path: Path) -> None:
    write(tmp_path / "gpt.json", ROWS)
    write(tmp_path / "config.json", [{"temperature": 0}])
    assert [part.format for part in find_parts(tmp_path)] == ["table"]
    write(tmp_path / "m_d.tsv", [{"index": 1, "question": "?", "answer": "x", "prediction": "x"}])
    assert [part.format for part in find_parts(tmp_path)] == ["vlmevalkit"]


def test_nothing_that_could_be_read(tmp_path: Path) -> None:
    write(tmp_path / "a.json", [{"key": 1, "says": "no usual names"}])
    with pytest.raises(
        RecordingError, match=r"no recording of .*table in it; .*`fields: \{id: NAME, prediction: NAME\}` names .*; a.json has: key, says"
    ):
        find_parts(tmp_path)


REPLIES = Path(__file__).parents[4] / "shared/fixtures/replies"


@pytest.mark.skipif(not REPLIES.is_dir(), reason="the fixtures are not beside the repository")
def test_replies_of_four_real_models(tmp_path: Path) -> None:
    (tmp_path / "blink.json").write_bytes((REPLIES / "blink_long_replies.json").read_bytes())
    runs = {run for part in find_parts(tmp_path) for run, _ in part.names}
    assert len(runs) == 4
    made = [records(tmp_path, run) for run in sorted(runs)]
    assert sum(map(len, made)) == 600
    assert all(r.references and r.draws[0]["text"] for of_model in made for r in of_model)
