"""Ask held-out questions in training: one forward pass, right if every answer token is the likeliest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from qualm.registry import LETTERS
from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.prompts.question import render_question
from qualm.runners.runtime.records import iterate_rows
from qualm.runners.training.data import ASSISTANT, END
from qualm.runners.training.packing import IGNORE, pack
from qualm.runners.training.pictures import decode, normalise

SIZE = 64


class Evaluation:
    """Function that returns the accuracy (0..1) on each held-out dataset by `heldout/NAME`."""

    def __init__(self, learner: Any, curriculum: Any, folders: Mapping[str, Path]) -> None:
        self.learner, self.curriculum, self.folders = learner, curriculum, folders

    def __call__(self) -> dict[str, float]:
        return {f"heldout/{name}": float(np.mean(self._right(name, folder))) for name, folder in self.folders.items()}

    def _right(self, name: str, folder: Path) -> list[bool]:
        pictures = {r["image_id"]: decode(r["image"]["bytes"]) for r in iterate_rows(folder / "images", IMAGES, batch_size=256)}
        columns = ["sample_id", "image_id", "question", "references", "choices", "answer_index"]
        rows = list(iterate_rows(folder / "samples.parquet", SAMPLES, columns))
        if many := next((r for r in rows if len(r["choices"] or ()) > len(LETTERS)), None):
            raise FinetuneError(
                f"heldout: dataset '{name}': sample '{many['sample_id']}' has {len(many['choices'])} options, but only "
                f"{len(LETTERS)} letters exist; leave the sample out by `where:`"
            )
        right: list[bool] = []
        for start in range(0, len(rows), SIZE):
            part = rows[start : start + SIZE]
            right += self._answer(part, np.stack([pictures[r["image_id"]] for r in part]))
        return right

    def _answer(self, rows: list[dict[str, Any]], pixels: np.ndarray) -> list[bool]:
        import torch

        prompts = self.curriculum.encode([render_question(r["question"], r["choices"] or ()) + ASSISTANT for r in rows])
        answers = self.curriculum.encode([(LETTERS[r["answer_index"]] if r["choices"] else r["references"][0]) + END for r in rows])
        packed = pack(
            self.curriculum.prefix, [[pair] for pair in zip(prompts, answers, strict=True)], self.curriculum.tokenizer.pad_token_id
        )
        batch = {k: torch.from_numpy(v).to(self.learner.device) for k, v in packed.items()}
        with torch.no_grad():
            logits = self.learner.answer_logits({**batch, "pixel_values": torch.from_numpy(normalise(pixels)).to(self.learner.device)})
        wrong = (logits.argmax(-1) != batch["labels"]) & (batch["labels"] != IGNORE)
        return [not w for w in wrong.any(1).tolist()]
