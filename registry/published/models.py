"""Published models that can be named: their size, the layout of their cache, and the signals that they cannot give.

Nothing here reaches a compiled file or changes a result; it lets a person choose a model before downloading it.
"""

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

FILE = Path(__file__).with_suffix(".yaml")
VERIFIED = FILE.with_name("verified.yaml")


class TableError(Exception):
    """The table of models breaks its format: every problem, with its model and key."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Parameters(_Strict):
    """Billions."""

    published: float
    """As the model's page has it."""
    language: float | None = None
    """Of the language model with its output layer, counted."""
    vision: float | None = None
    """Of all that reads pictures, counted."""

    @property
    def total(self) -> float:
        return self.published if self.language is None or self.vision is None else self.language + self.vision


class Text(_Strict):
    """The language model, as far as time and memory go."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int


class Published(_Strict):
    """One model of the hub."""

    name: str
    family: str = Field(alias="class")
    """Its class in transformers."""
    parameters: Parameters
    text: Text | None = None
    image_tokens: int | None = None
    """Of a picture of 640 x 480 pixels."""
    licence: str
    remote_code: bool = False
    """Needs code that comes with the weights."""
    template: bool = False
    """Published without a chat template, so that one must be named."""
    lacks: tuple[str, ...] = Field((), strict=False)
    """Columns of GENERATIONS that it cannot give."""
    unsupported: str = ""
    """Why it cannot be asked here; empty where it can."""
    note: str = ""
    cites: tuple[str, ...] = Field((), strict=False)
    """Keys of `registry/published/references.bib`."""
    transformers: str = "5.17"
    """The version from which on it loads, of those we were built with."""
    verified: bool = False
    """Someone ran the doctor on it."""
    config: dict[str, Any] | None = None
    """What of its configuration differs from the defaults of its class."""


@cache
def published(file: Path = FILE) -> dict[str, Published]:
    """Return all models of the table by name; raise TableError for a broken format."""
    models, problems = {}, []
    for name, row in yaml.safe_load(file.read_text(encoding="utf-8")).items():
        try:
            models[name] = Published.model_validate({"name": name, **row})
        except ValidationError as error:
            problems += [f"{file}: {name}: {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    if problems:
        raise TableError("\n".join(problems))
    return models


@cache
def verified() -> dict[str, Any]:
    """Which families passed every check of `qualm doctor` here on random weights, how they are read, with which libraries."""
    table: dict[str, Any] = yaml.safe_load(VERIFIED.read_text(encoding="utf-8"))
    return table


def family_verified(model: Published) -> str:
    """How a model's family was read when it passed every check on random weights: `one pass`, `plain passes`; empty where none was."""
    kind = str((model.config or {}).get("model_type", "")).replace("-", "")
    table = verified()
    parts = (table, table["with torchvision"], table["with timm"])
    return next((how for how in ("one pass", "plain passes") if any(kind in part.get(how, ()) for part in parts)), "")
