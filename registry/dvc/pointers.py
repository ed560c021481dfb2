"""The content of `.dvc` files and locks, checked before anything uses it: paths are text, hashes are hashes, lists are lists.

An MD5 of digits alone that nobody quoted is a number to YAML, and no hash; a `path` that is a list would be met in the middle of a command.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from qualm.registry.dvc.config import DvcStateError
from qualm.registry.formats.textfiles import shortened

Md5 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}(\.dir)?$")]


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _Out(_Lenient):
    path: str
    md5: Md5 | None = None
    size: int | None = Field(None, ge=0)
    nfiles: int | None = Field(None, ge=0)


class _Repo(_Lenient):
    url: str
    rev: str | None = None
    rev_lock: str | None = None


class _Dep(_Lenient):
    path: str | None = None
    repo: _Repo | None = None


class _Origin(_Lenient):
    card: str | None = None
    skip_bad: bool | None = None


class _Meta(_Lenient):
    qualm: _Origin | None = None


class _Pointer(_Lenient):
    outs: list[_Out] = Field(min_length=1)
    deps: list[_Dep] | None = None
    meta: _Meta | None = None


class _Stage(_Lenient):
    cmd: str | list[str] = ""
    deps: list[_Out] | None = None
    outs: list[_Out] | None = None
    params: dict[str, dict[str, Any] | None] | None = None


_POINTER, _STAGES = TypeAdapter(_Pointer), TypeAdapter(dict[str, _Stage])
_EXPECTED = {
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "int_type": "a whole number",
    "missing": "this key",
    "too_short": "at least one",
}
_KINDS = {
    "str": "text",
    "int": "a number",
    "float": "a number",
    "list": "a list",
    "dict": "a mapping",
    "NoneType": "nothing",
    "bool": "a boolean",
}


def pointer(raw: Any, where: str) -> dict[str, Any]:
    """Parse a `.dvc` file with at least one output, else raise DvcStateError."""
    _check(_POINTER, raw, where, "a DVC file with an output")
    content: dict[str, Any] = raw
    return content


def stages(raw: Any, where: str) -> dict[str, Any]:
    """Parse a lock into name -> {cmd, deps, params, outs}, else raise DvcStateError."""
    if raw is None or (isinstance(raw, Mapping) and raw.get("stages") is None):
        return {}
    if not isinstance(raw, Mapping):
        raise DvcStateError(f"{where}: expected a DVC lock, got {_KINDS.get(type(raw).__name__, 'something else')}; {_todo(where)}")
    _check(_STAGES, raw["stages"], where, "a DVC lock", "stages.")
    entries: dict[str, Any] = raw["stages"]
    return {name: {key: value for key, value in entry.items() if value is not None} for name, entry in entries.items()}


def _check(shape: TypeAdapter[Any], raw: Any, where: str, what: str, above: str = "") -> None:
    try:
        shape.validate_python(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = above + ".".join(str(part) for part in first["loc"])
        came = first["input"]
        kind = _KINDS.get(type(came).__name__, "something else")
        got = f"{kind} {shortened(came)}" if isinstance(came, str | int | float) else kind
        expected = "an MD5 as text, in quotes if it is all digits" if "md5" in first["loc"] else _EXPECTED.get(first["type"], first["msg"])
        at = f" {place.strip('.')}:" if place.strip(".") else ""
        raise DvcStateError(f"{where}: not {what}:{at} expected {expected}, got {got}; {_todo(where)}") from None


def _todo(where: str) -> str:
    return f"restore it with `git checkout {where}` or delete it and run again"
