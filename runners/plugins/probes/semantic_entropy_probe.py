"""Semantic entropy probe: a linear probe that predicts from one answer's hidden state whether sampled answers differ in meaning."""

from typing import Annotated, Literal

from annotated_types import Gt

from qualm.runners.contracts.probes import Floats, ProbeDesign, stack_rows

NEEDS = {"states": "hidden_states/{layer}/{place}"}
TARGET = {"high": "of"}
CITES = ["kossen2024semantic"]


def semantic_entropy_probe(
    states: list[Floats],
    *,
    of: str = "semantic_entropy",
    layer: str = "middle",
    place: Literal["prompt_last", "answer_last", "answer_mean"] = "answer_last",
    decay: Annotated[float, Gt(0)] = 1.0,
) -> ProbeDesign:
    """Return the design of a logistic regression for P(entropy is high) on a hidden state.

    In [0, 1], higher = more uncertain. High means above the threshold that splits the training entropies into two classes with the smallest
    squared error. No judged answers are needed. Once trained, it needs one answer per question; here the entropy itself is scored beside
    it.

    Args:
        states: of the place.
        of: label of the estimator whose high values are learnt.
        layer: `middle`, `last`, a number (0 = embeddings) or a share of the depth.
        place: `prompt_last` is the paper's "token before generating", `answer_last` its "second last token".
        decay: weight of half the squared norm of the coefficients beside the summed log loss; larger = simpler.
    """
    return ProbeDesign(stack_rows(states), decay=decay)
