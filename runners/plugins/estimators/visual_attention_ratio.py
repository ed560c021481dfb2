"""Visual attention ratio (Jiang et al., CVPR 2025).

Zhangqi Jiang, Junkai Chen, Beier Zhu, Tingjin Luo, Yankun Shen, Xu Yang, "Devils in Middle Layers of Large Vision-Language Models:
Interpreting, Detecting and Mitigating Object Hallucinations via Attention Lens" (arXiv 2411.16724).
"""

from typing import Literal

import numpy as np

from qualm.runners.contracts.estimators import Floats, Rows, means

CITES = ["jiang2025devils"]
NEEDS = {"looked": "attention/{layers}/image_{form}"}


def visual_attention_ratio(looked: Rows, *, layers: str = "0.15:0.56", form: Literal["share", "entropy"] = "share") -> Floats:
    """Return 1 minus each answer's mean attention on the image, or that attention's entropy.

    `share`: U = 1 − (1/T) Σ aₜ with aₜ the attention on the image's tokens while token t is predicted, on average over heads and
    `layers`, in [0, 1]. The paper's SVAR sums it over layers for the token of one object, to rank the object tokens of a caption; here it
    is averaged over a short answer. `entropy`: U = (1/T) Σ −Σⱼ qₜⱼ ln qₜⱼ with q that attention scaled to sum 1, in nats, from 0 to ln of
    the number of image tokens; this form is our own. Higher = more uncertain. Undefined without an image.

    Example: shares .5 and .7 give .4.

    Args:
        layers: FROM:TO, `middle_third` or `all`; the paper: about 5 to 18 of 32.
        form: what is read of the attention.
    """
    value = means(looked)
    return np.asarray(1.0 - value if form == "share" else value, dtype=np.float64)
