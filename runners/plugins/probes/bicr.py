"""BICR: blind-image contrastive ranking. A probe of the prompt, trained to be more confident with the image than with a black one."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Gt, Le

from qualm.runners.contracts.probes import Floats, ProbeDesign, stack_rows

NEEDS = {"states": "hidden_states/{layer}/prompt_last"}
TARGET = "wrong"
BESIDE = "under"
CITES = ["khanmohammadi2026grounded"]


def bicr(
    states: list[Floats],
    *,
    layer: str = "last",
    under: str = "dark",
    margin: Annotated[float, Gt(0), Le(1)] = 0.1,
    weight: Annotated[float, Ge(0)] = 0.5,
    units: Annotated[int, Ge(1)] = 256,
    epochs: Annotated[int, Ge(1)] = 50,
    rate: Annotated[float, Gt(0)] = 1e-3,
) -> ProbeDesign:
    """Return the design of a network for P(answer is wrong), also trained on black images.

    With c = 1 - P(wrong) of the prompt's last token and c0 that of the same question about a black image, it minimises binary
    cross-entropy + weight * mean over right answers of max(0, margin - (c - c0)) (Khanmohammadi et al. 2026). The black image is read in
    training only; afterwards a question is read once, as by `p_ik`. In [0, 1], higher = more uncertain. The black images are a
    perturbation of the spec, `dark: {factor: 0}`. The paper tunes network, margin and weight for each model; the defaults are ours.

    Args:
        states: of the prompt's last token.
        layer: `middle`, `last`, a number (0 = embeddings) or a share of the depth.
        under: the perturbation, or one variant of it, in which the image is black.
        margin: by how much the confidence in a right answer should be higher with its image.
        weight: of that term beside the cross-entropy; 0 is `p_ik` by a network.
        units: of the one hidden layer.
        epochs: passes over the training answers.
        rate: learning rate of AdamW.
    """
    return ProbeDesign(stack_rows(states), hidden=(units,), decay=0.01, epochs=epochs, rate=rate, margin=margin, ranking=weight)
