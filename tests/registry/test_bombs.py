"""Small files that claim to hold very much: each is refused in one line, by a process that never holds much of it."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qualm.registry.entries.adding import AddError, add
from qualm.registry.entries.card import Card, Files, load_card
from qualm.registry.recordings.inspect import Archive, LogArchiveError
from qualm.registry.recordings.record import RecordingError
from qualm.registry.recordings.tables import rows
from tests.support.data.small_pictures import chunk

MAX_KIB = 500 * 2**10
"""KiB of memory, whatever a file holds."""
CHECK = """
import sys
from pathlib import Path
from qualm.registry.formats.check import FormatError, check_file
try:
    print(check_file(Path(sys.argv[1])))
except FormatError as error:
    print(error)
print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
"""


def png(path: Path, width: int, height: int) -> None:
    packer = zlib.compressobj(1)
    pixels = b"".join(packer.compress(bytes(1 + 4 * width)) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def hole(path: Path) -> None:
    """Four gigabytes that take no room."""
    with path.open("wb") as file:
        file.truncate(4 * 10**9)


def repeated(path: Path) -> None:
    """One text of a megabyte that stands in 3,000 rows, written once."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3000, dtype=np.int32)), pa.array(["x" * 10**6]))
    pq.write_table(pa.table({"s": text}), path, dictionary_pagesize_limit=10**9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("a.txt", hole, "not text: line 1 has a NUL byte"),
        ("a.csv", hole, "more than 67,108,864 characters without the end of a line"),
        ("a.tsv", hole, "more than 67,108,864 characters without the end of a line"),
        ("a.jsonl", hole, "line 1: more than 134,217,728 bytes"),
        ("a.json", hole, "not JSON: line 1"),
        ("b.json", lambda path: path.write_text("[" * 100_000 + "]" * 100_000), "nested too deeply"),
        ("c.json", lambda path: path.write_text("[[" + "[]," * 5_000_000 + "1]]"), "at most 4,194,304 are read"),
        ("c.jsonl", lambda path: path.write_text("[" + "[]," * 5_000_000 + "1]\n"), "at most 4,194,304 are read"),
        ("d.json", lambda path: path.write_text('["' + "a" * 150_000_000), "one value of more than 134,217,728 characters"),
        ("e.jsonl", lambda path: path.write_text("?\n" * 1_000_000), "999,995 lines more"),
        ("a.png", lambda path: png(path, 10_000, 10_000), "too large an image: 10000 × 10000; scale it down"),
        (
            "a.parquet",
            lambda path: pq.write_table(pa.table({"a": np.zeros(30_000_000, dtype=np.int64)}), path, row_group_size=30_000_000),
            "claims 30,000,000 rows",
        ),
        ("b.parquet", repeated, "3000"),
    ],
)
def test_little_is_held_of_a_file_that_claims_much(tmp_path: Path, name: str, make: Callable[[Path], object], message: str) -> None:
    make(tmp_path / name)
    done = subprocess.run([sys.executable, "-c", CHECK, str(tmp_path / name)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr[-2000:]
    said, peak = done.stdout.splitlines()
    assert message in said
    assert int(peak) < MAX_KIB


def test_an_excel_table_that_unpacks_to_much_more_than_it_is(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", "<sst>" + "<si><t>a</t></si>" * 1_500_000 + "</sst>")
    with pytest.raises(RecordingError, match=r"would unpack to 25,500,011 bytes; above 16,777,216 it is not opened. Save it as .tsv"):
        next(rows(tmp_path / "a.xlsx"))


def test_entities_of_an_excel_table_are_not_multiplied(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(["question"])
    book.active.append(["laugh"])
    book.save(tmp_path / "a.xlsx")
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    with zipfile.ZipFile(tmp_path / "a.xlsx") as whole, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as bomb:
        for member in whole.namelist():
            text = whole.read(member).decode()
            if "laugh" in text:
                text = f'<!DOCTYPE s [<!ENTITY l0 "ha">{laughs}]>' + text.replace("laugh", "&l9;")
            bomb.writestr(member, text)
    with pytest.raises(RecordingError, match="Excel table") as error:
        list(rows(tmp_path / "b.xlsx"))
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.slow
def test_a_log_whose_members_unpack_to_much_more_than_they_are(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", b" " * 20_000_000)
    with (
        Archive(tmp_path / "a.eval") as log,
        pytest.raises(LogArchiveError, match="unpacks to 20,000,000 bytes; more than 8,388,608 are refused"),
    ):
        log.read("header.json")
    with zipfile.ZipFile(tmp_path / "b.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        for n in range(20):
            archive.writestr(f"samples/{n}.json", b" " * 8_000_000)
    with pytest.raises(LogArchiveError, match="unpacks to 160,000,000 bytes, more than 100 times its size"):
        Archive(tmp_path / "b.eval")


def card(pattern: str) -> Card:
    return load_card("scene-vlm-base").model_copy(update={"layout": (Files(files=pattern, about="", format="json"),)})


@pytest.mark.slow
def test_an_archive_of_something_else_is_not_unpacked(repo: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for n in range(30_000):
            archive.writestr(f"f/{n}.txt", b"x")
    unpacked: list[str] = []
    with pytest.raises(AddError) as error:
        add(repo, "x", str(tmp_path / "a.zip"), card("questions.json"), lambda what, file, size, total: unpacked.append(file))
    assert str(error.value).endswith(
        "nothing of the layout of 'scene-vlm-base' is in it: expected questions.json, it has 30,000 other files, f/0.txt the first"
    )
    assert unpacked == []


def test_of_an_archive_only_what_the_card_names_is_unpacked(repo: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("top/questions.json", json.dumps([1, 2]))
        archive.writestr("top/notes.txt", "n")
        archive.writestr("top/more/notes.txt", "n")
    unpacked: list[str] = []
    tell = lambda what, file, size, total: unpacked.append(file) if what == "unpacking" else None  # noqa: E731
    added = add(repo, "x", str(tmp_path / "a.zip"), card("questions.json"), tell)
    assert unpacked == ["top/questions.json"] and list(added.inspection.files) == ["questions.json"]
    assert added.inspection.left_out == ["more/notes.txt", "notes.txt"]


def test_where_it_lies_deeper_in_an_archive_is_said(repo: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a/b/questions.json", "[1]")
    with pytest.raises(AddError, match="is in it; it seems to lie in a/b there: unpack it and give that folder"):
        add(repo, "x", str(tmp_path / "a.zip"), card("questions.json"))
