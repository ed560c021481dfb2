"""Conflict and ignorance of the evidence in an output head for each token, as EUQ's code computes them (Huang et al., ICLR 2026)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from qualm.runners.contracts.models import ModelError
from qualm.runners.inference.devices import to_double

if TYPE_CHECKING:
    import torch

    from qualm.runners.inference.hf.rows import Network, Rows


def token_evidence(
    trunk: Rows, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return per answer (conflict (tokens,), ignorance (tokens,)) in predicting its tokens.

    Args:
        trunk: the rows at the ends of their prompts.

    Raises:
        ModelError: the output head is no linear layer with a weight for each token and unit.
    """
    ids = [(prompt[-1], *answer[:-1]) for prompt, answer in zip(prompts, answers, strict=True)]
    keep = max(map(len, answers))
    with _watch_head(trunk.network) as (means, passed):
        trunk.peek(ids, (trunk.lengths - 1).tolist(), keep)
    states, logits = passed[-1]
    by_row = []
    for row, answer in enumerate(answers):
        # A row of weights less its mean: its logit falls by the mean times the sum of the state's units.
        own = to_double(states[row, -len(answer) :])
        centred = to_double(logits[row, -len(answer) :]) - own.sum(dim=1, keepdim=True) * to_double(means).to(own.device)
        by_row.append(conflict_and_ignorance(centred, states.shape[-1]))
    return by_row


def conflict_and_ignorance(centred: torch.Tensor, hypotheses: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (conflict (tokens,) in [0, 1), ignorance (tokens,) in [0, K]) of predictions.

    With V logits z of weights that have mean 0 over units, a = Σ max(z, 0) / V and b = Σ max(−z, 0) / V support and oppose each of K
    hypotheses alike. Positive evidence gives each hypothesis the mass η₊ (eᵃ − 1), negative evidence the mass η₋ e⁻ᵇ to what does not
    exclude it, with η₊ = 1 / (K eᵃ − K + 1) and η₋ = 1 / (1 − (1 − e⁻ᵇ)ᴷ). Conflict is the mass κ = K η₊ (eᵃ − 1) (1 − η₋ e⁻ᵇ) that
    Dempster's rule discards, ignorance is K e⁻ᵇ η₊ η₋ / (1 − κ).

    Args:
        centred: (tokens, V).
        hypotheses: K, in the authors' code the units of the head's input.
    """
    import torch

    support = torch.expm1(centred.clamp(min=0).mean(dim=1)) * hypotheses  # K (eᵃ − 1)
    against = torch.exp(-(-centred).clamp(min=0).mean(dim=1))  # e⁻ᵇ
    kept = against / -torch.expm1(hypotheses * torch.log1p(-against))  # η₋ e⁻ᵇ
    kept = torch.where(against > 0, kept, 1 / hypotheses)  # its limit
    conflict = torch.where(torch.isinf(support), 1.0, support / (support + 1)) * (1 - kept)
    return conflict, hypotheses * kept / (1 + support * kept)


@contextmanager
def _watch_head(network: Network) -> Iterator[tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]]:
    """Yield (mean (V,) of the head's weights, list that collects each pass's (input, output)).

    Raises:
        ModelError: the output head has no floating-point weights.
    """
    import torch

    head: Any = network.module.get_output_embeddings()
    weight = getattr(head, "weight", None)
    if not isinstance(weight, torch.Tensor) or weight.ndim != 2 or not weight.is_floating_point():
        raise ModelError(
            f"the output head of {type(network.module).__name__} is no layer of floating-point weights; leave out the estimators that "
            "read evidence"
        )
    passed: list[tuple[torch.Tensor, torch.Tensor]] = []

    def hook(_: Any, args: Any, output: torch.Tensor) -> None:
        passed.append((args[0], output if getattr(head, "bias", None) is None else output - head.bias))

    handle = head.register_forward_hook(hook)
    try:
        yield weight.mean(dim=1, dtype=torch.float64 if weight.dtype == torch.float64 else torch.float32), passed
    finally:
        handle.remove()
