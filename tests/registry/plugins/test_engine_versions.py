"""For which files versions stand, and which count by their content."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.engine_versions import FOLDERS, PLUGINS, VERSIONS, plugin_of, versioned_kinds


@pytest.mark.parametrize(
    ("module", "kinds"),
    [
        ("qualm.runners.inference.hf.one_pass", ()),
        ("qualm.registry", ()),
        ("qualm.runners.plugins.judges", ()),
        ("qualm.runners.plugins.judges.rules", ("judgements",)),
        ("qualm.runners.plugins.judges._refusals", ("judgements",)),
        ("qualm.runners.plugins.models._served", ("served_answers",)),
        ("qualm.registry.adapters.pope", ("datasets",)),
        ("qualm.runners.plugins.judges.mine", None),
        ("qualm.registry.adapters._mine", None),
        ("qualm.runners.plugins.metrics.accuracy", None),
        ("qualm.project.judges.rules", None),
        ("acme.judges", None),
        ("numpy", None),
    ],
)
def test_versions_that_stand_for_a_file(module: str, kinds: tuple[str, ...] | None) -> None:
    assert versioned_kinds(module) == kinds


@pytest.mark.parametrize(
    ("module", "plugin"),
    [
        ("qualm.runners.plugins.judges.rules", ("judges", "rules")),
        ("qualm.registry.adapters.pope", ("datasets", "pope")),
        ("qualm.project.judges.mine", ("judges", "mine")),
        ("qualm.runners.plugins.judges", None),
        ("qualm.runners.plugins.judges.deep.rules", None),
        ("rules", None),
    ],
)
def test_kind_and_name_of_a_plugin(module: str, plugin: tuple[str, str] | None) -> None:
    assert plugin_of(module) == plugin


def test_a_plugin_of_another_package_is_known_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("blurs", "acme.blurs", "qualm.perturbations"),
        EntryPoint("other", "acme.other", "acme.plugins"),
        EntryPoint("bad", "no module:::", "qualm.judges"),
    ]
    monkeypatch.setattr(registry, "_entry_points", lambda: EntryPoints(points))
    assert plugin_of("acme.blurs") == ("perturbations", "blurs") and plugin_of("acme.other") is None and plugin_of("acme") is None


def test_every_kind_of_answer_is_of_some_plugin() -> None:
    assert {kind for kinds in FOLDERS.values() for kind in kinds} == set(VERSIONS)
    assert PLUGINS.keys() == FOLDERS.keys()


def test_nothing_is_raised_before_the_first_release() -> None:
    """By a version that was raised by a slip, everybody's stored answers would count no more: it is said twice."""
    assert {kind: version for kind, version in VERSIONS.items() if version != 1} == {}
