"""Library versions: what is printed of them, and the comparison with the lock file."""

from __future__ import annotations

import platform
import re
import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from qualm import __version__
from qualm.registry.places import PACKAGE
from qualm.registry.system import versions

PROJECT = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
USED = [
    Requirement(text)
    for extra, texts in {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}.items()
    if extra not in versions.UNLISTED_EXTRAS
    for text in texts
]


@pytest.fixture
def with_tested(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(versions, "tested_versions", lambda: {"numpy": "1.0", "torch": "99.0", "pillow": "1.0"})
    monkeypatch.setattr(versions, "installed_version", {"qualm-bench": "0.1.0", "numpy": "2.3.5", "torch": "2.13.0+cpu"}.get)
    return monkeypatch


def test_lines_name_qualm_python_and_the_libraries_by_extra() -> None:
    first, *others = versions.describe_versions()
    assert first == f"qualm {__version__}, Python {platform.python_version()}, {platform.platform()}"
    by_group = dict(line.split(": ", 1) for line in others)
    assert f"pydantic {metadata.version('pydantic')}" in by_group["base"].split(", ")
    assert f"transformers {metadata.version('transformers')}" in by_group["models"].split(", ")
    assert {"train", "pages", "vllm"} <= by_group.keys() and not by_group.keys() & versions.UNLISTED_EXTRAS


def test_a_missing_library_and_a_missing_extra(with_tested: pytest.MonkeyPatch) -> None:
    by_group = dict(line.split(": ", 1) for line in versions.describe_versions()[1:])
    assert by_group["models"] == "lightning not installed, torch 2.13.0+cpu, torchmetrics not installed, transformers not installed"
    assert by_group["pages"] == "not installed"


def test_only_installed_libraries_can_be_newer_than_tested(with_tested: pytest.MonkeyPatch) -> None:
    assert versions.newer_than_tested() == ["numpy 2.3.5 (tested 1.0)"]
    assert versions.describe_versions()[-1] == "newer than tested: numpy 2.3.5 (tested 1.0)"


def test_builds_of_one_release_are_equal(with_tested: pytest.MonkeyPatch) -> None:
    with_tested.setattr(versions, "tested_versions", lambda: {"torch": "2.13.0"})
    assert versions.newer_than_tested() == []


def test_without_an_installation_only_the_platform_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "DISTRIBUTION", "no-such-distribution")
    assert len(versions.describe_versions()) == 1


def test_the_lock_file_is_within_the_bounds_of_pyproject() -> None:
    tested = versions.tested_versions()
    locked = [requirement for requirement in USED if canonicalize_name(requirement.name) in tested]
    assert len(locked) > 30
    assert [str(r) for r in locked if not r.specifier.contains(tested[canonicalize_name(r.name)])] == []


def test_every_library_has_an_upper_bound() -> None:
    """But those with calendar versions and pyarrow, see pyproject.toml."""
    unbounded = {r.name for r in USED if r.name != "qualm-bench" and not any(s.operator == "<" for s in r.specifier)}
    assert unbounded == {"packaging", "pyarrow"}


@pytest.mark.parametrize("name", ["requirements.lock", ".ci/peers.txt", ".ci/services.txt", ".ci/weights.txt"])
def test_every_pin_of_a_lock_file_has_hashes(name: str) -> None:
    text = (PACKAGE / name).read_text(encoding="utf-8")
    pins = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
    entry = re.compile(r"[\w.-]+==[\w.+]+( \\\n    --hash=sha256:[0-9a-f]{64})+\n")
    assert pins and [pin.split()[0] for pin in pins if not entry.fullmatch(pin)] == []


def test_the_lock_file_is_shipped_with_the_package() -> None:
    assert (PACKAGE / "qualm/requirements.lock").resolve() == PACKAGE / "requirements.lock"
    assert "requirements.lock" in tomllib.loads((PACKAGE / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["qualm"]
