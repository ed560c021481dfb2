"""Cosine similarity of two texts by a sentence encoder of transformers (Reimers and Gurevych, "Sentence-BERT", EMNLP 2019)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qualm.runners.contracts.models import ModelError
from qualm.runners.contracts.nli import Floats, Logits, NliContext, NliEngine, NliError, Pair
from qualm.runners.inference.devices import out_of_memory, torch_device
from qualm.runners.inference.hf.double import computing
from qualm.runners.inference.hf.folder import FolderError, folder_digest, folder_fault, model_folder
from qualm.runners.inference.hf.weights import silence, whole_module
from qualm.runners.plugins.nli.hf import CHUNK_PAIRS, token_limit, tokens_per_batch
from qualm.runners.runtime.code_digest import engine_digest
from qualm.runners.runtime.precision import stored_value

if TYPE_CHECKING:
    from qualm.registry.plugins.registry import Artifact

EXTRA = "models"


def embedding(
    context: NliContext,
    *,
    artifact: Artifact | None = None,
    hub: str | None = None,
    revision: str | None = None,
    pooling: Literal["mean", "cls"] = "mean",
    dtype: Literal["float64", "float32", "bfloat16", "float16"] | None = None,
) -> NliEngine:
    """Load a sentence encoder, for estimators with `similarity: cosine`; it tells no entailment.

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
    try:
        folder = model_folder(artifact, hub, revision)
    except FolderError as error:
        raise NliError(f"nli embedding: {error}") from None
    if fault := folder_fault(folder) or pooling_fault(folder, pooling):
        raise NliError(f"nli embedding: {fault}")
    return Encoder(hub or folder.name, folder, pooling, dtype or "float32", context)


def pooling_fault(folder: Path, pooling: str) -> str:
    """Return a message if sentence-transformers' files beside a model say another pooling; "" if not."""
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


class Encoder:
    """See `qualm.runners.contracts.nli.NliEngine`; one number per pair, the cosine."""

    classes = 1

    def __init__(self, name: str, folder: Path, pooling: str, dtype: str, context: NliContext) -> None:
        self.folder, self.pooling, self.dtype = folder, pooling, dtype
        self.settings, self.counters = context.settings, context.counters
        self.name = f"embedding ({name})"
        material = ["embedding", folder_digest(folder), pooling, dtype, engine_digest(__name__)]
        self.identity = hashlib.sha256(json.dumps(material).encode()).hexdigest()
        self.tokens = 0
        """Tokens per batch; halved when the device has too little memory."""
        self._model: Any = None
        self._tokenizer: Any = None

    def infer(self, pairs: Sequence[Pair]) -> Iterator[list[tuple[int, Logits]]]:
        """Encode each text of a chunk of pairs once."""
        self._open()
        for start in range(0, len(pairs), CHUNK_PAIRS):
            some = pairs[start : start + CHUNK_PAIRS]
            texts = sorted({text for pair in some for text in pair})
            of = dict(zip(texts, self.embed(texts), strict=True))
            yield [(start + i, (stored_value(float(np.clip(of[a] @ of[b], -1.0, 1.0))),)) for i, (a, b) in enumerate(some)]

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return (n, d) embeddings of length 1, in order; NliError on failure."""
        self._open()
        lengths = [len(ids) for ids in self._tokenizer(list(texts))["input_ids"]]
        cut = sum(length > self._limit for length in lengths)
        if cut:
            self.counters[f"texts cut to {self._limit} tokens"] += cut
        order = sorted(range(len(texts)), key=lambda i: (-lengths[i], texts[i]))
        rows: list[Floats] = []
        done = 0
        while done < len(order):
            places = order[done : done + max(1, self.tokens // min(lengths[order[done]], self._limit))]
            batch = self._batch([texts[i] for i in places])
            if batch is not None:
                rows += list(batch)
                done += len(places)
        found = np.empty((len(order), len(rows[0]) if rows else 0))
        found[order] = rows
        return found

    def _batch(self, texts: Sequence[str]) -> Floats | None:
        """Embed a batch; None and smaller batches if memory is too small."""
        import torch

        batch = self._tokenizer(list(texts), truncation=True, max_length=self._limit, padding=True, return_tensors="pt")
        try:
            with torch.inference_mode(), computing(self.dtype):
                batch = batch.to(self._model.device)
                states = self._model(**batch).last_hidden_state
                pooled = states[:, 0].double() if self.pooling == "cls" else _mean(states, batch["attention_mask"])
                vectors = torch.nn.functional.normalize(pooled, dim=1).cpu()
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            if len(texts) == 1:
                raise NliError(f"{self.name}: one text is more than the device's memory holds: {error}; take a smaller model") from error
            self.tokens = int(batch["input_ids"].shape[1]) * (len(texts) // 2)
            self.counters["embedding batches halved for want of memory"] += 1
            if torch.accelerator.is_available():
                torch.accelerator.empty_cache()
            return None
        if not torch.isfinite(vectors).all():
            raise NliError(f"{self.name}: gives embeddings that are not numbers in {self.dtype}; try `dtype: float32`")
        return np.asarray(vectors.numpy(), dtype=np.float64)

    def _open(self) -> None:
        if self._model is not None:
            return
        from transformers import AutoModel, AutoTokenizer

        silence()
        place = {"pretrained_model_name_or_path": str(self.folder), "local_files_only": True, "trust_remote_code": False}
        try:
            tokenizer = AutoTokenizer.from_pretrained(**place)
            model = whole_module(self.name, AutoModel, place, self.dtype, unused="pooler.")
        except ModelError as error:
            raise NliError(f"{error}; it must be a text encoder") from error
        except (OSError, ValueError, ImportError, KeyError, RuntimeError, TypeError) as error:
            raise NliError(f"{self.name}: its tokenizer cannot be read from {self.folder}: {error}") from error
        if tokenizer.pad_token is None:
            raise NliError(f"{self.name}: its tokenizer has no padding token; add `pad_token` to tokenizer_config.json")
        # A decoder pads on the left of what it continues; the first token of an encoder is always in front.
        tokenizer.padding_side = "right"
        self._tokenizer, self._limit = tokenizer, token_limit(tokenizer, model.config)
        self._model = model.to(device := torch_device(self.settings.device, self.dtype))
        self.tokens = tokens_per_batch(self.settings, device)


def _mean(states: Any, mask: Any) -> Any:
    """Average hidden states (n, T, d) over the tokens of a mask (n, T), in double precision."""
    weights = mask.unsqueeze(-1).double()
    return (states.double() * weights).sum(dim=1) / weights.sum(dim=1)
