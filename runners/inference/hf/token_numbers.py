"""Log-probabilities and divergences of answer tokens from logits, in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qualm.registry.formats.plausible import MIN_LOGPROB
from qualm.runners.inference.devices import to_double

if TYPE_CHECKING:
    import torch


def token_logprobs(logits: torch.Tensor, answers: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return the log-probabilities in nats of each answer's tokens, one list per row.

    Args:
        logits: (rows, keep, vocabulary), of the positions before the tokens, the last of them before each row's last token.
        answers: the tokens of each row, at most `keep`.
    """
    import torch

    by_row = []
    for row, ids in enumerate(answers):
        logprobs = torch.log_softmax(to_double(logits[row, -len(ids) :]), dim=-1)
        by_row.append(logprobs.gather(1, torch.tensor([list(ids)], device=logprobs.device).T).squeeze(1).tolist())
    return by_row


def divergences(seeing: torch.Tensor, blind: torch.Tensor, answers: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return KL(seeing || blind) in nats before each answer token, one list per row.

    Args:
        seeing: logits (rows, keep, vocabulary) of the first distribution, ending where each row's answer ends.
        blind: logits of the second distribution.
        answers: the tokens of each row, at most `keep`.
    """
    import torch

    by_row = []
    for row, ids in enumerate(answers):
        p, q = (torch.log_softmax(to_double(logits[row, -len(ids) :]), dim=-1) for logits in (seeing, blind))
        # 0 log 0 is 0: a token that the first distribution rules out adds nothing, where inf - inf would be NaN.
        by_row.append(torch.where(p == -torch.inf, 0.0, p.exp() * (p - q)).sum(dim=-1).tolist())
    return by_row


MAX_TOP = 20
"""Likeliest tokens of each position that are stored, as many as OpenAI shows."""


def top_logprobs(logits: torch.Tensor, answers: Sequence[Sequence[int]]) -> list[tuple[list[float], int]]:
    """Return per row (top log-probabilities of all positions, joined; number of them at each).

    Args:
        logits: (rows, keep, vocabulary), ending where each row's answer ends.
        answers: the tokens of each row, at most `keep`.
    """
    import torch

    k = min(MAX_TOP, logits.shape[-1])
    by_row = []
    for row, ids in enumerate(answers):
        logprobs = torch.log_softmax(to_double(logits[row, logits.shape[1] - len(ids) :]), dim=-1)
        by_row.append((logprobs.topk(k, dim=-1).values.clamp(min=MIN_LOGPROB).flatten().tolist(), k))
    return by_row


def top_tokens(logits: torch.Tensor, answers: Sequence[Sequence[int]]) -> list[list[list[int]]]:
    """Return per row and position the likeliest ids; the answer's first if it ties for best.

    They are the MAX_TOP tokens of `top_logprobs`, in its order.

    Args:
        logits: (rows, keep, vocabulary), ending where each row's answer ends.
        answers: the tokens of each row, at most `keep`.
    """
    import torch

    k = min(MAX_TOP, logits.shape[-1])
    by_row = []
    for row, ids in enumerate(answers):
        scores = to_double(logits[row, logits.shape[1] - len(ids) :])
        best = scores.topk(k, dim=-1)
        own = scores.gather(1, torch.tensor(list(ids), dtype=torch.int64, device=scores.device)[:, None])
        is_likeliest = (own == best.values[:, :1]).squeeze(1).tolist()
        by_row.append(
            [
                [token, *(other for other in top if other != token)][:k] if first else top
                for top, token, first in zip(best.indices.tolist(), ids, is_likeliest, strict=True)
            ]
        )
    return by_row


def uniform_divergences(logits: torch.Tensor, answers: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return per row the KL divergence in nats of uniform from the prediction of each token.

    -(1/V) sum_j ln p_j - ln V over the V tokens of the vocabulary; tokens with a logit of -inf, such as padding of the vocabulary, are left
    out of the sum and of V, since the divergence would be infinite.

    Args:
        logits: (rows, keep, vocabulary), ending where each row's answer ends.
        answers: the tokens of each row, at most `keep`.
    """
    import torch

    by_row = []
    for row, ids in enumerate(answers):
        logprobs = torch.log_softmax(to_double(logits[row, -len(ids) :]), dim=-1)
        possible = logprobs > -torch.inf
        size = possible.sum(dim=-1)
        by_row.append((-torch.where(possible, logprobs, 0.0).sum(dim=-1) / size - size.log()).tolist())
    return by_row
