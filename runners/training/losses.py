"""Losses as pure functions of logits."""

from collections.abc import Sequence
from typing import Any

from qualm.runners.training.batching import IGNORE


def answer_logprobs(network: Any, batch: dict[str, Any], smoothing: float) -> tuple[Any, Any]:
    """Return log-probabilities of the answers' tokens.

    Args:
        batch: of `qualm.runners.training.batching`.
        smoothing: share of each target that is spread evenly over the vocabulary.

    Returns:
        logprobs (T,): log-probability of each answer token of the batch, end of turn included, in nats and float32; smoothed, its mean
            over the spread target;
        owner (T,): index of its example.
    """
    import torch

    logits, targets = answer_logits(network, batch)
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
    return -losses, batch["owner"][batch["labels"] != IGNORE]


def answer_logits(network: Any, batch: dict[str, Any]) -> tuple[Any, Any]:
    """Return the logits (T, vocabulary) before each answer token of a batch, in float32, and the tokens (T,)."""
    inputs = {name: value for name, value in batch.items() if name not in ("labels", "owner")}
    # Such models count positions from the images.
    if _positions_by_itself(network):
        del inputs["position_ids"]
    answer_mask = batch["labels"] != IGNORE
    dtype = next(p.dtype for p in network.parameters() if p.is_floating_point())
    inputs = {n: v.to(dtype) if v.is_floating_point() and n != "attention_mask" else v for n, v in inputs.items()}
    # Logits of answers only, as those of a whole batch would be its largest tensor by far.
    logits = network(**inputs, use_cache=False, logits_to_keep=answer_mask).logits.float()
    return logits, batch["labels"][answer_mask]


def logprobs_of_all(network: Any, batches: Sequence[dict[str, Any]], smoothing: float) -> tuple[Any, Any]:
    """Concatenate `answer_logprobs` of several batches."""
    import torch

    logprobs, owners = zip(*(answer_logprobs(network, batch, smoothing) for batch in batches), strict=True)
    return torch.cat(logprobs), torch.cat(owners)


def _positions_by_itself(network: Any) -> bool:
    """Return True for models that count positions from image grids (Qwen2-VL)."""
    return any(hasattr(m, "get_rope_index") for m in network.modules())


def dpo_loss(chosen: Any, rejected: Any, chosen_before: Any, rejected_before: Any, beta: float, smoothing: float = 0.0) -> Any:
    """Return the loss of direct preference optimisation (DPO) for each pair.

    -(1 - s) ln sigmoid(m) - s ln sigmoid(-m) with m = beta [(ln pi_w - ln ref_w) - (ln pi_l - ln ref_l)].
    Rafael Rafailov, Archit Sharma, Eric Mitchell, Stefano Ermon, Christopher D. Manning, Chelsea Finn, "Direct Preference Optimization:
    Your Language Model is Secretly a Reward Model", NeurIPS 2023, equation 7; label smoothing as in Eric Mitchell's note on cDPO.

    Args:
        chosen: summed log-probabilities (n,) of the chosen answers; likewise of the rejected ones, and of the model `before`.
        beta: a smaller value allows larger deviations from the model before.
        smoothing: probability that a preference is reversed.
    """
    from torch.nn.functional import logsigmoid

    margin = beta * ((chosen - chosen_before) - (rejected - rejected_before))
    return -(1 - smoothing) * logsigmoid(margin) - smoothing * logsigmoid(-margin)
