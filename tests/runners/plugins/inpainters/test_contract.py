"""What every inpainter promises; `lama` is held to the same in its own file, since it needs a model."""

import numpy as np
import PIL.Image
import pytest

from qualm.registry.plugins.registry import get, load, names
from qualm.registry.scenes.removal import silhouette
from qualm.runners.contracts.masks import dilated
from tests.support.data.targets import context, hole, job, scene_and_picture

FREE = [name for name in names("inpainters") if name != "lama"]


def jobs(level="easy", n=5):
    made = []
    for index in range(n):
        scene, picture = scene_and_picture(level, index)
        made.append(job(picture, dilated(silhouette(scene, [0]), 5), scene, [0]))
    return made


@pytest.mark.parametrize("name", names("inpainters"))
def test_every_inpainter_is_documented(name):
    plugin = get("inpainters", name)
    assert plugin.reads == ("context",) and plugin.summary


@pytest.mark.parametrize("name", FREE)
def test_size_mode_and_input_stay_and_neighbours_do_not_matter(name):
    inpaint = load("inpainters", name)(context())
    batch = jobs()
    before = [(j.picture.tobytes(), j.mask.tobytes()) for j in batch]
    made = inpaint(batch)
    assert [(p.size, p.mode) for p in made] == [(j.picture.size, "RGB") for j in batch]
    assert [(j.picture.tobytes(), j.mask.tobytes()) for j in batch] == before
    assert [inpaint([j])[0].tobytes() for j in batch[::-1]] == [p.tobytes() for p in made[::-1]]
    assert all(p.tobytes() != j.picture.tobytes() for p, j in zip(made, batch, strict=True))


@pytest.mark.parametrize("name", ["telea", "navier_stokes"])
def test_outside_the_mask_every_pixel_stays(name):
    for one in jobs("medium", 3):
        (made,) = load("inpainters", name)(context())([one])
        kept = ~one.mask
        assert (np.asarray(made)[kept] == np.asarray(one.picture)[kept]).all()


@pytest.mark.parametrize("name", ["telea", "navier_stokes"])
def test_plain_ground_is_continued_and_each_channel_alike(name):
    inpaint = load("inpainters", name)(context())
    ground = np.full((20, 24, 3), (200, 90, 10), np.uint8)
    spoiled = ground.copy()
    spoiled[hole(24, 20)] = (1, 255, 3)
    (made,) = inpaint([job(PIL.Image.fromarray(spoiled), hole(24, 20))])
    assert np.abs(np.asarray(made).astype(int) - ground).max() <= 2  # weighted means of equal levels, rounded one after the other
    ramp = np.random.default_rng(0).integers(0, 255, (20, 24, 3), dtype=np.uint8)
    (one,) = inpaint([job(PIL.Image.fromarray(ramp), hole(24, 20))])
    (turned,) = inpaint([job(PIL.Image.fromarray(np.ascontiguousarray(ramp[..., ::-1])), hole(24, 20))])
    assert (np.asarray(one) == np.asarray(turned)[..., ::-1]).all()
