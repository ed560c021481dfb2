import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.docci import docci
from qualm.registry.sample import Image, Sample


def line(split="train", number=0, **changes):
    name = f"{split}_{number:05d}"
    return {"example_id": name, "split": split, "image_file": f"{name}.jpg", "description": f"A dog, number {number}.", **changes}


def folder(root, lines):
    (root / "images").mkdir(exist_ok=True)
    (root / "docci_descriptions.jsonlines").write_text("".join(json.dumps(one) + "\n" for one in lines))
    for one in lines:
        (root / "images" / f"{one['example_id']}.jpg").write_bytes(b"jpg")
    return root


def read(source, **arguments):
    return list(docci(AdapterContext(source, source=source), **arguments))


def test_captions_in_their_own_splits(tmp_path):
    source = folder(tmp_path, [line(), line("qual_dev"), line("test", 3)])
    image, first, _, second = read(source)
    assert image == Image("train_00000", b"jpg", "images/train_00000.jpg")
    assert first == Sample(
        "train_00000", "Describe this image in detail.", "train_00000", ("A dog, number 0.",), split="train", source="docci",
        group="train_00000", meta={"caption": "A dog, number 0."},
    )  # fmt: skip
    assert (second.sample_id, second.split, second.meta["caption"]) == ("test_00003", "test", "A dog, number 3.")
    assert [x.sample_id for x in read(source, parts=["qual_dev"], question="What?") if isinstance(x, Sample)] == ["qual_dev_00000"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"split": "dev"}, "split: expected one of train, test, qual_dev, qual_test, got 'dev'"),
        ({"description": " "}, "description: expected text"),
        ({"image_file": "other.jpg"}, "to be of one name, got 'train_00000' and 'other.jpg'"),
        ({"url": "x"}, r"docci_descriptions.jsonlines: line 2, record 1: unknown keys url"),
    ],
)
def test_what_is_not_as_in_the_release(tmp_path, changes, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, [line(number=7), line(**changes)]))


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, [line()]), {}
