"""Option rate: the E and F rates of VLM-Uncertainty-Bench (Kostumov et al., 2024)."""

from qualm.registry import LETTERS
from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

CITES = ["kostumov2024uncertainty"]
META = MetricMeta(higher_is_better=None, interval="proportion", row_by_row=True)


def option_rate(predicted: Floats, n_options: Floats, is_calibration: Floats, weights: Weights, *, option: str | int) -> Floats:
    """Share of test rows on which the model's likeliest option is the given one.

    mean 1[argmax = option], in [0, 1], over the test rows that have that option; undefined if none has. Neither
    direction is better by itself: "I don't know" is the better choice where the model would err.

    Args:
        option: Its letter ("E") or its place from 0 (4).

    Raises:
        ValueError: neither a letter from A to Z nor a place from 0 on.
    """
    place = option if isinstance(option, int) else LETTERS.find(option.upper()) if len(option) == 1 else -1
    if place < 0:
        raise ValueError(f"option_rate: option: expected a letter from A to Z or a place from 0 on, got {option!r}")
    return mean((predicted == place) * 1.0, (1 - is_calibration) * (n_options > place), weights)
