"""Cosine similarity of two texts by a sentence encoder of transformers (Reimers and Gurevych, "Sentence-BERT", EMNLP 2019)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qualm.runners.contracts.nli import Logits, NliContext, NliEngine, NliError, Pair
from qualm.runners.plugins.nli._batches import CHUNK_TEXTS, BatchedModel, find_folder
from qualm.runners.runtime.precision import stored_value

if TYPE_CHECKING:
    from qualm.registry.plugins.registry import Artifact

EXTRA = "models"
COSINE = True


def embedding(
    context: NliContext,
    *,
    artifact: Artifact | None = None,
    hub: str | None = None,
    revision: str | None = None,
    pooling: Literal["mean", "cls"] = "mean",
    dtype: Literal["float64", "float32", "bfloat16", "float16"] | None = None,
) -> NliEngine:
    """Return a sentence encoder for `similarity: cosine`; it tells no entailment.

    A text's embedding is the encoder's last hidden state, averaged over the text's tokens (special tokens included, padding not), scaled to
    length 1. Texts are encoded as they are, without a prompt.

    Args:
        artifact: the entry of registry/data/ that holds it.
        hub: or its name on the Hugging Face hub; `qualm fetch SPEC` downloads it.
        revision: branch, tag or commit of the hub repository, `main` unless given. `qualm fetch` pins its commit in registry/fetch.lock.
        pooling: mean over the tokens, or the state of the first (`cls`), as the model was trained.
        dtype: of the weights; null is float32, at which a similarity depends on its batch by rounding only (about 1e-6). At float64 it
            depends on neither batch nor machine.

    Raises:
        NliError: files are missing, or the model's own files say another pooling.
    """
    folder = find_folder("embedding", artifact, hub, revision)
    if fault := pooling_fault(folder, pooling):
        raise NliError(f"nli embedding: {fault}")
    return CosineEncoder(hub or folder.name, folder, pooling, dtype or "float32", context)


def pooling_fault(folder: Path, pooling: str) -> str:
    """Return how `pooling` contradicts 1_Pooling/config.json; "" if it agrees or is absent."""
    file = folder / "1_Pooling" / "config.json"
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        return f"{file} cannot be read: {error}"
    modes = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
    chosen = [name for name, on in said.items() if name.startswith("pooling_mode_") and on is True] if isinstance(said, dict) else []
    if chosen == [modes[pooling]]:
        return ""
    known = next((f"set `pooling: {name}`" for name, mode in modes.items() if chosen == [mode]), "mean and cls are available")
    return f"{file} says {', '.join(chosen) or 'no pooling'}, the spec says {pooling}; {known}"


class CosineEncoder(BatchedModel):
    """NLI engine whose only value for a pair is the cosine of the two texts' embeddings."""

    classes = 1
    loader, expected, unused = "AutoModel", "a text encoder", "pooler."
    label, unit, gives = "embedding", "text", "embeddings"

    def __init__(self, name: str, folder: Path, pooling: str, dtype: str, context: NliContext) -> None:
        super().__init__("embedding", name, folder, pooling, dtype, context)
        self.pooling = pooling

    def infer(self, pairs: Sequence[Pair]) -> Iterator[list[tuple[int, Logits]]]:
        """Yield batches of (index of the pair, (cosine,)); each text of a batch is encoded once."""
        for start in range(0, len(pairs), CHUNK_TEXTS):
            some = pairs[start : start + CHUNK_TEXTS]
            texts = sorted({text for pair in some for text in pair})
            vectors = {texts[i]: vector for batch in self.in_batches([(text,) for text in texts]) for i, vector in batch}
            cosines = (float(np.clip(vectors[a] @ vectors[b], -1.0, 1.0)) for a, b in some)
            yield [(start + i, (stored_value(cosine),)) for i, cosine in enumerate(cosines)]

    def compute(self, batch: Any) -> Any:
        """Return the embeddings (n, d), of length 1, of a tokenized batch."""
        import torch

        states = self._model(**batch).last_hidden_state
        pooled = states[:, 0].double() if self.pooling == "cls" else _mean(states, batch["attention_mask"])
        return torch.nn.functional.normalize(pooled, dim=1)


def _mean(states: Any, mask: Any) -> Any:
    """Return the mean (n, d) of hidden states (n, T, d) over the tokens of a mask (n, T)."""
    weights = mask.unsqueeze(-1).double()
    return (states.double() * weights).sum(dim=1) / weights.sum(dim=1)
