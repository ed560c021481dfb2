"""What an uncertainty that knows nothing reaches, on average over its orders: what estimators must be better than.

Of metrics that are about the order of answers by uncertainty. Where the level follows from the accuracy, it is that of the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

FIXED: Mapping[str, float] = {"auroc": 0.5, "prediction_rejection_ratio": 0.0}
BY_ACCURACY: Mapping[str, tuple[Callable[[float], float], str]] = {
    "auarc": (lambda accuracy: accuracy, "the accuracy"),
    "selective_accuracy": (lambda accuracy: accuracy, "the accuracy"),
    "aurc": (lambda accuracy: 1 - accuracy, "1 − accuracy"),
    "augrc": (lambda accuracy: (1 - accuracy) / 2, "(1 − accuracy) / 2"),
}


def chance_level(metric: str, accuracy: float | None) -> float | None:
    """The level of a metric, given the accuracy of the answers that it is over; None where it is not known.

    >>> chance_level("auroc", None), chance_level("augrc", 0.5), chance_level("augrc", None), chance_level("ece", 0.5)
    (0.5, 0.25, None, None)
    """
    if metric in BY_ACCURACY:
        return None if accuracy is None else BY_ACCURACY[metric][0](accuracy)
    return FIXED.get(metric)


def in_words(metrics: Iterable[str]) -> str:
    """The levels of these metrics in one sentence; empty where none is known.

    >>> in_words(["auarc", "ece", "auroc"])
    'chance, of an uncertainty that knows nothing: auarc the accuracy, auroc 0.5'
    """
    levels = {
        name: BY_ACCURACY[name][1] if name in BY_ACCURACY else f"{FIXED[name]:g}" for name in metrics if name in {*FIXED, *BY_ACCURACY}
    }
    return (
        f"chance, of an uncertainty that knows nothing: {', '.join(f'{name} {level}' for name, level in levels.items())}" if levels else ""
    )
