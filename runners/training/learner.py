"""Lightning module of the small model: losses on answers, on contents of cells, and on attention.

The last two make a small model learn in minutes instead of hours. A cell's projected feature should resemble the embeddings of words for
what it shows, as in CLIP. At an answer, two heads of the middle layer should attend to the objects of the question's noun phrases, and one
of the last layer to the right option; only those rows of the attention are computed.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import lightning as L
import torch
from torch.nn.functional import cross_entropy
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from qualm.registry.scenes.world import VALUES
from qualm.runners.training.packing import IGNORE, attention_mask

MIDDLE_WEIGHT = 4.0
"""Weight of object centres, which are few, among the cell losses."""
SHARPNESS = 4.0
"""Scale of the similarity of cells and words."""
WARM_UP = 60


class Learner(L.LightningModule):  # type: ignore[misc]
    """Lightning module that trains a small LLaVA on answers, image cells and attention."""

    def __init__(
        self, model: Any, tokenizer: Any, *, looking: int, steps: int, rate: float, cell_weight: float, point_weight: float
    ) -> None:
        super().__init__()
        self.model = model
        self.looking, self.steps, self.rate = looking, steps, rate
        self.cell_weight, self.point_weight = cell_weight, point_weight
        self.names = [tokenizer.convert_tokens_to_ids(list(words)) for words in (*VALUES.values(), ("nothing", "object"))]
        self._patches: Any = None
        self._states: dict[int, tuple[Any, Any]] = {}
        layers = model.model.language_model.layers
        self.watched = (len(layers) // 2, len(layers) - 1)
        model.model.vision_tower.register_forward_hook(self._watch_tower)
        for number in self.watched:
            layers[number].self_attn.register_forward_pre_hook(partial(self._watch_layer, number), with_kwargs=True)

    def _watch_tower(self, module: Any, inputs: Any, outputs: Any) -> None:
        self._patches = outputs.last_hidden_state[:, 1:]

    def _watch_layer(self, number: int, module: Any, inputs: Any, named: Any) -> None:
        self._states[number] = (named["hidden_states"], named["position_embeddings"])

    def training_step(self, batch: Mapping[str, Any], index: int) -> Any:
        if "input_ids" not in batch:
            self.model.model.vision_tower(pixel_values=batch["pixel_values"])
            cells = self._cell_loss(batch["cells"])
            self.log("cell_loss", cells.detach())
            return cells
        answer_mask = batch["labels"] != IGNORE
        logits, labels = self.answer_logits(batch)[answer_mask], batch["labels"][answer_mask]
        answers = cross_entropy(logits, labels)
        cells, looks = self._cell_loss(batch["cells"]), self._look_loss(batch)
        right = (logits.argmax(-1) == labels).float().mean()
        self.log_dict({"loss": answers.detach(), "accuracy": right, "cell_loss": cells.detach(), "look_loss": looks.detach()})
        return answers + self.cell_weight * cells + self.point_weight * looks

    def answer_logits(self, batch: Mapping[str, Any]) -> Any:
        """Return next-token logits (B, L, vocabulary) for a batch of packed questions."""
        hidden = self.model.model(
            input_ids=batch["input_ids"],
            pixel_values=batch["pixel_values"],
            position_ids=batch["position_ids"],
            attention_mask=attention_mask(batch["segment"]),
            use_cache=False,
        ).last_hidden_state
        return self.model.lm_head(hidden)

    def _cell_loss(self, labels: Any) -> Any:
        features = self.model.model.multi_modal_projector(self._patches) * SHARPNESS
        words = self.model.get_input_embeddings().weight
        losses = [cross_entropy((features @ words[ids].T).flatten(0, 1), labels[:, k].flatten()) for k, ids in enumerate(self.names)]
        return sum(losses[:-1]) + MIDDLE_WEIGHT * losses[-1]

    def _look_loss(self, batch: Mapping[str, Any]) -> Any:
        """Return the mean -log of the attention that noun phrases and options pay their targets.

        The attention of a phrase or option is summed over its target tokens first.
        """
        losses = []
        for name, number in zip(("cells", "option"), self.watched, strict=True):
            if len(batch[f"{name}_from"]):
                shares = self._attention(number, batch[f"{name}_from"], batch["segment"])
                losses.append(-torch.log((shares * batch[f"{name}_to"]).sum(-1) + 1e-6))
        return torch.cat(losses).mean()

    def _attention(self, number: int, rows: Any, segment: Any) -> Any:
        """Return attention (n, L) in layer `number` of `rows`, (n, 3): image, head, token."""
        hidden, (cos, sin) = self._states[number]
        layer = self.model.model.language_model.layers[number].self_attn
        b, head, token = rows.T
        shape = (*hidden.shape[:2], -1, layer.head_dim)
        heads = int(head.max()) + 1
        keys = torch.nn.functional.linear(hidden, layer.k_proj.weight[: heads * layer.head_dim]).view(shape)
        queries = torch.nn.functional.linear(hidden, layer.q_proj.weight[: heads * layer.head_dim]).view(shape)
        queries, keys = apply_rotary_pos_emb(queries, keys, cos, sin, unsqueeze_dim=2)
        logits = torch.einsum("nd,nld->nl", queries[b, token, head], keys.transpose(1, 2)[b, head]) * layer.scaling
        own = segment[b]
        visible = (own == 0) | (own == own.gather(1, token[:, None]))
        visible &= torch.arange(own.shape[1], device=own.device) <= token[:, None]
        return logits.masked_fill(~visible, -torch.inf).softmax(-1)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.rate, weight_decay=0.05, betas=(0.9, 0.98))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self.rate_at)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def rate_at(self, step: int) -> float:
        """Return a step's learning rate as a share of the peak: two warm-ups, then cosine fall.

        It warms up from step 0 and again from step `looking`, and is constant in between. In the second half of `steps` it also falls
        along a cosine, to 1% of the peak.
        """
        since = step if step < self.looking else step - self.looking
        done = min(1.0, step / self.steps)
        fall = 1.0 if done < 0.5 else 0.01 + 0.99 * 0.5 * (1 + math.cos(2 * math.pi * (done - 0.5)))
        return min(1.0, (since + 1) / WARM_UP) * fall
