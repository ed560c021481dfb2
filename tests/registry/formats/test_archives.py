"""Archives of strangers: what is in them comes out, and nothing else, nowhere else."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

import qualm.registry.formats.archives as archives
from qualm.registry.formats.archives import ArchiveError, check_zip, is_archive, unpack


def packed(path: Path, members: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_what_is_in_comes_out(tmp_path: Path, target: Path, name: str) -> None:
    members = {"a/b.json": b"[1]", "c.txt": b"", "__MACOSX/._c": b"x"} if name == "a.zip" else {"./a/b.json": b"[1]", "c.txt": b""}
    told: list[tuple[str, int]] = []
    path = packed(tmp_path / name, members)
    assert is_archive(path) and not is_archive(tmp_path / "a.json")
    unpack(path, target, lambda member, size: told.append((member, size)))
    assert files(target) == {"a/b.json": b"[1]", "c.txt": b""} and told == [("a/b.json", 3), ("c.txt", 0)]
    if name == "a.zip":
        assert check_zip(path) == 2


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
@pytest.mark.parametrize("evil", ["../evil", "a/../../evil", "/tmp/evil", "C:\\evil", "C:evil", "a\\evil", "a\nb"])
def test_names_that_lead_out_are_refused_and_nothing_is_written(tmp_path: Path, target: Path, name: str, evil: str) -> None:
    path = packed(tmp_path / name, {"g": b"1", evil: b"2"})
    with pytest.raises(ArchiveError, match=r"leads out of the archive|control characters"):
        unpack(path, target, lambda member, size: None)
    assert files(target) == {} and not (tmp_path / "evil").exists()
    refused: list[str] = []
    unpack(path, target, lambda member, size: None, refused.append)
    assert files(target) == {"g": b"1"} and len(refused) == 1


@pytest.mark.parametrize(("n", "more"), [(5, ""), (6, "; 1 more"), (8, "; 3 more")])
def test_five_refused_members_are_named(tmp_path: Path, target: Path, n: int, more: str) -> None:
    path = packed(tmp_path / "a.zip", {f"../{i}": b"" for i in range(n)})
    with pytest.raises(ArchiveError) as caught:
        unpack(path, target, lambda member, size: None)
    named = [f"'../{i}': leads out of the archive; such a member is never unpacked" for i in range(5)]
    assert str(caught.value) == "; ".join(named) + more


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_as_many_bytes_as_may_be_and_one_more(tmp_path: Path, target: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all members together: beyond FREE bytes, RATIO times the archive's own size."""
    path = packed(tmp_path / name, {"a": bytes(40_000), "b": bytes(40_000)})
    size = path.stat().st_size
    for free, ratio in ((80_000, 1), (0, -(-80_000 // size))):
        monkeypatch.setattr(archives, "FREE", free)
        monkeypatch.setattr(archives, "RATIO", ratio)
        unpack(path, target, lambda member, size: None)
        for member in ("a", "b"):
            (target / member).unlink()
    for free, ratio in ((79_999, 1), (0, (80_000 - 1) // size)):
        monkeypatch.setattr(archives, "FREE", free)
        monkeypatch.setattr(archives, "RATIO", ratio)
        with pytest.raises(ArchiveError, match=f"^unpacks to 80,000 bytes, {80_000 // size} times its size, or more; it is refused"):
            unpack(path, target, lambda member, size: None)


def test_links_and_repeated_names(tmp_path: Path, target: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("passwd")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(ArchiveError, match="'passwd': a link or device"):
        unpack(tmp_path / "a.tar", target, lambda member, size: None)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped, pytest.warns(UserWarning, match="Duplicate"):
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        zipped.writestr(info, "/etc/passwd")
        zipped.writestr("twice", b"1")
        zipped.writestr("twice", b"2")
    with pytest.raises(ArchiveError, match=r"'link': a link or device.*'twice': is in the archive twice"):
        unpack(tmp_path / "a.zip", target, lambda member, size: None)
    with pytest.raises(ArchiveError, match="'link': a link or device"):
        check_zip(tmp_path / "a.zip")


def test_bombs(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "FREE", 1000)
    path = packed(tmp_path / "a.zip", {"zeros": bytes(10_000_000)})
    with pytest.raises(ArchiveError, match=r"unpacks to 10,000,000 bytes, .* times its size"):
        unpack(path, target, lambda member, size: None)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_damaged_archives(tmp_path: Path, target: Path, name: str) -> None:
    path = packed(tmp_path / name, {"a": bytes(range(256)) * 400, "b": b"2"})
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ArchiveError, match="fetch"):
        unpack(path, target, lambda member, size: None)
    if name == "a.zip":
        data[60] ^= 0xFF
        path.write_bytes(data)
        with pytest.raises(ArchiveError, match="damaged"):
            check_zip(path)
        with pytest.raises(ArchiveError, match="damaged"):
            unpack(path, target, lambda member, size: None)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_a_tar_that_loses_its_later_members(tmp_path: Path, target: Path, name: str) -> None:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for member in "abc":
            info = tarfile.TarInfo(member)
            info.size = 600
            archive.addfile(info, io.BytesIO(bytes(600)))
    data = whole.getvalue()  # each member: a head of 512 bytes and two blocks
    for broken, behind in (
        (data[:1536], "cut or damaged behind 'a'"),
        (data[:1600], "cut or damaged behind 'a'"),
        (data[:1536] + b"x" + data[1537:], "cut or damaged behind 'a'"),
        (data[:3072] + b"\xff" * 512 + data[3584:], "cut or damaged behind 'b'"),
        (data[:4608], "cut or damaged behind 'c'"),
    ):
        (tmp_path / name).write_bytes(gzip.compress(broken) if name.endswith("gz") else broken)
        with pytest.raises(ArchiveError, match=f"not a whole archive: {behind}; fetch it again"):
            unpack(tmp_path / name, target, lambda member, size: None)
        assert files(target) == {}
    packed = bytearray(gzip.compress(data))
    packed[-8] ^= 1  # the checksum
    (tmp_path / "b.tar.gz").write_bytes(packed)
    with pytest.raises(ArchiveError, match="not a whole archive: CRC check failed"):
        unpack(tmp_path / "b.tar.gz", target, lambda member, size: None)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    unpack(tmp_path / name, target, lambda member, size: None)
    assert len(files(target)) == 3


def test_folders_in_an_archive_are_made_by_their_files(tmp_path: Path, target: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        archive.addfile(tarfile.TarInfo("a/b"))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.mkdir("a")
        zipped.writestr("a/c", b"")
    for name in ("a.tar", "a.zip"):
        unpack(tmp_path / name, target, lambda member, size: None)
    assert files(target) == {"a/b": b"", "a/c": b""}


def test_a_zip_whose_checksum_is_another(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:  # stored, so that nothing else notices
        archive.writestr("a.txt", b"what it was")
    (tmp_path / "a.zip").write_bytes((tmp_path / "a.zip").read_bytes().replace(b"what it was", b"what it is."))
    with pytest.raises(ArchiveError, match=r"damaged: 'a\.txt' does not match its checksum; fetch it again"):
        check_zip(tmp_path / "a.zip")


class Zeros(io.RawIOBase):
    """So many zeros that are nowhere in memory."""

    def __init__(self, size: int) -> None:
        self._left = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        size = self._left if size < 0 else min(size, self._left)
        self._left -= size
        return bytes(size)


@pytest.mark.parametrize("mode", ["gz", "xz", "bz2"])
def test_a_bomb_in_a_tar_is_refused_by_its_first_head(tmp_path: Path, target: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "FREE", 2**20)
    path = tmp_path / f"a.tar.{mode}"
    with tarfile.open(path, f"w:{mode}") as archive:  # type: ignore[call-overload]
        info = tarfile.TarInfo("zeros")
        info.size = 5 * 2**20
        archive.addfile(info, Zeros(info.size))
    with path.open("r+b") as file:  # what stands behind the first head was never there
        file.truncate(max(path.stat().st_size // 2, 120))
    with pytest.raises(ArchiveError, match=r"unpacks to 5,242,880 bytes, [\d,]+ times its size, or more"):
        unpack(path, target, lambda member, size: None)
    assert files(target) == {}


@pytest.mark.slow
def test_more_members_than_anybody_can_name_in_so_few_bytes(tmp_path: Path, target: Path) -> None:
    seven = b"".join(tarfile.TarInfo(f"f{i}").tobuf() for i in range(7))
    (tmp_path / "a.tar.xz").write_bytes(lzma.compress(seven * (archives.MAX_TINY_MEMBERS // 7 + 1), preset=0))
    with pytest.raises(ArchiveError, match=r"has 20,001 members or more in [\d,]+ bytes; it is refused"):
        unpack(tmp_path / "a.tar.xz", target, lambda member, size: None)


def test_encrypted_members_are_named_and_those_of_the_best_compression_are_unpacked(tmp_path: Path, target: Path) -> None:
    path = packed(tmp_path / "a.zip", {"a": b"1", "b": b"2"})
    data = bytearray(path.read_bytes())
    heads = [place for place in range(len(data)) if data[place : place + 4] == b"PK\x01\x02"]
    for head, flag in zip(heads, (1, 2), strict=True):  # of general purpose: bit 0 is encryption, bit 1 how hard a packer tried
        data[head + 8] |= flag
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match=r"^'a': encrypted$"):
        unpack(path, target, lambda member, size: None)
    refused: list[str] = []
    unpack(path, target, lambda member, size: None, refused.append)
    assert refused == ["'a': encrypted"] and files(target) == {"b": b"2"}


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_as_many_members_as_may_be_and_one_more(name: str, tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_TINY_MEMBERS", 3)
    monkeypatch.setattr(archives, "MIN_MEMBER_BYTES", 10**6)
    members = {f"f{i}": b"x" for i in range(4)}
    with pytest.raises(ArchiveError, match=r"has 4 members or more"):
        unpack(packed(tmp_path / name, members), target, lambda member, size: None)
    (tmp_path / name).unlink()
    del members["f3"]
    unpack(packed(tmp_path / name, members), target, lambda member, size: None)
    assert files(target) == members


def test_only_what_is_wanted_is_unpacked(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_TINY_MEMBERS", 20)  # the archive's bytes suffice for more
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for i in range(30):
            archive.writestr(f"f/{i}", b"x")
        archive.writestr("a.json", b"[1]")
    others = unpack(tmp_path / "a.zip", target, lambda member, size: None, is_wanted=lambda name: name == "a.json")
    assert files(target) == {"a.json": b"[1]"} and len(others) == 30 and others[0] == "f/0"
