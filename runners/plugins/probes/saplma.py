"""SAPLMA: Amos Azaria, Tom Mitchell, "The Internal State of an LLM Knows When It's Lying", Findings of EMNLP 2023 (2304.13734)."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt

from qualm.runners.contracts.probes import Floats, ProbeDesign, stack_rows

NEEDS = {"states": "hidden_states/{layer}/{place}"}
TARGET = "wrong"
CITES = ["azaria2023internal"]
HIDDEN = (256, 128, 64)
"""Units of the paper's hidden layers."""


def saplma(
    states: list[Floats],
    *,
    layer: str = "middle",
    place: Literal["answer_last", "answer_mean"] = "answer_last",
    epochs: Annotated[int, Ge(1)] = 5,
    rate: Annotated[float, Gt(0)] = 1e-3,
) -> ProbeDesign:
    """Return the design of a network for P(answer is wrong) from an answer's hidden state.

    In [0, 1], higher = more uncertain. Where `halp` and `p_ik` read the prompt, before anything is answered, this one has seen what the
    model says. Network, epochs and loss (binary cross-entropy) are the paper's; it trains with Adam on statements that are true or
    false, here with AdamW on the model's own answers. Answers of one token have no such state and no value.

    Args:
        states: of the answer's tokens.
        layer: `middle`, `last`, a number (0 = embeddings) or a share of the depth; the paper's best are the middle and layers after it.
        place: the last token of the answer that the model reads, or the mean of them all.
        epochs: passes over what is learnt from.
        rate: learning rate of AdamW.
    """
    return ProbeDesign(stack_rows(states), hidden=HIDDEN, decay=0.01, epochs=epochs, rate=rate)
