"""Extras: known to pyproject.toml, declared by the plugins that import what they bring."""

from __future__ import annotations

import ast
import tomllib

import pytest

from qualm.registry.places import PACKAGE
from qualm.registry.plugins import extras, registry
from qualm.registry.plugins.imports import imported

MODULES = {module for modules in extras.EXTRAS.values() for module in modules}


def test_pyproject_knows_them() -> None:
    known = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras.EXTRAS.keys() <= known.keys() and {"remotes", "all"} <= known.keys()


@pytest.mark.parametrize("kind", registry.KINDS)
def test_a_plugin_says_what_it_imports(kind: str) -> None:
    for plugin in registry.every(kind):
        names = {name.partition(".")[0] for name in imported(ast.parse(plugin.path.read_text()), "")}
        heavy = names & MODULES - {"openpyxl", "tensorboard", "math_verify"}  # what only some inputs need is said by the plugin itself
        assert heavy <= set(extras.EXTRAS.get(plugin.declares.get("EXTRA", ""), ())) | {"cv2"} and (not heavy or "EXTRA" in plugin.declares)


def test_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "models", ("no_such_module",))
    assert not extras.is_installed("models") and extras.is_installed("pictures")


def test_the_extra_of_a_module() -> None:
    assert extras.extra_of("torch.nn") == "models" and extras.extra_of("peft") == "train" and extras.extra_of("json") is None


def test_the_command() -> None:
    assert extras.install_line("train", "models") == "pip install 'qualm-bench[models,train]'"
