"""Laws that every masker keeps, and dilation, which all masks share."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

import qualm.runners.contracts.masks
from qualm.registry.plugins.registry import get, load, names
from qualm.runners.contracts.masks import dilated
from tests.support.data.targets import context, noise, scene_and_picture, wanted
from tests.support.models.tiny_masks import tiny_detector, tiny_segmenter


def test_examples_in_the_docs_hold():
    assert doctest.testmod(qualm.runners.contracts.masks).failed == 0


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_dilation_is_what_scipy_makes_of_the_same_square(kernel, seed):
    mask = np.random.default_rng(seed).random((17, 23)) < 0.05
    even = (kernel + 1) % 2  # scipy's even squares lean the other way
    expected = ndimage.binary_dilation(mask, np.ones((kernel, kernel)), origin=(-even, -even)) if kernel > 1 else mask
    assert (dilated(mask, kernel) == expected).all()


@pytest.mark.parametrize("name", names("masks"))
def test_every_masker_is_documented_and_says_when_it_makes_none(name):
    plugin = get("masks", name)
    assert plugin.reads == ("context",) and plugin.summary
    assert "No mask:" in plugin.doc


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {"detector": str(tiny_detector(root / "detector")), "segmenter": str(tiny_segmenter(root / "segmenter"))}


def requests(name):
    """Scenes with boxes, one of them with its object out of the image; for a model that looks, images of several sizes too."""
    scenes = [scene_and_picture(level, index) for level, index in (("easy", 0), ("medium", 1), ("easy", 2))]
    batch = [wanted(picture, boxes=[(3, 3, 20, 20.5), (40, 10, 30, 9)], objects=[0], scene=scene) for scene, picture in scenes]
    scene, picture = scenes[0]
    away = {**scene["objects"][0], "pixel_coords": [900.0, 10.0, 9.0], "3d_coords": [60.0, 0.0, 0.7]}
    batch.append(wanted(picture, boxes=[(99, 99, 5, 5)], objects=[0], scene={**scene, "objects": [away]}))
    return batch + ([wanted(noise(80, 60, 2), "dog"), wanted(noise(64, 64, 3), "cat")] if name == "grounded_sam" else [])


@pytest.mark.slow
@pytest.mark.parametrize("name", names("masks"))
def test_a_mask_depends_on_its_own_request_and_covers_something(name, request, tmp_path, monkeypatch):
    args = request.getfixturevalue("models") if name == "grounded_sam" else {}

    def make(batch, folder):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)  # nothing stored
        return load("masks", name)(context(), **args)(batch)

    batch = requests(name)
    before = [asked.picture.tobytes() for asked in batch]
    made = make(batch, "all")
    assert make([], "none") == [] and [asked.picture.tobytes() for asked in batch] == before
    for asked, mask in zip(batch, made, strict=True):
        assert mask == "out of frame" if asked is batch[3] else mask.dtype == bool and mask.any()
        assert isinstance(mask, str) or mask.shape == asked.picture.size[::-1]
    for other in (make(batch[::-1], "reversed")[::-1], [make([asked], f"alone{i}")[0] for i, asked in enumerate(batch)]):
        assert [np.asarray(mask).tolist() for mask in other] == [np.asarray(mask).tolist() for mask in made]
