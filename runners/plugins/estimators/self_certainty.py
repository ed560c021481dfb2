"""Self-certainty: Zhewei Kang, Xuandong Zhao, Dawn Song, "Scalable Best-of-N Selection for LLMs via Self-Certainty", 2025 (2502.18581)."""

from qualm.runners.contracts.estimators import Floats, Rows, means

CITES = ["kang2025scalable"]
NEEDS = ["uniform_divergence"]


def self_certainty(uniform_divergence: Rows) -> Floats:
    """Return minus each answer's mean KL divergence of uniform from next-token distributions.

    U = -(1/T) sum_t KL(uniform || p_t) = (1/(T V)) sum_t sum_j ln(V p_tj), over the full vocabulary of V tokens, in nats, at most 0, higher
    = more uncertain; the paper's self-certainty is its negative. Unlike entropy it weighs all tokens alike, so that it tells apart
    distributions whose likeliest token is as good as certain. Tokens that the model rules out (logits of -inf) do not count. Undefined for
    an empty generation.

    Example: distributions (.9, .1), (.5, .5), (.8, .2) have divergences .510826, 0, .223144: -.244656.
    """
    return -means(uniform_divergence) + 0.0
