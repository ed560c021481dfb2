"""Numbers of a recorded answer that cannot be are undefined, one by one; what was said is kept."""

from collections.abc import Callable, Mapping
from typing import Any

from qualm.registry.formats.plausible import ImplausibleReason, at_least_zero, finite, log_probabilities, probability, same_length

PER_TOKEN = ("token_logprobs", "token_entropies", "logprobs_without_image", "logprobs_without_question", "logprobs_without_both")
CHECKS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys((PER_TOKEN[0], *PER_TOKEN[2:]), log_probabilities),
    **dict.fromkeys(("token_entropies", "image_divergence"), at_least_zero),
    **dict.fromkeys(("p_true", "p_true_sampling", "p_yes"), probability),
    "option_logits": finite,
}
"""Column of GENERATIONS -> what it must be."""


def without_impossible(answer: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """An answer's columns without those that cannot be, and why each is gone.

    >>> without_impossible({"text": "a", "token_logprobs": [5.0], "p_yes": 0.5})
    ({'text': 'a', 'p_yes': 0.5}, ['token_logprobs: a log-probability above 0: 5.0'])
    """
    possible, reasons = {}, []
    for name, value in answer.items():
        checked = CHECKS[name](value) if name in CHECKS and value is not None else value
        if isinstance(checked, ImplausibleReason):
            reasons.append(f"{name}: {checked}")
        else:
            possible[name] = checked
    per_token = {name: possible[name] for name in PER_TOKEN if possible.get(name) is not None}
    if (disagree := same_length(per_token)) is not None:
        reasons.append(disagree)
        possible = {name: value for name, value in possible.items() if name not in per_token}
    return possible, reasons
