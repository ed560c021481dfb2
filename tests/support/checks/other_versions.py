"""What an upgrade does: a kind of answer with another version, a library in another release."""

import pytest

from qualm.runners.runtime import code_digest, libraries


def raised(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """The next version of these kinds of answers."""
    later = {kind: code_digest.VERSIONS[kind] + 1 for kind in kinds}
    monkeypatch.setattr(code_digest, "VERSIONS", {**code_digest.VERSIONS, **later})


def installed(monkeypatch: pytest.MonkeyPatch, library: str, number: str) -> None:
    """A library in this release."""
    real = libraries.version
    monkeypatch.setattr(libraries, "version", lambda name: number if name == library else real(name))
