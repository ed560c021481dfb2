"""Which component a module of ours is of: the longest name that fits, none where no number depends on it, nothing where nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.registry.places import PACKAGE
from qualm.registry.plugins.engine_versions import COMPONENTS, NO_NUMBERS, PLUGIN_PACKAGES, PLUGINS, components, plugin
from qualm.registry.plugins.internals import KINDS as INSIDE
from qualm.registry.plugins.rule import KINDS, every
from qualm.runners.contracts.models import PARTS

RAISED: dict[str, int] = {
    "generators/openai": 2, "judging": 2, "perturbations/clip_mask": 2, "perturbations/ive": 2, "perturbations/shuffle": 2,
    "judges/lave": 2, "pairs_in_words": 2, "saliency/question_llm": 3,
}  # fmt: skip
"""Components and plugins (`kind/name`) of later versions than the first, with these."""


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("qualm.runners.inference.hf.one_pass", ("forward", "options", "priors", "divergence", "uniform", "self_report")),
        ("qualm.runners.inference.hf.rows", ("forward",)),
        ("qualm.runners.inference.hf.computing.token_numbers", ("forward", "divergence", "uniform")),
        ("qualm.runners.inference.hf.model", ("forward", "options", "token_ends")),
        ("qualm.runners.inference.hf.weights", ("forward",)),
        ("qualm.runners.inference.hf", ("forward",)),
        ("qualm.runners.inference.hfx", ("asking",)),
        ("qualm.runners.inference.hf.sampling", ("sampling",)),
        ("qualm.runners.inference.requests", ("asking",)),
        ("qualm.runners.inference.devices", ()),
        ("qualm.runners.inference.devices.cuda", ()),
        ("qualm.runners.servers.protocol", ("server_protocol",)),
        ("qualm.runners.servers.client", ("served_replies",)),
        ("qualm.registry.formats.pictures", ("pictures",)),
        ("qualm.registry.formats.textfiles", ("texts",)),
        ("qualm.registry.formats.json_stream", ("reading",)),
        ("qualm.registry.formats.atomic", ()),
        ("qualm.registry", ()),
        ("qualm.registry.text", ()),
        ("qualm.registry.dvc.state", ()),
        ("qualm.runners.runtime.precision", ("forward",)),
        ("qualm.runners.runtime.stage", ()),
        ("qualm.registry.entries.card", None),
        ("qualm.compiler.plan.make", None),
        ("qualm", None),
        ("numpy", None),
        ("qualm.registry.adapters._official", ("reading",)),
        ("qualm.registry.adapters._mine", None),
        ("qualm.registry.adapters", ("reading",)),
        ("qualm.runners.plugins.judges._refusals", ("judging",)),
        ("qualm.runners.plugins.judges.rules", None),
        ("qualm.runners.plugins.models._served", ("served_answers",)),
    ],
)
def test_the_components_of_a_module(module: str, expected: tuple[str, ...] | None) -> None:
    assert components(module) == expected


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("qualm.runners.plugins.judges.rules", ("judges", "rules", 1)),
        ("qualm.runners.plugins.judges.mine", ("judges", "mine", None)),
        ("qualm.registry.adapters.pope", ("datasets", "pope", 1)),
        ("qualm.registry.preparations.six_options", ("preparations", "six_options", 1)),
        ("qualm.runners.plugins.metrics.accuracy", ("metrics", "accuracy", None)),
        ("qualm.runners.plugins.judges._refusals", None),
        ("qualm.runners.plugins.judges", None),
        ("qualm.runners.plugins.judges.deep.rules", None),
        ("rules", None),
    ],
)
def test_kind_name_and_version_of_a_plugin(module: str, expected: tuple[str, str, int | None] | None) -> None:
    assert plugin(module) == expected


def test_every_module_that_is_named_is_there() -> None:
    names = [name for component in COMPONENTS.values() for name in component.modules]
    for name in (*names, *NO_NUMBERS):
        place = PACKAGE / Path(*name.split(".")[1:])
        assert place.is_dir() or place.with_suffix(".py").is_file(), name


def test_versions_are_of_plugins_of_ours() -> None:
    for kind, versions in PLUGINS.items():
        assert set(versions) == {p.name for p in every(kind)}, kind


def test_only_versions_that_were_raised_on_purpose_are_past_the_first() -> None:
    """By a version that was raised by a slip, everybody's stored answers would count no more: it is said twice."""
    versions = {name: component.version for name, component in COMPONENTS.items()}
    versions |= {f"{kind}/{name}": version for kind, of in PLUGINS.items() for name, version in of.items()}
    assert {name: version for name, version in versions.items() if version != 1} == RAISED


def test_parts_of_an_answer_are_those_that_there_are() -> None:
    parts = {part for component in COMPONENTS.values() for part in component.parts}
    assert parts <= {*PARTS, "draw", *INSIDE} and "draw" in COMPONENTS["sampling"].parts
    assert COMPONENTS["forward"].parts == () == COMPONENTS["asking"].parts


def test_packages_of_plugins() -> None:
    assert PLUGIN_PACKAGES["qualm.runners.plugins.judges"] == "judges" and PLUGIN_PACKAGES["qualm.registry.adapters"] == "datasets"
    assert sorted(PLUGIN_PACKAGES.values()) == sorted(KINDS)
