"""What readers of yes-or-no questions share."""

from typing import Any

from qualm.registry.adapters import AdapterError


def instructed(question: str, instruction: str) -> str:
    """A question as it is asked: with what it is to be answered with behind it."""
    return f"{question} {instruction}" if instruction else question


def yes_or_no(record: dict[str, Any], key: str, where: str) -> str:
    """A value that is "yes" or "no", in any case.

    Raises:
        AdapterError: it is something else.
    """
    value = record[key]
    answer = value.strip().lower() if isinstance(value, str) else ""
    if answer not in ("yes", "no"):
        raise AdapterError(f"{where}: {key}: expected yes or no, got {value!r:.60}")
    return answer
