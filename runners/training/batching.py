"""Collate encoded examples to batches: left-padded rows of one example, or packed rows of several."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.runners.training.encoding import EncodedExample

IGNORE = -100
WORTH = 0.1
"""Minimum share of places that two batches save over one, to be worth a second pass."""


def pad(coded: Sequence[EncodedExample], filler: int) -> dict[str, Any]:
    """Return a batch by input name, a left-padded example per row; `filler`: padding token.

    Returns:
        Inputs of the model (`input_ids`, `attention_mask`, `position_ids`, image tensors...), left-padded to the longest row; `labels` (B,
            L), the next token in answers and IGNORE elsewhere; `owner` (B, L), the number of each place's example, -1 for padding.
    """
    import torch

    length = max(map(len, coded))
    shape = (len(coded), length)
    ids, mask = np.full(shape, filler), np.zeros(shape, np.int64)
    labels, owner = np.full(shape, IGNORE), np.full(shape, -1)
    per_token = {name: np.zeros(shape, np.int64) for one in coded for name in one.per_token}
    for row, one in enumerate(coded):
        start = length - len(one)
        _place(ids[row], labels[row], one, start)
        mask[row, start:] = 1
        owner[row, start:] = row
        for name, values in one.per_token.items():
            per_token[name][row, start : start + len(values)] = values
    # Padding has -1, which embeddings of positions would reject.
    positions = (mask.cumsum(1) - 1).clip(min=0)
    inputs = {n: torch.from_numpy(v) for n, v in {"input_ids": ids, "attention_mask": mask, "position_ids": positions, **per_token}.items()}
    return {**inputs, **image_tensors(coded), "labels": torch.from_numpy(labels), "owner": torch.from_numpy(owner)}


def pack(coded: Sequence[EncodedExample], filler: int, image_token: int | None = None) -> dict[str, Any]:
    """Return a batch by input name, several examples a row, no attention between them.

    Examples about one image, and both answers of a preference, share the tokens up to where their prompts differ.

    Args:
        image_token: id of an image's places; None shares nothing.

    Returns:
        As `pad`, with an additive `attention_mask` (B, 1, L, L) and positions counted within each example.
    """
    units = _units(coded, image_token)
    return _laid(coded, units, _assign_rows([_length(coded, *unit) for unit in units]), filler)


def pack_in_batches(coded: Sequence[EncodedExample], filler: int, image_token: int | None) -> list[dict[str, Any]]:
    """Return examples packed in one batch, or in two if that saves padding, by input name.

    Returns:
        Batches as of `pack`; `owner` numbers the examples of all of them.
    """
    units = _units(coded, image_token)
    rows = _assign_rows([_length(coded, *unit) for unit in units])
    lengths = {id(row): sum(_length(coded, *units[u]) for u in row) for row in rows}
    by_length = sorted(rows, key=lambda row: -lengths[id(row)])
    longest, n = lengths[id(by_length[0])], len(rows)
    # Places of both batches if the first has the `cut` longest rows.
    places = [cut * longest + (n - cut) * lengths[id(by_length[cut])] for cut in range(1, n)]
    if not places or min(places) > (1 - WORTH) * n * longest:
        return [_laid(coded, units, rows, filler)]
    cut = 1 + places.index(min(places))
    return [_laid(coded, units, part, filler) for part in (by_length[:cut], by_length[cut:])]


def _laid(
    coded: Sequence[EncodedExample], units: Sequence[tuple[int, list[int]]], rows: Sequence[Sequence[int]], filler: int
) -> dict[str, Any]:
    import torch

    length = max(sum(_length(coded, *units[u]) for u in row) for row in rows)
    shape = (len(rows), length)
    ids, positions = np.full(shape, filler), np.zeros(shape, np.int64)
    labels, owner, unit = (np.full(shape, value) for value in (IGNORE, -1, -1))
    per_token = {name: np.zeros(shape, np.int64) for one in coded for name in one.per_token}
    seen_pictures = []
    for row, places in enumerate(rows):
        start = 0
        for number in places:
            shared, members = units[number]
            first = coded[members[0]]
            seen_pictures.append(first)
            ids[row, start : start + shared] = first.prompt[:shared]
            positions[row, start : start + shared] = np.arange(shared)
            for name, values in first.per_token.items():
                per_token[name][row, start : start + shared] = values[:shared]
            end = start + shared
            for member in members:
                one, own = coded[member], len(coded[member]) - shared
                _place(ids[row], labels[row], one, end, shared)
                # Positions continue from the shared part.
                positions[row, end : end + own] = np.arange(shared, shared + own)
                owner[row, end : end + own] = member
                for name, values in one.per_token.items():
                    per_token[name][row, end : end + len(values) - shared] = values[shared:]
                end += own
            unit[row, start:end] = number
            start = end
    # A place sees its own example and the shared part (owner -1); the shared part sees no example.
    # Padding (unit -1, owner -1) sees itself, since a row of minus infinity would give NaN in the softmax.
    visible = (unit[:, :, None] == unit[:, None, :]) & ((owner[:, :, None] == owner[:, None, :]) | (owner == -1)[:, None, :])
    visible &= np.tri(length, dtype=bool)
    mask = np.where(visible, np.float32(0), np.finfo(np.float32).min)[:, None]
    tensors = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, **per_token}
    inputs = {name: torch.from_numpy(value) for name, value in tensors.items()}
    return {**inputs, **image_tensors(seen_pictures), "labels": torch.from_numpy(labels), "owner": torch.from_numpy(owner)}


def _units(coded: Sequence[EncodedExample], image_token: int | None) -> list[tuple[int, list[int]]]:
    """Return (shared prefix length, example indices) of groups on one image; 0 for one alone."""
    groups: dict[int, list[int]] = {}
    for number, one in enumerate(coded):
        # Negative numbers never equal an `id`: such an example is its own group.
        groups.setdefault(id(one.picture) if image_token is not None and one.picture else -1 - number, []).append(number)
    units: list[tuple[int, list[int]]] = []
    for members in groups.values():
        prompts = [coded[m].prompt for m in members]
        shared = next((i for i, tokens in enumerate(zip(*prompts, strict=False)) if len(set(tokens)) > 1), min(map(len, prompts)))
        # The last prompt token is not shared, as its label is the first token of each answer.
        shared = min(shared, *(len(p) - 1 for p in prompts))
        # An image is read once per unit, so its tokens must be shared.
        apart = len(members) == 1 or any(image_token in p[shared:] for p in prompts)
        units += [(0, [m]) for m in members] if apart else [(shared, members)]
    return units


def _length(coded: Sequence[EncodedExample], shared: int, members: Sequence[int]) -> int:
    return shared + sum(len(coded[m]) - shared for m in members)


def image_tensors(coded: Sequence[EncodedExample]) -> dict[str, Any]:
    """Return {input name: images of all examples, zero-padded, concatenated}; {} for none."""
    import torch

    tensors = {}
    for name in dict.fromkeys(n for one in coded for n in one.picture):
        parts = [one.picture[name] for one in coded if name in one.picture]
        widest = [max(p.shape[axis] for p in parts) for axis in range(1, parts[0].dim())]
        filled = []
        for part in parts:
            lacking = [(0, w - have) for w, have in zip(widest, part.shape[1:], strict=True)]
            filled.append(
                # torch wants the last axis first.
                torch.nn.functional.pad(part, [x for pair in reversed(lacking) for x in pair]) if any(b for _, b in lacking) else part
            )
        tensors[name] = torch.cat(filled)
    return tensors


def _place(ids: NDArray[np.int64], labels: NDArray[np.int64], one: EncodedExample, start: int, begun: int = 0) -> None:
    """Write an example's ids and its answer's next-token labels into a row from `start`.

    The example's tokens before `begun` are left out. Only places whose next token is of the answer get a label.
    """
    middle, end = start + len(one.prompt) - begun, start + len(one) - begun
    ids[start:end] = (*one.prompt[begun:], *one.answer)
    # The label of a place is the next token.
    labels[middle - 1 : end - 1] = one.answer


def _assign_rows(lengths: Sequence[int]) -> list[list[int]]:
    """Return lists of indices, a list per row; lengths in a row sum to the longest at most."""
    room: list[int] = []
    rows: list[list[int]] = []
    # First-fit decreasing needs at most about 22% more rows than the best packing.
    for number in sorted(range(len(lengths)), key=lambda n: (-lengths[n], n)):
        place = next((k for k, left in enumerate(room) if left >= lengths[number]), None)
        if place is None:
            rows.append([])
            room.append(max(lengths))
            place = len(rows) - 1
        rows[place].append(number)
        room[place] -= lengths[number]
    return rows
