"""What every image perturbation keeps, checked on whatever one of them makes of pictures of all shapes."""

from functools import partial

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


def keeps_the_contract(function, by_chance, **args):
    """Size, mode, inputs, neighbours, order and chance, on pictures of every shape."""
    apply = partial(function, **args)
    images = [picture(i, size) for i, size in enumerate(SHAPES)]
    before = [image.tobytes() for image in images]
    made = apply(images, [rng(str(i)) for i in range(len(images))])
    assert [(m.size, m.mode) for m in made] == [(i.size, "RGB") for i in images]
    assert [i.tobytes() for i in images] == before
    assert all(m is not i for m, i in zip(made, images, strict=True))
    alone = [apply([image], [rng(str(i))])[0].tobytes() for i, image in enumerate(images)]
    assert alone == [m.tobytes() for m in made]
    reversed_ = apply(images[::-1], [rng(str(i)) for i in range(len(images))][::-1])
    assert [m.tobytes() for m in reversed_] == alone[::-1]
    big = picture(99)
    assert apply([big], [rng()])[0].tobytes() == apply([big], [rng()])[0].tobytes()
    others = {apply([big], [random_generator(*key)])[0].tobytes() for key in ((7, "v", "a"), (7, "v", "b"), (7, "w", "a"), (8, "v", "a"))}
    assert len(others) == (4 if by_chance else 1)


def changes_nothing(function, **args):
    for i, size in enumerate(SHAPES):
        image = picture(i, size)
        (made,) = function([image], [rng()], **args)
        assert made is not image and made.tobytes() == image.tobytes() and made.size == image.size
