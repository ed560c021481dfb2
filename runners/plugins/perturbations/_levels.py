"""Shared by operations on levels 0..255: look-up tables that round as Pillow does, relative lengths, and fast random numbers."""

from functools import lru_cache
from typing import Any

from numpy.random import Generator
from PIL.Image import Image


@lru_cache(maxsize=64)
def brightness_table(factor: float) -> list[int]:
    """New level for every level of three channels, exactly as `PIL.ImageEnhance.Brightness(image).enhance(factor)` makes them.

    Black is blended with the picture channel by channel, so a level's new value follows from the level alone; looking it up costs half
    of blending.
    """
    import numpy as np
    from PIL import Image, ImageEnhance

    ramp = Image.fromarray(np.arange(256, dtype=np.uint8)[None])
    return list(ImageEnhance.Brightness(ramp).enhance(factor).tobytes()) * 3


def brightened(batch: list[Image], factor: float) -> list[Image]:
    """Every level times a factor, cut to a whole number and to 255."""
    return [image.point(brightness_table(factor)) if factor != 1 else image.copy() for image in batch]


def pixels_of(length: float, image: Image, relative: bool) -> float:
    """A length in pixels: as it is, or as percent of the picture's shorter side."""
    return length * min(image.size) / 100 if relative else length


def raw_numbers(rng: Generator, n: int, dtype: str) -> Any:
    """Uniform unsigned integers (`<u2`, `<u4`), straight from the generator's bits; the same on machines of either byte order."""
    import numpy as np

    wide = rng.bit_generator.random_raw(-(-n * np.dtype(dtype).itemsize // 8))
    return np.asarray(wide, dtype="<u8").view(dtype)[:n]


@lru_cache(maxsize=1)
def normal_quantiles() -> Any:
    """65,536 equally likely values of a standard normal number: its quantiles at (i + 1/2) / 65536, as float64."""
    from statistics import NormalDist

    import numpy as np

    upper = [NormalDist().inv_cdf((i + 0.5) / 65536) for i in range(32768, 65536)]
    return np.array([*(-x for x in reversed(upper)), *upper])


@lru_cache(maxsize=16)
def noise_table(sigma: float) -> Any:
    """16 random bits -> what to add to a level: a normal number of that standard deviation, rounded; more than 255 is 255."""
    import numpy as np

    return np.clip(np.rint(normal_quantiles() * sigma), -255, 255).astype(np.int16)
