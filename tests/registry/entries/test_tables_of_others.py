"""Tables as others publish them: `data new` proposes, `data check` reads, and `data add` takes the same files."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.image_table import image_table
from qualm.registry.entries.card import load_card, read_card
from qualm.registry.entries.cli import app
from qualm.registry.entries.infer_columns import Proposal, propose
from qualm.registry.entries.layout import inspect
from qualm.registry.entries.new_card import write
from qualm.registry.formats.pictures import decoded, suffixes
from qualm.registry.sample import IMAGE_STRUCT, Image, Sample

CASES = Path(__file__).parents[4] / "shared/fixtures/cases"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the fixtures are not beside the repository")


def drawn(level: int = 0, form: str = "PNG", mode: str = "RGB", **how: Any) -> bytes:
    with io.BytesIO() as file:
        PIL.Image.fromarray(np.full((16, 16, 3), level, np.uint8)).convert(mode).save(file, form, **how)
        return file.getvalue()


def read(folder: Path, **changes: Any) -> tuple[Proposal, list[Sample], list[Image]]:
    """Read a folder as `data new` proposes it."""
    proposal = propose(folder)
    assert proposal.adapter == "image_table"
    items = list(image_table(AdapterContext(folder, source=folder), **{**proposal.args, **changes}))
    return proposal, [i for i in items if isinstance(i, Sample)], [i for i in items if isinstance(i, Image)]


def parquet(folder: Path, columns: dict[str, Any], name: str = "test.parquet") -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / name)
    return folder


def images(*levels: int) -> pa.Array:
    return pa.array([{"bytes": drawn(level), "path": None} for level in levels], IMAGE_STRUCT)


QUESTIONS = {"question": ["a?", "b?"]}


@pytest.mark.parametrize(
    ("column", "values", "references"),
    [
        ("answers", [[{"answer": "x", "answer_id": 1}, {"answer": "y", "answer_id": 2}], [{"answer": "z", "answer_id": 1}]], ["x y", "z"]),
        ("answer", [{"text": ["x"], "start": [1]}, {"text": [], "start": []}], ["x", ""]),
        ("answers", [{"text": ["x", "y"], "answer_start": [1, 2]}, None], ["x y", ""]),
        ("answer", pa.array([0.1, 3.0], pa.float32()), ["0.1", "3"]),
        ("answer", pa.array([0.1, 1e-3], pa.float16()), ["0.1", "0.001"]),
        ("answers", pa.array([[0.1, 0.7], [2.5]], pa.list_(pa.float32())), ["0.1 0.7", "2.5"]),
        ("answers", pa.array([[{"answer": 0.1}], [{"answer": None}]], pa.list_(pa.struct([("answer", pa.float32())]))), ["0.1", ""]),
        ("answer", pa.array([0.1, 2.0**53 + 2]), ["0.1", "9007199254740994"]),
        ("answer", ["red|blue", "green"], ["red blue", "green"]),
        ("answer", ["|x| = 3", "P(A|B)"], ["|x| = 3", "P(A|B)"]),
        ("answer", [None, ""], ["", ""]),
    ],
)
def test_answers_of_every_shape(tmp_path: Path, column: str, values: Any, references: list[str]) -> None:
    _, samples, pictures = read(parquet(tmp_path, {"image": images(1, 2), **QUESTIONS, column: values}))
    assert [" ".join(s.references) for s in samples] == references
    assert len(pictures) == 2


def test_options_as_python_text_and_numbered_images(tmp_path: Path) -> None:
    options = ["['a', 'b', 'c']", "['It\\'s x', \"y\", 'z']", "[]"]
    columns = {
        "id": ["v_1", "v_2", "v_3"],
        "question": ["What is <image 1>?", "Compare <image 1> and <image 2>", "How many?"],
        "options": options,
        "answer": ["B", "A", "['24/7', '3.4']"],
        "question_type": ["multiple-choice", "multiple-choice", "open"],
        "image_1": images(1, 2, 3),
        "image_2": pa.array([None, {"bytes": drawn(4), "path": None}, None], IMAGE_STRUCT),
    }
    proposal, samples, pictures = read(parquet(tmp_path, columns))
    assert proposal.args["image"] == ["image_1", "image_2"]
    assert proposal.args["answer_is"] == "letter"
    assert [s.choices for s in samples] == [("a", "b", "c"), ("It's x", "y", "z"), ()]
    assert [s.answer_index for s in samples] == [1, 0, None]
    assert samples[2].references == ("24/7", "3.4")
    assert len(pictures) == 4


@pytest.mark.parametrize("written", ["base64", "data URI", "bytes of base64", "lines"])
def test_images_as_text_in_a_column(tmp_path: Path, written: str) -> None:
    text = base64.b64encode(drawn(7)).decode()
    cell: Any = {
        "base64": text,
        "data URI": f"data:image/png;base64,{text}",
        "bytes of base64": text.encode(),
        "lines": "\n".join(text[i : i + 76] for i in range(0, len(text), 76)),
    }[written]
    _, samples, pictures = read(parquet(tmp_path, {"photo_b64": [cell, cell], **QUESTIONS, "answer": ["x", "y"]}))
    assert [image.data for image in pictures] == [drawn(7)]
    assert samples[0].image_id == samples[1].image_id == pictures[0].image_id
    (tmp_path / "test.parquet").unlink()
    if isinstance(cell, str):
        (tmp_path / "test.jsonl").write_text(json.dumps({"image": cell, "question": "a?", "answer": "x"}))
        assert [image.data for image in read(tmp_path)[2]] == [drawn(7)]


def test_a_long_text_that_holds_no_image_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text(json.dumps({"image": "A" * 4000, "question": "a?", "answer": "x"}))
    with pytest.raises(Exception, match="expected an image as a path, bytes or base64, got a text of 4,000 characters"):
        read(tmp_path)


def test_nested_json(tmp_path: Path) -> None:
    rows = [{"doc": {"question": f"{i}?", "media": {"image": f"{i}.png"}}, "gold": {"answer": {"text": [f"a{i}"]}}} for i in range(2)]
    (tmp_path / "test.json").write_text(json.dumps(rows, indent=1))
    for i in range(2):
        (tmp_path / f"{i}.png").write_bytes(drawn(i))
    proposal, samples, pictures = read(tmp_path, answer="gold.answer.text")
    assert (proposal.args["question"], proposal.args["image"]) == ("doc.question", "doc.media.image")
    assert [s.references for s in samples] == [("a0",), ("a1",)]
    assert [image.path for image in pictures] == ["0.png", "1.png"]


@pytest.mark.parametrize(
    ("column", "values", "answerable"),
    [("has_answer", [True, False], [True, False]), ("is_impossible", [False, True], [True, False]), ("answerable", [1, 0], [True, False]),
     ("is_unanswerable", ["no", "yes"], [True, False]), ("Answerable", pa.array([1.0, 0.0]), [True, False])],
)  # fmt: skip
def test_what_says_that_a_question_has_no_answer(tmp_path: Path, column: str, values: Any, answerable: list[bool]) -> None:
    _, samples, _ = read(parquet(tmp_path, {**QUESTIONS, "answer": ["x", ""], column: values}))
    assert [s.answerable for s in samples] == answerable


@pytest.mark.parametrize(
    ("rows", "references"),
    [
        ([{"question": "q?", "answers": json.dumps([{"answer": "x"}, {"answer": "y"}])}], ("x", "y")),
        ([{"question": "q?", "answer": {"value": "X", "aliases": ["x"], "type": "w"}}], ("X",)),
        ([{"meta": {"id": "a"}, "input": {"question": "q?"}, "output": {"answer": ["x"]}}], ("x",)),
        ([{"question": "q?", "answer": None}, {"question": "r?", "answer": {"value": "x"}}], ()),
    ],
)
def test_fields_that_are_proposed(tmp_path: Path, rows: list[dict[str, Any]], references: tuple[str, ...]) -> None:
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read(tmp_path)[1][0].references == references


def test_options_in_a_record_and_rows_without_an_image(tmp_path: Path) -> None:
    """As in ARC and in ScienceQA."""
    choices = [{"text": ["w", "x", "y"], "label": ["A", "B", "C"]}] * 2
    cells = pa.array([{"bytes": drawn(1), "path": None}, None], IMAGE_STRUCT)
    proposal, samples, _ = read(parquet(tmp_path, {"image": cells, **QUESTIONS, "choices": choices, "answerKey": ["B", "C"]}))
    assert [(s.choices, s.answer_index) for s in samples] == [(("w", "x", "y"), 1), (("w", "x", "y"), 2)]
    assert samples[1].image_id is None
    assert any("text_only" in note for note in proposal.notes)


def test_a_column_of_such_a_name_that_does_not_say_it(tmp_path: Path) -> None:
    proposal, _, _ = read(parquet(tmp_path, {**QUESTIONS, "answer": ["x", "y"], "no_answer": ["none", "unknown"]}))
    assert not {"answerable", "unanswerable"} & set(proposal.args)


def arrow(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def saved(folder: Path, splits: tuple[str, ...] = ("train", "test")) -> Path:
    """A folder as `DatasetDict.save_to_disk` writes it."""
    (folder).mkdir(exist_ok=True)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    for split in splits:
        for shard in range(2):
            levels = [len(split) * 10 + shard * 3 + i for i in range(3)]
            table = pa.table(
                {"image": images(*levels), "question": [f"{n}?" for n in levels], "answers": [{"text": [f"a{n}"]} for n in levels]}
            )
            arrow(folder / split / f"data-{shard:05d}-of-00002.arrow", table)
        (folder / split / "state.json").write_text(json.dumps({"_data_files": [], "_split": split}, indent=2))
        (folder / split / "dataset_info.json").write_text(json.dumps({"features": {}}, indent=2))
        (folder / split / "cache-1a2b.arrow").write_bytes(b"of another table")
    return folder


def test_a_folder_of_save_to_disk(tmp_path: Path) -> None:
    proposal, samples, pictures = read(saved(tmp_path))
    assert proposal.args["files"] == {"train": "train/data-*.arrow", "test": "test/data-*.arrow"}
    assert [s.split for s in samples] == ["train"] * 6 + ["test"] * 6
    assert samples[0].references == ("a50",)
    assert len(pictures) == 12


def test_save_to_disk_by_the_library_itself(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="`datasets` is not installed")
    features = datasets.Features(
        {"image": datasets.Image(), "question": datasets.Value("string"), "answer": datasets.ClassLabel(names=["cat", "dog"])}
    )
    rows = {"image": [{"bytes": drawn(i), "path": None} for i in range(5)], "question": list("abcde"), "answer": [0, 1, -1, 1, 0]}
    datasets.DatasetDict({"test": datasets.Dataset.from_dict(rows, features=features)}).save_to_disk(
        tmp_path / "saved", num_shards={"test": 2}
    )
    _, samples, pictures = read(tmp_path / "saved")
    assert [s.references for s in samples] == [("cat",), ("dog",), (), ("dog",), ("cat",)]
    assert len(pictures) == 5


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


FORMS = {
    "a.png": "PNG",
    "b.tif": "TIFF",
    "c.avif": "AVIF",
    "d.GIF": "GIF",
    "e.jp2": "JPEG2000",
    "f.webp": "WEBP",
    "g.jfif": "JPEG",
    "h.bmp": "BMP",
}


@pytest.mark.parametrize("name", ["photo.img", "photo", "photo.PNG"])
def test_images_of_unusual_names_are_in_the_layout(tmp_path: Path, name: str) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / name).write_bytes(drawn(3))
    (tmp_path / "photos" / "other.png").write_bytes(drawn(4))
    (tmp_path / "test.csv").write_text(f"image,question,answer\n{name},a?,x\nother.png,b?,y\n")
    proposal = propose(tmp_path)
    (tmp_path / "cards").mkdir()
    write("mine", tmp_path, proposal, proposal.args, {}, tmp_path / "cards")
    inspection = inspect(tmp_path, load_card("mine", tmp_path / "cards"))
    assert inspection.problems == []
    assert set(inspection.files) == {"test.csv", f"photos/{name}", "photos/other.png"}


@pytest.mark.slow
def test_every_format_is_taken_by_new_check_and_add_alike(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    source = tmp_path / "mixed"
    (source / "photos").mkdir(parents=True)
    for name, form in FORMS.items():
        (source / "photos" / name).write_bytes(drawn(9, form, "CMYK" if form == "TIFF" else "RGB"))
    (source / "test.csv").write_text("image,question,answer\n" + "".join(f"{name},{name}?,red\n" for name in FORMS))
    (repo / "registry/cards").mkdir(parents=True, exist_ok=True)
    (repo / "specs").mkdir(exist_ok=True)
    (repo / "params.yaml").touch()
    run("new", "mixed", "--from", source, "--yes")
    assert "8 samples (test 8), 8 images, 0 problems" in run("check", "mixed", "--from", source)
    run("add", "mixed", "--from", source)
    assert sorted(p.name for p in (repo / "registry/data/mixed/photos").iterdir()) == sorted(FORMS)
    assert "8 images, 0 problems" in run("check", "mixed")
    assert {Path(name).suffix.lower() for name in FORMS} <= suffixes()


def test_a_missing_shard_is_named(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    source = saved(tmp_path / "saved", ("test",))
    (source / "test/data-00001-of-00002.arrow").unlink()
    (repo / "registry/cards").mkdir(parents=True, exist_ok=True)
    (repo / "specs").mkdir(exist_ok=True)
    (repo / "params.yaml").touch()
    said = "test/data-00001-of-00002.arrow: missing"
    assert "missing: test/data-00001-of-00002.arrow" in run("new", "half", "--from", source, "--yes")
    assert said in run("add", "half", "--from", source, code=1)
    assert said in run("add", "half", "--from", source, "--skip-bad")


def test_a_part_that_the_card_names_by_itself_is_no_missing_shard(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    source = saved(tmp_path / "saved", ("test",))
    (source / "test/data-00001-of-00002.arrow").unlink()
    (repo / "registry/cards").mkdir(parents=True, exist_ok=True)
    (repo / "specs").mkdir(exist_ok=True)
    (repo / "params.yaml").touch()
    run("new", "half", "--from", source, "--yes", "-O", "files={test: test/data-00000-of-00002.arrow}")
    read_card.cache_clear()
    assert load_card("half", repo / "registry/cards").args["files"] == {"test": "test/data-00000-of-00002.arrow"}
    run("add", "half", "--from", source)


@needs_cases
@pytest.mark.parametrize(
    ("case", "references"),
    [("floats", [("0.1",), ("3",)]), ("structs", [("x", "y"), ("x", "y")]), ("squad", [("x",), ("x",)]), ("b64", [("x",), ("y",)])],
)
def test_tables_of_the_fixtures(case: str, references: list[tuple[str, ...]]) -> None:
    _, samples, pictures = read(CASES / "parquet" / case)
    assert [s.references for s in samples][:2] == references
    assert {decoded(image.data).mode for image in pictures} == {"RGB"}


@needs_cases
def test_mmmu_of_the_fixtures() -> None:
    _, samples, pictures = read(CASES / "parquet/mmmu")
    assert [(s.choices, s.answer_index) for s in samples][:2] == [(("a", "b", "c"), 1), (("It's x", "y", "z"), 0)]
    assert len(pictures) == 4


@needs_cases
def test_formats_of_the_fixtures() -> None:
    proposal, samples, pictures = read(CASES / "tiff-avif/data")
    assert len(samples) == len(pictures) == 4
    assert proposal.notes == []
