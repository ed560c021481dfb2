"""docs/reference/spec.md: every key and plugin in it, its types and defaults in words."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Gt
from pydantic import BaseModel, Field

from qualm.compiler.spec.language import Spec, Whole
from qualm.registry.plugins import registry
from qualm.registry.plugins.registry import COMMANDS, KINDS, ROOT
from tests.generated_pages import _SECTIONS, DESCRIBED_IN, _default, _name, reference


@pytest.fixture(scope="module")
def page() -> str:
    return reference()


def test_the_page_in_the_checkout_is_this_one(page: str) -> None:
    assert (ROOT / "docs/reference/spec.md").read_text() == page


def section(page: str, title: str) -> str:
    """What stands below a heading."""
    return page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize(("title", "model", "note"), _SECTIONS, ids=[title for title, *_ in _SECTIONS])
def test_every_key_of_a_section_once(page: str, title: str, model: type[BaseModel], note: str) -> None:
    part = section(page, title)
    again = [name for names in re.findall(r"^- (`.+`): as in ", part, re.MULTILINE) for name in re.findall(r"`([^`]+)`", names)]
    keys = re.findall(r"^- `([^`]+)` \(", part, re.MULTILINE)
    assert sorted(keys + again) == sorted(model.model_fields) and part.strip().startswith(note)


def test_keys_with_type_and_default(page: str) -> None:
    rows = dict(re.findall(r"^- `([^`]+)` \(([^)]*)\): \S", section(page, "Top level"), re.MULTILINE))
    assert rows["qualm"] == "`1`, required" and rows["name"] == "text, required" and rows["title"] == "text"
    assert rows["datasets"] == "mapping, required" and rows["seed"] == "integer" and rows["slices"] == "list"
    assert rows["compare"] == "mapping" and rows["unread"] == "`bounds` or `exclude` or `wrong`, default `bounds`"


def own_plugins(kind: str) -> list[str]:
    return [p.name for p in registry.every(kind) if p.path.is_relative_to(ROOT / KINDS[kind])]


def test_every_kind_of_plugin(page: str) -> None:
    listed = dict(re.findall(r"^- `([^`]+)`: `([^`]+)/`", section(page, "Plugins"), re.MULTILINE))
    assert listed == {kind: folder for kind, folder in KINDS.items() if kind not in COMMANDS and own_plugins(kind)}
    assert listed.keys() == DESCRIBED_IN.keys() and all(f"]({described})\n" in page for described in DESCRIBED_IN.values())


@pytest.mark.parametrize("kind", DESCRIBED_IN)
def test_pages_describe_every_plugin_of_ours(kind: str) -> None:
    text = (ROOT / "docs/reference" / DESCRIBED_IN[kind]).read_text(encoding="utf-8")
    names = own_plugins(kind)
    assert names and not [name for name in names if not re.search(rf"(?:`|^## ){name}\b", text, re.MULTILINE)]


class Inner(BaseModel):
    """A mapping."""


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int, "integer"),
        (float, "number"),
        (str, "text"),
        (bool, "boolean"),
        (Any, "plugin"),
        (Inner, "mapping"),
        (dict[str, int], "mapping"),
        (list[int], "list"),
        (Literal["a", 2], "`a` or `2`"),
        (int | None, "integer"),
        (int | str | None, "integer or text"),
        (Whole, "integer"),
        (Annotated[float, Gt(0)] | list[Annotated[float, Gt(0)]], "number or list"),
        (Annotated[str, Gt("")] | str, "text"),
        (Literal["a"] | list[Literal["a"]], "`a` or list"),
        (bytes, "<class 'bytes'>"),
    ],
)
def test_types_in_words(annotation: Any, words: str) -> None:
    assert _name(annotation) == words


class Fields(BaseModel):
    """One of each."""

    required: int
    nothing: int | None = None
    empty: str = ""
    none: list[int] = Field([])
    mapping: dict[str, int] = Field({})
    inner: Inner = Inner()
    zero: int = 0
    no: bool = False
    text: str = "x"


def test_defaults() -> None:
    said = {name: _default(field) for name, field in Fields.model_fields.items()}
    assert said == {
        "required": "required", "nothing": "", "empty": "", "none": "", "mapping": "", "inner": "", "zero": "default `0`",
        "no": "default `False`", "text": "default `x`",
    }  # fmt: skip


def test_every_model_of_the_language_has_a_section() -> None:
    assert Spec in {model for _, model, _ in _SECTIONS} and len({title for title, *_ in _SECTIONS}) == len(_SECTIONS)
