import pytest

from qualm.runners.runtime import libraries
from qualm.runners.runtime.libraries import ANY, EXACT, MINOR, are_equal_versions, library_version, library_versions, series


def test_versions_say_nothing_of_the_build(monkeypatch):
    monkeypatch.setattr(libraries, "version", lambda library: "2.9.1+cu130")
    assert library_version("torch") == "2.9.1"
    monkeypatch.undo()
    assert library_version("no-such-library-anywhere") == "absent" and set(library_versions()) == set(libraries.LIBRARIES)


@pytest.mark.parametrize(
    "library, one, other, equal",
    [
        ("torch", "2.9.1", "2.9.0", True),
        ("torch", "2.9.1", "2.10.1", False),
        ("numpy", "2.3.5", "2.4.0", True),
        ("numpy", "2.3", "3.0", False),
        ("transformers", "5.1.0", "5.2.0", False),
        ("pillow", "absent", "12.0", False),
    ],
)
def test_releases_that_count_as_the_same(library, one, other, equal):
    assert (series(library, one) == series(library, other)) is equal
    assert are_equal_versions(MINOR, {library: one}, {library: other}) is equal
    assert are_equal_versions(ANY, {library: one}, {library: other}) and not are_equal_versions(EXACT, {library: one}, {library: other})
    assert are_equal_versions(EXACT, {library: one}, {library: one})


def test_a_library_that_only_one_side_has_is_a_difference():
    assert not are_equal_versions(MINOR, {"torch": "2.9"}, {"torch": "2.9", "numpy": "2.3"}) and are_equal_versions(ANY, {}, {"numpy": "2"})
