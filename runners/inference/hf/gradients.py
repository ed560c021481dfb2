"""Gradients of an answer's log-likelihood with respect to hidden states of its prompt, as SemGrad reads them (Li et al., ICML 2026).

The state of a token reaches only the tokens behind it. So the end of the prompt from that token on and the answer are read once more, with
a graph; the cache before it is constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from qualm.runners.inference.devices import to_double
from qualm.runners.inference.hf.taps import decoder

if TYPE_CHECKING:
    import torch

    from qualm.runners.inference.hf.rows import Network, Rows

ROWS_PER_PASS = 8
"""Answers read at a time: a graph keeps the activations of every layer."""


def mean_gradients(
    trunk: Rows,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    spans: Sequence[tuple[int, int]],
    layers: Sequence[int],
    token_from_end: int,
) -> list[float]:
    """Return per answer mean |gradient| of sum H ln p with respect to a prompt token's states.

    The gradient of Σ_t H(p_t) ln p_t over the tokens of a span, with the entropies H (nats) held constant, is taken with respect to the
    hidden states of one prompt token. Its absolute values are averaged over all units of all layers.

    Args:
        trunk: the rows at the ends of their prompts.
        spans: first token and the token behind the last one of each answer that count; not empty.
        layers: numbers of transformers' `hidden_states`, rising: of layer n the state behind block n.
        token_from_end: the prompt token, counted from the prompt's end; 1 is its last.
    """
    import torch

    values: list[float] = []
    for first in range(0, len(answers), ROWS_PER_PASS):
        some = range(first, min(first + ROWS_PER_PASS, len(answers)))
        rows = trunk.select(torch.tensor(list(some), device=trunk.mask.device))
        values += _of_rows(rows, [prompts[i] for i in some], [answers[i] for i in some], [spans[i] for i in some], layers, token_from_end)
    return values


def _of_rows(
    rows: Rows,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    spans: Sequence[tuple[int, int]],
    layers: Sequence[int],
    token_from_end: int,
) -> list[float]:
    import torch

    ids = [(*prompt[-token_from_end:], *answer[:-1]) for prompt, answer in zip(prompts, answers, strict=True)]
    width, keep = max(map(len, ids)), max(map(len, answers))
    with torch.inference_mode(False), torch.enable_grad(), _track_states(rows.network, layers) as states:
        logits = rows.differentiable(ids, (rows.lengths - token_from_end).tolist(), keep)
        total: Any = 0.0
        for own, answer, (start, end) in zip(logits, answers, spans, strict=True):
            # In double precision: of a sure token 1 - p and the entropy are what is left of numbers near 1.
            logprobs = torch.log_softmax(to_double(own[len(own) - len(answer) :][start:end]), dim=-1)
            weights = torch.special.entr(logprobs.detach().exp()).sum(dim=-1)
            chosen = torch.tensor(list(answer[start:end]), device=logprobs.device)
            total = total + (weights * logprobs.gather(1, chosen.unsqueeze(1)).squeeze(1)).sum()
        gradients = torch.autograd.grad(total, [states[layer] for layer in layers])
    at = torch.tensor([width - len(own) for own in ids], device=rows.mask.device)
    by_layer = [own[torch.arange(len(ids), device=own.device), at.to(own.device)] for own in gradients]
    sizes = torch.stack([to_double(own).abs().mean(dim=1).to(total.device) for own in by_layer])
    return [float(value) for value in sizes.mean(dim=0)]


@contextmanager
def _track_states(network: Network, layers: Sequence[int]) -> Iterator[dict[int, torch.Tensor]]:
    """Yield {layer: states}, filled by the next pass, by which gradients can be taken."""
    inner, blocks = decoder(network.module)
    states: dict[int, torch.Tensor] = {}

    def noted(layer: int, own: torch.Tensor) -> torch.Tensor:
        states[layer] = own.detach().requires_grad_() if layer == layers[0] else own
        return states[layer]

    def before(layer: int) -> Any:
        def hook(_: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
            if args:
                return (noted(layer, args[0]), *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": noted(layer, kwargs["hidden_states"])}

        return hook

    def behind(_: Any, __: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (noted(len(blocks), output[0]), *output[1:])
        output.last_hidden_state = noted(len(blocks), output.last_hidden_state)
        return output

    handles = [blocks[layer].register_forward_pre_hook(before(layer), with_kwargs=True) for layer in layers if layer < len(blocks)]
    if len(blocks) in layers:
        handles.append(inner.register_forward_hook(behind))
    # Without this the graph would keep what the gradients of all weights need.
    trained = [weights for weights in network.module.parameters() if weights.requires_grad]
    for weights in trained:
        weights.requires_grad_(False)
    try:
        yield states
    finally:
        for weights in trained:
            weights.requires_grad_(True)
        for handle in handles:
            handle.remove()
