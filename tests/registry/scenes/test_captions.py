import re

import pytest

from qualm.registry.scenes.captions import caption
from qualm.registry.scenes.questions import noun_phrase
from qualm.registry.scenes.world import LEVELS, make_scene


@pytest.mark.parametrize("level", LEVELS)
def test_it_says_what_the_graph_says(level):
    for index in range(12):
        scene = make_scene(3, level, "test", index)
        text = caption(scene)
        assert text == caption(scene)
        sentences = text.split(". ")
        assert len(sentences) == len(scene["objects"]) + 1
        for thing in scene["objects"]:
            assert f"A {noun_phrase({a: thing[a] for a in LEVELS[level].attributes})} stands" in text


def test_sides_follow_the_relations():
    told = 0
    for index in range(40):
        scene = make_scene(3, "easy", "test", index)
        order = sorted(range(len(scene["objects"])), key=lambda i: scene["objects"][i]["pixel_coords"][0])
        for i, before, sentence in zip(order[1:], order, caption(scene).split(". ")[2:], strict=False):
            for phrase, name in (
                ("to the right of", "right"),
                ("in front of", "front"),
                ("behind the", "behind"),
                ("to the left of", "left"),
            ):
                if phrase in re.sub(r"stands.*?, at the (back|front)|halfway back", "", sentence):
                    assert i in scene["relationships"][name][before], sentence
                    told += 1
    assert told > 20
