import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.tdiuc import tdiuc
from qualm.registry.sample import Image, Sample

KINDS = {1: ("color", "red"), 2: ("absurd", "doesnotapply"), 3: ("counting", "2"), 4: ("absurd", "doesnotapply")}


def folder(root, kinds=KINDS, split="val"):
    for name in ("Questions", "Annotations", f"Images/{split}2014", "Images/VG"):
        (root / name).mkdir(parents=True, exist_ok=True)
    asked = [{"question_id": n, "image_id": 10 * n, "question": f"What {n}?"} for n in kinds]
    said = [
        {"question_id": n, "image_id": 10 * n, "question_type": kind, "answers": [{"answer": answer, "answer_id": 1}]}
        for n, (kind, answer) in kinds.items()
    ]
    (root / f"Questions/OpenEnded_mscoco_{split}2014_questions.json").write_text(json.dumps({"questions": asked}))
    (root / f"Annotations/mscoco_{split}2014_annotations.json").write_text(json.dumps({"annotations": said}))
    for n in kinds:
        place = f"Images/{split}2014/COCO_{split}2014_{10 * n:012d}.jpg" if n % 2 else f"Images/VG/{10 * n}.jpg"
        (root / place).write_bytes(b"jpg")
    return root


def read(source, **arguments):
    return list(tdiuc(AdapterContext(source, source=source), **arguments))


def test_all_kinds_and_absurd_questions_cannot_be_answered(tmp_path):
    made = read(folder(tmp_path))
    assert [i.path for i in made if isinstance(i, Image)][:2] == ["Images/val2014/COCO_val2014_000000000010.jpg", "Images/VG/20.jpg"]
    samples = [s for s in made if isinstance(s, Sample)]
    assert [(s.category, s.answerable, s.references) for s in samples] == [
        ("color", True, ("red",)),
        ("absurd", False, ("doesnotapply",)),
        ("counting", True, ("2",)),
        ("absurd", False, ("doesnotapply",)),
    ]
    assert samples[1] == Sample(
        "2", "What 2?", "20", ("doesnotapply",), category="absurd", answerable=False, split="val", source="tdiuc", group="20",
        meta={"question_type": "absurd"},
    )  # fmt: skip


def test_one_kind(tmp_path):
    made = read(folder(tmp_path, split="train"), types=["absurd"], split="train")
    assert [x.image_id for x in made] == ["20", "20", "40", "40"]


@pytest.mark.parametrize(
    ("kind", "answer", "says"),
    [
        ("colour", "red", "question_type of its annotation: expected one of absurd, activity_recognition, .*, got 'colour'"),
        ("absurd", "red", "expected 'doesnotapply' as answer to questions of type 'absurd' and no others"),
        ("color", "doesnotapply", "expected 'doesnotapply' as answer"),
    ],
)
def test_what_is_not_as_described(tmp_path, kind, answer, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, {1: (kind, answer)}))


def test_a_picture_that_is_in_neither_place(tmp_path):
    source = folder(tmp_path)
    (source / "Images/VG/20.jpg").unlink()
    with pytest.raises(AdapterError, match=r"Images/val2014/COCO_val2014_000000000020\.jpg or Images/VG/20\.jpg within"):
        read(source)


def test_pictures_under_other_names(tmp_path):
    source = folder(tmp_path, {1: KINDS[1]})
    (source / "Images/val2014/COCO_val2014_000000000010.jpg").rename(source / "genome_10.jpg")
    assert read(source, pictures=["Images/{id}.jpg", "genome_{id}.jpg"])[0].path == "genome_10.jpg"
    with pytest.raises(AdapterError, match=r"pictures: expected a path without placeholders but \{split\} and \{id\}, got '\{name\}\.jpg'"):
        read(source, pictures=["{name}.jpg"])


def test_a_number_that_is_two_pictures(tmp_path):
    source = folder(tmp_path, {1: KINDS[1]})
    (source / "Images/VG/10.jpg").write_bytes(b"jpg")
    assert read(source)[0].path == "Images/val2014/COCO_val2014_000000000010.jpg"  # the same picture twice
    (source / "Images/VG/10.jpg").write_bytes(b"another")
    with pytest.raises(AdapterError, match=r"image 10 may be Images/val2014/.*10\.jpg or Images/VG/10\.jpg, which differ; name the right"):
        read(source)
    assert read(source, pictures=["Images/VG/{id}.jpg"])[0].data == b"another"


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root), {}
