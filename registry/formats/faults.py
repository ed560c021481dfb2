"""Faults of records that are left out: listed and counted, never dropped silently."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that a reader leaves out of a dataset: its place, and the reason."""

    where: str
    """FILE:LINE, or FILE, and the member of an archive."""
    reason: str
    """A few words, the same for every row of its kind; rows are counted by them."""
    what: str = ""
    harmless: bool = False
    """Nothing is lost without it: it says again what another row says."""
