from __future__ import annotations

import io
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from safetensors.numpy import save

from qualm.registry.formats import check
from qualm.registry.formats.check import BadLinesError, FormatError, check_file


def parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(1000))}), buffer)
    return buffer.getvalue()


def png() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(buffer, "png")
    return buffer.getvalue()


WHOLE = {
    "a.json": (json.dumps([{"q": "é"}] * 5).encode(), 5),
    "b.json": (json.dumps({"info": {}, "questions": [1, 2, 3]}).encode(), 3),
    "a.jsonl": (b'{"a": 1}\n\n{"a": 2}\n', 2),
    "a.pkl": (pickle.dumps([{"logits": np.arange(6.0)}] * 4), 4),
    "a.safetensors": (save({"w": np.ones((4, 4)), "b": np.ones(4)}), 2),
    "a.parquet": (parquet(), 1000),
    "a.csv": (b'x,y\n1,"2\n3"\n4,5\n', 2),
    "a.png": (png(), None),
    "a.txt": ("één\ntwo\n".encode(), 2),
    "a.bin": (b"", None),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_files_are_counted(tmp_path: Path, name: str) -> None:
    data, records = WHOLE[name]
    (tmp_path / name).write_bytes(data)
    assert check_file(tmp_path / name) == records


@pytest.mark.parametrize(("name", "share"), [(n, s) for n in WHOLE for s in (0.3, 0.97) if n not in ("a.csv", "a.txt", "a.bin", "a.jsonl")])
def test_files_cut_in_the_middle_are_refused(tmp_path: Path, name: str, share: float) -> None:
    data = WHOLE[name][0]
    (tmp_path / name).write_bytes(data[: int(len(data) * share)])
    with pytest.raises(FormatError, match=r"cut short|truncated|not a whole image|not JSON"):
        check_file(tmp_path / name)


@pytest.mark.parametrize("name", [n for n in WHOLE if n not in ("a.txt", "a.bin")])
def test_what_came_instead_of_the_file(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"\n <!DOCTYPE html><html><body>Please log in</body></html>")
    with pytest.raises(FormatError, match="a web page, not"):
        check_file(file)
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(FormatError, match="a Git LFS pointer"):
        check_file(file)
    file.write_bytes(b"")
    with pytest.raises(FormatError, match="empty file"):
        check_file(file)


def test_a_link_is_no_file_unless_it_may_be_one(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").symlink_to("a.json")
    with pytest.raises(FormatError, match="not an ordinary file"):
        check_file(tmp_path / "b.json")
    assert check_file(tmp_path / "b.json", linked=True) == check_file(tmp_path / "a.json")


def test_a_pickle_that_would_run_code_does_not(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path}/ran",)

    (tmp_path / "a.pkl").write_bytes(pickle.dumps([Bomb()]))
    with pytest.raises(FormatError, match="could run code"):
        check_file(tmp_path / "a.pkl")
    assert not (tmp_path / "ran").exists()


def test_json_bombs_and_broken_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[" * 100_000)
    with pytest.raises(FormatError, match=r"not JSON|cut short"):
        check_file(tmp_path / "a.json")
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": ')
    with pytest.raises(FormatError, match="line 2: expected one JSON value"):
        check_file(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_bytes('{"a": "café"}\n'.encode("latin-1"))
    with pytest.raises(FormatError, match=r"^line 1: not UTF-8: byte 0xe9 in .*; `iconv -f LATIN1 -t UTF-8`"):
        check_file(tmp_path / "a.jsonl")
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match="not UTF-8"):
        check_file(tmp_path / "a.txt")


def test_what_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")  # reading it would wait for ever
    with pytest.raises(FormatError, match="not an ordinary file"):
        check_file(tmp_path / "a.json")
    with pytest.raises(FormatError, match="cannot be read: No such file"):
        check_file(tmp_path / "b.json")
    if os.geteuid() != 0:
        (tmp_path / "c.json").write_text("1")
        (tmp_path / "c.json").chmod(0)
        with pytest.raises(FormatError, match="cannot be read: Permission denied"):
            check_file(tmp_path / "c.json")


def test_the_card_s_format_wins_over_the_suffix(tmp_path: Path) -> None:
    (tmp_path / "template.json").write_text("<html>{{ x }}")
    assert check_file(tmp_path / "template.json", "text") == 1


def test_a_table_may_have_pictures_in_its_cells(tmp_path):
    (tmp_path / "a.tsv").write_text("index\timage\n1\t" + "A" * 300_000 + '\n2\t"two\nlines"\n')
    assert check_file(tmp_path / "a.tsv") == 2


def test_every_bad_line_is_counted_and_the_first_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n' + b"x\n" * 4 + b'{"b": "\xe9"}\n' + b"y\n" * 3 + b"{}\n")
    with pytest.raises(BadLinesError, match=r"line 2: expected one JSON.*line 6: not UTF-8: byte 0xe9.*; 3 lines more") as caught:
        check_file(tmp_path / "a.jsonl")
    assert (caught.value.bad, caught.value.lines) == (8, 10)
    (tmp_path / "a.jsonl").write_bytes(b"x\n" * 5)
    with pytest.raises(BadLinesError, match=r"line 5: expected one JSON value: [^;]*; it begins with b'x\\n'; where the last") as caught:
        check_file(tmp_path / "a.jsonl")
    assert (caught.value.bad, caught.value.lines) == (5, 5)
    (tmp_path / "a.tsv").write_text("a\tb\n1\t2\n3\n")
    with pytest.raises(BadLinesError, match="line 3 has 1 fields where the header has 2"):
        check_file(tmp_path / "a.tsv")


def test_json_of_every_shape_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    for text, records in (
        ('{"q1": {"question": "?"}, "q2": {"question": "?"}}', 2),  # GQA: by id
        ('{"question_id": 1}\n{"question_id": 2}\n{"question_id": 3}\n', 3),  # POPE: JSON Lines
        ('{"hidden": 4, "layers": [1, 2]}', 2),
        ('{"hidden": 4}', None),
        ('{"questions": [1, 2, 3], "few": [1]}', 3),
        ('{"few": [1], "questions": [1, 2, 3]}', 3),
        ('{"none": []}', 0),
        ('{"a": {"b": 1}, "c": 2}', None),
        ('{"a": 2, "c": {"b": 1}}', None),
        ('{"a": 1}', None),
        ('\n\n{"a": 1}\n\n{"a": 2}\n', 2),
        ('{\n"a": {}}\n', 1),
        ("[]", 0),
        ("{}", None),
    ):
        file.write_text(text)
        assert check_file(file) == records, text
    file.write_bytes('[{"a": "é"}]'.encode("utf-16"))
    with pytest.raises(FormatError, match="not UTF-8 but UTF-16"):
        check_file(file)
    file.write_bytes(b'[\n{"a": 1},\n{"a": "\xe9"}]')
    with pytest.raises(FormatError, match="line 3: not UTF-8: byte 0xe9"):
        check_file(file)


def test_a_picture_of_200_megapixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(png())
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # twice as many are refused; the picture has 4,096
    with pytest.raises(FormatError, match=r"too large an image: Image size \(4096 pixels\) exceeds limit of \d+ pixels; scale it down"):
        check_file(tmp_path / "a.png")


def test_lines_of_text_over_the_pieces_in_which_it_is_read(tmp_path: Path) -> None:
    for text, lines in ((b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n", 1), (b"x\n" * 600_000, 600_000), (b"x\n" * 600_000 + b"y", 600_001)):
        (tmp_path / "a.txt").write_bytes(text)
        assert check_file(tmp_path / "a.txt") == lines
    for text, line in ((b"\0", "1"), (b"a\nb\0\n\0", "2"), (b"x\n" * 600_000 + b"y\n\0", "600,002")):
        (tmp_path / "a.txt").write_bytes(text)
        with pytest.raises(FormatError, match=f"^not text: line {line} has a NUL byte"):
            check_file(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_bytes("é".encode()[:1])
    with pytest.raises(FormatError, match="not UTF-8 text"):
        check_file(tmp_path / "a.txt")


def test_parquet_that_claims_more_than_it_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(parquet())
    packed = len(parquet())
    claimed = pq.read_metadata(tmp_path / "a.parquet").row_group(0).total_byte_size
    refused = rf"^claims 1,000 rows of {claimed:,} bytes in a file of {packed:,} bytes; it is refused"
    for rows, free, good in ((1000, claimed, True), (999, claimed, packed >= 1000), (1000, claimed - 1, False)):
        monkeypatch.setattr(check, "MANY_ROWS", rows)
        monkeypatch.setattr(check, "FREE", free)
        monkeypatch.setattr(check, "RATIO", 0)
        if good:
            assert check_file(tmp_path / "a.parquet") == 1000
        else:
            with pytest.raises(FormatError, match=refused):
                check_file(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": [0] * 20_000}), tmp_path / "a.parquet")
    monkeypatch.setattr(check, "FREE", 10**9)
    monkeypatch.setattr(check, "MANY_ROWS", 20_000)
    assert check_file(tmp_path / "a.parquet") == 20_000
    monkeypatch.setattr(check, "MANY_ROWS", 19_999)
    with pytest.raises(FormatError, match=r"^claims 20,000 rows"):
        check_file(tmp_path / "a.parquet")


def test_a_zip_that_leads_out(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("../evil", b"1")
    with pytest.raises(FormatError, match=r"'../evil': leads out of the archive"):
        check_file(tmp_path / "a.zip")
