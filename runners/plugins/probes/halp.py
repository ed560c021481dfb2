"""HALP: a small network that predicts hallucination from the query's or the image's tokens before anything is generated."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Gt

from qualm.runners.contracts.probes import Floats, ProbeDesign, stack_rows

NEEDS = {"states": "hidden_states/{layer}/{place}"}
TARGET = "wrong"
CITES = ["kogilathota2026halp"]

HIDDEN = (512, 256, 128)
"""Units of the paper's hidden layers."""


def halp(
    states: list[Floats],
    *,
    layer: str = "last",
    epochs: Annotated[int, Ge(1)] = 50,
    rate: Annotated[float, Gt(0)] = 1e-3,
    place: Literal["prompt_last", "image_last", "image_mean"] = "prompt_last",
) -> ProbeDesign:
    """Return the design of a network for P(answer is wrong) from a prompt's hidden state.

    The paper's three probes: of the query token (`prompt_last`, its best for most models), of the vision token (`image_last`, the last one
    of the image), and of visual features, before they meet the question: `image_mean` at `layer: "0"`. Those are the mean of the
    image's tokens as the language model is handed them; the paper takes the mean of the vision encoder's output, one projection
    earlier. Network and loss (binary cross-entropy) are the paper's; optimiser, epochs and rate are ours.

    Args:
        states: of that place.
        layer: `middle`, `last`, a number (0 = embeddings) or a share of the depth; the paper tries 1, 1/4, 1/2, 3/4 and the last.
        epochs: passes over the training answers.
        rate: learning rate of AdamW.
        place: the token whose state is read, or the mean of the image's.
    """
    return ProbeDesign(stack_rows(states), hidden=HIDDEN, decay=0.01, epochs=epochs, rate=rate)
