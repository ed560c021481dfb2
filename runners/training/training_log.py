"""Log a training as a table: the module's values, averaged over rows of several steps, also after a kill."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qualm.runners.contracts.finetunes import TrainingRecipe
from qualm.runners.runtime.progress import Advance

VALIDATED = "val_"
"""Prefix of measures over validation rows, which are of one step and not averaged."""


def log_callback() -> Any:
    """Return a Lightning callback class that writes a training's log as a CSV table."""
    import lightning as L

    class Log(L.Callback):  # type: ignore[misc]
        def __init__(self, recipe: TrainingRecipe, file: Path, advance: Advance, every: int) -> None:
            self.recipe, self.file, self.advance, self.every = recipe, file, advance, every
            self.rows: list[dict[str, float]] = []
            self.sums: dict[str, float] = {}
            self.n_batches = 0
            self.step = 0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.step = trainer.global_step
            self.advance(trainer.global_step)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            for name, value in ((n, v) for n, v in trainer.callback_metrics.items() if not n.startswith(VALIDATED)):
                self.sums[name] = self.sums.get(name, 0.0) + float(value)
            self.n_batches += 1
            if trainer.global_step == self.step:
                return  # gradients accumulate
            self.step = trainer.global_step
            self.advance()
            if self.step % self.every == 0 or self.step >= self.recipe.steps:
                self.end_row(trainer, pl_module)

        def end_row(self, trainer: Any, pl_module: Any) -> None:
            row: dict[str, float] = {"step": trainer.global_step, **{k: v / self.n_batches for k, v in self.sums.items()}}
            if len(self.rows) % 5 == 4 or trainer.global_step >= self.recipe.steps:
                pl_module.eval()
                measured = self.recipe.evaluate()
                pl_module.train()
                pl_module.log_dict({name: value for name, value in measured.items() if name.startswith(VALIDATED)})
                row.update(measured)
            self.rows.append(row)
            if trainer.is_global_zero:
                _write(self.file, self.rows)
            self.sums, self.n_batches = {}, 0

        def state_dict(self) -> dict[str, Any]:
            return {"rows": self.rows, "sums": self.sums, "seen": self.n_batches}

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            self.rows, self.sums, self.n_batches = list(state_dict["rows"]), dict(state_dict["sums"]), int(state_dict["seen"])

    return Log


def _write(path: Path, rows: Sequence[Mapping[str, float]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, names, restval="")
        writer.writeheader()
        writer.writerows({k: v if isinstance(v, int) else _short(k, v) for k, v in row.items()} for row in rows)


def _short(name: str, value: float) -> float:
    return float(f"{value:.4g}") if name == "rate" else round(value, 5)
