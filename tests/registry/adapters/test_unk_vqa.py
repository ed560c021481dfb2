import json
from pathlib import Path

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.unk_vqa import unk_vqa
from qualm.registry.sample import Image, Sample

GENUINE = Path(__file__).parents[4] / "shared/fixtures/unk_vqa/annt_readme_sample.json"
"""The one record that UNK-VQA's README shows, mended so that it is JSON."""
MAPS = {
    "answer_map": {"1": "I don't know"},
    "reason_map": {"1": "It has multiple plausible answers", "3": "The image lacks important concepts/information"},
    "alter_type_map": {"T-1": "word replacement", "I-2": "image mask"},
}
NAME = "COCO_val2014_000000000042.jpg"


def record(number=1, binary=True, other=None, **changes):
    other = other if other is not None else {"answer": "red", "options": {"orig": "red"}} if binary else {"reason": ["3"]}
    misc = {"question_id_origin": 42001, "image_name_origin": NAME, "answer_origin": "red"}
    made = {"question_id": number, "question": "What color?", "image_name": NAME, "alter_type": "I-2", "misc": misc}
    return {**made, "answerability": {"binary": binary, "other": other}, **changes}


def folder(root, records, split="test", **maps):
    (root / f"annt_{split}.json").write_text(json.dumps({**MAPS, **maps, "annotation": records}))
    place = root / ("images-train" if split == "train" else "images-val")
    place.mkdir(exist_ok=True)
    (place / NAME).write_bytes(b"jpg")
    return root


def read(source, **arguments):
    return list(unk_vqa(AdapterContext(source, source=source), **arguments))


def test_both_kinds_of_question(tmp_path):
    image, first, second = read(folder(tmp_path, [record(), record(2, binary=False)]))
    assert image == Image("images-val/COCO_val2014_000000000042", b"jpg", f"images-val/{NAME}")
    assert first == Sample(
        "test/1", "What color?", "images-val/COCO_val2014_000000000042", ("red",), category="answerable", split="test", source="unk_vqa",
        group=NAME, meta={"alter_type": "I-2", "question_id_origin": "42001", "answer_origin": "red"},
    )  # fmt: skip
    assert (second.answerable, second.references, second.category, second.meta["reason"]) == (False, (), "unanswerable", "3")


def test_ambiguous_questions_are_left_out_unless_asked_for(tmp_path):
    source = folder(
        tmp_path, [record(1, False, {"reason": 1}), record(2, False, {"reason": ["3", "1"]}), record(3, False, {"reason": "3"})]
    )
    assert [s.sample_id for s in read(source) if isinstance(s, Sample)] == ["test/3"]
    kept = [s.meta["reason"] for s in read(source, ambiguous=True) if isinstance(s, Sample)]
    assert kept == ["1", "3 1", "3"]


def test_equal_names_in_two_folders_are_two_pictures(tmp_path):
    folder(tmp_path, [record()], "train")
    folder(tmp_path, [record()], "val")
    made = read(tmp_path, parts=["train", "val"])
    assert [x.image_id for x in made if isinstance(x, Image)] == [f"images-{split}/{NAME[:-4]}" for split in ("train", "val")]
    assert [x.sample_id for x in made if isinstance(x, Sample)] == ["train/1", "val/1"]


@pytest.mark.skipif(not GENUINE.is_file(), reason="../shared/fixtures/unk_vqa is not here")
def test_the_record_of_the_readme(tmp_path):
    (tmp_path / "annt_val.json").write_bytes(GENUINE.read_bytes())
    (tmp_path / "images-val").mkdir()
    (tmp_path / "images-val/COCO_val2014_000000549683.jpg").write_bytes(b"jpg")
    (_, sample) = read(tmp_path, parts=["val"])
    assert (sample.question, sample.references, sample.answerable) == ("What is the man wearing on his lips?", ("nothing",), True)
    assert sample.meta == {"alter_type": "T-1", "question_id_origin": "549683002", "answer_origin": "glasses"}


def test_the_readme_s_own_sample_is_not_json(tmp_path):
    text = json.dumps({**MAPS, "annotation": [record()]}).replace('}, "annotation"', '} "annotation"')
    (tmp_path / "annt_test.json").write_text(text)
    with pytest.raises(AdapterError, match=r"annt_test\.json: line 1: expected .*README is not JSON either: it lacks the comma"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"binary": False, "other": {"why": 3}}, "missing 'reason', the codes of why it cannot be answered; it has: why; name it by"),
        ({"binary": False, "other": {"reason": "9"}}, r"reason: expected one or more of the codes in reason_map \(1, 3\), got '9'"),
        ({"binary": False, "other": {"reason": []}}, "expected one or more of the codes in reason_map"),
        ({"binary": False, "other": "reason"}, "missing 'reason', the codes of why it cannot be answered; it has: 'reason'; name it by"),
        ({"binary": False, "other": {"reason": ["3", "9"]}}, r"one or more of the codes in reason_map \(1, 3\), got \['3', '9'\]"),
        ({"other": {"answer": ""}}, "answerability.other: answer: expected text"),
        ({"alter_type": "T-9"}, "alter_type: expected one of T-1, I-2, got 'T-9'"),
        ({"surprise": 1}, "annotation 0: unknown keys surprise"),
        ({"image_name": "gone.jpg"}, "expected its image at images-val/gone.jpg"),
        ({"answerability": {"binary": 1, "other": {}}}, "answerability.binary: expected true or false, got 1"),
    ],
)  # fmt: skip
def test_what_is_not_as_described(tmp_path, change, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, [record(**change)]))


def test_the_key_of_reasons_can_be_named_and_maps_are_checked(tmp_path):
    source = folder(tmp_path, [record(1, False, {"why": 3})])
    assert read(source, reason="why")[1].meta["reason"] == "3"
    folder(tmp_path, [record()], reason_map={"3": "The image lacks information"})
    with pytest.raises(AdapterError, match="reason_map: expected a reason with 'multiple plausible answers'"):
        read(tmp_path)
    assert len(read(tmp_path, ambiguous=True)) == 2
    with pytest.raises(AdapterError, match=r"annt_train\.json: expected the annotations of UNK-VQA, found none"):
        read(tmp_path, parts=["train"])


@pytest.mark.parametrize("records", [[], "none", {"1": record()}, None])
def test_annotations_are_a_list_of_records(tmp_path, records):
    (tmp_path / "annt_test.json").write_text(json.dumps({**MAPS, "annotation": records}))
    with pytest.raises(AdapterError, match=r"annt_test\.json: annotation: expected a list of records, got "):
        read(tmp_path)


@pytest.mark.parametrize("name", ["answer_map", "reason_map", "alter_type_map"])
@pytest.mark.parametrize("codes", [["word replacement"], {"1": 3}, {}.fromkeys("12"), "1", None])
def test_a_map_is_of_codes_and_texts(tmp_path, name, codes):
    with pytest.raises(AdapterError, match=rf"annt_test\.json: {name}: expected an object of code -> text, got "):
        read(folder(tmp_path, [record()], **{name: codes}))


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, [record(), record(2, binary=False)]), {}
