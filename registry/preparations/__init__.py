"""Context and error of preparations."""

from dataclasses import dataclass


class PreparationError(Exception):
    """A sample that a preparation cannot handle; the message names it and what was expected."""


@dataclass(frozen=True)
class PreparationContext:
    """Name and seed of the dataset that is prepared."""

    dataset: str
    """Name in the spec, for messages."""
    seed: int = 0
    """Seed of the spec."""
