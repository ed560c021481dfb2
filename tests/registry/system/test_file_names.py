"""Names that Windows cannot hold, against Python's own list of them."""

from pathlib import PureWindowsPath

import pytest

from qualm.registry.entries.card import SLUG
from qualm.registry.system.file_names import problem_on_windows

DEVICES = ["con", "PRN", "aux", "nul", "Com1", "lpt9"]


@pytest.mark.parametrize("name", [*DEVICES, *(f"{name}.json" for name in DEVICES)])
def test_devices(name: str) -> None:
    assert PureWindowsPath(name).is_reserved() and problem_on_windows(name) == f"'{name}' is the name of a device"


@pytest.mark.parametrize("name", ["a:b", "a?", "a*", "a|b", "<a>", 'a"b', "a\\b", "a\nb", "a.", "a "])
def test_letters(name: str) -> None:
    assert problem_on_windows(name)


@pytest.mark.parametrize("name", ["console", "auxiliary", "com", "com10", "nul-1", "a.con", "blur@radius=2", "made.old.svg", ".hidden"])
def test_names_that_every_system_holds(name: str) -> None:
    assert not PureWindowsPath(name).is_reserved() and problem_on_windows(name) == ""


def test_entries_are_called_after_no_device() -> None:
    assert not SLUG.fullmatch("nul") and not SLUG.fullmatch("com1") and SLUG.fullmatch("null") and SLUG.fullmatch("con-2")
