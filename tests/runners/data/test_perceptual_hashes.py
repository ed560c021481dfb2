"""Perceptual hashes against imagehash itself, and the search against a plain double loop."""

import io

import imagehash
import numpy as np
import PIL.Image

from qualm.runners.data.perceptual_hashes import close_pairs, perceptual_hash


def encoded(image: PIL.Image.Image, form: str = "PNG") -> bytes:
    data = io.BytesIO()
    image.save(data, form)
    return data.getvalue()


def test_the_hash_is_imagehash_s() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    image = PIL.Image.fromarray(pixels).resize((200, 120), PIL.Image.Resampling.BICUBIC)
    found = perceptual_hash(encoded(image))
    assert found == int(str(imagehash.phash(image)), 16)
    photo = perceptual_hash(encoded(image, "JPEG"))
    assert photo is not None and found is not None
    assert (photo ^ found).bit_count() <= 4, "JPEG is decoded at a smaller scale"


def test_what_is_no_picture_has_no_hash() -> None:
    assert perceptual_hash(b"") is None
    assert perceptual_hash(encoded(PIL.Image.new("RGB", (40, 40)))[:60]) is None
    assert perceptual_hash(encoded(PIL.Image.new("L", (1, 1)))) is not None


def test_the_search_finds_exactly_what_a_double_loop_finds() -> None:
    rng = np.random.default_rng(2)
    first = rng.integers(0, 2**64, 300, dtype=np.uint64)
    second = np.concatenate([first[:40], first[:30] ^ np.uint64(0b10110), rng.integers(0, 2**64, 200, dtype=np.uint64)])
    first = np.concatenate([first, first[:5]])
    wanted = {(i, j, (int(a) ^ int(b)).bit_count()) for i, a in enumerate(first) for j, b in enumerate(second)}
    for distance in (0, 2, 3, 4):
        assert set(close_pairs(first, second, distance)) == {(i, j, d) for i, j, d in wanted if d <= distance}
    assert list(close_pairs(first[:0], second, 64)) == []


def test_a_hundred_thousand_against_ten_thousand_take_seconds(benchmark) -> None:
    rng = np.random.default_rng(3)
    first, second = (rng.integers(0, 2**64, n, dtype=np.uint64) for n in (100_000, 10_000))
    assert len(benchmark.pedantic(lambda: list(close_pairs(first, second, 4)), rounds=1)) < 10
