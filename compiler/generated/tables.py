"""Markdown tables of the generated pages."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table, the first column as code."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cell(text, i == 0) for i, text in enumerate(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str, code: bool) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return f"`{text}`" if code and text else text
