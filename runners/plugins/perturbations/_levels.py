"""Operations on levels 0..255: look-up tables that round as Pillow does, relative lengths, and fast random numbers."""

from functools import lru_cache
from typing import Any

from numpy.random import Generator
from PIL.Image import Image


@lru_cache(maxsize=64)
def brightness_table(factor: float) -> list[int]:
    """Return Pillow's brightness table: the new level of 0..255, repeated for three channels.

    Black is blended channel by channel, so a level's new value depends on the level alone; looking it up takes half the time.
    """
    import numpy as np
    from PIL import Image, ImageEnhance

    ramp = Image.fromarray(np.arange(256, dtype=np.uint8)[None])
    return list(ImageEnhance.Brightness(ramp).enhance(factor).tobytes()) * 3


def brightened(batch: list[Image], factor: float) -> list[Image]:
    """Return images with every level times `factor`, rounded down and at most 255."""
    return [image.point(brightness_table(factor)) if factor != 1 else image.copy() for image in batch]


def to_pixels(length: float, image: Image, relative: bool) -> float:
    """Return a length in pixels; with `relative` it is given in percent of the shorter side."""
    return length * min(image.size) / 100 if relative else length


def raw_numbers(rng: Generator, n: int, dtype: str) -> Any:
    """Return (n,) random unsigned integers of a dtype (`<u2`, `<u4`), equal on all machines."""
    import numpy as np

    wide = rng.bit_generator.random_raw(-(-n * np.dtype(dtype).itemsize // 8))
    return np.asarray(wide, dtype="<u8").view(dtype)[:n]


@lru_cache(maxsize=1)
def normal_quantiles() -> Any:
    """Return the (65,536,) quantiles of a standard normal number at (i + 1/2) / 65536."""
    from statistics import NormalDist

    import numpy as np

    upper = [NormalDist().inv_cdf((i + 0.5) / 65536) for i in range(32768, 65536)]
    return np.array([*(-x for x in reversed(upper)), *upper])


@lru_cache(maxsize=16)
def noise_table(sigma: float) -> Any:
    """Return (65,536,) rounded normal numbers within +-255, one for each value of 16 bits."""
    import numpy as np

    return np.clip(np.rint(normal_quantiles() * sigma), -255, 255).astype(np.int16)
