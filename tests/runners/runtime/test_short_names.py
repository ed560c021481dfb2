"""Short names: within their room, and different wherever the names are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.runtime.short_names import shorten_names

PARTS = st.lists(st.sampled_from(["semantic_entropy", "@", "verdicts=", "strict", "loose", ",", "level=0.", "5", "9", "é"]), max_size=9)


def test_names_stay_where_they_fit_and_differ_where_they_did() -> None:
    names = ["confident_errors@above=0.8,of=all ↓", "confident_errors@above=0.95,of=all ↓", "ECE ↓"]
    short = shorten_names(names, 16, lambda name: name[:15] + "…" if len(name) > 16 else name)
    assert short == ["co…0.8,of=all ↓", "co…0.95,of=all ↓", "ECE ↓"]


def test_names_that_differ_in_too_many_places_are_numbered() -> None:
    names = [f"a@x={x},something_long=1,y={y}" for x in "12" for y in "12"]
    short = shorten_names(names, 12, lambda name: name[:12])
    assert len(set(short)) == 4 and all(len(name) <= 12 for name in short)


@given(st.lists(PARTS.map("".join), min_size=1, max_size=12), st.integers(8, 30))
def test_different_names_never_look_alike(names: list[str], most: int) -> None:
    short = shorten_names(names, most, lambda name: name if len(name) <= most else f"{name[: most - 1]}…")
    assert len(set(short)) == len(set(names)) and all(len(one) <= most for one in short)
