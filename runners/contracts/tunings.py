"""Models that are ready to be trained."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Tuning:
    """A network that is ready to be trained, how to save it, and its frozen reference."""

    network: Any
    """A torch module with the signature of the transformers model."""
    save: Callable[[Path, Mapping[str, Any]], None]
    """Write the tuned model into an existing, empty folder, from the network's state dict, gathered from all devices."""
    reference: Callable[[], Callable[[], AbstractContextManager[Any]]]
    """Call before training; the returned function opens the present network without gradients, as a context."""
