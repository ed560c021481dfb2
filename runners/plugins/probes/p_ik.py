"""P(IK), "I know": a linear probe of the prompt's last token, before anything is answered."""

from typing import Annotated

from annotated_types import Gt

from qualm.runners.contracts.probes import Floats, ProbeDesign, stack_rows

NEEDS = {"states": "hidden_states/{layer}/prompt_last"}
TARGET = "wrong"
CITES = ["kadavath2022language"]


def p_ik(states: list[Floats], *, layer: str = "middle", decay: Annotated[float, Gt(0)] = 1.0) -> ProbeDesign:
    """Return the design of a logistic regression for 1 - P(IK) on prompts' last-token states.

    In [0, 1], higher = more uncertain. Kadavath et al. 2022 tune the model with a value head; this is the linear probe that later work
    compares with (Kossen et al. 2024: "accuracy probe").

    Args:
        states: one vector per row: the hidden state of its prompt's last token.
        layer: `middle`, `last`, a number (0 = embeddings) or a share of the depth.
        decay: weight of half the squared norm of the coefficients beside the summed log loss; larger = simpler.
    """
    return ProbeDesign(stack_rows(states), decay=decay)
