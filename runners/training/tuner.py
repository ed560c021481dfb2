"""The Lightning modules: the loss of a share of a step's batch, the optimizer and the learning rate."""

import math
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lightning as L
import torch

from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.contracts.tunings import Tuning
from qualm.runners.inference.devices import to_double
from qualm.runners.training.losses import answer_logprobs, dpo_loss, logprobs_of_all

PACKING = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""How near packed and padded losses have to be, relatively, by the weights' dtype."""


@dataclass(frozen=True)
class Course:
    """How weights are moved, the same for every method."""

    rate: float
    """Highest learning rate of AdamW."""
    schedule: str
    """`cosine`, `linear` (both down to zero) or `constant`."""
    warmup: float
    """Share of the steps in which the rate rises to its highest."""
    decay: float
    """Weight decay of matrices; of nothing else."""
    beta2: float
    seed: int

    def share_at(self, step: int, steps: int) -> float:
        """The learning rate of a step as a share of the highest."""
        rising = math.ceil(self.warmup * steps)
        if step < rising:
            return (step + 1) / rising
        done = (step - rising) / max(1, steps - rising)
        return {"cosine": 0.5 * (1 + math.cos(math.pi * done)), "linear": 1 - done, "constant": 1.0}[self.schedule]


class Tuner(L.LightningModule):  # type: ignore[misc]
    """Supervised fine-tuning: minus the mean log-probability of the answers' tokens."""

    def __init__(self, tuning: Tuning, course: Course, steps: int, checkpointing: bool = False, *, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.label_smoothing = label_smoothing
        self.network = tuning.network
        self.course, self.steps = course, steps
        self.check_packing: Callable[[], tuple[dict[str, Any], dict[str, Any]]] | None = None
        """Gives the same examples padded and packed, where packing is used."""
        self.strict_loading = False  # a checkpoint holds what is trained; the rest is the base model's
        if checkpointing:
            with warnings.catch_warnings():
                warnings.filterwarnings(
                    "ignore", "`gradient_checkpointing_enable` is deprecated"
                )  # its successor is newer than what we ask for
                self.network.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    def on_train_start(self) -> None:
        """Compare packing with padding; FinetuneError where answers depend on their row."""
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
        # Without dropout, which would part the two in any case.
        self.network.eval()
        logprobs, _ = answer_logprobs(self.network, batch, smoothing=0.0)
        self.network.train()
        return float(-to_double(logprobs).mean())

    def training_step(self, batch: dict[str, Any], index: int) -> Any:
        torch.manual_seed(zlib.crc32(f"{self.course.seed} {batch.pop('place')}".encode()))  # dropout is the same after a resume
        loss, measures = self.share_loss(batch)
        rate = self.trainer.optimizers[0].param_groups[0]["lr"]
        shared = self.trainer.world_size > 1
        self.log_dict({"loss": loss.detach(), **{k: v.detach() for k, v in measures.items()}, "rate": rate}, sync_dist=shared)
        return loss

    def share_loss(self, batch: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The loss of a share, scaled so that the mean over all shares of a step is the step's loss; and what else is worth a curve."""
        logprobs, _ = logprobs_of_all(self.network, batch["batches"], self.label_smoothing)
        # Shares differ in length: each weighs as its tokens do, and not as one of so many shares.
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
    """Direct preference optimisation, with the supervised loss of the chosen answers beside it where that is weighted."""

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
