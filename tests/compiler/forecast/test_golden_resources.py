"""Memory, batch and seconds of published models on every card, held to tests/golden/resources.json.

After a change that is meant: HELD=write pytest tests/compiler/forecast/test_golden_resources.py
"""

from __future__ import annotations

from dataclasses import asdict

import pytest

from qualm.compiler.forecast.gpus import CARDS, card
from qualm.compiler.forecast.model_sizes import of_published
from qualm.compiler.forecast.resources import Workload, largest_batch, memory, seconds
from qualm.registry.published.models import published
from tests.support.checks.held_numbers import held

WORK = {
    "greedy": Workload(frozenset(), 0, 16, 576),
    "draws": Workload(frozenset({"p_true", "logprobs_without_image", "uniform_divergence"}), 10, 32, 300),
    "all": Workload(frozenset({"p_yes", "p_true", "p_true_sampling", "said_confidence", "logprobs_without_both"}), 3, 1, 0),
}
LAYOUTS = (("bfloat16", "none"), ("float32", "none"), ("float16", "nf4"), ("bfloat16", "int8"))


def test_cards_are_as_ever() -> None:
    told = card("100 2000 24")
    held("resources.json", "cards", {name: asdict(of) for name, of in {**CARDS, "told": told}.items()})


@pytest.mark.parametrize("work", WORK)
def test_what_models_take_is_as_ever(work: str) -> None:
    shown = {}
    for name, model in list(published().items())[::5]:
        size = of_published(model)
        if size is None:
            shown[name] = None
            continue
        taken = {}
        for dtype, quantisation in LAYOUTS:
            of = memory(size, WORK[work], 8, dtype, quantisation)
            batches = [largest_batch(size, WORK[work], gpu.memory, dtype, quantisation) for gpu in CARDS.values()]
            times = [seconds(size, WORK[work], 4, dtype, gpu, quantisation) for gpu in (CARDS["h100"], CARDS["t4"])]
            taken[f"{dtype} {quantisation}"] = [of.total, of.cache, batches, *(one.total for one in times), times[0].traffic]
        shown[name] = {"size": [size.body, size.vision, size.image_tokens], **taken}
    held("resources.json", work, shown)
