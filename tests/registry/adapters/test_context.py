"""What every adapter is handed: images come once, before the first selected sample that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.sample import Image, Sample


def read(image_id: str, where: str) -> Image:
    if image_id == "gone":
        raise AdapterError(f"{where}: expected an image, found none")
    return Image(image_id, b"data", where)


def given(context: AdapterContext, *samples: tuple[str, str | None], of: str = "") -> list[str]:
    items = [
        item
        for sample_id, image_id in samples
        for item in context.selected(Sample(sample_id, "?", image_id), read, image_id, sample_id, of=of)
    ]
    return [f"picture {item.image_id} at {item.path}" if isinstance(item, Image) else item.sample_id for item in items]


def test_a_picture_comes_once_before_its_first_sample() -> None:
    context = AdapterContext(Path())
    assert given(context, ("a", "x"), ("b", "x"), ("c", None), ("d", "y")) == ["picture x at a", "a", "b", "c", "picture y at d", "d"]
    assert given(context, ("e", "y")) == ["e"]


def test_what_is_not_selected_is_not_read() -> None:
    context = AdapterContext(Path(), selects=lambda sample: sample.sample_id != "a")
    assert given(context, ("a", "gone"), ("b", "x")) == ["picture x at b", "b"]


def test_a_picture_that_could_not_be_read_has_not_come() -> None:
    faults: list[AdapterError] = []
    context = AdapterContext(Path(), bad=faults.append)
    with context.record():
        given(context, ("a", "gone"))
    assert not context.sent
    assert [str(fault) for fault in faults] == ["a: expected an image, found none"]


def test_two_pictures_of_one_id_both_come() -> None:
    """So that the stage refuses them: the second sample must not be asked about the first one's picture."""
    context = AdapterContext(Path())
    assert given(context, ("a", "x"), of="x.png") == ["picture x at a", "a"]
    assert given(context, ("b", "x"), of="x.jpg") == ["picture x at b", "b"]


@pytest.mark.parametrize("picture", [None, Image("x", b"data")])
def test_a_picture_may_be_at_hand(picture: Image | None) -> None:
    sample = Sample("a", "?", "x")
    assert list(AdapterContext(Path()).selected(sample, picture)) == ([picture, sample] if picture else [sample])
