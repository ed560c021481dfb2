"""Train probes: small classifiers of numbers about each answer, equal on every machine.

Training uses one thread and double precision, so that devices and workers do not change the result.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import lightning as L
import numpy as np
import torch
from numpy.typing import NDArray
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC, BinaryCalibrationError

from qualm.registry.sample import PROBE_FITS
from qualm.runners.contracts.probes import ProbeDesign
from qualm.runners.runtime.precision import stored_value
from qualm.runners.runtime.threads import one_thread
from qualm.runners.training.probe_data import ProbeTask, TrainingData, concatenate

Floats = NDArray[np.float64]
MAX_STEPS = 2000
"""Maximum steps of logistic regression, which converges long before."""
MIN_ANSWERS = 5
"""Answers of each class without which no probe is trained."""
HELD_OUT = 0.2
"""Share of the groups on which a probe that has learnt from the others is measured."""


@dataclass(frozen=True)
class TrainedProbe:
    """A trained probe: scaling of the features, and its network."""

    mean: Floats
    scale: Floats
    network: torch.nn.Sequential

    def probability(self, features: Floats) -> Floats:
        """Return the probability (n,) of the target; NaN if a feature is not finite."""
        with torch.no_grad(), one_thread():
            logits = self.network(torch.from_numpy((features - self.mean) / self.scale)).squeeze(1)
        values = torch.sigmoid(logits).numpy()
        return np.where(np.isfinite(features).all(axis=1), values, np.nan)

    def weights(self) -> dict[str, Any]:
        """Return all parameters as tensors by name, scaling included."""
        scaling = {"mean": torch.from_numpy(self.mean), "scale": torch.from_numpy(self.scale)}
        return scaling | {name: value.detach().clone() for name, value in self.network.state_dict().items()}


class ProbeTrainer(L.LightningModule):  # type: ignore[misc]
    """Lightning module of a probe: log loss, penalty of weights, and a ranking loss if asked."""

    def __init__(self, network: torch.nn.Sequential, design: ProbeDesign) -> None:
        super().__init__()
        self.network, self.design = network, design
        self.measures: Any = torch.nn.ModuleDict(
            {"accuracy": BinaryAccuracy(), "calibration_error": BinaryCalibrationError(n_bins=15), "auroc": BinaryAUROC()}
        )

    def validation_step(self, batch: Sequence[torch.Tensor], index: int) -> None:
        """Log accuracy, calibration error and AUROC of the probabilities on held-out rows."""
        features, target = batch
        probability = torch.sigmoid(self.network(features).squeeze(1))
        for name, measure in self.measures.items():
            measure.update(probability, (target > 0.5).long())
            self.log(name, measure, on_epoch=True)

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
            self.network.parameters(), max_iter=MAX_STEPS, tolerance_grad=1e-9, tolerance_change=1e-14, line_search_fn="strong_wolfe"
        )


def fit_probe(task: ProbeTask, datasets: Sequence[TrainingData], seed: int) -> tuple[dict[str, Any], TrainedProbe | None]:
    """Train a probe on all `datasets`; return (its columns of PROBE_FITS, the probe or None).

    Without a probe, `why` of the numbers holds the reason.
    """
    facts: dict[str, Any] = dict.fromkeys(PROBE_FITS.names[4:]) | {"n": 0, "n_groups": 0}
    if not datasets:
        return facts | {"why": "there are no answers to learn from"}, None
    numbered = [replace(own, groups=np.array([f"{i}/{group}" for group in own.groups])) for i, own in enumerate(datasets)]
    data = concatenate(numbered)
    facts |= {"n": len(data.targets), "n_groups": len(np.unique(data.groups))}
    targets = data.targets
    if task.target is not None:
        facts["threshold"] = threshold = best_split(targets)
        targets = (targets > threshold).astype(np.float64) if threshold is not None else np.zeros(len(targets))
    facts["share"] = float(targets.mean())
    if min(targets.sum(), (1 - targets).sum()) < MIN_ANSWERS:
        kind = "are wrong" if task.target is None else f"have a high {task.target}"
        return facts | {"why": f"{targets.sum():g} of {len(targets)} answers {kind}; expected at least {MIN_ANSWERS} of each class"}, None
    if data.compared is not None and not np.isfinite(data.compared).all(axis=1).any():
        return facts | {"why": f"there are no answers under '{task.compared_variant}' to compare with"}, None
    trained = train_probe(data.design, targets, seed, data.compared)
    measured = validate_probe(data.design, targets, data.groups, seed, data.compared)
    return facts | {f"val_{measure}": stored_value(value) for measure, value in measured.items()}, trained


def best_split(values: Floats) -> float | None:
    """Return the largest value of the lower part of a least-squares split; None if all equal.

    >>> best_split(np.array([0.0, 0.1, 1.0, 1.1]))
    0.1
    """
    ordered = np.sort(values)
    sums, n = np.cumsum(ordered), len(ordered)
    low = np.arange(1, n)
    between = np.where(ordered[1:] > ordered[:-1], sums[:-1] ** 2 / low + (sums[-1] - sums[:-1]) ** 2 / (n - low), -np.inf)
    return float(ordered[int(between.argmax())]) if n > 1 and np.isfinite(between).any() else None


def train_probe(design: ProbeDesign, target: Floats, seed: int, compared: Floats | None = None) -> TrainedProbe:
    """Train a probe on the features of a design and the target of each row.

    Args:
        target: (n,) 0..1, the share of the target in each answer.
        seed: seed of a network's initial weights and batches; logistic regression has a unique solution.
        compared: (n, d) features of the answers under the variant of the design's ranking; NaN if missing.
    """
    mean, scale = design.features.mean(axis=0), design.features.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    with torch.random.fork_rng(devices=()), one_thread():
        torch.manual_seed(seed)
        network = _network(design)
        parts = [(design.features - mean) / scale, target]
        if compared is not None:
            there = np.asarray(np.isfinite(compared).all(axis=1))
            parts += [np.where(there[:, None], (compared - mean) / scale, 0.0), np.where(there, 1 - target, 0.0)]
        rows = torch.utils.data.TensorDataset(*map(torch.from_numpy, parts))
        is_full_batch = not design.hidden
        batch_size = len(target) if is_full_batch else design.batch
        loader = torch.utils.data.DataLoader(rows, batch_size=batch_size, shuffle=not is_full_batch)
        _fit(ProbeTrainer(network, design), loader, 1 if is_full_batch else design.epochs)
    return TrainedProbe(mean, scale, network)


def validate_probe(
    design: ProbeDesign, target: Floats, groups: NDArray[Any], seed: int, compared: Floats | None = None
) -> dict[str, float]:
    """Train on 4/5 of the groups; return accuracy, calibration error, AUROC on 1/5, or {}.

    Empty where either part lacks a class.

    Args:
        design: as of `train_probe`.
        target: as of `train_probe`.
        groups: (n,) group of each row; no group is in both parts.
        seed: chooses the groups, and is that of `train_probe`.
        compared: as of `train_probe`.
    """
    names = np.random.default_rng(seed).permutation(np.unique(groups))
    held_out = np.isin(groups, names[: round(HELD_OUT * len(names))])
    if any(len(np.unique(target[rows] > 0.5)) < 2 for rows in (held_out, ~held_out)):
        return {}
    learnt = replace(design, features=design.features[~held_out])
    probe = train_probe(learnt, target[~held_out], seed, None if compared is None else compared[~held_out])
    features = (design.features[held_out] - probe.mean) / probe.scale
    rows = torch.utils.data.TensorDataset(torch.from_numpy(features), torch.from_numpy(target[held_out]))
    loader = torch.utils.data.DataLoader(rows, batch_size=len(rows))
    module = ProbeTrainer(probe.network, design)
    with _quiet(), one_thread():
        (logged,) = _cpu_trainer().validate(module, loader, verbose=False)
    return {name: float(logged[name]) for name in module.measures}


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
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _quiet():
            _cpu_trainer(epochs).fit(module, loader)
    finally:
        torch.set_num_threads(threads)


def _cpu_trainer(epochs: int = 1) -> L.Trainer:
    return L.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The '(train|val)_dataloader' does not have many workers")
        warnings.filterwarnings("ignore", ".*fit_loop.*|.*log_every_n_steps.*|.*isinstance.treespec.*|.*no `val_dataloader`.*")
        yield
