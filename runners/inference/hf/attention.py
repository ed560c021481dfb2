"""Attention of chosen layers at the positions that predict an answer's tokens.

`scaled_dot_product_attention` returns no weights. So a known answer is read once more after the prompt, and for its positions the weights
are computed from queries and keys, or taken from a model whose attention returns them. Only statistics are kept: per head the attention
on the previous token, and per range of layers the mean over heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from qualm.runners.inference.devices import to_double
from qualm.runners.inference.hf.taps import decoder

if TYPE_CHECKING:
    import torch

    from qualm.runners.inference.hf.rows import Network, Rows

Note = Callable[[int, "torch.Tensor"], None]
"""Callback (layer, weights (rows, heads, positions, cached)) for the last positions of a pass."""


class AnswerAttention:
    """Attention weights at the positions that predict the tokens of some answers."""

    def __init__(self, trunk: Rows, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], ranges: Mapping[str, list[int]]):
        """Read the answers once more, and collect the attention of the layers of `ranges`.

        Args:
            ranges: layers, counted from 1, by the word for them.
        """
        self.ranges, self.lengths = ranges, list(map(len, answers))
        self.positions = max(self.lengths)
        self._previous: dict[int, torch.Tensor] = {}
        self._sums: dict[str, torch.Tensor] = {}
        # The position that predicts a token is that of the token before it.
        ids = [(prompt[-1], *answer[:-1]) for prompt, answer in zip(prompts, answers, strict=True)]
        blocks = sorted({block for own in ranges.values() for block in own})
        with watch_attention(trunk.network, blocks, self.positions, self._note):
            trunk.peek(ids, (trunk.lengths - 1).tolist(), self.positions)

    def _note(self, block: int, weights: torch.Tensor) -> None:
        cached = weights.shape[-1]
        # So what a position gives to itself is what goes to the token before the predicted one.
        self._previous[block] = weights[..., cached - self.positions :].diagonal(dim1=2, dim2=3)
        mean = weights.mean(dim=1)
        for word, blocks in self.ranges.items():
            if block in blocks:
                self._sums[word] = self._sums[word] + mean if word in self._sums else mean

    def previous(self, row: int, word: str, start: int, end: int) -> torch.Tensor:
        """Return each top head's attention to the previous token, (layers, end - start - 1).

        Of each layer it is that of the head with the highest mean.
        """
        import torch

        first = self.positions - self.lengths[row]
        own = torch.stack([self._previous[block][row, :, first + start + 1 : first + end] for block in self.ranges[word]])
        best = own.mean(dim=2).argmax(dim=1)
        return own[torch.arange(len(own), device=own.device), best]

    def mean(self, row: int, word: str) -> torch.Tensor:
        """Return an answer's attention (tokens, cached), mean over heads and layer range `word`."""
        return self._sums[word][row, self.positions - self.lengths[row] :] / len(self.ranges[word])


@contextmanager
def watch_attention(network: Network, blocks: Sequence[int], positions: int, note: Note) -> Iterator[None]:
    """Within this context, call `note` with some layers' attention weights in every pass.

    Weights are computed from the queries and keys that reach a function of transformers' `AttentionInterface`. A layer that computes its
    attention by itself returns the weights, and a hook takes them from there.

    Args:
        blocks: numbers of layers, counted from 1.
        positions: number of noted positions, from the end of each pass.
        note: called with each layer's number and weights (rows, heads, positions, cached).
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    _, layers = decoder(network.module)
    number_of = {id(part): block for block in blocks for part in layers[block - 1].modules()}

    def noting(attend: Callable[..., Any]) -> Callable[..., Any]:
        def attend_and_note(
            module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, *args: Any, **also: Any
        ) -> Any:
            block = number_of.get(id(module))
            if block is not None:
                note(block, attention_weights(query, key, mask, positions, also.get("scaling"), also.get("softcap")))
            return attend(module, query, key, value, mask, *args, **also)

        return attend_and_note

    def returned(block: int) -> Callable[..., None]:
        def hook(_: Any, __: Any, output: Any) -> None:
            own = output[1] if isinstance(output, tuple) and len(output) > 1 else None
            if own is not None and getattr(own, "ndim", 0) == 4:
                note(block, own[:, :, -positions:].float())

        return hook

    # transformers looks these functions up at every call, so a replacement reaches modules that are built already.
    functions = dict(ALL_ATTENTION_FUNCTIONS)
    handles = [
        child.register_forward_hook(returned(block))
        for block in blocks
        for name, child in layers[block - 1].named_children()
        if "attn" in name
    ]
    try:
        for name, attend in functions.items():
            ALL_ATTENTION_FUNCTIONS[name] = noting(attend)
        yield
    finally:
        for name, attend in functions.items():
            ALL_ATTENTION_FUNCTIONS[name] = attend
        for handle in handles:
            handle.remove()


def attention_weights(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, positions: int, scaling: float | None, softcap: float | None = None
) -> torch.Tensor:
    """Compute the attention weights of the last positions, (rows, heads, positions, cached).

    Args:
        query: (rows, heads, new, units).
        key: (rows, key heads, cached, units), each shared by an equal number of heads.
        mask: bool (true where a key is seen), or added to the scores; None for a causal mask.
        scaling: of the products; by default the inverse root of the units.
    """
    import torch

    rows, heads, _, units = query.shape
    own = query[:, :, -positions:]
    shared = heads // key.shape[1]
    # Heads that share keys are stacked as more positions, which spares a copy of the keys for each head.
    grouped = own.reshape(rows, key.shape[1], shared * own.shape[2], units)
    scores = (grouped @ key.transpose(2, 3)).reshape(rows, heads, own.shape[2], key.shape[2])
    scores = scores.to(torch.float64 if scores.dtype == torch.float64 else torch.float32) * (units**-0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is None:
        number = torch.arange(key.shape[2], device=key.device)
        last = key.shape[2] - own.shape[2] + torch.arange(own.shape[2], device=key.device)
        mask = number <= last.unsqueeze(1)
    else:
        mask = mask[..., -own.shape[2] :, : key.shape[2]]
    scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return torch.softmax(scores, dim=-1).nan_to_num()  # a place that only fills the batch sees nothing


def image_token_mask(trunk: Rows, prompts: Sequence[Sequence[int]], token: int) -> torch.Tensor:
    """Return a mask (rows, cached) of cache entries with the image token id `token`."""
    import torch

    own = torch.tensor([one == token for prompt in prompts for one in prompt], device=trunk.mask.device)
    return torch.zeros_like(trunk.mask).masked_scatter(trunk.mask, own)


def share_and_entropy(attention: torch.Tensor, picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ((positions,) attention on image tokens, (positions,) its entropy there in nats).

    Args:
        attention: (positions, cached or more).
        picture: (cached,) bool mask of the image tokens.
    """
    import torch

    own = attention[:, : len(picture)][:, picture]
    share = own.sum(dim=1)
    return share, torch.special.entr(own / share.unsqueeze(1)).sum(dim=1)


def most_attended(attention: torch.Tensor, picture: torch.Tensor, share: float) -> torch.Tensor:
    """Return a mask (cached,) of the `share` of image entries most attended to, at least 1.

    Args:
        attention: (positions, cached or more), summed over positions.
        picture: (cached,) bool mask of the image tokens.
        share: of the image tokens, in [0, 1], rounded down.
    """
    import torch

    places = picture.nonzero().squeeze(1)
    most = attention[:, places].sum(dim=0).topk(max(1, int(len(places) * share))).indices
    hidden = torch.zeros_like(picture)
    hidden[places[most]] = True
    return hidden


def entropies_without_core(
    trunk: Rows, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], picture: torch.Tensor, hidden: torch.Tensor
) -> list[torch.Tensor]:
    """Return each answer's (tokens,) entropies in nats with the image entries `hidden` masked.

    Args:
        trunk: the rows at the ends of their prompts.
        picture: (rows, cached), image entries.
        hidden: (rows, cached), entries to hide.
    """
    import torch

    number = trunk.mask.cumsum(dim=1)
    # All behind the image is read anew: entries from the first pass have seen what is to be hidden.
    starts = number.masked_fill(~picture, 0).amax(dim=1).tolist()
    ids = [(*prompt[start:], *answer[:-1]) for prompt, answer, start in zip(prompts, answers, starts, strict=True)]
    logits = trunk.peek(ids, starts, max(map(len, answers)), hidden)
    spread = torch.log_softmax(to_double(logits), dim=-1)
    entropies = torch.special.entr(spread.exp()).sum(dim=-1)
    return [entropies[row, -len(answer) :] for row, answer in enumerate(answers)]
