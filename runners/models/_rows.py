"""Sequences in one key-value cache, which can be repeated, continued, and branched off at any token of theirs.

Lost without it: every signal about an answer would be another pass over the picture. A row is what was read so far. `select`
repeats rows without computing anything; `extend` lets each go on from a token of its own choice, what came after that token
being masked, not cut; so one batch can hold rows of any length. Positions are given, never guessed by the model.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from runners.models._sampling import Chooser

_COMPACT = 0.75
"""Rows that have ended leave the batch as soon as no more than this share is left."""


class Network:
    """A module of transformers and what must be known to call it step by step."""

    def __init__(self, module: Any) -> None:
        self.module = module
        kind, text = module.config.model_type, module.config.get_text_config()
        inner = getattr(module, "model", module)
        self.turning = inner if hasattr(inner, "get_rope_index") else None
        """The part that gives pictures positions on three axes, where there is one."""
        known = inspect.signature(module.forward).parameters
        self.placed = "position_ids" in known
        self.keeps = "logits_to_keep" in known
        self.first_position = text.pad_token_id + 1 if kind == "kosmos-2" else 0
        self.reader = module.text_model if kind == "kosmos-2" else module
        """What reads on where there is no new picture: Kosmos-2 as a whole insists on one."""
        self.windowed = any("sliding" in name for name in getattr(text, "layer_types", None) or ())
        """Whether some layers look back so many entries of the cache only, so that none may be masked among them."""

    @property
    def device(self) -> torch.device:
        device: torch.device = self.module.device
        return device

    def __call__(self, cache: Any, mask: torch.Tensor | None, positions: torch.Tensor | None, keep: int, **inputs: Any) -> torch.Tensor:
        """Logits of the last `keep` positions (rows, keep, vocabulary); the cache grows by what was read."""
        if positions is not None and self.placed:
            positions = positions + self.first_position
            inputs["position_ids"] = positions.expand(3, *positions.shape) if self.turning is not None else positions
        if self.keeps:
            inputs["logits_to_keep"] = keep
        network = self.module if "pixel_values" in inputs else self.reader
        out = network(attention_mask=mask, past_key_values=cache, use_cache=True, **inputs)
        logits: torch.Tensor = out.logits[:, -keep:]
        return logits

    def read(self, tensors: dict[str, Any]) -> Rows:
        """Rows of a left-padded batch with pictures, as the processor made it."""
        import torch
        from transformers import DynamicCache

        mask = tensors["attention_mask"]
        rest = {name: value for name, value in tensors.items() if name != "attention_mask"}
        cache = DynamicCache()
        turned = self.turning is not None and any(name.startswith("pixel") for name in rest)
        positions = None if turned else _positions(mask)
        logits = self(cache, mask, positions, 1, **rest)[:, -1]
        offset = torch.zeros(len(mask), dtype=torch.long, device=mask.device)
        if turned:
            offset = self.turning.rope_deltas.to(offset).view(-1)  # type: ignore[union-attr]
        return Rows(self, cache, mask.bool(), mask.sum(dim=1), offset, logits)

    def write(self, ids: Sequence[Sequence[int]], keep: int = 1) -> tuple[Rows, torch.Tensor]:
        """Rows of texts without pictures, and the logits of their last `keep` positions."""
        import torch
        from transformers import DynamicCache

        tokens, mask = _left_padded(ids, self.device)
        cache = DynamicCache()
        logits = self(cache, mask.long(), _positions(mask), keep, input_ids=tokens)
        none = torch.zeros(len(ids), dtype=torch.long, device=self.device)
        return Rows(self, cache, mask, mask.sum(dim=1), none, logits[:, -1]), logits


@dataclass
class Rows:
    """Sequences in one cache."""

    network: Network
    cache: Any
    mask: torch.Tensor
    """(rows, cached): which entries of the cache are tokens of this row."""
    lengths: torch.Tensor
    """(rows): how many they are."""
    offset: torch.Tensor
    """(rows): what is added to a token's number to get its position."""
    logits: torch.Tensor
    """(rows, vocabulary): of the token to come."""

    def select(self, index: torch.Tensor) -> Rows:
        """These rows, any of them any number of times; nothing is computed and the rows here stay as they are."""
        cache = _copied(self.cache, index)
        return Rows(self.network, cache, self.mask[index], self.lengths[index], self.offset[index], self.logits[index])

    def step(self, tokens: torch.Tensor) -> None:
        """Read one more token in every row."""
        import torch

        new = torch.ones_like(self.mask[:, :1])
        self.mask = torch.cat([self.mask, new], dim=1)
        positions = (self.lengths + self.offset).unsqueeze(1)
        self.logits = self.network(self.cache, self.mask.long(), positions, 1, input_ids=tokens.unsqueeze(1))[:, -1]
        self.lengths = self.lengths + 1

    def extend(self, ids: Sequence[Sequence[int]], starts: Sequence[int], keep: int = 1) -> tuple[Rows, torch.Tensor]:
        """Every row goes on with tokens of its own after its first `starts` tokens; the rows here stay as they are.

        Args:
            ids: what each reads, at least one token.
            starts: how many of its tokens each keeps: at least those up to the end of its picture.
            keep: of how many positions, from the end, logits are given.
        """
        import torch

        if self.network.windowed:
            return self._extend_packed(ids, starts, keep)
        tokens, new = _left_padded(ids, self.mask.device)
        start = torch.tensor(list(starts), device=self.mask.device)
        kept = self.mask & (self.mask.cumsum(dim=1) <= start.unsqueeze(1))
        mask = torch.cat([kept, new], dim=1)
        positions = _positions(new) + (start + self.offset).unsqueeze(1)
        cache = _copied(self.cache)
        logits = self.network(cache, mask.long(), positions, keep, input_ids=tokens)
        return Rows(self.network, cache, mask, start + new.sum(dim=1), self.offset, logits[:, -1]), logits

    def _extend_packed(self, ids: Sequence[Sequence[int]], starts: Sequence[int], keep: int) -> tuple[Rows, torch.Tensor]:
        """`extend` for networks that count entries of the cache: rows that read equally many tokens at a time, nothing masked between."""
        import torch

        made: list[tuple[list[int], Rows, torch.Tensor]] = []
        for length in sorted(set(map(len, ids))):
            group = [row for row, own in enumerate(ids) if len(own) == length]
            part = self.select(torch.tensor(group, device=self.mask.device))._packed([starts[row] for row in group])
            tokens, new = _left_padded([ids[row] for row in group], self.mask.device)
            positions = (part.lengths + part.offset).unsqueeze(1) + _positions(new)
            mask = torch.cat([part.mask, new], dim=1)
            logits = self.network(part.cache, mask.long(), positions, min(keep, length), input_ids=tokens)
            made.append((group, Rows(self.network, part.cache, mask, part.lengths + length, part.offset, logits[:, -1]), logits))
        return _merged(made, keep)

    def _packed(self, starts: Sequence[int]) -> Rows:
        """These rows with their first tokens only, at the right end of a cache that holds nothing else."""
        import torch

        start = torch.tensor(list(starts), device=self.mask.device)
        kept = self.mask & (self.mask.cumsum(dim=1) <= start.unsqueeze(1))
        order = kept.int().argsort(dim=1, stable=True)[:, -max(starts) :]
        for layer in self.cache.layers:
            index = order[:, None, :, None].expand(-1, layer.keys.shape[1], -1, layer.keys.shape[3])
            layer.keys, layer.values = layer.keys.gather(2, index), layer.values.gather(2, index)
        return Rows(self.network, self.cache, kept.gather(1, order), start, self.offset, self.logits)

    def decode(self, chooser: Chooser, steps: int, stops: set[int]) -> tuple[list[list[int]], list[list[float]], list[list[float]]]:
        """Tokens of each row up to and with the first stop, their log-probabilities and the entropies (nats) they were chosen under.

        The rows are used up.
        """
        import torch

        total, device = len(self.mask), self.mask.device
        tokens = torch.zeros(total, steps, dtype=torch.long, device=device)
        logprobs, entropies = (torch.zeros(total, steps, device=device) for _ in range(2))
        ends = torch.tensor(sorted(stops), device=device)
        rows: Rows = self
        going = torch.arange(total, device=device)
        done = 0
        for step in range(steps):
            known = torch.log_softmax(rows.logits.float(), dim=-1)
            chosen = chooser(step, rows.logits.float(), going)
            tokens[going, step] = chosen
            logprobs[going, step] = known.gather(1, chosen.unsqueeze(1)).squeeze(1)
            entropies[going, step] = -(known.exp() * known).nan_to_num(nan=0.0).sum(dim=-1)
            done = step + 1
            stopped = torch.isin(tokens[going, :done], ends).any(dim=1)
            left = int((~stopped).sum())
            if left == 0 or done == steps:
                break
            if left <= _COMPACT * len(going):
                rows, going, chosen = rows.select((~stopped).nonzero().squeeze(1)), going[~stopped], chosen[~stopped]
            rows.step(chosen)
        return _cut(tokens[:, :done], logprobs, entropies, stops)


def token_logprobs(logits: torch.Tensor, answers: Sequence[Sequence[int]]) -> list[list[float]]:
    """Log-probabilities of given tokens.

    Args:
        logits: (rows, keep, vocabulary), of the positions before the tokens, the last of them before each row's last token.
        answers: the tokens of each row, at most `keep`.
    """
    import torch

    found = []
    for row, ids in enumerate(answers):
        known = torch.log_softmax(logits[row, -len(ids) :].float(), dim=-1)
        found.append(known.gather(1, torch.tensor([list(ids)], device=known.device).T).squeeze(1).tolist())
    return found


def _cut(
    tokens: torch.Tensor, logprobs: torch.Tensor, entropies: torch.Tensor, stops: set[int]
) -> tuple[list[list[int]], list[list[float]], list[list[float]]]:
    rows = tokens.tolist()
    lengths = [next((i + 1 for i, token in enumerate(ids) if token in stops), len(ids)) for ids in rows]
    return tuple([values[:n] for values, n in zip(table, lengths, strict=True)] for table in (rows, logprobs.tolist(), entropies.tolist()))  # type: ignore[return-value]


def _merged(parts: Sequence[tuple[list[int], Rows, torch.Tensor]], keep: int) -> tuple[Rows, torch.Tensor]:
    """Rows of several caches in one, in the order of their numbers, padded on the left; and their logits, likewise."""
    import torch
    from torch.nn.functional import pad

    order = torch.tensor([row for group, _, _ in parts for row in group]).argsort().to(parts[0][1].mask.device)
    width = max(rows.mask.shape[1] for _, rows, _ in parts)
    cache = parts[0][1].cache
    for number, layer in enumerate(cache.layers):
        for name in ("keys", "values"):
            tensors = [getattr(rows.cache.layers[number], name) for _, rows, _ in parts]
            wide = torch.cat([pad(t, (0, 0, width - t.shape[2], 0)) for t in tensors])
            setattr(layer, name, wide.index_select(0, order))
    mask = torch.cat([pad(rows.mask, (width - rows.mask.shape[1], 0)) for _, rows, _ in parts])[order]
    lengths, offset, last = (torch.cat([getattr(rows, n) for _, rows, _ in parts])[order] for n in ("lengths", "offset", "logits"))
    logits = torch.cat([pad(known, (0, 0, keep - known.shape[1], 0)) for _, _, known in parts])[order]
    return Rows(parts[0][1].network, cache, mask, lengths, offset, last), logits


def _positions(mask: torch.Tensor) -> torch.Tensor:
    return (mask.long().cumsum(dim=1) - 1).clamp(min=0)


def _left_padded(ids: Sequence[Sequence[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids, zeros before them, and which of them are tokens."""
    import torch

    width = max(map(len, ids))
    tokens = torch.tensor([[0] * (width - len(row)) + list(row) for row in ids], device=device)
    mask = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in ids], device=device)
    return tokens, mask


def _copied(cache: Any, index: torch.Tensor | None = None) -> Any:
    """Another cache of the same entries, or of some rows of them; growing it leaves the first as it is."""
    from transformers import DynamicCache

    made = DynamicCache()
    for layer in cache.layers:
        other = type(layer)()
        other.lazy_initialization(layer.keys, layer.values)
        other.keys = layer.keys if index is None else layer.keys.index_select(0, index)
        other.values = layer.values if index is None else layer.values.index_select(0, index)
        made.layers.append(other)
    return made
