"""Every example that `qualm ls KIND NAME` prints is one that the validator accepts, and what it prints is the contract's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from qualm.compiler.commands.examples import example, placeholders, text
from qualm.compiler.commands.listing import export_command
from qualm.compiler.plan.sources import Sources
from qualm.compiler.project.checkout import Project
from qualm.registry.entries.card import load_card
from qualm.registry.plugins import registry
from qualm.registry.plugins.declarations import declarations_of
from qualm.registry.plugins.options import parse_options
from qualm.registry.plugins.protocols import PROTOCOLS, declarations
from qualm.registry.plugins.registry import COMMANDS, KINDS, ROOT
from tests.support.processes.command_line import qualm

MINIMAL = """
qualm: 1
name: example
taxonomy: {epistemic: {extraneous: {definition: The picture lacks what is asked about.}}}
datasets:
  scenes: {card: synthetic_scenes, format: open, train: 100, val: 100, test: 100}
  scenes_mc: {card: synthetic_scenes, format: multiple_choice, test: 100}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
metrics: [accuracy]
"""
CARD = """
name: my-card
kind: dataset
title: Mine
description: Of the test.
adapter: ADAPTER
source: generated
licence: MIT
citation: ""
"""
WITHOUT_CARD = ["coco_folder", "image_table", "vlmevalkit_tsv"]
ALL = [(kind, name) for kind in KINDS for name in registry.names(kind)]


@pytest.fixture(scope="module")
def sources() -> Sources:
    """Our source files, which are read once for all examples."""
    return Project(ROOT).sources()


def printed(kind: str, name: str) -> str:
    """The example as it stands in the output of the command, up to what its names stand for."""
    return text(example(registry.get(kind, name)))


def embedded(written: str) -> str:
    return yaml.safe_dump({**load(MINIMAL), **load(written)}, sort_keys=False)


def load(text: str) -> Any:
    return yaml.load(text, yaml.CSafeLoader)


@pytest.mark.parametrize(("kind", "name"), [one for one in ALL if one[0] not in COMMANDS and one[1] not in WITHOUT_CARD])
def test_the_validator_accepts_it(kind: str, name: str, tmp_path: Path, sources: Sources) -> None:
    written = printed(kind, name)
    cards = [load_card(entry["card"]) for entry in load(written).get("datasets", {}).values()]
    assert re.search(rf"\b{name}\b", written) or [card.adapter for card in cards] == [name]
    (tmp_path / "example.yaml").write_text(embedded(written))
    project = Project(ROOT)
    assert project.plan_of(project.resolve(str(tmp_path / "example.yaml")), sources).stages


@pytest.mark.slow
def test_and_that_of_an_adapter_for_own_data(tmp_path: Path) -> None:
    from tests.end_to_end.clone import make_clone

    clone = make_clone(tmp_path / "clone")
    for name in WITHOUT_CARD:
        assert not name.endswith("s") and "my-card" in placeholders(printed("datasets", name))
        (clone.root / "registry/cards/my-card.yaml").write_text(CARD.replace("ADAPTER", name))
        (clone.root / "specs/example.yaml").write_text(embedded(printed("datasets", name)))
        clone.qualm("validate", "example")


def test_the_validator_accepts_the_models_of_the_page(tmp_path: Path) -> None:
    """docs/how-to/models.md says how a model of one's own comes in."""
    written = (ROOT / "docs/how-to/models.md").read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    assert len(yaml.safe_load(written)["models"]) > 3
    (tmp_path / "example.yaml").write_text(embedded(written))
    Project(ROOT).plan(str(tmp_path / "example.yaml"))
    assert "docs/how-to/models.md" in qualm("ls", "models").stdout


@pytest.mark.parametrize("name", registry.names("exports"))
def test_options_of_an_export_are_its_own(name: str) -> None:
    words = export_command(registry.get("exports", name)).split()
    parse_options(registry.get("exports", name), [words[i + 1] for i, word in enumerate(words) if word == "-O"])


def test_the_command_prints_that_example() -> None:
    for kind, name in (("models", "hf_vlm"), ("nli", "hf"), ("metrics", "mme_score")):
        done = qualm("ls", kind, name).stdout.partition("In a spec\n")[2].partition("\n\n")[0]
        assert "".join(f"{line.removeprefix('  ')}\n" for line in done.splitlines()) == printed(kind, name)


def test_constants_that_are_no_declaration_are_not_shown() -> None:
    assert "_WORDS" not in qualm("ls", "nli", "hf").stdout + qualm("ls", "nli", "--json").stdout
    assert all(set(declarations_of(registry.get(*one))) <= declarations(one[0]).keys() for one in ALL)


def reads() -> Iterator[str]:
    """Names that the code looks up among what a plugin declares."""
    for path in (p for folder in ("compiler", "registry", "runners") for p in (ROOT / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        yield from re.findall(r"declares(?:\.get\(|\[)\"([A-Z_]+)\"", source) + re.findall(r"\"([A-Z_]+)\" (?:not )?in \S*declares", source)


def test_every_declaration_that_is_read_is_in_the_contract() -> None:
    assert {"GIVES", "MODALITY"} <= set(reads()) <= {name for kind in PROTOCOLS for name in declarations(kind)}
