"""`qualm data new`: what is proposed of a folder, the card that comes of it, and that the card reads the folder."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import qualm.registry.entries.card as cards
import qualm.registry.entries.new_card_dialogue as asking
from qualm.registry.entries.card import load_card
from qualm.registry.entries.cli import app
from qualm.registry.entries.infer_columns import NewCardError, Proposal, propose
from qualm.registry.entries.layout import inspect
from qualm.registry.entries.new_card import _helps, ask_mapping, render, try_out, write
from qualm.registry.plugins.registry import get
from tests.support.data.small_pictures import png

run = CliRunner()


def table(folder: Path) -> Path:
    """CSV files of two splits beside a folder of pictures."""
    (folder / "photos/deep").mkdir(parents=True)
    for i, name in enumerate(("a.png", "deep/b.png")):
        (folder / "photos" / name).write_bytes(png(i))
    head = "file,query,a,b,c,label,kind,note,camera"
    (folder / "train.csv").write_text(f"{head}\na.png,Which?,x,y,,B,k,1,old\n")
    (folder / "dev.csv").write_text(f"{head}\ndeep/b.png,What?,x,y,z,C,k,2,old\na.png,Who?,x,y,z,A,l,3,new\n")
    (folder / "README.md").write_text("mine")
    return folder


def parquet(folder: Path) -> Path:
    (folder / "data").mkdir(parents=True)
    for i in range(12):
        rows = {"image": [{"bytes": png(i), "path": "x.png"}], "question": ["?"], "choices": [["u", "v"]], "answer": [1], "id": [f"q{i}"]}
        pq.write_table(pa.table(rows), folder / f"data/train-{i:05d}-of-00012.parquet")
    rows["id"] = ["t"]
    pq.write_table(pa.table(rows), folder / "data/validation-00000-of-00001.parquet")
    return folder


def coco(folder: Path) -> Path:
    (folder / "annotations").mkdir(parents=True)
    (folder / "val2014").mkdir()
    (folder / "val2014/a.png").write_bytes(png(1))
    captions = [{"id": i, "image_id": 5, "caption": f"A cat, {i}."} for i in range(2)]
    images = [{"id": 5, "file_name": "a.png"}]
    (folder / "annotations/captions_val2014.json").write_text(json.dumps({"images": images, "annotations": captions}))
    return folder


def tsv(folder: Path) -> Path:
    folder.mkdir(parents=True)
    image = base64.b64encode(png(1)).decode()
    (folder / "Mine_DEV.tsv").write_text(f"index\tquestion\tA\tB\tanswer\timage\n1\tWhich?\tx\ty\tA\t{image}\n")
    return folder


def lines(folder: Path) -> Path:
    (folder / "images").mkdir(parents=True)
    (folder / "images/a.png").write_bytes(png(1))
    records = [{"img": "a.png", "question": f"{i}?", "answers": ["x", "y"], "question_id": i} for i in range(3)]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, records)))
    return folder


CASES: dict[Callable[[Path], Path], tuple[str, dict[str, Any]]] = {
    table: (
        "image_table",
        {
            "files": {"train": "train.csv", "val": "dev.csv"},
            "images": "photos",
            "image": "file",
            "question": "query",
            "answer": "label",
            "choices": ["a", "b", "c"],
            "answer_is": "letter",
            "category": "kind",
            "id": None,
            "meta": ["camera"],
        },
    ),
    parquet: (
        "image_table",
        {
            "files": {"train": "data/train-*.parquet", "val": "data/validation-00000-of-00001.parquet"},
            "images": ".",
            "image": "image",
            "question": "question",
            "answer": "answer",
            "choices": ["choices"],
            "answer_is": "index",
            "category": None,
            "id": "id",
            "meta": [],
        },
    ),
    coco: (
        "coco_folder",
        {
            "files": {"val": "annotations/captions_val2014.json"},
            "images": "val2014",
            "per": "image",
            "instruction": "Describe the picture.",
            "question": None,
            "answer": "caption",
            "choices": [],
            "category": None,
            "id": "id",
        },
    ),
    tsv: ("vlmevalkit_tsv", {"files": {"val": "Mine_DEV.tsv"}}),
    lines: (
        "image_table",
        {
            "files": {"test": "questions.jsonl"},
            "images": "images",
            "image": "img",
            "question": "question",
            "answer": "answers",
            "choices": [],
            "category": None,
            "id": "question_id",
            "meta": [],
        },
    ),
}


@pytest.mark.parametrize("make", CASES)
def test_a_folder_is_proposed_written_and_read(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    adapter, args = CASES[make]
    folder = make(tmp_path / "data")
    proposal = propose(folder)
    assert (proposal.adapter, proposal.args) == (adapter, args)
    shown = try_out(folder, adapter, args)
    assert shown[0].sample.question and len(shown[0].images) == 1
    path = write("mine", folder, proposal, args, {"title": "Mine: 'all' #1", "licence": "CC0"}, tmp_path)
    card = load_card("mine", tmp_path)
    assert path == tmp_path / "mine.yaml" and card.args == args and card.adapter == adapter and card.title == "Mine: 'all' #1"
    found = inspect(folder, card)
    assert found.problems == [] and found.size > 0
    assert sorted(found.splits) == sorted(args["files"])
    assert "# columns: " in path.read_text() or adapter == "vlmevalkit_tsv"


def test_vlmevalkit_as_csv(tmp_path: Path) -> None:
    image = base64.b64encode(png(1)).decode()
    (tmp_path / "Mine_DEV.csv").write_text(f"index,question,A,B,answer,image\n1,Which?,x,y,A,{image}\n")
    proposal = propose(tmp_path)
    assert (proposal.adapter, proposal.args) == ("vlmevalkit_tsv", {"files": {"val": "Mine_DEV.csv"}})
    (shown,) = try_out(tmp_path, proposal.adapter, proposal.args)
    assert shown.sample.choices == ("x", "y") and [image.data for image in shown.images] == [png(1)]
    (tmp_path / "Mine_DEV.csv").write_text("index,question,A,B,answer,image\n1,Which?,x,y,A,a.png\n")
    assert propose(tmp_path).adapter == "image_table"  # anybody's table may have such columns


def test_splits_and_counts_of_the_card(tmp_path: Path) -> None:
    folder = table(tmp_path / "data")
    proposal = propose(folder)
    text = render("mine", folder, proposal, proposal.args, {})
    assert '  - {files: "photos/**/*.png", count: 2}' in text and '  "val": {files: "dev.csv", records: 2}' in text
    assert 'licence: "not stated"' in text and "file (a.png); query (Which?)" in text


@pytest.mark.parametrize(
    ("places", "images"),
    [
        (("train", "test"), "{split}"),
        (("images/train", "images/test"), "images/{split}"),
        (("a/train/pics", "a/test/pics"), "a/{split}/pics"),
        (("train2017", "test2017"), "{split}2017"),
        (("photos", "photos"), "photos"),
    ],
)
def test_splits_whose_pictures_have_the_same_names(tmp_path: Path, places: tuple[str, str], images: str) -> None:
    for number, (split, place) in enumerate(zip(("train", "test"), places, strict=True)):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "1.png").write_bytes(png(number))
        (tmp_path / f"{split}.csv").write_text("image,question,answer\n1.png,Which?,this\n")
    proposal = propose(tmp_path)
    assert proposal.args["images"] == images
    write("mine", tmp_path, proposal, proposal.args, {}, tmp_path)
    assert inspect(tmp_path, load_card("mine", tmp_path)).problems == []
    shown = [item.images[0].path if item.images else "" for item in try_out(tmp_path, proposal.adapter, proposal.args)]
    assert shown == [f"{place}/1.png" for place in places] or (images == "photos" and shown[0] == "photos/1.png")


def test_pictures_are_counted_by_the_ends_of_their_names_in_order(tmp_path: Path) -> None:
    folder = table(tmp_path / "data")
    for name in ("x.webp", "deep/y.jpg", "deep/z.gif", "notes.txt"):
        (folder / "photos" / name).parent.mkdir(exist_ok=True)
        (folder / "photos" / name).write_bytes(png(1))
    (folder / "outside.bmp").write_bytes(png(2))
    proposal = propose(folder)
    text = render("mine", folder, proposal, proposal.args, {})
    named = [line.strip() for line in text.splitlines() if "photos/**" in line]
    patterns = [line.partition('"')[2].partition('"')[0] for line in named]
    assert patterns == sorted(patterns) and {"photos/**/*.gif", "photos/**/*.jpg", "photos/**/*.webp"} <= set(patterns)
    assert not any("bmp" in line or "txt" in line for line in text.splitlines() if "files" in line)


@pytest.mark.parametrize(
    ("parameter", "reply", "value"),
    [
        ("image", "file", "file"),
        ("image", "", None),
        ("meta", "file, note,", ["file", "note"]),
        ("meta", "", []),
        ("question", "query", "query"),
    ],
)
def test_one_column_or_several_by_what_there_may_be(tmp_path: Path, parameter: str, reply: str, value: object) -> None:
    proposal = propose(table(tmp_path / "data"))
    assert ask_mapping(proposal, lambda what, proposed, help: reply if what == parameter else proposed)[parameter] == value


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    folder = table(tmp_path / "data")
    (folder / "dev.csv").write_text(f"file,query\n{'x' * 5000},Which?\na.png,What?\n")
    assert propose(folder).args["images"] == "photos"


def test_bad_lines_and_a_missing_picture_are_no_matter_of_a_proposal(tmp_path: Path) -> None:
    folder = lines(tmp_path / "data")
    text = (folder / "questions.jsonl").read_text()
    (folder / "questions.jsonl").write_text(text + '\n{"img"\n{"img": "gone.png", "question": "?", "answers": "x", "question_id": 9}\n')
    proposal = propose(folder)
    assert proposal.args == CASES[lines][1]
    assert "records" not in render("mine", folder, proposal, proposal.args, {})


@pytest.mark.parametrize(
    ("rows", "form", "others"),
    [
        ("cat,dog,A\ndog,cat,B", "letter", ""),
        ("A,B,B\nB,A,B", "letter", "text"),
        ("cat,dog,dog\nA,B,A", "text", ""),
        ("x,y,0\nx,y,1", "index", ""),
        ("x,y,2\nx,y,1", "index_from_1", ""),
        ("x,y,1\ny,x,1", "index", "index_from_1"),
        ("1,2,1\n2,1,1", "text", "index or index_from_1"),
    ],
)
def test_answers_that_could_be_read_in_two_ways_are_said(tmp_path: Path, rows: str, form: str, others: str) -> None:
    (tmp_path / "test.csv").write_text("question,a,b,answer\n" + "".join(f"q{i},{row}\n" for i, row in enumerate(rows.split("\n"))))
    proposal = propose(tmp_path)
    assert proposal.args["answer_is"] == form
    assert [n.partition(":")[0] for n in proposal.notes] == ([f"answers are read as {form}, and could be {others}"] if others else [])


def test_options_say_otherwise(tmp_path: Path) -> None:
    folder = table(tmp_path / "data")
    assert propose(folder, files={"test": "dev.csv"}).args["files"] == {"test": "dev.csv"}


def test_a_person_answers(tmp_path: Path) -> None:
    proposal = propose(table(tmp_path / "data"))
    answers = {"question": "note", "meta": "query, kind", "category": ""}
    made = ask_mapping(proposal, lambda what, proposed, help: answers.get(what, proposed))
    assert (made["question"], made["meta"], made["category"]) == ("note", ["query", "kind"], None)
    assert {k: v for k, v in made.items() if k not in answers} == {k: v for k, v in proposal.args.items() if k not in answers}
    with pytest.raises(NewCardError, match="question: no column 'nowhere'; there are: file, query"):
        ask_mapping(proposal, lambda what, proposed, help: "nowhere" if what == "question" else proposed)


@pytest.mark.parametrize(
    ("parameter", "reply", "value"),
    [("frames", "4", 4), ("frames", "", None), ("text_only", "true", True), ("image", "file, note", ["file", "note"])],
)
def test_a_person_says_how_pictures_are_read(tmp_path: Path, parameter: str, reply: str, value: object) -> None:
    proposal = propose(table(tmp_path / "data"))
    assert ask_mapping(proposal, lambda what, proposed, help: reply if what == parameter else proposed).get(parameter) == value


@pytest.mark.parametrize(("parameter", "reply"), [("frames", "many"), ("text_only", "perhaps"), ("answer_is", "lettre")])
def test_a_person_says_what_a_parameter_cannot_be(tmp_path: Path, parameter: str, reply: str) -> None:
    proposal = propose(table(tmp_path / "data"))
    with pytest.raises(NewCardError, match=f"^{parameter}={reply}: expected "):
        ask_mapping(proposal, lambda what, proposed, help: reply if what == parameter else proposed)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "there is: nothing"),
        ({"a.txt": b"x"}, r"there is: \.txt"),
        ({"a[1].csv": b"image,question\nx,y\n", "b.csv": b"image,question\nx,y\n"}, "rename it"),
        ({"train.csv": b"q\nx\n", "x/train.csv": b"q\nx\n", "train/val.csv": b"q\ny\n"}, "no pattern fits"),
        ({"a.csv": b"image,question\n"}, "no records"),
        ({"a.csv": b"<html>"}, "got a web page"),
        ({"a.jsonl": b'{"image": "x"}\n[1]\n'}, "line 2"),
    ],
)
def test_folders_that_say_nothing(tmp_path: Path, files: dict[str, bytes], said: str) -> None:
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    with pytest.raises(NewCardError, match=said):
        propose(tmp_path)


def test_what_cannot_be_read_is_not_written(tmp_path: Path) -> None:
    folder = table(tmp_path / "data")
    (folder / "photos/a.png").unlink()
    proposal = propose(folder)
    with pytest.raises(NewCardError, match=r"train\.csv: line 2: file: expected its image at"):
        try_out(folder, proposal.adapter, proposal.args)
    for name in ("../x", "A", ""):
        with pytest.raises(NewCardError, match="is not a valid name for a card"):
            write(name, folder, proposal, proposal.args, {}, tmp_path)
    write("x", folder, proposal, proposal.args, {}, tmp_path)
    with pytest.raises(NewCardError, match="is there already; --force"):
        write("x", folder, proposal, proposal.args, {}, tmp_path)
    write("x", folder, proposal, proposal.args, {}, tmp_path, replace=True)


def test_help_of_a_parameter_in_two_lines() -> None:
    said = _helps(get("datasets", "coco_folder"))["per"]
    assert said.startswith("One sample for every annotation; or") and said.endswith("whose id is the image's (captions).")


def test_strange_names_of_columns_stay_data(tmp_path: Path) -> None:
    evil = "a: &x [1]\x1b[31m # {y}\n- z\x7f\x85\u2028"
    proposal = Proposal("image_table", {"files": {"test": "t.csv"}, "image": None, "question": evil}, {evil: "\x1b]0;x\x07"})
    (tmp_path / "t.csv").write_text("x\n1\n")
    write("x", tmp_path, proposal, proposal.args, {"title": evil}, tmp_path)
    assert load_card("x", tmp_path).args["question"] == evil == load_card("x", tmp_path).title
    assert "\x1b" not in (tmp_path / "x.yaml").read_text()


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "FOLDER", tmp_path)
    folder = table(tmp_path / "data")
    done = run.invoke(app, ["new", "mine", "--from", str(folder), "--licence", "CC0", "-O", "meta=[note]"])
    assert done.exit_code == 0, done.output
    for line in (
        "read as image_table, train: train.csv, val: dev.csv",
        "  query: Which?",
        "a.png, PNG 4 x 4",
        "   > B y",
        "category: k, note: 1",
    ):
        assert line in done.output, (line, done.output)
    assert f"next: qualm data add mine --from {folder}" in done.output and load_card("mine", tmp_path).licence == "CC0"
    for arguments, said in (
        (["mine", "--from", str(folder)], "is there already"),
        (["x", "--from", str(folder / "gone")], "expected a folder"),
        (["x", "--from", str(folder), "--adapter", "tsv"], "expected one of"),
        (["x", "--from", str(folder), "-O", "question=gone"], "expected the columns gone"),
    ):
        done = run.invoke(app, ["new", *arguments])
        assert done.exit_code == 2 and said in " ".join(done.output.split()), done.output


def test_what_is_no_picture_is_shown_as_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = table(tmp_path / "data")
    (folder / "photos/a.png").write_text("<!DOCTYPE html>")
    asking.new_card("mine", folder, tmp_path, None, [], {}, yes=True, force=False)
    assert "photos/a.png, NOT A PICTURE: 15 B that begin with b'<!DOCTYPE html>'" in capsys.readouterr().out


def test_the_conversation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = table(tmp_path / "data")
    asked: list[str] = []

    def prompt(text: str, default: str) -> str:
        asked.append(f"{text} [{default}]")
        return {"category (Column with its kind.)": "-", "title (what people call it)": "Mine"}.get(text, default)

    monkeypatch.setattr("typer.prompt", prompt)
    monkeypatch.setattr("typer.confirm", lambda text, default: True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asking.new_card("mine", folder, tmp_path, None, [], {}, yes=False, force=False)
    assert asked[0] == "images (The folder that the images' paths begin in; `{split}` in it stands for the split.) [photos]"
    assert "choices (One column with a list of options, or a column for each.) [a, b, c]" in asked
    card = load_card("mine", tmp_path)
    assert card.title == "Mine" and card.args["category"] is None
    monkeypatch.setattr("typer.confirm", lambda text, default: False)
    with pytest.raises(NewCardError, match="nothing was written"):
        asking.new_card("other", folder, tmp_path, None, [], {}, yes=False, force=False)
