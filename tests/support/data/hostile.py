"""Five hundred questions that nobody should ask, the same ones every time, pictures that are none, and records with one thing changed."""

import copy
import io
import random
import struct
import zlib
from collections.abc import Iterator

from PIL import Image

PIECES = [
    "",
    " ",
    "\t\n",
    "?",
    "??!",
    "¿",
    "؟",
    "What color is the red cube?",
    "<script>alert('x')</script>",
    "<img src=x onerror=1>",
    "&amp;&#0;",
    "{caption}",
    "{question}",
    "%s %n",
    "{0.__class__}",
    "\x00",
    "\x07\x1b[31m",
    "\u202eesrever",
    "\ufeff",
    "\u200b\u200d",
    "e\u0301" * 20,
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "ما لون المكعب الأحمر؟",
    "מה צבע הקובייה?",
    "红色立方体是什么颜色？",
    "สีอะไร",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "İıſßŉ",
    "A" * 300,
    "a,b;c:d",
    "and and and",
    ", , ,",
    "(((",
    "…",
    "null",
    "NaN",
    "-1",
    "{}",
    "[]",
    '{"AMB": null}',
    "'; DROP TABLE samples; --",
    "../../etc/passwd",
    "\\u0000",
    "\ud7ff",
    "\uffff",
    "Is it? Or not? Yes!",
    "\r\n\r\n",
    "```json\n{}\n```",
    "Q1: x",
    "Rating: 3",
    "\u2028",
    "\u0085",
    "\x1c",
    "ﷺ" * 30,
    "Z̸͔͝a̷l̵g̶o̷",
]
_LONG = [
    "x" * 100_000,
    "x " * 50_000,
    " " * 100_000,
    "?" * 100_000,
    "a, " * 33_333,
    "(" * 100_000,
    "and " * 25_000,
    "\x00" * 100_000,
    "ש" * 100_000,
    "😀" * 50_000,
]


def questions() -> list[str]:
    chance = random.Random(5)
    made = [*PIECES, *_LONG]
    while len(made) < 500:
        joint = chance.choice(["", " ", ", ", " and ", "\n"])
        made.append(joint.join(chance.choices(PIECES, k=chance.randint(1, 8))))
    return made


def places(value: object, at: tuple = (), most: int | None = None) -> Iterator[tuple]:
    """Every place in nested lists and objects, as the keys that lead there; of lists the first `most` items."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value[:most]) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*at, key), most)


def changed(value: object, at: tuple, to: object) -> object:
    """A copy with something else at one place."""
    if not at:
        return to
    made = copy.deepcopy(value)
    inner = made
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = to
    return made


def _saved(image: Image.Image, kind: str, **how: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **how)
    return file.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG that says how large it is, and nothing more."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


def sixteen_bits() -> Image.Image:
    """Levels from black to white on a scale of 65,535."""
    image = Image.new("I;16", (256, 2))
    image.putdata([x * 257 for x in range(256)] * 2)
    return image


def pictures() -> dict[str, bytes]:
    """What may lie in a dataset in the place of a picture, by what is wrong with it; those of `readable` can be shown."""
    colours = Image.new("RGB", (33, 21), (200, 100, 50))
    noise = Image.effect_noise((64, 48), 80).convert("RGB")
    whole = _saved(noise, "PNG")
    return {
        "one pixel": _saved(colours.resize((1, 1)), "PNG"),
        "one row": _saved(colours.resize((500, 1)), "PNG"),
        "16 bits": _saved(sixteen_bits(), "PNG"),
        "16 bits tiff": _saved(sixteen_bits(), "TIFF"),
        "cmyk": _saved(colours.convert("CMYK"), "JPEG"),
        "palette": _saved(colours.quantize(4), "PNG"),
        "palette with a hole": _saved(colours.quantize(4), "PNG", transparency=0),
        "grey with alpha": _saved(colours.convert("LA"), "PNG"),
        "one bit": _saved(colours.convert("1"), "PNG"),
        "moving": _saved(colours, "GIF", save_all=True, append_images=[noise.resize((33, 21))]),
        "webp": _saved(colours, "WEBP"),
        "32 bits": _saved(Image.new("I", (4, 4), 70_000), "TIFF"),
        "fractions": _saved(Image.new("F", (4, 4), 0.5), "TIFF"),
        "truncated": whole[: len(whole) // 2],
        "truncated jpeg": _saved(noise, "JPEG")[:900],
        "30,000 x 30,000": png_header(30_000, 30_000),
        "no rows": png_header(5, 0),
        "negative": png_header(2**31, 2**31),
        "nothing": b"",
        "html": b"<html>404 not found</html>",
        "svg": b"<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>",
    }


READABLE = (
    "one pixel",
    "one row",
    "16 bits",
    "16 bits tiff",
    "cmyk",
    "palette",
    "palette with a hole",
    "grey with alpha",
    "one bit",
    "moving",
    "webp",
)
