"""What adapters share: records and rows with the place they stand at, and what is wrong with them."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import (
    add_instruction,
    check_image,
    number_repeats,
    read_image,
    read_list,
    read_records,
    read_rows,
    require_integer,
    require_record,
    require_text,
    yes_or_no,
)
from tests.support.data.small_pictures import chunk


def lenient(folder: Path) -> tuple[AdapterContext, list[str]]:
    told: list[str] = []
    return AdapterContext(folder, bad=lambda error: told.append(str(error))), told


def picture(form: str) -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((64, 48), 90).save(buffer, form)
    return buffer.getvalue()


def test_records_stand_at_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"info": {}, "questions": [\n{"id": 1},\n{"id": 2}\n]}')
    found = list(read_records(tmp_path / "a.json", "questions", "questions"))
    assert [(where.partition("a.json: ")[2], record) for where, record in found] == [
        ("line 2, record 0", {"id": 1}),
        ("line 3, record 1", {"id": 2}),
    ]
    (tmp_path / "a.json").write_text(json.dumps([1, 2]))
    assert read_list(tmp_path / "a.json", "numbers") == [1, 2]


@pytest.mark.parametrize(
    ("text", "under", "said"),
    [
        (None, None, "expected questions, found none"),
        ("[]", None, "expected questions, got an empty list"),
        ('{"a": []}', "a", "expected questions, got an empty 'a'"),
        ("<html>", None, r"a web page.*\(expected questions\)"),
        ('[{"a": 1},\n{"a"', None, "line 2: expected a whole JSON list"),
    ],
)
def test_files_that_hold_no_records(tmp_path: Path, text: str | None, under: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "a.json").write_text(text)
    with pytest.raises(AdapterError, match=f"a.json: .*{said}"):
        list(read_records(tmp_path / "a.json", "questions", under))


def test_bad_lines_are_handed_on(tmp_path: Path) -> None:
    context, told = lenient(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a"\n{"a": 3}\n')
    assert [record["a"] for _, record in read_records(tmp_path / "a.jsonl", "lines", context=context)] == [1, 3]
    assert len(told) == 1 and "line 2" in told[0]
    with pytest.raises(AdapterError, match="line 2"):
        list(read_records(tmp_path / "a.jsonl", "lines"))


def test_rows(tmp_path: Path) -> None:
    cell = base64.b64encode(bytes(300_000)).decode()  # beyond what the csv module reads by itself
    (tmp_path / "a.tsv").write_text(f'\ufeffindex\tquestion\timage\n1\t"two\nlines"\t{cell}\n\n2\tplain, with a comma\tx\n')
    found = list(read_rows(tmp_path / "a.tsv", "questions", ["index", "image"]))
    assert [where.rpartition(": ")[2] for where, _ in found] == ["line 2", "line 5"]
    assert found[0][1] == {"index": "1", "question": "two\nlines", "image": cell} and found[1][1]["question"] == "plain, with a comma"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "with a header, got an empty file"),
        (b"<!DOCTYPE html>\n<p>", "got a web page"),
        (b"a,a\n1,2\n", "columns twice: a$"),
        (b"e,d,c,b,a,x,a,b,c,d,e\n", "columns twice: a, b, c, d, e$"),
        (b"a,c\n1,2\n", "expected the columns a, b; missing b; it has: a, c"),
        (b"a,b\n1,2\n3\n", "line 3: expected 2 fields as the header has, got 1"),
        (b"a,b\n1,2\n3,\xe9\n", "not a table of text: line 3: not UTF-8: byte 0xe9"),
        (b'a,b\n1,2\n3,"cut', "not a table of text: line 3: unexpected end of data"),
    ],
)
def test_tables_that_are_none(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(AdapterError, match=f"a.csv: .*{said}"):
        list(read_rows(tmp_path / "a.csv", "a table", ["a", "b"]))


def test_short_rows_are_handed_on(tmp_path: Path) -> None:
    context, told = lenient(tmp_path)
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n4,5\n")
    assert [row["a"] for _, row in read_rows(tmp_path / "a.csv", "a table", context=context)] == ["1", "4"]
    assert len(told) == 1 and "line 3" in told[0]


def test_pictures_out_of_tables() -> None:
    for data in map(picture, ("jpeg", "png", "webp", "gif")):
        assert check_image(data, "here") is data
    for form in ("jpeg", "png"):
        with pytest.raises(AdapterError, match=f"here: a {form.upper()} that is cut short"):
            check_image(picture(form)[:-20], "here")
        with pytest.raises(AdapterError, match="cut short"):
            check_image(picture(form)[:-20] + bytes(10_000), "here")
        with_video = picture(form) + b"video" * 2000
        assert check_image(with_video, "here") is with_video
    with pytest.raises(AdapterError, match="got a web page"):
        check_image(b"\n<!DOCTYPE html><html>", "here")
    with pytest.raises(AdapterError, match="expected an image, got 4 bytes that cannot be read as one"):
        check_image(b"text", "here")


def test_a_picture_of_200_megapixels() -> None:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 20_000, 10_000, 8, 0, 0, 0, 0))
    with pytest.raises(AdapterError, match="here: an image too large"):
        check_image(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b""), "here")


def test_pictures_stay_within_the_source(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.jpg").write_bytes(b"secret")
    (tmp_path / "in" / "link.jpg").symlink_to(tmp_path / "out.jpg")
    for place in ("../out.jpg", str(tmp_path / "out.jpg"), "link.jpg", "gone.jpg", "x" * 5000, "a\0b"):
        with pytest.raises(AdapterError, match="here: expected its image at"):
            read_image(tmp_path / "in", (place,), "x", "here")


def test_what_is_wrong_with_a_record_ends_the_run_or_is_told(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="broken"), AdapterContext(tmp_path).record():
        raise AdapterError("broken")
    context, told = lenient(tmp_path)
    with context.record():
        raise AdapterError("broken")
    assert told == ["broken"]


def test_names_that_come_again_are_numbered() -> None:
    repeated: Counter[str] = Counter()
    assert [number_repeats(name, repeated) for name in ("a", "b", "a", "a", "b")] == ["a", "b", "a-2", "a-3", "b-2"]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ([1], "expected a record of keys, got list"),
        ({"a": 1, "d": 2}, "missing b; it has: a, d"),
        ({}, "missing a, b; it has: no keys"),
        ({"a": 1, "b": 2, "c": 3, "d": 4}, "unknown keys d; expected a, b, c. The release may have changed"),
    ],
)
def test_keys_that_a_record_needs(record: Any, said: str) -> None:
    with pytest.raises(AdapterError, match=f"^here: {said}"):
        require_record(record, ["a", "b"], "here", ["c"])
    whole_record = {"a": 1, "b": 2}
    assert (
        require_record(whole_record, ["a", "b"], "here", []) is whole_record
        and require_record({**whole_record, "d": 4}, ["a", "b"], "here")["d"] == 4
    )


@pytest.mark.parametrize("value", ["", "  ", None, 3])
def test_what_is_no_text(value: Any) -> None:
    assert require_text({"k": " a"}, "k", "here") == " a"
    with pytest.raises(AdapterError, match="here: k: expected text, got"):
        require_text({"k": value}, "k", "here")


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_what_is_no_whole_number(value: Any) -> None:
    assert require_integer({"k": -3}, "k", "here") == -3
    with pytest.raises(AdapterError, match="here: k: expected a whole number, got"):
        require_integer({"k": value}, "k", "here")


def test_the_first_place_with_a_file_has_the_picture(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/2.png", "3.png"):
        (tmp_path / name).write_bytes(name.encode())
    found = read_image(tmp_path, ["a", "1.png", "a/2.png", "3.png"], "id", "here")
    assert (found.image_id, found.data, found.path) == ("id", b"a/2.png", "a/2.png")


def test_records_are_counted_and_their_places_noted(tmp_path: Path) -> None:
    context = AdapterContext(tmp_path)
    (tmp_path / "a.jsonl").write_text("{}\n\n{}\n")
    (tmp_path / "a.csv").write_text("a\n1\n2\n")
    noted = [context.place[0] for _ in read_records(tmp_path / "a.jsonl", "lines", context=context)]
    noted += [context.place[0] for _ in read_rows(tmp_path / "a.csv", "rows", context=context)]
    assert [place.removeprefix(f"{tmp_path}/") for place in noted] == [
        "a.jsonl: line 1, record 0",
        "a.jsonl: line 3, record 1",
        "a.csv: line 2",
        "a.csv: line 3",
    ]


def test_a_question_with_its_instruction():
    assert add_instruction("Is it?", "Say yes or no.") == "Is it? Say yes or no." and add_instruction("Is it?", "") == "Is it?"


@pytest.mark.parametrize("value, found", [("Yes", "yes"), (" NO\n", "no")])
def test_yes_and_no_in_any_case(value, found):
    assert yes_or_no({"k": value}, "k", "w") == found


@pytest.mark.parametrize("value", ["maybe", True, None, "yes."])
def test_what_is_neither(value):
    with pytest.raises(AdapterError, match=r"f:3: k: expected yes or no, got"):
        yes_or_no({"k": value}, "k", "f:3")
