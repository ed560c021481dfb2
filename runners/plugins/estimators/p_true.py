"""P(True): Kadavath et al., "Language Models (Mostly) Know What They Know", 2022."""

import numpy as np

from qualm.runners.contracts.estimators import Floats

CITES = ["kadavath2022language"]
NEEDS = ["p_true"]


def p_true(p_true: Floats) -> Floats:
    """Return -ln `p_true` in nats: P("True") when the model is asked if its answer is true.

    U = -ln P("True"), the probability of the next token when it is asked whether the possible answer is (A) True or (B) False, in nats,
    from 0 up, higher = more uncertain; not normalised by that of "False". +inf at probability 0; undefined where "True" is not a
    single token of the model. That prompt is actually sent (`docs/explanation/inference.md`); LM-Polygraph 0.7 sends the bare question in
    its visual path.

    Example: P("True") = .7 gives .356675.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(p_true) + 0.0, dtype=np.float64)
