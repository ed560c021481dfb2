"""Sequences in one key-value cache, which can be continued and branched at any of their tokens.

A row is what was read so far. `extend` continues each row from a token of its own choice; later tokens are masked, not cut, so one batch
holds rows of any length. `decode` writes several answers to every row side by side in the row's cache: prompts are neither read nor stored
again, and each answer sees the prompt and itself. Positions and masks are always given explicitly.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from qualm.runners.inference.devices import double_device, to_double
from qualm.runners.inference.hf.sampling import ROWS, ranks

if TYPE_CHECKING:
    import torch

    from qualm.runners.inference.hf.sampling import Chooser
    from qualm.runners.inference.hf.taps import AnswerStates, Taps

GoesOn = Callable[[int, "torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""(step, answers, all tokens so far) -> which of these answers continue."""

ROOM = 64
"""Tokens that a cache reserves beyond those that it is made for."""
_COMPACT = 0.75
"""Rows whose answers have all ended leave the batch once at most this share of rows is left."""


class Network:
    """A transformers decoder, called with explicit positions, masks and cache."""

    def __init__(self, module: Any) -> None:
        self.module = module
        kind, text = module.config.model_type, module.config.get_text_config()
        inner = getattr(module, "model", module)
        self.turning = inner if hasattr(inner, "get_rope_index") else None
        """Part that gives images positions on three axes, if any."""
        parameters = inspect.signature(module.forward).parameters
        self.placed = "position_ids" in parameters
        self.keeps = "logits_to_keep" in parameters
        self.cache_argument = cache_argument(module)
        # Kosmos-2 counts positions as fairseq did, from the one after padding.
        self.first_position = text.pad_token_id + 1 if kind == "kosmos-2" else 0
        self.reader = module.text_model if kind == "kosmos-2" else module
        """Module for passes without a new image: Kosmos-2 as a whole requires one."""
        sliding = any("sliding" in name for name in getattr(text, "layer_types", None) or ())
        self.window: int | None = text.sliding_window if sliding else None
        """Tokens that sliding-window layers look back."""
        self.side_by_side = kind != "kosmos-2"
        """Masks may differ by token; else they only say which cache entries are tokens."""
        self.taps: Taps | None = None
        """Collector of hidden states, while any are wanted."""

    @property
    def device(self) -> torch.device:
        device: torch.device = self.module.device
        return device

    def __call__(self, cache: Any, mask: Any, positions: torch.Tensor | None, keep: int, **inputs: Any) -> torch.Tensor:
        """Run a forward pass; return logits (rows, keep, vocabulary) of the last positions."""
        if positions is not None and self.placed:
            positions = positions + self.first_position
            # Three axes are for images only; a token of text has the same place on each of them.
            inputs["position_ids"] = positions.expand(3, *positions.shape) if self.turning is not None else positions
        if self.keeps:
            inputs["logits_to_keep"] = keep
        if self.taps is not None:
            self.taps.keep = keep
        network = self.module if "pixel_values" in inputs else self.reader
        out = network(attention_mask=mask, use_cache=True, **{self.cache_argument: cache}, **inputs)
        logits: torch.Tensor = out.logits
        return logits[:, -keep:]

    def attention_mask(self, mask: torch.Tensor, numbers: torch.Tensor, own: torch.Tensor) -> Any:
        """Return the additive attention mask; with a sliding window {kind of layer: its mask}.

        Args:
            mask: (rows, new, cached), what each new token sees of the cache, itself and other new tokens included.
            numbers: (rows, cached), the number of each entry in its text.
            own: (rows, new), the numbers of the new tokens.
        """
        import torch

        def shaped(visible: torch.Tensor) -> torch.Tensor:
            # Added to the attention scores: every implementation of attention takes it, and a row that sees nothing gives no NaN.
            dtype = self.module.dtype
            added = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
            return added.masked_fill_(~visible, torch.finfo(dtype).min).unsqueeze(1)

        if self.window is None:
            return shaped(mask)
        # Our mask takes the place of the module's own, so the window must be drawn into it.
        near = mask & (numbers.unsqueeze(1) > own.unsqueeze(2) - self.window)
        return {"full_attention": shaped(mask), "sliding_attention": shaped(near)}

    def read(self, tensors: dict[str, Any], goes_on: bool = True) -> Rows:
        """Read a left-padded batch into a new cache, with room if `goes_on`; return its rows."""
        import torch

        mask = tensors["attention_mask"]
        rest = {name: value for name, value in tensors.items() if name != "attention_mask"}
        cache = _empty_cache(ROOM if goes_on else 0)
        turned = self.turning is not None and any(name.startswith("pixel") for name in rest)
        positions = None if turned else _positions(mask)
        logits = self(cache, mask, positions, 1, **rest)[:, -1]
        offset = torch.zeros(len(mask), dtype=torch.long, device=mask.device)
        if turned:
            # An image takes up fewer positions than it has tokens; the text behind it counts on from there.
            offset = self.turning.rope_deltas.to(offset).view(-1)  # type: ignore[union-attr]
        return Rows(self, cache, mask.bool(), mask.sum(dim=1), offset, logits)

    def begin(self, ids: Sequence[Sequence[int]]) -> Rows:
        """Read texts (token ids) without images into a new cache; return its rows."""
        tokens, mask = _left_padded(ids, self.device)
        return self.read({"input_ids": tokens, "attention_mask": mask.long()})

    def text_logits(self, ids: Sequence[Sequence[int]], keep: int) -> torch.Tensor:
        """Return (texts, keep, V) logits at the last positions of token lists `ids`; no cache."""
        import torch

        place = {text: row for row, text in enumerate(dict.fromkeys(map(tuple, ids)))}
        tokens, mask = _left_padded(list(place), self.device)
        logits = self(_empty_cache(0), mask.long(), _positions(mask), keep, input_ids=tokens)
        return logits[torch.tensor([place[tuple(text)] for text in ids], device=logits.device)]


@dataclass
class Rows:
    """Token sequences (rows) in one key-value cache."""

    network: Network
    cache: Any
    mask: torch.Tensor
    """(rows, cached): cache entries that are tokens of this row."""
    lengths: torch.Tensor
    """(rows,): number of tokens."""
    offset: torch.Tensor
    """(rows,): position minus token number."""
    logits: torch.Tensor
    """(rows, vocabulary) of the next token."""

    def select(self, index: torch.Tensor) -> Rows:
        """Return the rows of these indices, which may repeat, without computing anything."""
        cache = _copied(self.cache, index)
        return Rows(self.network, cache, self.mask[index], self.lengths[index], self.offset[index], self.logits[index])

    def extend(
        self,
        ids: Sequence[Sequence[int]],
        starts: Sequence[int],
        keep: int = 1,
        hidden: torch.Tensor | None = None,
        in_place: bool = False,
    ) -> tuple[Rows, torch.Tensor]:
        """Return (rows continued after their first `starts` tokens, (rows, keep, V) logits).

        Args:
            starts: number of tokens that each row keeps, at least up to the end of its image.
            keep: number of positions, from the end, with logits.
            hidden: (rows, cached), tokens that the new ones do not see; positions stay as they are.
            in_place: write into these rows' reserved room; the result is lost once these rows are continued again.
        """
        cache = _copied(self.cache, in_place=in_place)
        logits, mask, lengths = self._run_pass(cache, ids, starts, keep, hidden)
        return Rows(self.network, cache, mask, lengths, self.offset, logits[:, -1]), logits

    def peek(self, ids: Sequence[Sequence[int]], starts: Sequence[int], keep: int = 1, hidden: torch.Tensor | None = None) -> torch.Tensor:
        """Return the (rows, keep, V) logits of `extend`, without new rows or a copy of the cache."""
        cached = self.mask.shape[1]
        try:
            return self._run_pass(self.cache, ids, starts, keep, hidden)[0]
        finally:
            for layer in self.cache.layers:
                layer.keys, layer.values = layer.keys[:, :, :cached], layer.values[:, :, :cached]

    def differentiable(self, ids: Sequence[Sequence[int]], starts: Sequence[int], keep: int = 1) -> torch.Tensor:
        """Return the logits of `peek` with an autograd graph; not for use in inference mode."""
        return self._run_pass(_constant(self.cache), ids, starts, keep, None)[0]

    def _run_pass(
        self, cache: Any, ids: Sequence[Sequence[int]], starts: Sequence[int], keep: int, hidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Read tokens of `extend` into `cache`, which grows; return (logits, mask, lengths).

        Arguments are as in `extend`: `hidden` is a mask of cached tokens.
        """
        import torch

        tokens, new = _left_padded(ids, self.mask.device)
        start = torch.tensor(list(starts), device=self.mask.device)
        # What a row read after its start stays in the cache, masked. Taking it out would move the entries of the other rows.
        prefix = self.mask & (self.mask.cumsum(dim=1) <= start.unsqueeze(1))
        mask = torch.cat([prefix, new], dim=1)
        own = _positions(new) + start.unsqueeze(1)
        if hidden is not None:
            prefix = prefix & ~hidden
        attention: Any = torch.cat([prefix, new], dim=1).long()
        if self.network.side_by_side:
            width = new.shape[1]
            before = torch.ones(width, width, dtype=torch.bool, device=mask.device).tril()
            visible = torch.cat([prefix.unsqueeze(1).expand(-1, width, -1), new.unsqueeze(1) & before], dim=2)
            attention = self.network.attention_mask(visible, mask.cumsum(dim=1) - 1, own)
        logits = self.network(cache, attention, own + self.offset.unsqueeze(1), keep, input_ids=tokens)
        return logits, mask, start + new.sum(dim=1)

    def decode(
        self,
        n_answers: int,
        chooser: Chooser,
        steps: int,
        stops: set[int],
        goes_on: GoesOn | None = None,
        states: AnswerStates | None = None,
    ) -> tuple[list[list[int]], list[list[float]], list[list[float]]]:
        """Decode `n_answers` per row; return (tokens, logprobs, entropies in nats) by answer.

        Args:
            chooser: chooses the next token of each answer; answers are numbered row by row.
            goes_on: decides, beside the stops, which answers continue after a step.
            states: collects the network's taps of every token that is read.
        """
        import torch

        # Here one mask serves all tokens of a row, so answers cannot stand beside each other: each gets a copy of the row.
        if not self.network.side_by_side and n_answers > 1:
            repeated = self.select(torch.arange(len(self.mask), device=self.mask.device).repeat_interleave(n_answers))
            return repeated.decode(1, chooser, steps, stops, goes_on, states)
        return _Answers(self, n_answers, steps, stops, states).written(chooser, goes_on)


class _Answers:
    """State of the answers that are decoded side by side, `width` per row of the cache.

    Answers to one row that are equal so far share a place, and are read once.
    """

    def __init__(self, rows: Rows, width: int, steps: int, stops: set[int], states: AnswerStates | None = None) -> None:
        import torch

        self.states = states
        self.network, device = rows.network, rows.mask.device
        self.rows, self.steps = rows, steps
        total = len(rows.mask) * width
        self.tokens = torch.zeros(total, steps, dtype=torch.long, device=device)
        self.counts = torch.zeros(total, dtype=torch.long, device=device)
        self.logprobs, self.entropies = (
            torch.zeros(total, steps, dtype=torch.float64, device=double_device(str(device))) for _ in range(2)
        )
        self.ends = torch.tensor(sorted(stops), device=device)
        self.cache = _copied(rows.cache, in_place=True)  # what is written into the rows' room is forgotten
        self.mask, self.lengths, self.offset = rows.mask, rows.lengths, rows.offset
        self.numbers = rows.mask.cumsum(dim=1) - 1
        self.visible = rows.mask.unsqueeze(1)
        """(rows, places, cached): what each place sees."""
        self.answers = torch.arange(total, device=device)
        """Numbers of the unfinished answers."""
        self.row, self.column = self.answers // width, torch.zeros_like(self.answers)
        """Row and column of each of these on the grid."""

    def written(self, chooser: Chooser, goes_on: GoesOn | None) -> tuple[list[list[int]], list[list[float]], list[list[float]]]:
        import torch

        logits = self.rows.logits.unsqueeze(1)
        for step in range(self.steps):
            raw, at = logits.flatten(0, 1), self.row * logits.shape[1] + self.column
            chosen = chooser(step, raw, self.answers, at)
            self._note(step, chosen, raw, at)
            going = ~torch.isin(chosen, self.ends)
            if goes_on is not None:
                going &= goes_on(step, self.answers, self.tokens)
            if step + 1 == self.steps or not bool(going.any()):
                break
            self.answers, self.row, self.column = self.answers[going], self.row[going], self.column[going]
            logits = self._read(step, self._assign_places(chosen[going], raw.shape[1]))
            if self.states is not None:
                self.states.add(self.row, self.column, self.answers)
        lengths = self.counts.tolist()
        tables = (self.tokens.tolist(), self.logprobs.tolist(), self.entropies.tolist())
        tokens, logprobs, entropies = ([values[:n] for values, n in zip(table, lengths, strict=True)] for table in tables)
        return tokens, logprobs, entropies

    def _note(self, step: int, chosen: torch.Tensor, logits: torch.Tensor, at: torch.Tensor) -> None:
        import torch

        self.tokens[self.answers, step] = chosen
        self.counts[self.answers] = step + 1
        totals, entropies = [], []
        # A block at a time: double precision of every row and the whole vocabulary would take gigabytes.
        for some in torch.split(logits, ROWS):
            wide = to_double(some)
            totals.append(torch.logsumexp(wide, dim=-1))
            entropies.append(torch.special.entr(torch.softmax(wide, dim=-1)).sum(dim=-1))
        answers, place = self.answers.to(self.logprobs.device), at.to(self.logprobs.device)
        self.logprobs[answers, step] = to_double(logits[at, chosen]) - torch.cat(totals)[place]
        self.entropies[answers, step] = torch.cat(entropies)[place]

    def _assign_places(self, chosen: torch.Tensor, vocabulary: int) -> torch.Tensor:
        """Assign each answer a place, equal ones the same; return the tokens (rows, places)."""
        import torch

        before = self.visible.shape[1]
        # One number for row, place and token. Answers that agree in all three are the same so far and share a place from here on.
        keys = (self.row * before + self.column) * vocabulary + chosen
        keys, which = keys.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        row, parent = keys // vocabulary // before, keys // vocabulary % before
        column = ranks(row)
        tokens = torch.zeros(len(self.mask), int(column.max()) + 1, dtype=torch.long, device=row.device)
        parents = torch.zeros_like(tokens)
        tokens[row, column], parents[row, column] = keys % vocabulary, parent
        self.visible = self.visible.gather(1, parents.unsqueeze(2).expand(-1, -1, self.visible.shape[2]))
        self.row, self.column = row[which], column[which]
        busy = torch.bincount(row, minlength=len(self.mask)) > 0
        if int(busy.sum()) <= _COMPACT * len(busy):
            index = busy.nonzero().squeeze(1)
            self.cache.batch_select_indices(index)
            self.row = (busy.cumsum(dim=0) - 1)[self.row]
            tokens, self.visible, self.numbers = (t[index] for t in (tokens, self.visible, self.numbers))
            self.mask, self.lengths, self.offset = self.mask[index], self.lengths[index], self.offset[index]
        return tokens

    def _read(self, step: int, tokens: torch.Tensor) -> torch.Tensor:
        import torch

        own = (self.lengths + step).unsqueeze(1).expand(-1, tokens.shape[1])
        self.numbers = torch.cat([self.numbers, own], dim=1)
        # Places of one row see only themselves of the newest tokens: the others belong to other answers.
        itself = torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device).expand(len(tokens), -1, -1)
        self.visible = torch.cat([self.visible, itself], dim=2)
        if self.network.side_by_side:
            attention = self.network.attention_mask(self.visible, self.numbers, own)
        else:
            self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], dim=1)
            attention = self.mask.long()
        return self.network(self.cache, attention, own + self.offset.unsqueeze(1), tokens.shape[1], input_ids=tokens)


def cache_argument(module: Any) -> str:
    """Return the name of `forward`'s argument for the key-value cache."""
    return "cache" if "cache" in inspect.signature(module.forward).parameters else "past_key_values"


def first_stop(tokens: Sequence[int], stops: Collection[int]) -> int | None:
    """Return the index of the first token that ends an answer; None if none does."""
    return next((i for i, token in enumerate(tokens) if token in stops), None)


def _positions(mask: torch.Tensor) -> torch.Tensor:
    return (mask.long().cumsum(dim=1) - 1).clamp(min=0)


def _left_padded(ids: Sequence[Sequence[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    width = max(map(len, ids))
    tokens = torch.tensor([[0] * (width - len(row)) + list(row) for row in ids], device=device)
    mask = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in ids], device=device)
    return tokens, mask


def _empty_cache(room: int) -> Any:
    """Return an empty cache with room for `room` tokens beyond the first read."""
    from transformers import Cache

    return Cache(layer_class_to_replicate=lambda: _roomy_layer_class()(room))


def _copied(cache: Any, index: torch.Tensor | None = None, in_place: bool = False) -> Any:
    """Return a copy of a cache, or of some rows of it, whose growth leaves the original as is.

    With `in_place` the copy grows in the original's reserved room, as long as the original does not grow.
    """
    copy_of = _empty_cache(ROOM)
    for layer in cache.layers:
        other = _roomy_layer_class()(ROOM)
        # This only marks the layer as begun; its tensors are put in below.
        other.lazy_initialization(layer.keys, layer.values)
        # Shared where no rows are picked: a layer that grows makes new tensors and leaves these as they are.
        other.keys, other.values = layer.keys, layer.values
        if in_place or index is not None:
            other.space = layer.space
        if index is not None:
            other.batch_select_indices(index)
        copy_of.layers.append(other)
    return copy_of


def _constant(cache: Any) -> Any:
    """Return a copy of a cache that autograd can use: it grows by new tensors."""
    from transformers import Cache
    from transformers.cache_utils import DynamicLayer

    copy_of = Cache(layer_class_to_replicate=DynamicLayer)
    for layer in cache.layers:
        other = DynamicLayer()
        other.lazy_initialization(layer.keys, layer.values)
        other.keys, other.values = layer.keys, layer.values
        copy_of.layers.append(other)
    return copy_of


@cache
def _roomy_layer_class() -> type[Any]:
    """Return a class of cache layers with room ahead, so that new tokens copy nothing."""
    from transformers.cache_utils import DynamicLayer

    class Roomy(DynamicLayer):  # type: ignore[misc]
        keys: torch.Tensor
        values: torch.Tensor

        def __init__(self, room: int) -> None:
            super().__init__()
            self.room = room
            self.space: list[torch.Tensor] = []

        def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
            super().lazy_initialization(key_states, value_states)
            self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]

        def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            start, end = self.keys.shape[2], self.keys.shape[2] + key_states.shape[2]
            if start + self.room == 0:
                self.keys, self.values = key_states, value_states
                return key_states, value_states
            if not self.space or end > self.space[0].shape[2]:
                # Not by `cat`, which would copy the room as well.
                self.space = [t.new_empty(*t.shape[:2], end + self.room, t.shape[3]) for t in (key_states, value_states)]
                self.room *= 2  # so that many tokens, one after the other, are copied few times
                for space, states in zip(self.space, (self.keys, self.values), strict=True):
                    space[:, :, :start] = states
            for space, states in zip(self.space, (key_states, value_states), strict=True):
                space[:, :, start:end] = states
            self.keys, self.values = (space[:, :, :end] for space in self.space)
            return self.keys, self.values

        def batch_select_indices(self, indices: torch.Tensor) -> None:
            end = self.keys.shape[2]
            indices = indices.to(self.keys.device)  # layers may lie on several devices
            self.space = [space.index_select(0, indices) for space in self.space or (self.keys, self.values)]
            self.keys, self.values = (space[:, :, :end] for space in self.space)

    return Roomy
