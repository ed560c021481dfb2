"""EUQ: conflict or ignorance of the evidence in a model's output head (Huang et al., ICLR 2026, 2602.05535)."""

from typing import Literal

from qualm.runners.contracts.estimators import Floats, Rows, means

CITES = ["huang2026detecting"]
ALSO_KNOWN_AS = ["EUQ", "evidential_uncertainty_quantification"]
NEEDS = {"evidence": "evidence/{measure}"}


def evidential_uncertainty(evidence: Rows, *, measure: Literal["conflict", "ignorance"] = "conflict") -> Floats:
    """Return each answer's mean conflict or ignorance of the output head over its tokens.

    With h the head's input and W its weights (V, K), each row less its mean, z = Wh is split into support a = Σ max(z, 0) / V and
    opposition b = Σ max(−z, 0) / V. Dempster's rule combines them for K hypotheses: η₊ = 1 / (K eᵃ − K + 1),
    η₋ = 1 / (1 − (1 − e⁻ᵇ)ᴷ), conflict κ = K η₊ (eᵃ − 1) (1 − η₋ e⁻ᵇ) in [0, 1), ignorance K e⁻ᵇ η₊ η₋ / (1 − κ) in [0, K], no unit. U is
    its mean over tokens, end of sequence included; higher = more uncertain. Undefined for an answer without tokens.

    These are the definitions of the authors' code, for the output head. There K is the number of the head's units and one pair (a, b)
    serves all hypotheses; with the tokens of the vocabulary as hypotheses, the theory would give no conflict at all. The code's values for
    the first layer's MLP are not included.

    Example: V = 2 and K = 3 with z = (2, -1) have a = 1, b = .5, and conflict .296589; ignorance is .447552.

    Args:
        measure: `conflict`, which the paper finds in hallucinations, or `ignorance`, which it finds off the distribution of training.
    """
    return means(evidence)
