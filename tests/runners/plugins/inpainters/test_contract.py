"""Laws that every inpainter keeps, LaMa with a small scripted module."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import PIL.Image
import pytest

from qualm.registry.plugins.registry import get, load, names
from qualm.registry.scenes.removal import silhouette
from qualm.runners.contracts.masks import dilated
from tests.runners.plugins.inpainters.test_lama import saved
from tests.support.data.targets import context, hole, job, scene_and_picture


@pytest.fixture
def open_inpainter(tmp_path, monkeypatch):
    """Return a function that opens an inpainter in a folder where nothing is stored."""
    opened = []

    def open_inpainter(name):
        opened.append(tmp_path / str(len(opened)))
        opened[-1].mkdir()
        monkeypatch.chdir(opened[-1])
        return load("inpainters", name)(context(), **(saved(tmp_path) if name == "lama" else {}))

    return open_inpainter


def jobs(n=4):
    made = []
    for index in range(n):
        scene, picture = scene_and_picture(("easy", "medium")[index % 2], index)
        made.append(job(picture, dilated(silhouette(scene, [0]), 5), scene, [0]))
    return made


@pytest.mark.parametrize("name", names("inpainters"))
def test_every_inpainter_is_documented(name):
    plugin = get("inpainters", name)
    assert plugin.reads == ("context",) and plugin.summary


@pytest.mark.parametrize("name", names("inpainters"))
def test_an_image_depends_on_its_own_job_and_stays_outside_the_mask(name, open_inpainter):
    batch = jobs()
    before = [(j.picture.tobytes(), j.mask.tobytes()) for j in batch]
    made = open_inpainter(name)(batch)
    assert [(p.size, p.mode) for p in made] == [(j.picture.size, "RGB") for j in batch] and open_inpainter(name)([]) == []
    assert [(j.picture.tobytes(), j.mask.tobytes()) for j in batch] == before
    assert [p.tobytes() for p in open_inpainter(name)(batch[::-1])[::-1]] == [p.tobytes() for p in made]
    with ThreadPoolExecutor(4) as pool:
        alone = list(pool.map(lambda inpaint, one: inpaint([one])[0].tobytes(), [open_inpainter(name)] * len(batch), batch))
    assert alone == [p.tobytes() for p in made]
    for image, one in zip(made, batch, strict=True):
        changed = (np.asarray(image) != np.asarray(one.picture)).any(axis=2)
        assert (changed & one.mask).any() and (name == "rerender" or not (changed & ~one.mask).any())


@pytest.mark.parametrize("name", [name for name in names("inpainters") if name != "rerender"])
def test_an_image_of_one_pixel_and_a_mask_of_everything(name, open_inpainter):
    for size in ((1, 1), (9, 5)):
        (made,) = open_inpainter(name)([job(PIL.Image.new("RGB", size, (200, 9, 9)), np.ones(size[::-1], bool))])
        assert (made.size, made.mode) == (size, "RGB")


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
