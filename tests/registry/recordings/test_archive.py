import struct
import zipfile
import zlib

import pyarrow as pa
import pytest

from qualm.registry.recordings import inspect
from qualm.registry.recordings.inspect import Archive, LogArchiveError


def zipped(path, method=zipfile.ZIP_DEFLATED, **members):
    with zipfile.ZipFile(path, "w", method) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return path


def read(path, name="a", **more):
    with Archive(path) as opened:
        return opened.read(name, **more)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_read_whole(tmp_path, method):
    path = zipped(tmp_path / "z", method, a=b"hello " * 50, b=b"")
    with Archive(path) as opened:
        assert set(opened.members) == {"a", "b"} and opened.read("a") == b"hello " * 50 and opened.read("b") == b""


def test_zstandard_which_pythons_own_zipfile_cannot_open(tmp_path):
    data = b"hello " * 50
    packed = pa.compress(data, codec="zstd", asbytes=True)
    path = zipped(tmp_path / "z", zipfile.ZIP_STORED, a=packed)
    raw = bytearray(path.read_bytes())
    for start, offset in ((raw.index(b"PK\x03\x04"), 8), (raw.index(b"PK\x01\x02"), 10)):
        raw[start + offset : start + offset + 2] = struct.pack("<H", 93)
        raw[start + offset + 6 : start + offset + 10] = struct.pack("<I", zlib.crc32(data))
        raw[start + offset + 14 : start + offset + 18] = struct.pack("<I", len(data))
    path.write_bytes(bytes(raw))
    assert read(path) == data


def test_what_is_no_archive(tmp_path):
    (tmp_path / "z").write_bytes(b"no zip")
    with pytest.raises(LogArchiveError, match="not a whole zip archive"):
        Archive(tmp_path / "z")


def test_a_member_that_unpacks_to_more_than_its_limit(tmp_path):
    path = zipped(tmp_path / "z", a=b"x" * 1000)
    assert len(read(path, limit=1000)) == 1000
    with pytest.raises(LogArchiveError, match="unpacks to 1,000 bytes; more than 999 are refused"):
        read(path, limit=999)


def test_claims_out_of_proportion_are_refused(tmp_path, monkeypatch):
    path = zipped(tmp_path / "z", a=b"x" * 100_000)
    monkeypatch.setattr(inspect, "FREE", 1000)
    with pytest.raises(LogArchiveError, match="unpacks to 100,000 bytes, more than 100 times its size; it is refused"):
        Archive(path)
    monkeypatch.setattr(inspect, "FREE", 10_000)
    with pytest.raises(LogArchiveError, match="unpacks to 100,000 bytes; more than"):
        read(path)
    monkeypatch.setattr(inspect, "FREE", 100_000)
    assert len(read(path)) == 100_000


@pytest.mark.parametrize("place, fault", [(b"PK\x03\x04", "has no header"), (b"hello", "is damaged")])
def test_damage_is_met(tmp_path, place, fault):
    path = zipped(tmp_path / "z", zipfile.ZIP_STORED, a=b"hello")
    raw = path.read_bytes()
    path.write_bytes(raw.replace(place, b"x" * len(place), 1))
    with pytest.raises(LogArchiveError, match=fault):
        read(path)


def test_an_encrypted_member_and_a_method_that_nobody_knows(tmp_path):
    for offset, value, fault in ((8, 1, "is encrypted"), (10, 12, "is compressed by method 12")):
        path = zipped(tmp_path / f"z{offset}", zipfile.ZIP_STORED, a=b"hello")
        raw = bytearray(path.read_bytes())
        at = raw.index(b"PK\x01\x02") + offset
        raw[at : at + 2] = struct.pack("<H", value)
        path.write_bytes(bytes(raw))
        with pytest.raises(LogArchiveError, match=fault):
            read(path)
