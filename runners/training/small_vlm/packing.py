"""Many questions about one picture in one sequence, each as if it were the only one.

The picture's tokens come first and are computed once; every question attends to them and to itself, never to another
question, and counts its positions from the end of the picture. So what is trained is exactly what is asked later.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

IGNORE = -100
"""Label of tokens that no loss is taken on."""


def pack(
    prefix: Sequence[int], questions: Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]], pad: int, multiple: int = 8
) -> dict[str, Any]:
    """Arrays for one step.

    Args:
        prefix: ids before every question: the user mark and the picture's places.
        questions: per picture, pairs of prompt ids (after the prefix) and answer ids (with the end mark).
        multiple: lengths are rounded up to a multiple of this.

    Returns:
        input_ids, position_ids, labels (already moved: labels[t] is the token after input_ids[t]), all (B, L) int64;
        segment (B, L) int16: 0 for the prefix, k for question k, -1 for filling.
    """
    longest = len(prefix) + max(sum(len(q) + len(a) for q, a in row) for row in questions)
    length = -(-longest // multiple) * multiple
    shape = (len(questions), length)
    ids, positions = np.full(shape, pad, np.int64), np.zeros(shape, np.int64)
    labels, segment = np.full(shape, IGNORE, np.int64), np.full(shape, -1, np.int16)
    ids[:, : len(prefix)] = prefix
    positions[:, : len(prefix)] = np.arange(len(prefix))
    segment[:, : len(prefix)] = 0
    for b, row in enumerate(questions):
        start = len(prefix)
        for k, (prompt, answer) in enumerate(row, 1):
            end = start + len(prompt) + len(answer)
            ids[b, start:end] = [*prompt, *answer]
            positions[b, start:end] = np.arange(len(prefix), len(prefix) + end - start)
            labels[b, start + len(prompt) - 1 : end - 1] = answer
            segment[b, start:end] = k
            start = end
    return {"input_ids": ids, "position_ids": positions, "labels": labels, "segment": segment}


def attention(segment: Any) -> Any:
    """Additive mask (B, 1, L, L): a token sees the prefix and the earlier tokens of its own question."""
    import torch

    same = segment[:, :, None] == segment[:, None, :]
    prefix = (segment == 0)[:, None, :]
    length = segment.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    visible = (same | prefix) & causal
    return torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)[:, None]
