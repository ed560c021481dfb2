"""Prompts that papers print: where they stand, and none of their words here."""

import importlib
import inspect
import re

import pytest

from qualm.registry.entries.paper_prompts import PRINTED, how_to_fill, is_printed
from qualm.registry.plugins.registry import PROMPTS, ROOT


@pytest.mark.parametrize("name", PRINTED)
def test_each_stands_for_a_prompt_of_ours_and_is_not_shipped(name: str) -> None:
    own = name.removeprefix("paper/")
    assert (ROOT / PROMPTS / f"{own}.md").is_file() and not (ROOT / PROMPTS / f"{name}.md").exists()
    place, fields = PRINTED[name]
    assert how_to_fill(name).startswith(f"put into it the text of {place}")
    text = (ROOT / PROMPTS / f"{own}.md").read_text(encoding="utf-8").rpartition("-->")[2]
    ours = set(re.findall(r"\{([a-z_]+)\}", text)) - {"rule"}
    assert set(fields) == ours and all(f"{{{field}}}" in how_to_fill(name) for field in fields)


def test_what_is_said_of_one() -> None:
    assert how_to_fill("paper/inv").endswith("appendix B.1, 'Prompt for INV', and {question} where the question goes")
    assert how_to_fill("paper/salient_object").endswith(", and {question} where the question goes and {answer} where the answer goes")
    assert how_to_fill("paper/extraneous").endswith("appendix F.2, 'Prompt to generate Extraneous category'")
    assert is_printed("specs/prompts/paper/knowledge.md") and not is_printed("specs/prompts/knowledge.md") and not is_printed(None)


@pytest.mark.parametrize(
    "plugin",
    [
        *(f"perturbations.{name}" for name in ("inv", "sbj", "amb", "ive")),
        "pairs.from_caption", "pairs.inpainted", "saliency.question_llm", "judges.lave",
    ],
)  # fmt: skip
def test_the_plugins_name_them(plugin: str) -> None:
    module = importlib.import_module(f"qualm.runners.plugins.{plugin}")
    assert any(f"`{name}`" in (inspect.getdoc(getattr(module, plugin.rpartition(".")[2])) or "") for name in PRINTED)


def test_others_are_nobody_s() -> None:
    assert how_to_fill("inv") == how_to_fill("paper/other") == ""
