"""Strict validation of values by Pydantic, which is imported at first use."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@cache
def validator(annotation: Any) -> "TypeAdapter[Any]":
    """Return the strict Pydantic validator of a type; TypeError if there is none."""
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(annotation, config=ConfigDict(strict=True))
    except PydanticUserError as error:
        raise TypeError(error.message.splitlines()[0]) from None


def fits(annotation: Any, value: Any) -> bool:
    """Return True if a value is of a type, without conversion."""
    from pydantic import ValidationError

    try:
        validator(annotation).validate_python(value)
    except ValidationError:
        return False
    return True
