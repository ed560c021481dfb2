"""P(True) over samples: Kadavath et al., "Language Models (Mostly) Know What They Know", 2022; LM-Polygraph's PTrueSampling."""

from qualm.runners.contracts.estimators import Floats
from qualm.runners.plugins.estimators.p_true import p_true

CITES = ["kadavath2022language"]
NEEDS = ["p_true_sampling"]


def p_true_sampling(p_true_sampling: Floats) -> Floats:
    """Return -ln `p_true_sampling` in nats: P("True") if the model sees its samples too.

    U = -ln P("True") as in p_true, but with all sampled answers (`inference.draws`), in order and with repeats, in the prompt before the
    possible answer; in nats, from 0 up, higher = more uncertain. Kadavath et al. found it better calibrated than P(True) of one answer.
    Undefined where there are no samples: for multiple choice. The prompt is in `docs/explanation/inference.md`.

    Example: P("True") = .7 gives .356675.
    """
    return p_true(p_true_sampling)
