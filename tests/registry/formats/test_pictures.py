"""One decoder: every kind of picture has the pixels that it shows, everywhere, and nothing else opens a picture's file."""

import ast
import base64
import io
import struct
import zlib
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from qualm.registry.formats import pictures
from qualm.registry.formats.check import FormatError, check_file
from qualm.registry.formats.pictures import GAP, SIDE, Facts, HugePictureError, PictureError, decoded, facts, tile_images
from qualm.runners.data import curation, leakage
from qualm.runners.data.dataset import VariantInput
from qualm.runners.reporting import thumbnails
from qualm.runners.training.pictures import decode
from tests.support.checks.sources import syntax_nodes

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
    hashes = np.array([pictures.perceptual_hash(data) for data in files], np.uint64)
    assert not [pair for pair in leakage.close_pairs(hashes, hashes, 8) if pair[0] != pair[1]]
    for view in (curation.pixels_of, lambda data: thumbnails.decoded(data)[0].tobytes(), lambda data: decode(data).tobytes()):
        assert len({view(data) for data in files}) == len(files)


def test_everyone_sees_what_the_model_sees() -> None:
    for data in map(grey, range(3)):
        image = VariantInput("s", "?", data, "here").image()
        assert image is not None
        assert (np.asarray(image) == decode(data)).all()
        assert (np.asarray(image) == np.asarray(thumbnails.decoded(data)[0])).all()
        as_8_bits = encoded(image)
        assert curation.pixels_of(data) == curation.pixels_of(as_8_bits)
        assert pictures.perceptual_hash(data) == pictures.perceptual_hash(as_8_bits)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_modes_of_8_bits_keep_their_colours(mode: str) -> None:
    blocks = np.kron(np.array([[[250, 0, 0], [0, 250, 0]], [[0, 0, 250], [255, 255, 255]]]), np.ones((8, 8, 1))).astype(np.uint8)
    picture = PIL.Image.fromarray(blocks).convert(mode)
    assert (np.asarray(decoded(encoded(picture, "TIFF"))) == np.asarray(picture.convert("RGB"))).all()


def with_transparent_value(data: bytes, *levels: int) -> bytes:
    """A PNG with a chunk `tRNS`: pixels of these levels are transparent."""
    body = b"tRNS" + struct.pack(f">{len(levels)}H", *levels)
    at = data.index(b"IDAT") - 4
    return data[:at] + struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body)) + data[at:]


def black_on_transparent(mode: str) -> bytes:
    """A black square on transparent black, whose colours without their transparency are all black."""
    alpha = np.zeros((8, 8), np.uint8)
    alpha[2:6, 2:6] = 255
    colours = PIL.Image.fromarray(np.dstack([np.zeros((8, 8, 3), np.uint8), alpha]))
    if mode == "P":
        indexed = PIL.Image.fromarray(alpha // 255)
        indexed.putpalette([0] * 768)
        return encoded(indexed, transparency=bytes([0, 255]))
    if mode in ("1", "L", "RGB", "I;16"):  # of which one level is transparent
        transparent = 257 if mode == "I;16" else 1
        levels_of_mode = (alpha == 0).astype(np.uint16 if mode == "I;16" else np.uint8) * transparent
        level = PIL.Image.fromarray(levels_of_mode)
        level = level.convert("RGB") if mode == "RGB" else level.point(lambda v: 255 * v, "1") if mode == "1" else level
        return with_transparent_value(encoded(level), *[transparent] * len(level.getbands()))
    return encoded(colours.convert(mode))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "1", "L", "RGB", "I;16"])
def test_transparent_pixels_are_shown_on_white(mode: str) -> None:
    expected = np.full((8, 8, 3), 255, np.uint8)
    expected[2:6, 2:6] = 0
    data = black_on_transparent(mode)
    assert facts(data).transparent
    assert (np.asarray(decoded(data)) == expected).all()


def test_half_transparent_pixels_are_mixed_with_white() -> None:
    data = encoded(PIL.Image.new("RGBA", (4, 4), (200, 0, 0, 128)))
    assert decoded(data).getpixel((0, 0)) == pytest.approx((227, 127, 127), abs=1)


@pytest.mark.parametrize("form", ["PNG", "TIFF", "WEBP", "GIF", "AVIF"])
def test_of_several_frames_the_first_is_shown_on_white(form: str) -> None:
    first, second = PIL.Image.new("RGBA", (8, 8), (255, 0, 0, 0)), PIL.Image.new("RGBA", (8, 8), (0, 0, 255, 255))
    data = encoded(first, form, save_all=True, append_images=[second])
    assert facts(data).frames == 2
    assert decoded(data).getpixel((0, 0)) == (255, 255, 255)
    assert facts(encoded(second.convert("RGB"), form)).frames == 1


@pytest.mark.parametrize("form", ["TIFF", "AVIF", "GIF", "BMP", "PPM", "JPEG2000", "ICO", "TGA"])
def test_formats_of_pillow_are_read_and_checked_alike(tmp_path: Path, form: str) -> None:
    suffix = {"TIFF": "TIF", "JPEG2000": "jp2"}.get(form, form.lower())
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(encoded(PIL.Image.new("RGB", (32, 32), (10, 200, 30)), form))
    assert pictures.is_image_name(path.name)
    assert check_file(path) is None
    assert decoded(path.read_bytes()).getpixel((9, 9)) == pytest.approx((10, 200, 30), abs=8)
    path.write_bytes(b"not an image")
    with pytest.raises(FormatError, match="not a whole image"):
        check_file(path)


def test_what_pillow_hands_to_other_programs_is_not_read() -> None:
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n"
    with pytest.raises(PictureError, match="not an image in a known format"):
        decoded(script)
    assert not {".eps", ".ps", ".pdf", ".mpg", ".h5"} & pictures.suffixes()


def test_images_written_as_text() -> None:
    data = encoded(PIL.Image.fromarray(np.arange(4096, dtype=np.uint8).reshape(64, 64)))
    text = base64.b64encode(data).decode()
    lines = "\n".join(text[i : i + 76] for i in range(0, len(text), 76))
    urlsafe = base64.urlsafe_b64encode(data).decode().rstrip("=")
    for written in (text, lines, urlsafe, f"data:image/png;base64,{text}", f"DATA:image/png;name=a;base64,{text}"):
        assert pictures.image_in_text(written) == data
    for path in ("a.png", "photos/2024/holiday/in/lisbon/street", "a" * 32, base64.b64encode(b"text that is no image").decode(), ""):
        assert pictures.image_in_text(path) is None


@pytest.mark.parametrize(
    ("form", "kind", "suffix"),
    [("PNG", "image/png", ".png"), ("JPEG", "image/jpeg", ".jpg"), ("GIF", "image/gif", ".gif"), ("WEBP", "image/webp", ".webp"),
     ("TIFF", "image/tiff", ".tiff"), ("AVIF", "image/avif", ".avif"), ("ICO", "image/x-icon", ".ico"), ("TGA", "image/x-tga", ".tga")],
)  # fmt: skip
def test_media_types_and_suffixes(form: str, kind: str, suffix: str) -> None:
    data = encoded(PIL.Image.new("RGB", (16, 16), (1, 2, 3)), form)
    assert (pictures.media_type(data), pictures.suffix_of(data)) == (kind, suffix)
    assert pictures.suffix_of(b"no image") == ""


def test_a_file_is_passed_on_as_it_is_only_where_everyone_shows_the_same() -> None:
    plain = encoded(PIL.Image.new("RGB", (8, 8), (9, 9, 9)))
    assert pictures.to_displayable(plain) == plain
    for data in (black_on_transparent("RGBA"), encoded(PIL.Image.new("CMYK", (8, 8)), "TIFF")):
        shown = pictures.to_displayable(data)
        assert pictures.media_type(shown) == "image/png"
        assert (np.asarray(PIL.Image.open(io.BytesIO(shown))) == np.asarray(decoded(data))).all()


TRANSPARENT = Path(__file__).parents[4] / "shared/fixtures/cases/transparent"


@pytest.mark.skipif(not TRANSPARENT.is_dir(), reason="the fixtures are not beside the repository")
def test_black_drawings_of_the_fixtures_are_not_all_black() -> None:
    files = sorted(TRANSPARENT.glob("*.png"))
    assert len(files) == 3
    for file in files:
        assert set(np.unique(np.asarray(decoded(file.read_bytes())))) == {0, 255}


@pytest.mark.parametrize("mode", ["I", "F"])
def test_levels_without_a_scale_are_refused_by_everyone(mode: str) -> None:
    data = encoded(PIL.Image.fromarray(levels(1).astype(np.int32 if mode == "I" else np.float32)), "TIFF")
    with pytest.raises(PictureError, match=r"its levels are \w+ numbers of 32 bits, of no known scale"):
        decoded(data)
    assert pictures.perceptual_hash(data) is None
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


def test_huge_pictures_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(PIL.Image.new("L", (30, 20)))
    assert facts(data) == Facts("PNG", 30, 20)
    with pytest.raises(HugePictureError, match="30 × 20"):
        decoded(data, max_pixels=599)
    assert decoded(data, max_pixels=600).size == (30, 20)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 200)
    for attempt in (decoded, facts):
        with pytest.raises(HugePictureError):
            attempt(data)


def test_a_file_is_read_to_its_end_where_its_pixels_are_not_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JPEG's count at an eighth of its sides."""
    for form, pixels, said in (("PNG", 64 * 48, "64 × 48"), ("JPEG", 8 * 6, "8 × 6")):
        (tmp_path / "a").write_bytes(encoded(PIL.Image.new("RGB", (64, 48)), form))
        monkeypatch.setattr(pictures, "MAX_PIXELS", pixels)
        pictures.check(tmp_path / "a")
        monkeypatch.setattr(pictures, "MAX_PIXELS", pixels - 1)
        with pytest.raises(HugePictureError, match=f"^{said}$"):
            pictures.check(tmp_path / "a")


def test_nothing_else_opens_a_picture() -> None:
    openers = {file for file, nodes in syntax_nodes("registry", "runners", "compiler").items() for _ in _openings(nodes)}
    assert openers == {"registry/formats/pictures.py"}


def _openings(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """Calls of Pillow's `open` under whatever name, and OpenCV's readers of files."""
    names = {"PIL.Image"}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in ("PIL", "PIL.Image"):
            names |= {alias.asname or alias.name for alias in node.names if alias.name in ("Image", "open")}
        elif isinstance(node, ast.Import):
            names |= {alias.asname for alias in node.names if alias.name == "PIL.Image" and alias.asname}
    for node in nodes:
        if isinstance(node, ast.Call):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function not in ("open", "imread", "imdecode"):
                continue  # to write a node out takes long
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
    assert tile_images(pictures[:1]) is pictures[0]
    whole = tile_images(pictures)
    assert whole.size == (SIDE + 100 + 50 + 50 + 3 * GAP, 160 + GAP + 50)
    assert whole.getpixel((0, 80)) == whole.getpixel((300, 80)) == (255, 0, 0) and whole.getpixel((SIDE + GAP + 50, 50)) == (0, 0, 255)
    assert whole.getpixel((0, 0)) == (255, 255, 255) != whole.getpixel((30, 30))
    assert whole.getpixel((25, 160 + GAP + 30)) == (0, 128, 0)
    corners = {whole.crop((left, 0, left + 12, 12)).tobytes() for left in (0, SIDE + GAP, SIDE + 100 + 2 * GAP)}
    again = tile_images([PIL.Image.new("RGB", (50, 50), "white")] * 3)
    assert len(corners) == 3 and {again.crop((left, 0, left + 9, 12)).tobytes() for left in (0, 56, 112)} == {
        whole.crop((left, 0, left + 9, 12)).tobytes() for left in (0, SIDE + GAP, SIDE + 100 + 2 * GAP)
    }, "1, 2 and 3 in black on white"
    assert tile_images(pictures[3:]).size == (50 + GAP + 50, 50)
