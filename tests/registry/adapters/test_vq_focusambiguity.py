import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.vq_focusambiguity import vq_focusambiguity
from qualm.registry.sample import Image, Sample


def record(number, **changes):
    made = {
        "question": f"Which one is {number}?",
        "image": f"{number % 3}.jpg",
        "ambiguous": number % 2 == 0,
        "set": "train",
        "masks": ["a.png"],
    }
    return {**made, "width": 640, "height": 480, **changes}


def folder(root, **splits):
    (root / "images").mkdir(parents=True, exist_ok=True)
    for split, records in splits.items():
        (root / f"{split}_gt.json").write_text(json.dumps(records))
        for one in records:
            (root / "images" / str(one.get("image", one.get("file")))).write_bytes(b"jpg")
    return root


def read(source, **arguments):
    return list(vq_focusambiguity(AdapterContext(source, source=source), **arguments))


def test_labels_splits_and_shared_pictures(tmp_path):
    made = read(folder(tmp_path, train=[record(i) for i in range(4)], val=[record(i) for i in range(3, 6)]))
    samples = [x for x in made if isinstance(x, Sample)]
    assert [s.split for s in samples] == ["train"] * 4 + ["val"] * 3  # by file, whatever `set` says
    assert [s.answerable for s in samples] == [False, True, False, True, True, False, True]
    assert [s.category for s in samples[:2]] == ["ambiguous", "unambiguous"]
    assert [x.image_id for x in made if isinstance(x, Image)] == ["0", "1", "2"]
    assert all(s.group == s.image_id and s.references == () for s in samples)
    assert len({s.sample_id for s in samples}) == 7
    assert [x for x in read(tmp_path, parts=["val"]) if isinstance(x, Sample)] == samples[4:]


def test_ids_come_from_content(tmp_path):
    first = [x.sample_id for x in read(folder(tmp_path, train=[record(1), record(2)]), parts=["train"]) if isinstance(x, Sample)]
    again = [x.sample_id for x in read(folder(tmp_path, train=[record(2), record(1)]), parts=["train"]) if isinstance(x, Sample)]
    assert first == again[::-1]
    twice = [x.sample_id for x in read(folder(tmp_path, train=[record(1), record(1)]), parts=["train"]) if isinstance(x, Sample)]
    assert twice == [first[0], f"{first[0]}-2"]


def test_keys_are_parameters(tmp_path):
    renamed = [{"q": "Which?", "file": "a.jpg", "is_ambiguous": 1, "uid": 17}]
    keys = {"question": "q", "image": "file", "ambiguous": "is_ambiguous", "id": "uid"}
    (_, sample) = read(folder(tmp_path, train=renamed), parts=["train"], **keys)
    assert (sample.sample_id, sample.answerable) == ("train/17", False)
    for odd in (None, True, 1.5):
        folder(tmp_path, train=[{**renamed[0], "uid": odd}])
        with pytest.raises(AdapterError, match=f"record 0: uid: expected an id, got {odd}"):
            read(tmp_path, parts=["train"], **keys)
    with pytest.raises(
        AdapterError, match=r"json: line 1, record 0: missing question, image, ambiguous; it has: q, file, is_ambiguous, uid"
    ):
        read(tmp_path, parts=["train"])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ambiguous": "yes"}, "record 0: ambiguous: expected true or false, got 'yes'"),
        ({"ambiguous": 2}, "expected true or false, got 2"),
        ({"ambiguous": 1.0}, "expected true or false, got 1.0"),
        ({"ambiguous": None}, "got None"),
        ({"question": 3}, "question: expected text"),
    ],
)
def test_damaged(tmp_path, changes, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, train=[record(0, **changes)]), parts=["train"])


def test_one_name_for_two_pictures(tmp_path):
    source = folder(tmp_path, train=[record(1)], val=[record(1)])
    for split in ("train", "val"):
        (source / split).mkdir()
        (source / split / "1.jpg").write_bytes(b"jpg")
    (source / "images/1.jpg").unlink()
    assert [type(x).__name__ for x in read(source)] == ["Image", "Sample", "Sample"]
    (source / "val/1.jpg").write_bytes(b"another")
    with pytest.raises(AdapterError, match=r"val_gt.json: line 1, record 0: image: val/1\.jpg and train/1\.jpg are two images"):
        read(source)


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, train=[record(1)]), {"parts": ["train"]}
