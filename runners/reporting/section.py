"""Sections of the report: each is one module and one template."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qualm.runners.reporting.load import Report


@dataclass(frozen=True)
class Section:
    """One section of the page: its address, title, template and the function that fills it.

    Its module declares the inputs that it alone reads (`READS`) and its template (`ASSETS`), and stands in `SECTIONS` of
    `runners/stages/report.py`.
    """

    id: str
    """Its address on the page."""
    title: str
    make: Callable[[Report], Any]
    """Return what the template shows as `value`; nothing if the spec has none of it."""
    template: str
    heading: str = ""
