"""Contract of tunings: which weights a fine-tune changes, and how the result is saved.

A plugin `NAME.py` has the function

    def lora(model: HfVlm, *, r: int = 8, ...) -> Tuning: ...

- It reads the weights (`model.load`) and sets `requires_grad` for exactly those to train.
- `Tuning.network` is called as the transformers model is.
- `Tuning.save` writes files that `models: hf_vlm` and transformers (with peft, for an adapter) load.
- `Tuning.reference` remembers the model as it is when called, for methods that compare with it.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Tuning:
    """A model that is ready to be trained."""

    network: Any
    """A torch module with the signature of the transformers model."""
    save: Callable[[Path, Mapping[str, Any]], None]
    """Write the tuned model into an existing, empty folder, from the network's state dict, gathered from all devices."""
    reference: Callable[[], Callable[[], AbstractContextManager[Any]]]
    """Call before training; the returned function opens the present network without gradients, as a context."""
