"""P(IK), "I know": before anything is answered, does the model know the answer? A linear probe of the prompt's last token."""

from typing import Annotated

from annotated_types import Gt

from qualm.runners.contracts.probes import Floats, ProbeDesign, stacked

NEEDS = {"states": "hidden_states/{layer}/prompt_last"}
TARGET = "wrong"
CITES = ["kadavath2022language"]


def p_ik(states: list[Floats], *, layer: str = "middle", decay: Annotated[float, Gt(0)] = 1.0) -> ProbeDesign:
    """1 - P(IK): logistic regression of whether the answer is wrong on the hidden state of the prompt's last token.

    In [0, 1], higher = more uncertain. Kadavath et al. 2022 tune the model with a value head; this is the linear probe that later work
    compares with (Kossen et al. 2024: "accuracy probe").

    Args:
        states: of the prompt's last token.
        layer: `middle`, `last`, a number (0 = embeddings) or a share of the depth.
        decay: weight of half the squared norm of the coefficients beside the summed log loss; larger = simpler.
    """
    return ProbeDesign(stacked(states), decay=decay)
