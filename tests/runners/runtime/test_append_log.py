import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.runtime.append_log import LineLog


def bodies(folder, parse=bytes):
    return list(LineLog(folder, "notes").read(parse))


@given(st.lists(st.lists(st.binary(max_size=20).filter(lambda b: b"\n" not in b), max_size=3), max_size=4))
def test_what_was_appended_is_read_in_order(tmp_path_factory, batches):
    folder = tmp_path_factory.mktemp("log")
    lines = LineLog(folder, "notes")
    for batch in batches:
        lines.append(batch)
    assert bodies(folder) == [body for batch in batches for body in batch]


def test_a_folder_that_is_not_there_has_no_lines_and_nothing_is_made_for_nothing(tmp_path):
    folder = tmp_path / "log"
    LineLog(folder, "notes").append([])
    assert bodies(folder) == [] and not folder.exists()


def test_a_cut_a_changed_and_a_refused_line_are_left_out_and_told_of(tmp_path, capsys):
    LineLog(tmp_path, "notes").append([b"one", b"two", b"three"])
    (file,) = tmp_path.iterdir()
    first, second, third = file.read_bytes().splitlines()
    file.write_bytes(b"\n".join([first, second.replace(b"two", b"twO"), b"", third[:-2]]))
    lines = LineLog(tmp_path, "notes")
    assert list(lines.read(bytes)) == [b"one"] and lines.damaged == 2
    assert f"notes: {tmp_path}: 2 damaged lines ignored" in capsys.readouterr().err
    assert list(lines.read(bytes)) == [b"one"] and lines.damaged == 2, "each reading counts anew"

    def refuse(body):
        raise KeyError(body)

    lines = LineLog(tmp_path, "notes")
    assert list(lines.read(refuse)) == [] and lines.damaged == 3


def test_each_line_begins_with_the_checksum_of_its_rest(tmp_path):
    LineLog(tmp_path, "notes").append([b"x y"])
    (file,) = tmp_path.iterdir()
    assert file.suffix == ".notes" and file.read_bytes() == hashlib.sha256(b"x y").hexdigest().encode() + b" x y\n"


def test_writers_use_files_of_their_own_and_other_kinds_are_not_read(tmp_path):
    for kind in ("notes", "notes", "other"):
        LineLog(tmp_path, kind).append([kind.encode()])
    assert len(list(tmp_path.iterdir())) == 3 and bodies(tmp_path) == [b"notes", b"notes"]


def test_after_a_full_disk_the_half_line_gives_way_to_the_next(tmp_path, monkeypatch):
    lines, write = LineLog(tmp_path, "notes"), os.write
    lines.append([b"kept"])

    def full(handle, text):
        write(handle, text[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        lines.append([b"lost"])
    monkeypatch.setattr(os, "write", lambda handle, text: write(handle, text[:7]))
    lines.append([b"next, in small pieces"])
    assert bodies(tmp_path) == [b"kept", b"next, in small pieces"] and len(list(tmp_path.iterdir())) == 1
