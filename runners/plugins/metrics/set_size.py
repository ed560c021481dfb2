"""Mean size of prediction sets, the uncertainty measure of VLM-Uncertainty-Bench (Kostumov et al., 2024)."""

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

CITES = ["kostumov2024uncertainty"]
META = MetricMeta(higher_is_better=False, interval="skewed", row_by_row=True)


def set_size(set_size: Floats, is_calibration: Floats, weights: Weights) -> Floats:
    """Mean number of options in the prediction sets of the test rows.

    mean |C(x)|, from 0 (1 if empty sets are filled) to the number of options; at equal coverage smaller is better.
    Undefined without test rows.
    """
    return mean(set_size, 1 - is_calibration, weights)


def bounds(never_empty: Floats, n_options: Floats) -> tuple[float, float]:
    """Return the bounds: 0 (1 if no set is ever empty) and the largest number of options."""
    return float(never_empty.all()), float(n_options.max())
