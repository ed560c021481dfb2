"""What an upgrade does: a component of the engine with another version, a library in another release."""

from dataclasses import replace

import pytest

from qualm.registry.plugins.engine_versions import COMPONENTS
from qualm.runners.runtime import code_digest, libraries


def raised(monkeypatch: pytest.MonkeyPatch, component: str) -> None:
    """The next version of a component of ours."""
    later = replace(COMPONENTS[component], version=COMPONENTS[component].version + 1)
    monkeypatch.setattr(code_digest, "COMPONENTS", {**code_digest.COMPONENTS, component: later})


def installed(monkeypatch: pytest.MonkeyPatch, library: str, number: str) -> None:
    """A library in this release."""
    real = libraries.version
    monkeypatch.setattr(libraries, "version", lambda name: number if name == library else real(name))
