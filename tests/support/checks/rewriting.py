"""A batch for perturbations that have questions written anew: pictures, rows, and a server or model that writes."""

import numpy as np
from PIL import Image

from qualm.registry.plugins.registry import load
from qualm.runners.contracts.perturbations import PerturbContext, random_generator
from qualm.runners.runtime.settings import Settings
from tests.support.data.recordings import png
from tests.support.servers.small_server import IMPATIENT

SETTINGS = Settings(progress=False, workers=1, device="cpu", servers={"default": {**IMPATIENT["default"], "concurrency": 1}})
PNG = png()


def context(rows, scenes=None, settings=SETTINGS, label="v", seed=7):
    return PerturbContext(settings, seed, label, rows, [PNG] * len(rows), [{} for _ in rows], lambda: {} if scenes is None else scenes)


def rows(questions):
    return [{"sample_id": f"s{i}", "image_id": f"i{i}", "question": q} for i, q in enumerate(questions)]


def perturbed(name, questions, given=None, **args):
    """What a perturbation makes of questions (of each on a small picture, if it is cross-modal), and its context."""
    given = given or context(rows(questions))
    rngs = [random_generator(7, name, f"s{i}") for i in range(len(questions))]
    image = Image.fromarray(np.zeros((4, 4, 3), np.uint8))
    batch = questions if name in ("inv", "sbj") else [(image, q) for q in questions]
    made = load("perturbations", name)(given, batch, rngs, **args)
    if name in ("inv", "sbj"):
        return made, given
    assert all(one is None or one[0] is image for one in made)
    return [one and one[1] for one in made], given


def server(url, model="writer-2026"):
    return {"plugin": "openai", "args": {"model": model, "base_url": url}}
