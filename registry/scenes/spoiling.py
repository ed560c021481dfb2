"""Images and questions of scenes spoilt on purpose, so that the modality that causes uncertainty is known.

None of these is a perturbation of a spec, so a probe for the spoilt modality never sees the same damage in training.
"""

import re
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from qualm.registry.scenes.world import SHAPES, VALUES

Pixels = NDArray[np.uint8]

FOG = (205.0, 0.1)
"""Grey level, and the share of the image that remains."""
TILES = 7
SPECKLES = 0.5
"""Share of pixels that are replaced."""

BAR = 15
"""Period of the bars in pixels."""
PARTS = 4

WORD = re.compile(r"[A-Za-z]+")
SHORT = 4
"""Words with fewer letters (`is`, `the`, `red`) are not misspelt."""


def foggy(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Return the image blended into grey, a tenth of its contrast left; `rng` is unused."""
    grey, share = FOG
    return np.rint(grey + share * (pixels.astype(np.float64) - grey)).astype(np.uint8)


def tiled(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Return the image as a grid of 7 x 7 flat tiles, each the colour of a random pixel in it."""
    height, width = pixels.shape[:2]
    rows, columns = (np.arange(n) * TILES // n for n in (height, width))
    place = rng.random((2, TILES, TILES))
    ys, xs = ((np.arange(TILES)[:, None] if axis == 0 else np.arange(TILES)[None, :]) + place[axis] for axis in (0, 1))
    colours = pixels[(ys * height / TILES).astype(int).clip(0, height - 1), (xs * width / TILES).astype(int).clip(0, width - 1)]
    result: Pixels = colours[rows][:, columns]
    return result


def speckled(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Return the image with half of its pixels replaced by random colours."""
    hit = rng.random(pixels.shape[:2]) < SPECKLES
    result: Pixels = np.where(hit[..., None], rng.integers(0, 256, pixels.shape, dtype=np.uint8), pixels)
    return result


def barred(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Return the image under upright black bars over two thirds of it."""
    columns = (np.arange(pixels.shape[1]) + int(rng.integers(BAR))) % BAR
    result: Pixels = np.where((columns < BAR * 2 // 3)[None, :, None], np.uint8(0), pixels)
    return result


def scrambled(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Return the image cut into a 4 x 4 grid whose blocks are permuted; leftover edges stay."""
    high, wide = (n // PARTS for n in pixels.shape[:2])
    result = pixels.copy()
    for to, of in enumerate(rng.permutation(PARTS * PARTS)):
        (y, x), (v, u) = (divmod(int(place), PARTS) for place in (to, of))
        result[y * high : (y + 1) * high, x * wide : (x + 1) * wide] = pixels[v * high : (v + 1) * high, u * wide : (u + 1) * wide]
    return result


def smeared(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Return the image with each row averaged over a third of the width, cyclically."""
    reach = max(1, pixels.shape[1] // 3)
    mean = np.mean([np.roll(pixels, shift, axis=1).astype(np.float64) for shift in range(reach)], axis=0)
    result: Pixels = np.rint(mean).astype(np.uint8)
    return result


def misspelt(question: str, rng: np.random.Generator) -> str:
    """Return the question with two letters swapped in each word of four letters or more."""

    def change(match: re.Match[str]) -> str:
        word = match[0]
        places = [i for i in range(1, len(word) - 1) if word[i] != word[i + 1]]
        if len(word) < SHORT or not places:
            return word
        i = places[int(rng.integers(len(places)))]
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]

    return WORD.sub(change, question)


def gapped(question: str, rng: np.random.Generator) -> str:
    """Return the question with a third of its words, longest first, as "..."."""
    words = list(WORD.finditer(question))
    order = sorted(range(len(words)), key=lambda i: (-len(words[i][0]), rng.random()))
    gaps = set(order[: max(1, len(words) // 3)])
    parts = iter(range(len(words)))
    return WORD.sub(lambda match: "..." if next(parts) in gaps else match[0], question)


def cut(question: str, rng: np.random.Generator) -> str:
    """Return the question cut before a random word of its second half, with " ..."."""
    words = question.split(" ")
    keep = int(rng.integers(max(1, len(words) // 2), max(2, len(words))))
    return " ".join(words[:keep]) + " ..."


def jumbled(question: str, rng: np.random.Generator) -> str:
    """Return the question's words in random order, with "?" at the end."""
    words = WORD.findall(question)
    return " ".join(words[i] for i in rng.permutation(len(words)).tolist()) + "?"


def vague(question: str, rng: np.random.Generator) -> str:
    """Return the question without attribute words, each shape as "thing"."""
    values = {value for attribute in VALUES for value in VALUES[attribute] if attribute != "shape"}
    things = {word for shape in (*SHAPES, "object") for word in (shape, f"{shape}s")}
    return " ".join("thing" if w in things else w for w in re.findall(r"\w+|\?", question) if w not in values).replace(" ?", "?")


def padded(question: str, rng: np.random.Generator) -> str:
    """Return the question with a random word of it after each word."""
    words = WORD.findall(question)
    return WORD.sub(lambda match: f"{match[0]} {words[int(rng.integers(len(words)))]}", question)


PICTURES: Mapping[str, Callable[[Pixels, np.random.Generator], Pixels]] = {
    of.__name__: of for of in (foggy, tiled, speckled, barred, scrambled, smeared)
}
QUESTIONS: Mapping[str, Callable[[str, np.random.Generator], str]] = {
    of.__name__: of for of in (misspelt, gapped, cut, jumbled, vague, padded)
}
