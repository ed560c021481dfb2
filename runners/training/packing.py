"""Pack many questions about one image into a sequence without attention between them.

The image's tokens come first and are computed once. Each question attends to them and itself, and counts positions from the end of the
image, so that training equals inference.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

IGNORE = -100


def pack(
    prefix: Sequence[int], questions: Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]], pad: int, multiple: int = 8
) -> dict[str, Any]:
    """Return ids, positions, labels and segments (B, L) by name; a row per image's questions.

    Args:
        prefix: ids before every question: the user mark and the image's places.
        questions: per image, pairs of prompt ids (after the prefix) and answer ids (with the end mark).
        multiple: lengths are rounded up to a multiple of this.

    Returns:
        input_ids, position_ids, labels (shifted: labels[t] is the token after input_ids[t]), all (B, L) int64; segment (B, L) int16: 0 for
            the prefix, k for question k, -1 for padding.
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


def attention_mask(segment: Any) -> Any:
    """Return the causal additive mask (B, 1, L, L): a question sees the prefix and itself."""
    import torch

    same = segment[:, :, None] == segment[:, None, :]
    prefix = (segment == 0)[:, None, :]
    length = segment.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    visible = (same | prefix) & causal
    return torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)[:, None]
