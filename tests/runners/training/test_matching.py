import math

import numpy as np
import torch

from qualm.registry.scenes.world import make_scene
from qualm.runners.training.matching import Matcher, Matches, build_clip, listing
from tests.support.models.tiny_parts import words_tokenizer


def scenes(n):
    return [make_scene(7, "hard", "test", i) for i in range(n)]


def test_a_listing_names_every_object_from_left_to_right():
    scene = scenes(1)[0]
    words = listing(scene).split(", ")
    assert len(words) == len(scene["objects"])
    turned = {**scene, "objects": scene["objects"][::-1]}
    assert listing(turned) == listing(scene), "the order in the graph makes no difference"
    leftmost = min(scene["objects"], key=lambda thing: thing["pixel_coords"][0])
    assert leftmost["color"] in words[0] and leftmost["shape"] in words[0]


class Pictures:
    def __init__(self, scenes):
        self.scenes, self.pixels = scenes, np.zeros((len(scenes), 64, 64, 3), np.uint8)


def test_no_two_of_a_batch_have_one_listing_and_batches_follow_from_the_step(monkeypatch):
    some = scenes(3)
    matches = Matches(Pictures([*some, *some]), None, 7, 3)
    rows = []
    monkeypatch.setattr(matches, "tensors", lambda chosen: rows.append(list(chosen)))
    for step in (0, 1, 0):
        matches(step)
    assert rows[0] == rows[2] != rows[1]
    for chosen in rows:
        assert len({matches.listings[row] for row in chosen}) == len(chosen) == 3


def test_the_rate_rises_and_falls_like_a_cosine():
    matcher = Matcher(torch.nn.Linear(2, 2), steps=100, rate=0.01)
    schedule = matcher.configure_optimizers()["lr_scheduler"]["scheduler"].lr_lambdas[0]
    assert schedule(0) == 0.2 * 1.0 and schedule(4) == 0.5 * (1 + math.cos(math.pi * 0.04)) and schedule(100) == 0.0
    assert schedule(50) == 0.5 * (1 + math.cos(math.pi / 2))


def test_a_clip_is_as_large_as_it_is_asked_to_be():
    model = build_clip(words_tokenizer(), pixels=32, patch=8, width=16, layers=2, heads=2)
    assert model.config.vision_config.image_size == 32 and model.config.projection_dim == 16
    assert len(model.vision_model.encoder.layers) == len(model.text_model.encoder.layers) == 2
