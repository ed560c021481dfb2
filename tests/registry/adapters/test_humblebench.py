import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.humblebench import humblebench
from qualm.registry.sample import Image, Sample

OPTIONS = "A. red\nB. blue\nC. green\nD. grey\nE. None of the above"
ROW = {"file_name": "1.jpg", "question_id": 5, "question": f"What colour is the car?\n{OPTIONS}", "label": "B", "type": "Attribute"}
NONE = {**ROW, "question_id": 6, "label": "E"}


def folder(root, *rows):
    (root / "train").mkdir(parents=True, exist_ok=True)
    (root / "train/1.jpg").write_bytes(b"a picture")
    (root / "train/metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows or (ROW, NONE)))
    return root


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root), {}


def read(root, **arguments):
    return list(humblebench(AdapterContext(root, source=root), **arguments))


def test_questions_with_their_options(tmp_path):
    picture, one, none = read(folder(tmp_path))
    assert isinstance(picture, Image) and picture.image_id == "train/1.jpg" == one.image_id == none.group
    assert (one.sample_id, one.question, one.category) == ("5", "What colour is the car?", "Attribute")
    assert one.choices == ("red", "blue", "green", "grey", "None of the above") and (one.answer_index, none.answer_index) == (1, 4)
    assert (one.meta, none.meta) == ({"none_is_right": "false"}, {"none_is_right": "true"}) and one.answerable


def test_none_of_the_above_alone(tmp_path):
    one, none = (item for item in read(folder(tmp_path), none_only=True, pictures=False) if isinstance(item, Sample))
    assert one.choices == ("red", "green", "grey", "None of the above") and one.answer_index == 3 and one.meta == {"none_is_right": "true"}
    assert none.choices[-1] == none.choices[none.answer_index] and len(none.choices) == 5 and none.image_id is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**ROW, "label": "F"}, "the letter of one, got .*'F'"),
        ({**ROW, "question": "What?"}, "a line for each option"),
        ({k: v for k, v in ROW.items() if k != "type"}, "missing: type"),
        (["x"], "expected the keys file_name, question_id"),
        ({**ROW, "question": "What?\nA. red\nB. blue"}, "a line for each option"),
        ({**ROW, "question": OPTIONS}, "expected a question"),
        ({**ROW, "question": "What?\nA. red\nB. blue\nC. None of the above", "label": "D"}, "the letter of one, got .*'D'"),
        ({**ROW, "label": "AB"}, "the letter of one, got .*'AB'"),
    ],
)
def test_rows_of_another_kind(tmp_path, row, message):
    with pytest.raises(AdapterError, match=message):
        read(folder(tmp_path, row))


def test_three_options_are_enough(tmp_path):
    row = {**ROW, "question": "What?\nA. red\nB. blue\nC. None of the above"}
    (sample,) = (item for item in read(folder(tmp_path, row), none_only=True) if isinstance(item, Sample))
    assert (sample.choices, sample.answer_index) == (("red", "None of the above"), 1)
