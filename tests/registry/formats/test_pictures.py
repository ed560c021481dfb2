"""One decoder: every kind of picture has the pixels that it shows, everywhere, and nothing else opens a picture's file."""

import ast
import io
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from qualm.registry.formats import pictures
from qualm.registry.formats.pictures import GAP, SIDE, Facts, HugePictureError, PictureError, beside, decoded, facts
from qualm.runners.data import leakage
from qualm.runners.data.dataset import Item
from qualm.runners.data.reviews import curation
from qualm.runners.reporting import thumbnails
from qualm.runners.training.small_vlm.pictures import decode

ROOT = Path(__file__).parents[3]
ORIENTATION = 0x0112


def encoded(picture: PIL.Image.Image, form: str = "PNG", **how: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **how)
    return file.getvalue()


def levels(seed: int) -> np.ndarray:
    """Random levels of 16 bits, in blocks, so that perceptual hashes see them."""
    return np.kron(np.random.default_rng(seed).integers(256, 2**16, (8, 8)), np.ones((8, 8))).astype(np.uint16)


def grey(seed: int, form: str = "PNG") -> bytes:
    if form == "PGM":
        return b"P5\n64 64\n65535\n" + levels(seed).astype(">u2").tobytes()
    return encoded(PIL.Image.fromarray(levels(seed)), form)


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PGM"])
def test_levels_of_16_bits_keep_their_upper_byte(form: str) -> None:
    picture = decoded(grey(0, form))
    assert picture.mode == "RGB"
    assert (np.asarray(picture) == (levels(0) >> 8)[..., None]).all()


def test_different_pictures_of_16_bits_differ_to_everyone() -> None:
    """As white squares they were near-duplicates, and a decision about one stayed in force on another."""
    files = [grey(seed) for seed in range(6)]
    hashes = np.array([leakage.perceptual_hash(data) for data in files], np.uint64)
    assert not [pair for pair in leakage.close_pairs(hashes, hashes, 8) if pair[0] != pair[1]]
    for view in (curation.pixels_of, lambda data: thumbnails.decoded(data)[0].tobytes(), lambda data: decode(data).tobytes()):
        assert len({view(data) for data in files}) == len(files)


def test_everyone_sees_what_the_model_sees() -> None:
    for data in map(grey, range(3)):
        image = Item("s", "?", data, "here").image()
        assert image is not None
        assert (np.asarray(image) == decode(data)).all()
        assert (np.asarray(image) == np.asarray(thumbnails.decoded(data)[0])).all()
        as_8_bits = encoded(image)
        assert curation.pixels_of(data) == curation.pixels_of(as_8_bits)
        assert leakage.perceptual_hash(data) == leakage.perceptual_hash(as_8_bits)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_modes_of_8_bits_keep_their_colours(mode: str) -> None:
    blocks = np.kron(np.array([[[250, 0, 0], [0, 250, 0]], [[0, 0, 250], [255, 255, 255]]]), np.ones((8, 8, 1))).astype(np.uint8)
    picture = PIL.Image.fromarray(blocks).convert(mode)
    assert (np.asarray(decoded(encoded(picture, "TIFF"))) == np.asarray(picture.convert("RGB"))).all()


def test_a_transparent_palette_shows_its_colours() -> None:
    picture = PIL.Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).convert("P")
    assert (np.asarray(decoded(encoded(picture, transparency=bytes(range(256))))) == np.asarray(picture.convert("RGB"))).all()


@pytest.mark.parametrize("mode", ["I", "F"])
def test_levels_without_a_scale_are_refused_by_everyone(mode: str) -> None:
    data = encoded(PIL.Image.fromarray(levels(1).astype(np.int32 if mode == "I" else np.float32)), "TIFF")
    with pytest.raises(PictureError, match=r"its levels are \w+ numbers of 32 bits, of no known scale"):
        decoded(data)
    assert leakage.perceptual_hash(data) is None
    assert thumbnails.decoded(data)[0] is None


@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF"])
def test_a_photograph_stands_upright(form: str) -> None:
    lying = PIL.Image.fromarray(np.full((8, 16, 3), 90, np.uint8))
    exif = PIL.Image.Exif()
    exif[ORIENTATION] = 6
    data = encoded(lying, form, exif=exif)
    assert decoded(data).size == (8, 16)
    assert decoded(data, draft=(4, 4)).size[0] < decoded(data, draft=(4, 4)).size[1]
    assert decoded(encoded(lying, form)).size == (16, 8)


def test_an_exif_block_that_is_nonsense_is_ignored() -> None:
    data = encoded(PIL.Image.new("RGB", (16, 8)), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff nonsense")
    assert decoded(data).size == (16, 8)


def test_what_is_no_picture_is_said_in_one_line(tmp_path: Path) -> None:
    whole = encoded(PIL.Image.fromarray(levels(2).astype(np.uint8)))
    for data in (b"", b"GIF89a", whole[:60], whole[: len(whole) // 2], b"\xff\xd8\xff" + bytes(90)):
        (tmp_path / "x.png").write_bytes(data)
        for attempt in (lambda data=data: decoded(data), lambda: pictures.check(tmp_path / "x.png")):
            with pytest.raises(PictureError) as error:
                attempt()
            assert "\n" not in str(error.value)
            assert str(error.value)


def test_huge_pictures_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(PIL.Image.new("L", (30, 20)))
    assert facts(data) == Facts("PNG", 30, 20)
    with pytest.raises(HugePictureError, match="30 × 20"):
        decoded(data, most=599)
    assert decoded(data, most=600).size == (30, 20)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 200)
    for attempt in (decoded, facts):
        with pytest.raises(HugePictureError):
            attempt(data)


def test_a_file_is_read_to_its_end_where_its_pixels_are_not_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JPEG's count at an eighth of its sides."""
    for form, pixels, said in (("PNG", 64 * 48, "64 × 48"), ("JPEG", 8 * 6, "8 × 6")):
        (tmp_path / "a").write_bytes(encoded(PIL.Image.new("RGB", (64, 48)), form))
        monkeypatch.setattr(pictures, "MOST_LOADED", pixels)
        pictures.check(tmp_path / "a")
        monkeypatch.setattr(pictures, "MOST_LOADED", pixels - 1)
        with pytest.raises(HugePictureError, match=f"^{said}$"):
            pictures.check(tmp_path / "a")


def test_nothing_else_opens_a_picture() -> None:
    files = [file for package in ("registry", "runners", "compiler") for file in (ROOT / package).rglob("*.py")]
    openers = {file.relative_to(ROOT).as_posix() for file in files for _ in _openings(ast.parse(file.read_text(encoding="utf-8")))}
    assert openers == {"registry/formats/pictures.py"}


def _openings(tree: ast.Module) -> Iterator[ast.AST]:
    """Calls of Pillow's `open` under whatever name, and OpenCV's readers of files."""
    names = {"PIL.Image"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("PIL", "PIL.Image"):
            names |= {alias.asname or alias.name for alias in node.names if alias.name in ("Image", "open")}
        elif isinstance(node, ast.Import):
            names |= {alias.asname for alias in node.names if alias.name == "PIL.Image" and alias.asname}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            opens = called in {f"{name}.open" for name in names} or (called == "open" and "open" in names)
            if opens or called.rpartition(".")[2] in ("imread", "imdecode"):
                yield node


@pytest.mark.parametrize("pair", combinations(range(4), 2))
def test_decisions_about_a_picture_do_not_hold_for_another(pair: tuple[int, int]) -> None:
    a, b = map(grey, pair)
    assert curation.pixels_of(a) != curation.pixels_of(b)


def test_several_pictures_are_shown_side_by_side_with_numbers():
    pictures = [
        PIL.Image.new("RGB", (400, 200), "red"),
        PIL.Image.new("RGB", (100, 100), "blue"),
        *[PIL.Image.new("RGB", (50, 50), "green")] * 3,
    ]
    assert beside(pictures[:1]) is pictures[0]
    whole = beside(pictures)
    assert whole.size == (SIDE + 100 + 50 + 50 + 3 * GAP, 160 + GAP + 50)
    assert whole.getpixel((0, 80)) == whole.getpixel((300, 80)) == (255, 0, 0) and whole.getpixel((SIDE + GAP + 50, 50)) == (0, 0, 255)
    assert whole.getpixel((0, 0)) == (255, 255, 255) != whole.getpixel((30, 30))
    assert whole.getpixel((25, 160 + GAP + 30)) == (0, 128, 0)
    corners = {whole.crop((left, 0, left + 12, 12)).tobytes() for left in (0, SIDE + GAP, SIDE + 100 + 2 * GAP)}
    again = beside([PIL.Image.new("RGB", (50, 50), "white")] * 3)
    assert len(corners) == 3 and {again.crop((left, 0, left + 9, 12)).tobytes() for left in (0, 56, 112)} == {
        whole.crop((left, 0, left + 9, 12)).tobytes() for left in (0, SIDE + GAP, SIDE + 100 + 2 * GAP)
    }, "1, 2 and 3 in black on white"
    assert beside(pictures[3:]).size == (50 + GAP + 50, 50)
