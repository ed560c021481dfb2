"""Temperature and Platt scaling. Guo, Pleiss, Sun, Weinberger, 2017; Platt, 1999."""

import numpy as np

from qualm.runners.contracts.abstentions import AbstentionRule, Answers, rescale_confidence
from qualm.runners.scoring.calibration.logistic import WIDEST, sigmoids, temperatures

CITES = ["guo2017calibration", "platt1999probabilistic"]


def temperature(fit: Answers, *, shift: bool = False) -> AbstentionRule:
    """Return a rule that rescales confidences by a fitted temperature and never abstains.

    p becomes sigmoid(logit(p) / T + b) with the T (and b) of the smallest log-loss of [correct > 0] over the answers it is chosen on.
    The order of the answers rescaled together, and so accuracy, F1 and AUROC, stay as they are (with `per:`, AUROC within each part);
    calibration errors and confidence-weighted accuracy change.
    No promise for other questions than those of the same kind.

    Args:
        shift: choose b too (Platt scaling), for a model that is too sure, or not sure enough, of right and wrong answers alike.
    """
    inside = fit.rows((fit.confidence > 0) & (fit.confidence < 1))
    if len(set((inside.correct > 0).tolist())) < 2:
        return AbstentionRule(0.0, "Nothing to choose a temperature on: the answers are all right, all wrong, or too few.", attained=False)
    t, b = _fit_temperature(inside, shift)
    before, after = _log_loss(inside, 1.0, 0.0), _log_loss(inside, t, b)
    moved = f" and shift {b:+.3g}" if shift else ""
    statement = f"Temperature {t:.3g}{moved}: log-loss {before:.3f} to {after:.3f} on the {len(inside):,} answers it was chosen on."
    return AbstentionRule(0.0, statement, temperature=t, shift=b)


def _fit_temperature(fit: Answers, shift: bool) -> tuple[float, float]:
    """Return the fitted temperature, in 1/50..50, and shift."""
    from scipy.special import logit

    score, right, once = logit(fit.confidence), (fit.correct > 0).astype(np.float64), np.ones((1, len(fit)))
    if not shift:
        return float(temperatures(np.column_stack([np.zeros_like(score), score]), right * score, once)[0]), 0.0
    slope, by = sigmoids(score, right, once, prior_correction=False, least_slope=1 / WIDEST, largest_slope=WIDEST)[0]
    return float(1 / slope), float(by)


def _log_loss(fit: Answers, temperature: float, shift: float) -> float:
    p = np.clip(rescale_confidence(fit.confidence, temperature, shift), 1e-12, 1 - 1e-12)
    return float(-np.where(fit.correct > 0, np.log(p), np.log1p(-p)).mean())
