"""Strict validation of values by Pydantic, which is imported at first use."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@cache
def validator(annotation: Any) -> "TypeAdapter[Any]":
    """Return a strict Pydantic validator of a type, cached; TypeError if impossible."""
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(annotation, config=ConfigDict(strict=True))
    except PydanticUserError as error:
        raise TypeError(error.message.splitlines()[0]) from None


def fits(annotation: Any, value: Any) -> bool:
    """Return whether a value has a type: True is no int, "1" no number, but 1 is a float."""
    from pydantic import ValidationError

    try:
        validator(annotation).validate_python(value)
    except ValidationError:
        return False
    return True
