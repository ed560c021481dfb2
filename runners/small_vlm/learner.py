"""The Lightning module: loss on the answers, on what each cell of the picture shows, and on where a question looks.

The two helpers make a small model learn in minutes what takes hours otherwise. Cells are named in the language model's own
words: a cell's projected feature is to be like the embeddings of what it shows, as CLIP's towers are aligned. And when the model
is about to answer, two heads of one layer are to look at the objects that the question's noun phrases mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import lightning as L
import torch
from torch.nn.functional import cross_entropy

from registry.scenes.world import VALUES
from runners.small_vlm.packing import IGNORE, attention

MIDDLE_WEIGHT = 4.0
"""Weight of finding objects' middles, which are few, among the cell losses."""
SHARPNESS = 4.0
"""Scale of the likeness of cells and words."""
WARM_UP = 60


class Learner(L.LightningModule):  # type: ignore[misc]
    """A LLaVA-style model with a linear head per cell label on its vision tower; the heads are not saved with it."""

    def __init__(
        self, model: Any, tokenizer: Any, *, looking: int, steps: int, rate: float, cell_weight: float, point_weight: float
    ) -> None:
        super().__init__()
        self.model = model
        self.looking, self.steps, self.rate = looking, steps, rate
        self.cell_weight, self.point_weight = cell_weight, point_weight
        self.names = [tokenizer.convert_tokens_to_ids(list(words)) for words in (*VALUES.values(), ("nothing", "object"))]
        self._seen: Any = None
        self._looks: Any = None
        layers = model.model.language_model.layers
        model.model.vision_tower.register_forward_hook(self._watch_tower)
        layers[len(layers) // 2].self_attn.register_forward_hook(self._watch_attention)
        model.set_attn_implementation({"text_config": "eager"})  # the fused kernels keep no weights to watch

    def _watch_tower(self, module: Any, inputs: Any, outputs: Any) -> None:
        self._seen = outputs.last_hidden_state[:, 1:]

    def _watch_attention(self, module: Any, inputs: Any, outputs: Any) -> None:
        self._looks = outputs[1]

    def training_step(self, batch: Mapping[str, Any], index: int) -> Any:
        if "input_ids" not in batch:
            self.model.model.vision_tower(pixel_values=batch["pixel_values"])
            cells = self._cell_loss(batch["cells"])
            self.log("cell_loss", cells.detach())
            return cells
        asked = batch["labels"] != IGNORE
        logits, labels = self.answer_logits(batch)[asked], batch["labels"][asked]
        answers = cross_entropy(logits, labels)
        cells, looks = self._cell_loss(batch["cells"]), self._look_loss(batch["point"], batch["point_cells"])
        right = (logits.argmax(-1) == labels).float().mean()
        self.log_dict({"loss": answers.detach(), "accuracy": right, "cell_loss": cells.detach(), "look_loss": looks.detach()})
        return answers + self.cell_weight * cells + self.point_weight * looks

    def answer_logits(self, batch: Mapping[str, Any]) -> Any:
        """Next-token logits (B, L, vocabulary) of packed questions."""
        hidden = self.model.model(
            input_ids=batch["input_ids"],
            pixel_values=batch["pixel_values"],
            position_ids=batch["position_ids"],
            attention_mask=attention(batch["segment"]),
            use_cache=False,
        ).last_hidden_state
        return self.model.lm_head(hidden)

    def _cell_loss(self, labels: Any) -> Any:
        features = self.model.model.multi_modal_projector(self._seen) * SHARPNESS
        words = self.model.get_input_embeddings().weight
        losses = [cross_entropy((features @ words[ids].T).flatten(0, 1), labels[:, k].flatten()) for k, ids in enumerate(self.names)]
        return sum(losses[:-1]) + MIDDLE_WEIGHT * losses[-1]

    def _look_loss(self, point: Any, cells: Any) -> Any:
        """Minus the log of the attention that falls on the cells meant."""
        picture = slice(1, 1 + cells.shape[1])
        looks = self._looks[point[:, 0], point[:, 1], point[:, 2], picture]
        return -torch.log((looks * cells).sum(-1) + 1e-6).mean()

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.rate, weight_decay=0.05, betas=(0.9, 0.98))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self.rate_at)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def rate_at(self, step: int) -> float:
        """Share of the rate: a warm-up of looking and one of asking, a constant half, a cosine down to a hundredth."""
        since = step if step < self.looking else step - self.looking
        done = min(1.0, step / self.steps)
        fall = 1.0 if done < 0.5 else 0.01 + 0.99 * 0.5 * (1 + math.cos(2 * math.pi * (done - 0.5)))
        return min(1.0, (since + 1) / WARM_UP) * fall
