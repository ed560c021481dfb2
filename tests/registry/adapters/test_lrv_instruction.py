import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.lrv_instruction import lrv_instruction
from qualm.registry.sample import Image, Sample

TEAPOT = {"image_id": "2392588", "question": "Is the teapot blue?", "answer": "There is no teapot.", "task": "negative"}


def folder(root, **files):
    for name in ("image", "chart_image"):
        (root / name).mkdir(exist_ok=True)
    for name, records in files.items():
        (root / f"{name}.json").write_text(json.dumps(records))
    (root / "image/2392588.jpg").write_bytes(b"jpg")
    (root / "chart_image/17.png").write_bytes(b"png")
    return root


def read(source, **arguments):
    return list(lrv_instruction(AdapterContext(source, source=source), **arguments))


def test_instructions_of_both_parts(tmp_path):
    plain = {"image_id": 2392588, "question": "Describe it. ", "answer": " A stove."}
    image, first, second, third = read(folder(tmp_path, filter_cap1=[TEAPOT], filter_cap_more1=[plain, plain]))
    assert image == Image("2392588", b"jpg", "image/2392588.jpg")
    assert first == Sample(
        first.sample_id, "Is the teapot blue?", "2392588", ("There is no teapot.",), split="train", source="lrv_instruction",
        group="2392588", meta={"part": "first", "task": "negative"},
    )  # fmt: skip
    assert (second.question, second.references, second.meta) == ("Describe it.", ("A stove.",), {"part": "more"})
    assert third.sample_id == f"{second.sample_id}-2"


def test_charts_and_coordinates(tmp_path):
    source = folder(tmp_path, chart_release_update=[TEAPOT | {"image_id": "17.png"}], filter_cap=[TEAPOT])
    assert [x.image_id for x in read(source, parts=["charts"])] == ["17.png", "17.png"]
    assert len(read(source, parts=["first"], coordinates=True)) == 2
    with pytest.raises(AdapterError, match=r"filter_cap1\.json: expected LRV's instructions, found none"):
        read(source)


@pytest.mark.parametrize(
    ("change", "says"),
    [({"answer": ""}, "answer: expected text"), ({"x": 1}, "unknown keys x"), ({"image_id": "9"}, r"expected its image at image/9\.jpg")],
)
def test_what_is_not_as_described(tmp_path, change, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, filter_cap1=[TEAPOT | change]), parts=["first"])


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, filter_cap1=[TEAPOT]), {"parts": ["first"]}
