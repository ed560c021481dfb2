"""Encoded examples as one batch: each in a row of its own, padded on the left as in inference, or several in a row, packed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runners.tuning.encoding import Coded

IGNORE = -100
"""Label of a place that no loss is taken on."""


def pad(coded: Sequence[Coded], filler: int) -> dict[str, Any]:
    """One row per example.

    Returns:
        What the model is given (`input_ids`, `attention_mask`, `position_ids`, picture tensors...), all rows left-padded to the longest,
        and beside it: `labels` (B, L), the next token where that is part of the answer and IGNORE elsewhere; `owner` (B, L), the number of
        the example that a place belongs to, -1 for padding.
    """
    import torch

    length = max(map(len, coded))
    shape = (len(coded), length)
    ids, mask = torch.full(shape, filler, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    labels, owner = torch.full(shape, IGNORE, dtype=torch.long), torch.full(shape, -1, dtype=torch.long)
    beside = {name: torch.zeros(shape, dtype=torch.long) for one in coded for name in one.beside}
    for row, one in enumerate(coded):
        start = length - len(one)
        _place(ids[row], labels[row], one, start)
        mask[row, start:] = 1
        owner[row, start:] = row
        for name, values in one.beside.items():
            beside[name][row, start : start + len(values)] = torch.tensor(values)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    return {"input_ids": ids, "attention_mask": mask, "position_ids": positions, **beside, **pictures(coded)} | {
        "labels": labels,
        "owner": owner,
    }


def pack(coded: Sequence[Coded], filler: int) -> dict[str, Any]:
    """Several examples in a row, none of which sees another: fewer places are padding.

    Returns:
        The same names as `pad`; `attention_mask` is an additive one of shape (B, 1, L, L), and positions begin at 0 for each example.
    """
    import torch

    rows = _fill(coded, max(map(len, coded)))
    order = [number for row in rows for number in row]
    length = max(sum(len(coded[n]) for n in row) for row in rows)
    shape = (len(rows), length)
    ids, positions = torch.full(shape, filler, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    labels, owner = torch.full(shape, IGNORE, dtype=torch.long), torch.full(shape, -1, dtype=torch.long)
    beside = {name: torch.zeros(shape, dtype=torch.long) for one in coded for name in one.beside}
    for row, members in enumerate(rows):
        start = 0
        for number in members:
            one = coded[number]
            _place(ids[row], labels[row], one, start)
            positions[row, start : start + len(one)] = torch.arange(len(one))
            owner[row, start : start + len(one)] = number
            for name, values in one.beside.items():
                beside[name][row, start : start + len(values)] = torch.tensor(values)
            start += len(one)
    seen = (owner[:, :, None] == owner[:, None, :]) & torch.ones(length, length, dtype=torch.bool).tril()
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)[:, None]
    given = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, **beside, **pictures([coded[n] for n in order])}
    return given | {"labels": labels, "owner": owner}


def pictures(coded: Sequence[Coded]) -> dict[str, Any]:
    """Picture tensors of all examples one after the other, filled up with zeros where they differ in shape beyond the first axis."""
    import torch

    made = {}
    for name in dict.fromkeys(n for one in coded for n in one.picture):
        parts = [one.picture[name] for one in coded if name in one.picture]
        widest = [max(p.shape[axis] for p in parts) for axis in range(1, parts[0].dim())]
        filled = []
        for part in parts:
            lacking = [(0, w - have) for w, have in zip(widest, part.shape[1:], strict=True)]
            filled.append(
                torch.nn.functional.pad(part, [x for pair in reversed(lacking) for x in pair]) if any(b for _, b in lacking) else part
            )
        made[name] = torch.cat(filled)
    return made


def _place(ids: Any, labels: Any, one: Coded, start: int) -> None:
    import torch

    middle, end = start + len(one.prompt), start + len(one)
    ids[start:end] = torch.tensor((*one.prompt, *one.answer))
    labels[middle - 1 : end - 1] = torch.tensor(one.answer)


def _fill(coded: Sequence[Coded], longest: int, most: int = 4) -> list[list[int]]:
    """Examples into rows of at most `most` times the longest, the longest first, each into the first row that has room."""
    room: list[int] = []
    rows: list[list[int]] = []
    for number in sorted(range(len(coded)), key=lambda n: (-len(coded[n]), n)):
        place = next((k for k, left in enumerate(room) if left >= len(coded[number])), None)
        if place is None:
            rows.append([])
            room.append(longest * most)
            place = len(rows) - 1
        rows[place].append(number)
        room[place] -= len(coded[number])
    return rows
