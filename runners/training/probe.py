"""Trains probes: classifiers of some numbers about each answer, small enough for a processor, the same on every machine.

Always on one thread of the processor and in double precision, so that no device and no number of workers changes what is learnt.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import lightning as L
import numpy as np
import torch
from numpy.typing import NDArray

from qualm.runners.contracts.probes import ProbeDesign
from qualm.runners.runtime.threads import one_thread

Floats = NDArray[np.float64]
MOST_STEPS = 2000
"""Of the solver of logistic regression; it ends where the gradient vanishes, long before."""


@dataclass(frozen=True)
class TrainedProbe:
    mean: Floats
    scale: Floats
    network: torch.nn.Module

    def probability(self, features: Floats) -> Floats:
        """(n,) of the target; NaN where a feature is not finite."""
        with torch.no_grad(), one_thread():
            logits = self.network(torch.from_numpy((features - self.mean) / self.scale)).squeeze(1)
        values = torch.sigmoid(logits).numpy()
        return np.where(np.isfinite(features).all(axis=1), values, np.nan)

    def weights(self) -> dict[str, Any]:
        """All its numbers, by name."""
        own = {"mean": torch.from_numpy(self.mean), "scale": torch.from_numpy(self.scale)}
        return own | {name: value.detach().clone() for name, value in self.network.state_dict().items()}


class ProbeTrainer(L.LightningModule):  # type: ignore[misc]
    """The summed log loss of a batch, for logistic regression with the penalty of its coefficients, and how far a ranking is missed."""

    def __init__(self, network: torch.nn.Sequential, design: ProbeDesign) -> None:
        super().__init__()
        self.network, self.design = network, design

    def training_step(self, batch: Sequence[torch.Tensor], index: int) -> torch.Tensor:
        features, target, *compared = batch
        logits = self.network(features).squeeze(1)
        loss: torch.Tensor = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="sum")
        if compared:
            other, counts = compared
            less = torch.sigmoid(self.network(other).squeeze(1)) - torch.sigmoid(logits)
            missed = (torch.relu(self.design.margin - less) * counts).sum() / counts.sum().clamp(min=1e-12)
            loss = loss + self.design.ranking * missed * len(target)
        if self.design.hidden:
            return loss / len(target)
        linear = self.network[0]
        assert isinstance(linear, torch.nn.Linear)
        return loss + self.design.decay / 2 * linear.weight.square().sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        if self.design.hidden:
            return torch.optim.AdamW(self.network.parameters(), lr=self.design.rate, weight_decay=self.design.decay)
        return torch.optim.LBFGS(
            self.network.parameters(), max_iter=MOST_STEPS, tolerance_grad=1e-9, tolerance_change=1e-14, line_search_fn="strong_wolfe"
        )


def trained(design: ProbeDesign, target: Floats, seed: int, beside: Floats | None = None) -> TrainedProbe:
    """A classifier of what a design sees.

    Args:
        target: (n,) from 0 to 1: the share of the target that an answer is.
        seed: of a network's first weights and of the order of its batches; logistic regression has one solution.
        beside: (n, d) features of the same answers under the variant that the design's ranking compares with; NaN where there are none.
    """
    mean, scale = design.features.mean(axis=0), design.features.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    with torch.random.fork_rng(devices=()), one_thread():
        torch.manual_seed(seed)
        network = _network(design)
        parts = [(design.features - mean) / scale, target]
        if beside is not None:
            there = np.asarray(np.isfinite(beside).all(axis=1))
            parts += [np.where(there[:, None], (beside - mean) / scale, 0.0), np.where(there, 1 - target, 0.0)]
        rows = torch.utils.data.TensorDataset(*map(torch.from_numpy, parts))
        whole = not design.hidden
        loader = torch.utils.data.DataLoader(rows, batch_size=len(target) if whole else design.batch, shuffle=not whole)
        _fit(ProbeTrainer(network, design), loader, 1 if whole else design.epochs)
    return TrainedProbe(mean, scale, network)


def _network(design: ProbeDesign) -> torch.nn.Sequential:
    widths = (design.features.shape[1], *design.hidden, 1)
    layers: list[torch.nn.Module] = []
    for width, following in pairwise(widths):
        layers += [torch.nn.Linear(width, following, dtype=torch.float64), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers[:-1])
    if not design.hidden:
        for parameter in network.parameters():
            torch.nn.init.zeros_(parameter)
    return network


def _fit(module: ProbeTrainer, loader: Any, epochs: int) -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The 'train_dataloader' does not have many workers")
            warnings.filterwarnings("ignore", ".*fit_loop.*|.*log_every_n_steps.*|.*isinstance.treespec.*")
            trainer = L.Trainer(
                accelerator="cpu",
                devices=1,
                max_epochs=epochs,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            trainer.fit(module, loader)
    finally:
        torch.set_num_threads(threads)
