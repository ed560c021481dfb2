"""NLI models of transformers: sequence classifiers with the classes entailment, neutral and contradiction, or entailment and its absence.

Published models order these classes differently, so the order comes from the model's config or from the spec, and is never guessed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qualm.runners.contracts.models import ModelError
from qualm.runners.contracts.nli import Logits, NliContext, NliEngine, NliError, Pair
from qualm.runners.inference.devices import out_of_memory, torch_device
from qualm.runners.inference.hf.double import computing
from qualm.runners.inference.hf.folder import FolderError, folder_digest, folder_fault, model_folder
from qualm.runners.inference.hf.weights import silence, whole_module
from qualm.runners.runtime.code_digest import engine_digest
from qualm.runners.runtime.precision import stored_value
from qualm.runners.runtime.settings import Settings

if TYPE_CHECKING:
    from qualm.registry.plugins.registry import Artifact

_CLASSES = "entailment, neutral and contradiction, or entailment and not_entailment"
_WORDS = (("entail", "neutral", "contradict"), ("entail", "not_entail"))
"""Prefixes of the class names, in our order; "non-entailment" counts as "not_entailment"."""
TOKENS_PER_PROMPT = {"cpu": 24}
"""Tokens per prompt of `batch_size` that a batch holds, padding included; more gain nothing there."""
ELSEWHERE = 512
"""Tokens per prompt on other devices."""
CHUNK_PAIRS = 8192
"""Pairs tokenized at a time; only lengths of all pairs are held."""

EXTRA = "models"


def hf(
    context: NliContext,
    *,
    artifact: Artifact | None = None,
    hub: str | None = None,
    revision: str | None = None,
    labels: list[str] | None = None,
    dtype: Literal["float64", "float32", "bfloat16", "float16"] | None = None,
) -> NliEngine:
    """Load a transformers NLI classifier (safetensors, tokenizer, config) from one folder.

    Args:
        artifact: the entry of registry/data/ that holds it.
        hub: or its name on the Hugging Face hub; `qualm fetch SPEC` downloads it.
        revision: branch, tag or commit of the hub repository, `main` unless given. `qualm fetch` pins its commit in registry/fetch.lock.
        labels: the classes in the order of its outputs, [entailment, neutral, contradiction] or [entailment, not_entailment] in any
            order, for a model whose config calls them LABEL_0 and so on. A model of two classes tells no contradictions; where they are
            needed, it is refused.
        dtype: of the weights; null is float32, at which the result of a pair depends on its batch by rounding only (about 1e-6). At
            float64 all is computed in double precision, and results depend on neither batch nor machine.

    Raises:
        NliError: files are missing, or its classes are unknown.
    """
    try:
        folder = model_folder(artifact, hub, revision)
    except FolderError as error:
        raise NliError(f"nli hf: {error}") from None
    fault = folder_fault(folder)
    if fault:
        raise NliError(f"nli hf: {fault}")
    return HfNli(hub or folder.name, folder, class_order(folder, labels), dtype or "float32", context)


def class_order(folder: Path, labels: list[str] | None) -> tuple[int, ...]:
    """Return the indices of entailment, neutral and contradiction, or of entailment and its absence, among the outputs.

    Raises:
        NliError: neither `id2label` nor the spec names exactly these classes, or both do and differ.
    """
    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        named = [name for _, name in sorted((int(i), str(name)) for i, name in (raw.get("id2label") or {}).items())]
    except (OSError, ValueError, AttributeError) as error:
        raise NliError(f"nli hf: {folder}/config.json cannot be read: {error}") from error
    own, spec_order = _order(named), _order(labels or [])
    if labels is not None and spec_order is None:
        raise NliError(f"nli hf: labels: expected {_CLASSES}, in some order, got {', '.join(labels) or 'nothing'}")
    if own is not None and spec_order is not None and own != spec_order:
        raise NliError(
            f"nli hf: the spec says that the classes of {folder.name} are {', '.join(labels or ())}; its config says {', '.join(named)}"
        )
    if spec_order is not None and named and len(named) != len(spec_order):
        raise NliError(f"nli hf: {folder.name} has {len(named)} classes ({', '.join(named)}); `labels` names {len(spec_order)}")
    order = own or spec_order
    if order is None:
        raise NliError(
            f"nli hf: {folder.name}: expected the classes {_CLASSES}, its config names {', '.join(named) or 'none'}; "
            "if it is an NLI model, say `labels: [...]` in the order of its outputs, as its authors give it"
        )
    return order


def _order(names: Sequence[str]) -> tuple[int, ...] | None:
    plain = [re.sub("^no[nt]?[-_ ]?(?=entail)", "not_", name.strip().lower()) for name in names]
    for words in _WORDS:
        places_by_class = [[i for i, name in enumerate(plain) if name.startswith(word)] for word in words]
        if len(plain) == len(words) and all(len(places) == 1 for places in places_by_class):
            return tuple(places[0] for places in places_by_class)
    return None


class HfNli:
    """See `qualm.runners.contracts.nli.NliEngine`."""

    def __init__(self, name: str, folder: Path, order: tuple[int, ...], dtype: str, context: NliContext) -> None:
        self.folder, self.order, self.dtype, self.classes = folder, order, dtype, len(order)
        self.settings, self.counters = context.settings, context.counters
        self.name = f"hf ({name})"
        material = ["hf", folder_digest(folder), order, dtype, engine_digest(__name__)]
        self.identity = hashlib.sha256(json.dumps(material).encode()).hexdigest()
        self.tokens = 0
        """Tokens per batch; halved when the device has too little memory."""
        self._model: Any = None
        self._tokenizer: Any = None

    def infer(self, pairs: Sequence[Pair]) -> Iterator[list[tuple[int, Logits]]]:
        """Infer pairs, longest first and then by text, so that a resumed run has the same batches."""
        self._open()
        lengths = self._lengths(pairs)
        order = sorted(range(len(pairs)), key=lambda i: (-lengths[i], pairs[i]))
        done = 0
        while done < len(order):
            places = order[done : done + max(1, self.tokens // lengths[order[done]])]
            logits = self._batch([pairs[i] for i in places])
            if logits is not None:
                yield list(zip(places, logits, strict=True))
                done += len(places)

    def _lengths(self, pairs: Sequence[Pair]) -> list[int]:
        lengths: list[int] = []
        for start in range(0, len(pairs), CHUNK_PAIRS):
            some = pairs[start : start + CHUNK_PAIRS]
            lengths += map(len, self._tokenizer([p for p, _ in some], [h for _, h in some])["input_ids"])
        cut = sum(length > self._limit for length in lengths)
        if cut:
            self.counters[f"nli pairs cut to {self._limit} tokens"] += cut
        return [min(length, self._limit) for length in lengths]

    def _batch(self, pairs: Sequence[Pair]) -> list[Logits] | None:
        """Compute logits of a batch; None and smaller batches if memory is too small."""
        import torch

        texts = [p for p, _ in pairs], [h for _, h in pairs]
        batch = self._tokenizer(*texts, truncation="longest_first", max_length=self._limit, padding=True, return_tensors="pt")
        width = int(batch["input_ids"].shape[1])
        try:
            with torch.inference_mode(), computing(self.dtype):
                logits = self._model(**batch.to(self._model.device)).logits[:, list(self.order)].cpu().double()
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            if len(pairs) == 1:
                raise NliError(
                    f"{self.name}: one pair of {width} tokens is more than the device's memory holds: {error}; take a smaller model or "
                    "dtype"
                ) from error
            self.tokens = width * (len(pairs) // 2)
            self.counters["nli batches halved for want of memory"] += 1
            if torch.accelerator.is_available():
                torch.accelerator.empty_cache()
            return None
        if not torch.isfinite(logits).all():
            raise NliError(f"{self.name}: gives logits that are not numbers in {self.dtype}; try `dtype: float32`")
        return [tuple(map(stored_value, row)) for row in logits.tolist()]

    def _open(self) -> None:
        if self._model is not None:
            return
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        silence()
        place = {"pretrained_model_name_or_path": str(self.folder), "local_files_only": True, "trust_remote_code": False}
        try:
            tokenizer = AutoTokenizer.from_pretrained(**place)
            model = whole_module(self.name, AutoModelForSequenceClassification, place, self.dtype)
        except ModelError as error:
            raise NliError(f"{error}; it must be an NLI classifier") from error
        except (OSError, ValueError, ImportError, KeyError, RuntimeError, TypeError) as error:
            raise NliError(f"{self.name}: its tokenizer cannot be read from {self.folder}: {error}") from error
        if tokenizer.pad_token is None:
            raise NliError(
                f"{self.name}: its tokenizer has no padding token, so pairs cannot be batched; add `pad_token` to tokenizer_config.json"
            )
        tokenizer.padding_side = "right"
        self._tokenizer, self._limit = tokenizer, token_limit(tokenizer, model.config)
        self._model = model.to(device := torch_device(self.settings.device, self.dtype))
        self.tokens = tokens_per_batch(self.settings, device)


def tokens_per_batch(settings: Settings, device: str) -> int:
    """Return the tokens of a batch, padding included."""
    return settings.batch * TOKENS_PER_PROMPT.get(device.partition(":")[0], ELSEWHERE)


def token_limit(tokenizer: Any, config: Any) -> int:
    """Return the most tokens that a model reads."""
    positions = getattr(config, "max_position_embeddings", None) or 512
    own = int(tokenizer.model_max_length)
    return own if own <= positions else positions - 2  # where only the config says, two of RoBERTa's positions are no places
