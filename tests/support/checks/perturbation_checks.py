"""Images of all shapes, their random numbers, and one perturbed."""

import numpy as np
from PIL import Image

from qualm.runners.contracts.perturbations import random_generator

SHAPES = [(1, 1), (1, 2), (2, 1), (4, 1), (1, 4), (3, 5), (40, 30), (700, 2), (2, 700)]


def picture(seed=0, size=(40, 30)):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def ramp():
    """Every level once in each channel, in different orders."""
    levels = np.arange(256, dtype=np.uint8)
    return Image.fromarray(np.stack([levels, levels[::-1], np.roll(levels, 100)], axis=1)[None])


def rng(sample="a", variant="v", seed=7):
    return random_generator(seed, variant, sample)


def one(function, image, sample="a", **args):
    """A picture perturbed, as an array."""
    (made,) = function([image], [rng(sample)], **args)
    return np.asarray(made)
