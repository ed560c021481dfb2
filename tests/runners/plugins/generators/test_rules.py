import numpy as np
import pytest

from qualm.registry.scenes.contrast import CATEGORIES, REFUSALS, prove
from qualm.registry.scenes.world import make_scene
from qualm.runners.contracts.generators import Composer, GeneratorError
from qualm.runners.inference.generator import open_engine, open_generator
from qualm.runners.runtime.settings import Settings

SETTINGS = Settings(progress=False)


@pytest.mark.parametrize("category", [c for c in CATEGORIES if c != "extraneous"])
def test_every_pair_is_proved(category):
    engine = open_engine("rules", SETTINGS)
    assert isinstance(engine, Composer)
    made = 0
    for index in range(30):
        scene = make_scene(3, "easy", "test", index)
        pair = engine.compose(scene, category, np.random.default_rng(index))
        if pair is None:
            continue
        made += 1
        assert pair.proof == prove(scene, pair.answerable.text, pair.answerable.answer, pair.unanswerable.text)
    assert made > 10


def test_refusals():
    first = open_engine({"plugin": "rules", "args": {"refusals": "first"}}, SETTINGS)
    every = open_engine("rules", SETTINGS)
    rng = np.random.default_rng(0)
    question = "How heavy is the red cube?"
    assert {first.decline("knowledge", question, rng) for _ in range(20)} == {REFUSALS["knowledge"][0]}
    assert {every.decline("knowledge", question, rng) for _ in range(60)} == set(REFUSALS["knowledge"])


def test_what_it_cannot_do():
    with pytest.raises(ValueError, match="expected one of knowledge, complexity, temporal, ambiguity, got 'extraneous'"):
        open_engine("rules", SETTINGS).compose(make_scene(3, "easy", "test", 0), "extraneous", np.random.default_rng(0))
    with pytest.raises(GeneratorError, match="answers no prompts"):
        open_generator("rules", SETTINGS)
