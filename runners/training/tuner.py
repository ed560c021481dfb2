"""Lightning modules of fine-tuning: loss of a share of a batch, optimizer, learning rate."""

import math
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import lightning as L
import torch
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from torchmetrics import MeanMetric
from torchmetrics.classification import BinaryAUROC, BinaryCalibrationError

from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.contracts.tunings import Tuning
from qualm.runners.inference.devices import to_double
from qualm.runners.training.batching import IGNORE
from qualm.runners.training.training_log import VALIDATED

PACKING = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""Maximum relative difference of packed and padded losses, by dtype of the weights."""


@dataclass(frozen=True)
class Course:
    """Hyperparameters of AdamW and of its learning-rate schedule."""

    rate: float
    """Peak learning rate of AdamW."""
    schedule: str
    """`cosine` or `linear` (both decay to zero), or `constant`."""
    warmup: float
    """Share of the steps in which the rate rises to its peak."""
    decay: float
    """Weight decay of matrices; other parameters have none."""
    beta2: float
    seed: int

    def share_at(self, step: int, steps: int) -> float:
        """Return step `step`'s learning rate, of `steps` steps, as a share (0..1) of the peak."""
        rising = math.ceil(self.warmup * steps)
        if step < rising:
            return (step + 1) / rising
        done = (step - rising) / max(1, steps - rising)
        return {"cosine": 0.5 * (1 + math.cos(math.pi * done)), "linear": 1 - done, "constant": 1.0}[self.schedule]


class Tuner(L.LightningModule):  # type: ignore[misc]
    """Lightning module of supervised fine-tuning: negative mean log-probability of answers."""

    def __init__(self, tuning: Tuning, course: Course, steps: int, checkpointing: bool = False, *, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.label_smoothing = label_smoothing
        self.network = tuning.network
        self.course, self.steps = course, steps
        self.check_packing: Callable[[], tuple[dict[str, Any], dict[str, Any]]] | None = None
        """Return the same examples padded and packed; None without packing."""
        self.validation: Callable[[], Iterable[dict[str, Any]]] = tuple
        """Return batches of validation rows."""
        self.measures: Any = torch.nn.ModuleDict(
            {"accuracy": MeanMetric(), "calibration_error": BinaryCalibrationError(n_bins=15), "auroc": BinaryAUROC()}
        )
        self.is_sharded = False
        self.strict_loading = False  # checkpoints hold only trained weights
        if checkpointing:
            with warnings.catch_warnings():
                warnings.filterwarnings(
                    "ignore", "`gradient_checkpointing_enable` is deprecated"
                )  # its successor is newer than what we ask for
                self.network.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    def setup(self, stage: str) -> None:
        """Note whether the strategy shards the weights."""
        self.is_sharded = not isinstance(self.trainer.strategy, SingleDeviceStrategy | DDPStrategy)

    def on_train_start(self) -> None:
        """If examples are packed, compare their loss with padded; FinetuneError if it differs."""
        if self.check_packing is None:
            return
        both = [self.transfer_batch_to_device(b, self.device, 0) for b in self.check_packing()]
        with torch.no_grad():
            padded = self._mean_loss(both[0])
            try:
                packed = self._mean_loss(both[1])
            except (IndexError, RuntimeError, TypeError, ValueError) as error:
                raise FinetuneError(f"packed: this model takes one example in a row ({error}); leave `packed` out") from error
        near = PACKING[self.network.get_input_embeddings().weight.dtype]
        # Written so that NaN fails too.
        if not abs(packed - padded) <= near * abs(padded):
            raise FinetuneError(
                f"packed: the first examples' loss is {packed:.7f} packed and {padded:.7f} padded, further apart than {near:g} of it: "
                "in this model examples in one row see each other; leave `packed` out"
            )

    def _mean_loss(self, batch: dict[str, Any]) -> float:
        # Without dropout, which would make them differ.
        self.network.eval()
        logprobs, _ = answer_logprobs(self.network, batch, smoothing=0.0)
        self.network.train()
        return float(-to_double(logprobs).mean())

    def validate(self) -> dict[str, float]:
        """Return `val_accuracy`, `val_calibration_error`, `val_auroc` of tokens; {} if unmeasured.

        Each token is predicted from the reference answer before it: accuracy is the share whose likeliest token is the reference's, the
        confidence is that token's probability, and AUROC tells how well it ranks right tokens above wrong ones, NaN without both. Nothing
        is measured without validation rows, or where a strategy shards the weights.
        """
        rights = []
        for batch in () if self.is_sharded else self.validation():
            with torch.no_grad():
                logits, tokens = answer_logits(self.network, self.transfer_batch_to_device(batch, self.device, 0))
            confidence, likeliest = torch.softmax(logits, dim=-1).max(dim=-1)
            rights.append(likeliest == tokens)
            self.measures["accuracy"].update(rights[-1].float())
            self.measures["calibration_error"].update(confidence, rights[-1].long())
            self.measures["auroc"].update(confidence, rights[-1].long())
        if not rights:
            return {}
        right = torch.cat(rights)
        values = {
            VALIDATED + name: float(measure.compute()) if name != "auroc" or 0 < int(right.sum()) < len(right) else math.nan
            for name, measure in self.measures.items()
        }
        for measure in self.measures.values():
            measure.reset()
        return values

    def training_step(self, batch: dict[str, Any], index: int) -> Any:
        torch.manual_seed(zlib.crc32(f"{self.course.seed} {batch.pop('place')}".encode()))  # dropout is the same after a resume
        loss, measures = self.share_loss(batch)
        rate = self.trainer.optimizers[0].param_groups[0]["lr"]
        shared = self.trainer.world_size > 1
        self.log_dict({"loss": loss.detach(), **{k: v.detach() for k, v in measures.items()}, "rate": rate}, sync_dist=shared)
        return loss

    def share_loss(self, batch: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return (loss of one share of a step's batch, scaled to its weight; values to log)."""
        logprobs, _ = logprobs_of_all(self.network, batch["batches"], self.label_smoothing)
        # By tokens, as shares differ in length.
        return -logprobs.sum() * batch["per_token"], {}

    def configure_optimizers(self) -> Any:
        trained = [p for p in self.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in trained if p.dim() >= 2], "weight_decay": self.course.decay},
            {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=self.course.rate, betas=(0.9, self.course.beta2))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self.course.share_at(step, self.steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        trained = {name for name, p in self.named_parameters() if p.requires_grad}
        checkpoint["state_dict"] = {name: value for name, value in checkpoint["state_dict"].items() if name in trained}


class Preferer(Tuner):
    """Lightning module of direct preference optimisation, optionally with a supervised loss."""

    def __init__(
        self, tuning: Tuning, course: Course, steps: int, checkpointing: bool, *, beta: float, smoothing: float, sft_weight: float
    ) -> None:
        super().__init__(tuning, course, steps, checkpointing)
        self.beta, self.smoothing, self.sft_weight = beta, smoothing, sft_weight
        self.before = tuning.reference()

    def share_loss(self, batch: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        tokens, owner = logprobs_of_all(self.network, batch["batches"], smoothing=0.0)
        with self.before() as original:
            tokens_before, _ = logprobs_of_all(original, batch["batches"], smoothing=0.0)
        pairs = int(batch["pairs"])
        now, then = (torch.zeros(2 * pairs, device=t.device).index_add(0, owner, t) for t in (tokens, tokens_before))
        margins = self.beta * (now - then)
        losses = dpo_loss(now[:pairs], now[pairs:], then[:pairs], then[pairs:], self.beta, self.smoothing)
        loss = losses.sum() * batch["per_pair"]
        measures = {
            "chosen_reward": margins[:pairs].sum() * batch["per_pair"],
            "rejected_reward": margins[pairs:].sum() * batch["per_pair"],
            "preferred": (margins[:pairs] > margins[pairs:]).sum() * batch["per_pair"],
        }
        if self.sft_weight:
            sft_loss = -tokens[owner < pairs].sum() * batch["per_token"]
            loss, measures["sft_loss"] = loss + self.sft_weight * sft_loss, sft_loss
        return loss, measures


def answer_logprobs(network: Any, batch: dict[str, Any], smoothing: float) -> tuple[Any, Any]:
    """Return ((T,) log-probability in nats of each answer token, (T,) its example's index).

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
    """Return (float32 logits (T, vocabulary) before each answer token, those tokens (T,))."""
    inputs = {name: value for name, value in batch.items() if name not in ("labels", "owner")}
    # Such models count positions from the images.
    if _counts_positions_itself(network):
        del inputs["position_ids"]
    answer_mask = batch["labels"] != IGNORE
    dtype = next(p.dtype for p in network.parameters() if p.is_floating_point())
    inputs = {n: v.to(dtype) if v.is_floating_point() and n != "attention_mask" else v for n, v in inputs.items()}
    # Logits of answers only, as those of a whole batch would be its largest tensor by far.
    logits = network(**inputs, use_cache=False, logits_to_keep=answer_mask).logits.float()
    return logits, batch["labels"][answer_mask]


def logprobs_of_all(network: Any, batches: Sequence[dict[str, Any]], smoothing: float) -> tuple[Any, Any]:
    """Return (log-probabilities, example indices) of `answer_logprobs` over several batches."""
    import torch

    logprobs, owners = zip(*(answer_logprobs(network, batch, smoothing) for batch in batches), strict=True)
    return torch.cat(logprobs), torch.cat(owners)


def _counts_positions_itself(network: Any) -> bool:
    """Return whether a network counts positions from image grids itself (Qwen2-VL)."""
    return any(hasattr(m, "get_rope_index") for m in network.modules())


def dpo_loss(chosen: Any, rejected: Any, chosen_before: Any, rejected_before: Any, beta: float, smoothing: float = 0.0) -> Any:
    """Return each pair's DPO loss (n,); the inputs are summed answer log-probabilities (n,).

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
