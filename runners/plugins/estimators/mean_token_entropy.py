"""Mean token entropy (Fomicheva et al., Unsupervised quality estimation for neural machine translation, 2020)."""

from qualm.runners.contracts.estimators import Floats, Rows, means

CITES = ["fomicheva2020unsupervised"]
NEEDS = ["token_entropies"]


def mean_token_entropy(token_entropies: Rows) -> Floats:
    """Return each answer's mean entropy, in nats, of its next-token distributions.

    U = (1/T) sum_t H(p_t), H over the full vocabulary, in nats, from 0 up, higher = more uncertain. Undefined for an
    empty generation. From a server that gives only the likeliest tokens it is a lower bound.

    Example: distributions (.9, .1), (.5, .3, .2), (.8, .1, .1) have entropies .325083, 1.029653, .639032: .664589.
    """
    return means(token_entropies)
