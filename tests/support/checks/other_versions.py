"""What an upgrade does: a kind of answer with another version, a library in another release."""

import pytest

from qualm.registry.plugins import engine_versions
from qualm.runners.runtime import libraries


def raised(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """The next version of these kinds of answers."""
    later = {kind: engine_versions.VERSIONS[kind] + 1 for kind in kinds}
    monkeypatch.setattr(engine_versions, "VERSIONS", {**engine_versions.VERSIONS, **later})


def installed(monkeypatch: pytest.MonkeyPatch, library: str, number: str) -> None:
    """A library in this release."""
    real = libraries.version
    monkeypatch.setattr(libraries, "version", lambda name: number if name == library else real(name))
