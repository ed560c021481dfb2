"""Context and error of preparations."""

from dataclasses import dataclass


class PreparationError(Exception):
    """Error of a sample that a preparation cannot handle; the message names it."""


@dataclass(frozen=True)
class PreparationContext:
    """Arguments of a preparation from the `data` stage: dataset name and seed."""

    dataset: str
    seed: int = 0
