"""Tunings: which weights of a model a fine-tune changes, and how the result is saved.

A tuning is one file here holding one function of the file's name:

    def lora(model: HfVlm, *, r: int = 8, ...) -> Tuning: ...

- It reads the weights (`model.load`) and leaves exactly those with `requires_grad` that are to be trained.
- `Tuning.network` is called as the transformers model would be.
- `Tuning.save` writes what `models: hf_vlm` and plain transformers (with peft, for an adapter) load.
- `Tuning.reference` remembers the model as it is when it is called, for methods that compare with it.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Tuning:
    """A model made ready to be trained."""

    network: Any
    """A torch module with the signature of the transformers model."""
    save: Callable[[Path, Mapping[str, Any]], None]
    """Write the tuned model into an existing, empty folder, from the network's state dict (gathered from all devices)."""
    reference: Callable[[], Callable[[], AbstractContextManager[Any]]]
    """Call it before training; what it returns opens the network as it is now, without gradients, for a `with` block."""
