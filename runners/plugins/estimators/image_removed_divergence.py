"""Divergence of the answer's distribution when the image is removed. An estimator of our own, from no paper."""

from qualm.runners.contracts.estimators import Floats, Rows, means

NEEDS = ["image_divergence"]


def image_removed_divergence(image_divergence: Rows) -> Floats:
    """Return minus each answer's mean KL divergence of tokens with and without the image.

    U = -(1/T) sum_t KL(p(. | y_<t, image, question) || p(. | y_<t, question)), over the full vocabulary, in nats, at most 0; higher =
    more uncertain, in the sense that the answer would be given whatever the image shows: at 0 it does not depend on it. Only
    questions about an image have a value. Undefined for an empty generation.

    Example: divergences .3 and .1 give -.2.
    """
    return -means(image_divergence) + 0.0
