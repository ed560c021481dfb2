"""Targets, things and pictures for tests of what makes pairs of pictures."""

import numpy as np
import PIL.Image

from qualm.registry.scenes.render import render
from qualm.registry.scenes.world import make_scene
from qualm.runners.contracts.inpainters import Job
from qualm.runners.contracts.masks import MaskRequest
from qualm.runners.contracts.pairs import PairContext
from qualm.runners.contracts.saliency import Target, Thing
from qualm.runners.runtime.settings import Settings


def context(**settings):
    return PairContext({}, 7, "label", Settings(**{"device": "cpu", "workers": 1, "progress": False, **settings}))


def noise(width, height, seed=0):
    return PIL.Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def thing(name="dog", boxes=(), objects=()):
    return Thing(name, f"{name}s", tuple(boxes), tuple(objects))


def target(what, scene=None, **more):
    row = {"sample_id": "s", "image_id": "i", "split": "test", "group": ""}
    return Target("key", row, "What color is the dog?", "red", what, scene=scene, **more)


def wanted(picture, name="dog", boxes=(), objects=(), scene=None):
    what = thing(name, boxes, objects)
    return MaskRequest(target(what, scene), what, picture)


def scene_and_picture(level="easy", index=0, seed=5):
    scene = make_scene(seed, level, "test", index)
    return scene, PIL.Image.fromarray(render(scene))


def job(picture, mask, scene=None, objects=()):
    what = thing(objects=objects)
    return Job(target(what, scene), what, picture, mask)


def hole(width, height, left=5, top=4, side=6):
    mask = np.zeros((height, width), bool)
    mask[top : top + side, left : left + side] = True
    return mask
