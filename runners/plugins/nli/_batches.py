"""Models of transformers that read texts, or pairs of texts, in batches of similar lengths."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from qualm.registry.entries.model_folders import FolderError, complete_folder, folder_digest
from qualm.runners.contracts.models import ModelError
from qualm.runners.contracts.nli import Floats, NliContext, NliError
from qualm.runners.inference.devices import out_of_memory, torch_device
from qualm.runners.inference.hf.double import computing
from qualm.runners.inference.hf.weights import silence, whole_module
from qualm.runners.runtime.code_digest import engine_digest

CHUNK_TEXTS = 8192
"""Texts, or pairs, tokenized at a time; only lengths of all are held."""
CPU_TOKENS_PER_PROMPT, TOKENS_PER_PROMPT = 24, 512
"""Tokens per prompt of `batch_size` that a batch holds, padding included, on the CPU (more gain nothing there) and on other devices."""


def find_folder(plugin: str, artifact: Any, hub: str | None, revision: str | None) -> Path:
    """Return the folder of an NLI model; NliError if it is missing or incomplete."""
    try:
        return complete_folder(artifact, hub, revision)
    except FolderError as error:
        raise NliError(f"nli {plugin}: {error}") from None


class BatchedModel(ABC):
    """A transformers model that reads texts in batches, loaded for its first batch."""

    loader: str
    """Name of its class in transformers."""
    expected: str
    """Kind of model, for messages."""
    label: str
    """Name of its results in counters."""
    unit: str
    """Name of an input in counters and messages."""
    gives: str
    """Name of its values in messages, in the plural."""
    unused = ""
    """Prefix of weights that its files may lack."""

    def __init__(self, plugin: str, name: str, folder: Path, parameters: Any, dtype: str, context: NliContext) -> None:
        """Set up without loading weights; `identity` hashes folder, parameters, dtype and code."""
        self.folder, self.dtype = folder, dtype
        self.settings, self.counters = context.settings, context.counters
        self.name = f"{plugin} ({name})"
        material = [plugin, folder_digest(folder), parameters, dtype, engine_digest(type(self).__module__)]
        self.identity = hashlib.sha256(json.dumps(material).encode()).hexdigest()
        self.tokens = 0
        """Tokens per batch; halved when the device has too little memory."""
        self._limit = 0
        """Tokens of an input that the model reads; known when it is loaded."""
        self._model: Any = None
        self._tokenizer: Any = None

    @abstractmethod
    def compute(self, batch: Any) -> Any:
        """Return the values (n, k) of a tokenized batch, as a tensor."""

    def in_batches(self, inputs: Sequence[tuple[str, ...]]) -> Iterator[list[tuple[int, Floats]]]:
        """Yield batches of (index of the input, values (k,)), the longest inputs first.

        Equal lengths go by text, so that a resumed run has the same batches.

        Args:
            inputs: texts, as tuples of one, or pairs.

        Raises:
            NliError: the model cannot be read, has values that are not finite, or needs more memory for one input.
        """
        self.load()
        lengths = self._lengths(inputs)
        order = sorted(range(len(inputs)), key=lambda i: (-lengths[i], inputs[i]))
        done = 0
        while done < len(order):
            places = order[done : done + max(1, self.tokens // lengths[order[done]])]
            values = self._batch([inputs[i] for i in places])
            if values is not None:
                yield list(zip(places, values, strict=True))
                done += len(places)

    def _lengths(self, inputs: Sequence[tuple[str, ...]]) -> list[int]:
        lengths: list[int] = []
        for start in range(0, len(inputs), CHUNK_TEXTS):
            lengths += map(len, self._tokenizer(*_columns(inputs[start : start + CHUNK_TEXTS]))["input_ids"])
        cut = sum(length > self._limit for length in lengths)
        if cut:
            self.counters[f"{self.label} {self.unit}s cut to {self._limit} tokens"] += cut
        return [min(length, self._limit) for length in lengths]

    def _batch(self, inputs: Sequence[tuple[str, ...]]) -> Floats | None:
        """Return a batch's values (n, k); if out of memory, halve later batches and return None.

        Raises:
            NliError: one input is too large for the memory, or a value is not finite.
        """
        import torch

        batch = self._tokenizer(*_columns(inputs), truncation="longest_first", max_length=self._limit, padding=True, return_tensors="pt")
        width = int(batch["input_ids"].shape[1])
        try:
            with torch.inference_mode(), computing(self.dtype):
                values = self.compute(batch.to(self._model.device)).cpu().double()
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            if len(inputs) == 1:
                raise NliError(
                    f"{self.name}: one {self.unit} of {width} tokens is more than the device's memory holds: {error}; take a smaller model "
                    "or dtype"
                ) from error
            self.tokens = width * (len(inputs) // 2)
            self.counters[f"{self.label} batches halved for want of memory"] += 1
            if torch.accelerator.is_available():
                torch.accelerator.empty_cache()
            return None
        if not torch.isfinite(values).all():
            raise NliError(f"{self.name}: gives {self.gives} that are not numbers in {self.dtype}; try `dtype: float32`")
        found: Floats = values.numpy()
        return found

    def load(self) -> None:
        """Load tokenizer and weights onto the device, unless already loaded; NliError if unusable."""
        if self._model is not None:
            return
        import transformers

        silence()
        place = {"pretrained_model_name_or_path": str(self.folder), "local_files_only": True, "trust_remote_code": False}
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(**place)
            model = whole_module(self.name, getattr(transformers, self.loader), place, self.dtype, unused=self.unused)
        except ModelError as error:
            raise NliError(f"{error}; it must be {self.expected}") from error
        except (OSError, ValueError, ImportError, KeyError, RuntimeError, TypeError) as error:
            raise NliError(f"{self.name}: its tokenizer cannot be read from {self.folder}: {error}") from error
        if tokenizer.pad_token is None:
            raise NliError(
                f"{self.name}: its tokenizer has no padding token, so {self.unit}s cannot be batched; add `pad_token` to "
                "tokenizer_config.json"
            )
        # A decoder pads on the left of what it continues; the first token of an encoder is always in front.
        tokenizer.padding_side = "right"
        self._tokenizer, self._limit = tokenizer, token_limit(tokenizer, model.config)
        self._model = model.to(device := torch_device(self.settings.device, self.dtype))
        self.tokens = self.settings.batch * (CPU_TOKENS_PER_PROMPT if device == "cpu" else TOKENS_PER_PROMPT)


def _columns(inputs: Sequence[tuple[str, ...]]) -> list[list[str]]:
    return [list(column) for column in zip(*inputs, strict=True)]


def token_limit(tokenizer: Any, config: Any) -> int:
    """Return the maximum number of tokens that a model reads."""
    positions = getattr(config, "max_position_embeddings", None) or 512
    own = int(tokenizer.model_max_length)
    return own if own <= positions else positions - 2  # where only the config says, two of RoBERTa's positions are no places
