"""SemGrad: how much an answer's probability depends on the meaning of its prompt (Mingda Li et al., ICML 2026, 2605.04638)."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from qualm.runners.contracts.estimators import Floats, Rows

CITES = ["li2026gradients"]
NEEDS = {"gradient": "gradient/{layers}/{token}", "token_logprobs": "token_logprobs"}


def sem_grad(
    gradient: Rows,
    token_logprobs: Rows,
    *,
    layers: str = "0.5:-2",
    token: Annotated[int, Ge(-999), Le(-1)] = -1,
    length_normalised: bool = False,
) -> Floats:
    """Return ln of the mean |gradient| of each answer's likelihood by a prompt state.

    S = mean over layers and units of |∂ Σ_t H(p_t) ln p_t / ∂h| (equation 4), h the hidden states of one prompt token behind the given
    layers, H the entropy of the next-token distribution (nats), held constant; end of sequence included. U = ln S, which ranks alike and
    keeps its digits where S is tiny; any number, −inf where S = 0, higher = more uncertain. Undefined for an answer without tokens, or
    where the prompt's end from that token on holds an image.

    The paper takes the token whose states keep a question's meaning best, which it finds for each model with paraphrases, and which is near
    the end: `<|im_start|>` of the answer's turn for Qwen (−3), `<|start_header_id|>` for Llama 3.1 (−4), the question's last token for
    Mistral (−2). Its code has layer L/2 too and divides S by the number of tokens. Made for texts; the gradient reaches the image only
    through the token. HybridGrad, which adds gradients of weights, is not included.

    Example: S = .02 gives ln .02 = -3.912023.

    Args:
        layers: FROM:TO, both included, as numbers from 1 or shares of the depth. The paper: the upper half without the last.
        token: of the prompt, counted from its end: −1 is the last.
        length_normalised: divide S by the number of tokens.
    """
    sizes = np.array([own[0] if len(own) else np.nan for own in gradient], dtype=np.float64)
    if length_normalised:
        lengths = np.array([len(own) for own in token_logprobs], dtype=np.float64)
        sizes = np.divide(sizes, lengths, out=np.full(len(sizes), np.nan), where=lengths > 0)
    with np.errstate(divide="ignore"):
        return np.log(sizes) + 0.0
