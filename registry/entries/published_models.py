"""Published models by name: their size, the layout of their cache, and the signals they cannot give.

The table only informs the choice of a model; it reaches no compiled file and changes no result.
"""

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

FILE = Path(__file__).with_suffix(".yaml")
VERIFIED = FILE.with_name("verified.yaml")


class TableError(Exception):
    """Error of a malformed table of models; lists every problem."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Parameters(_Strict):
    """A model's published, language and vision parameter counts, in billions."""

    published: float
    """From the model's page."""
    language: float | None = None
    """Language model with its output layer, counted."""
    vision: float | None = None
    """Vision encoder and projector, counted."""

    @property
    def total(self) -> float:
        return self.published if self.language is None or self.vision is None else self.language + self.vision


class TextSizes(_Strict):
    """Sizes of a model's language part, which determine time and memory."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int


class Published(_Strict):
    """A row of the table of published models: sizes, licence, limits."""

    name: str
    family: str = Field(alias="class")
    """Class in transformers."""
    parameters: Parameters
    text: TextSizes | None = None
    image_tokens: int | None = None
    """Tokens of an image of 640 x 480 pixels."""
    licence: str
    remote_code: bool = False
    """Needs code that comes with the weights."""
    template: bool = False
    """Published without a chat template, so the spec must name one."""
    lacks: tuple[str, ...] = Field((), strict=False)
    """Columns of GENERATIONS that it cannot give."""
    unsupported: str = ""
    """Reason why it cannot be used here; empty if it can."""
    note: str = ""
    cites: tuple[str, ...] = Field((), strict=False)
    """Keys of `registry/entries/references.bib`."""
    transformers: str = "5.17"
    """First version of transformers that loads it, among those that Qualm supported."""
    verified: bool = False
    """Somebody ran `qualm doctor` on it."""
    config: dict[str, Any] | None = None
    """Keys of its configuration that differ from the defaults of its class."""


@cache
def published(file: Path = FILE) -> dict[str, Published]:
    """Return {name: model} of the table of published models, cached; else TableError."""
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
    """Return the content of verified.yaml, the model types that pass `qualm doctor`, cached."""
    table: dict[str, Any] = yaml.safe_load(VERIFIED.read_text(encoding="utf-8"))
    return table
