"""Choice of the next token: the likeliest, or one sampled with a random number that depends on seed, sample, draw and step alone.

Sampled answers can therefore be resumed, extended and batched in any way. The numbers are numpy's Philox, a counter-based generator: the
key is the request's stream (seed and sample), the counter starts at the draw, and the k-th number belongs to step k. A token is the inverse
of the cumulative distribution in double precision, so one number is one token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from qualm.runners.inference.devices import double_device, to_double

if TYPE_CHECKING:
    import torch

ROWS = 64
"""Distributions over the vocabulary that are in double precision at a time."""


def uniforms(stream: int, draw: int, steps: int) -> NDArray[np.float64]:
    """Return (steps,) random numbers in [0, 1), one per step of a sampled answer.

    Args:
        stream: 128 bits from seed and sample.
        draw: number of the sampled answer, from 1.
    """
    key = np.array([stream & _WORD, stream >> 64], dtype=np.uint64)
    # The draw is the counter's highest word, so the numbers of one draw can never run into those of the next.
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, draw])).random(steps)


def many_uniforms(draws: Sequence[tuple[int, int]], steps: int) -> NDArray[np.float64]:
    """Return (draws, steps) random numbers: `uniforms` of many (stream, draw) pairs at once.

    Philox 4x64 of ten rounds (John K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011); numpy's generator would be
    constructed for every draw.
    """
    key = [np.array([[stream >> shift & _WORD] for stream, _ in draws], dtype=np.uint64) for shift in (0, 64)]
    # From 1, since numpy counts up before it makes a block.
    blocks = np.arange(1, steps // 4 + 2, dtype=np.uint64)
    words = [np.broadcast_to(word, (len(draws), len(blocks))) for word in (blocks, np.uint64(0), np.uint64(0))]
    words.append(np.broadcast_to(np.array([[draw] for _, draw in draws], dtype=np.uint64), words[0].shape))
    for _ in range(10):
        (high0, low0), (high1, low1) = _wide_product(_FACTORS[0], words[0]), _wide_product(_FACTORS[1], words[2])
        words = [high1 ^ words[1] ^ key[0], low1, high0 ^ words[3] ^ key[1], low0]
        key = [part + step for part, step in zip(key, _KEY_STEPS, strict=True)]
    bits = np.stack(words, axis=-1).reshape(len(draws), -1)[:, :steps]
    # As numpy makes doubles: of 64 bits the upper 53.
    numbers: NDArray[np.float64] = (bits >> np.uint64(11)) * np.float64(2.0**-53)
    return numbers


_WORD, _HALF = (1 << 64) - 1, np.uint64((1 << 32) - 1)
_FACTORS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B))


def _wide_product(factor: int, words: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return (upper, lower) 64 bits of factor x word, each an array like `words`."""
    shift = np.uint64(32)
    upper, lower = np.uint64(factor >> 32), np.uint64(factor) & _HALF
    high, low = words >> shift, words & _HALF
    # By halves of 32 bits, so that no carry is lost in 64.
    middle = (lower * low >> shift) + (lower * high & _HALF) + upper * low
    return upper * high + (lower * high >> shift) + (middle >> shift), np.uint64(factor) * words


def sample_tokens(
    logits: torch.Tensor, numbers: torch.Tensor, temperature: float, top_p: float, at: torch.Tensor | None = None, top_k: int = 0
) -> torch.Tensor:
    """Sample one token id per random number from the tempered top-k, top-p distribution.

    Args:
        numbers: in [0, 1), double precision.
        temperature: above 0.
        top_p: probability of the likeliest tokens to sample from; 1 for all.
        at: row of the logits for every number; by default its own.
        top_k: number of the likeliest tokens to sample from, with those as likely as the last of them; 0 for all. top_p is of these.
    """
    import torch

    at = torch.arange(len(logits), device=numbers.device) if at is None else at.to(numbers.device)
    # Numbers for the same row are put side by side, so that its distribution is summed up once for all its draws.
    row, order = at.sort(stable=True)
    column = ranks(row)
    grid = numbers.new_zeros(len(logits), int(column.max()) + 1)
    grid[row, column] = numbers[order]
    tokens = []
    for part, own in zip(torch.split(logits, ROWS), torch.split(grid, ROWS), strict=True):
        probabilities = torch.softmax(to_double(part) / temperature, dim=-1)
        if 0 < top_k < probabilities.shape[-1]:
            least = probabilities.topk(top_k, dim=-1).values[:, -1:]
            probabilities = probabilities.masked_fill(probabilities < least, 0.0)
            probabilities /= probabilities.sum(dim=-1, keepdim=True)
        if top_p < 1:
            probabilities = _nucleus(probabilities, top_p)
        total = probabilities.cumsum(dim=-1)
        # The sum of a distribution is 1 only up to rounding, so numbers are scaled to it.
        tokens.append(torch.searchsorted(total, own * total[:, -1:], right=True))
    chosen = torch.empty_like(at)
    chosen[order] = torch.cat(tokens)[row, column]
    # A number that rounds up to the whole sum would fall behind the last token.
    return chosen.clamp_(max=logits.shape[1] - 1).to(logits.device)


def ranks(groups: torch.Tensor) -> torch.Tensor:
    """Return each item's index within its group, from 0; `groups` must be sorted.

    >>> import torch
    >>> ranks(torch.tensor([0, 0, 2, 2, 2])).tolist()
    [0, 1, 0, 1, 2]
    """
    import torch

    return torch.arange(len(groups), device=groups.device) - torch.searchsorted(groups, groups)


def _nucleus(probabilities: torch.Tensor, top_p: float) -> torch.Tensor:
    ranked, order = probabilities.sort(dim=-1, descending=True, stable=True)
    # The mass before a token decides, not the mass with it: the token that crosses the share still counts.
    beyond = ranked.cumsum(dim=-1) - ranked >= top_p
    return probabilities.scatter(-1, order, ranked.masked_fill(beyond, 0.0))


class Chooser:
    """Function that chooses every row's next token: the likeliest, or a sampled one."""

    def __init__(
        self,
        draws: Sequence[tuple[int, int]],
        steps: int,
        temperature: float,
        top_p: float,
        device: torch.device,
        kept: list[tuple[torch.Tensor, torch.Tensor]] | None = None,
        top_k: int = 0,
    ) -> None:
        """Prepare the random numbers of all steps.

        Args:
            draws: stream and draw of every row; draw 0 is greedy.
            kept: collects at every step the continuing greedy rows and their logits.
        """
        import torch

        self.kept = kept
        self.random = torch.tensor([draw > 0 for _, draw in draws], device=device)
        sampled = any(draw > 0 for _, draw in draws)
        self.numbers = torch.from_numpy(many_uniforms(draws, steps)).to(double_device(str(device))) if sampled else None
        self.temperature, self.top_p, self.top_k = temperature, top_p, top_k

    def __call__(self, step: int, logits: torch.Tensor, rows: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
        """Return the next token of each of `rows`; number i reads logits[at[i]], or logits[i]."""
        import torch

        if self.kept is not None:
            greedy = ~self.random[rows]
            self.kept.append((rows[greedy], logits[greedy if at is None else at[greedy]]))
        likeliest = logits.argmax(dim=-1)
        likeliest = likeliest if at is None else likeliest[at]
        if self.numbers is None:
            return likeliest
        # Greedy rows are drawn for too and their tokens thrown away; that is cheaper than to part the batch.
        sampled = sample_tokens(logits, self.numbers[rows.to(self.numbers.device), step], self.temperature, self.top_p, at, self.top_k)
        return torch.where(self.random[rows], sampled, likeliest)
