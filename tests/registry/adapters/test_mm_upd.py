import csv

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.mm_upd import mm_upd
from qualm.registry.sample import Image, Sample
from tests.support.data.recordings import b64, png

ROW = {
    **{
        "index": "3",
        "question": "What is it?",
        "hint": "nan",
        "A": "a cat",
        "B": "a dog",
        "C": "",
        "D": "",
        "answer": "B",
        "category": "ocr",
    },
    **{"image": b64(png()), "source": "s", "l2-category": "x", "split": "dev", "type": "standard", "masked_answer": ""},
}
UPD = {**ROW, "B": "a hen", "answer": "", "type": "aad", "masked_answer": "a dog", "image": "3"}


def folder(root, *rows, name="mmaad_20240303_base"):
    (root / "data").mkdir(parents=True, exist_ok=True)
    with (root / f"data/{name}.tsv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list((rows or (ROW,))[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(rows or (ROW, UPD))
    return root


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, ROW, {**UPD, "image": ROW["image"]}), {"parts": ["aad"]}


def read(root, **arguments):
    return list(mm_upd(AdapterContext(root, source=root), **{"parts": ["aad"], **arguments}))


def test_a_question_and_its_unsolvable_twin(tmp_path):
    picture, standard, upd = read(folder(tmp_path))
    assert isinstance(picture, Image) and picture.data == png() and standard.image_id == upd.image_id == picture.image_id
    assert (standard.sample_id, standard.question) == ("aad-standard-3", "What is it?\nA. a cat\nB. a dog")
    assert (standard.references, standard.answerable, standard.category) == (("a dog", "B"), True, "standard")
    assert (upd.sample_id, upd.references, upd.answerable, upd.category) == ("aad-aad-3", (), False, "aad")
    assert upd.group == standard.group == "aad question 3" and upd.meta == {
        "part": "aad",
        "type": "aad",
        "masked_answer": "a dog",
        "l2-category": "x",
    }


def test_a_hint_and_another_setting(tmp_path):
    source = folder(tmp_path, {**ROW, "hint": "Look.", "C": "None of the above"}, name="mmivqd_20240303_option")
    sample = next(item for item in read(source, parts=["ivqd"], setting="option") if isinstance(item, Sample))
    assert sample.question == "Look.\nWhat is it?\nA. a cat\nB. a dog\nC. None of the above" and sample.split == "ivqd"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "D"}, "answer: expected one of A, B, got 'D'"),
        ({"question": " "}, "expected a question and options"),
        ({"image": "x" * 99}, "image: expected base64"),
        ({"A": "", "B": "nan", "type": "aad"}, "expected a question and options, got 'What is it"),
    ],
)
def test_rows_of_another_kind(tmp_path, change, message):
    with pytest.raises(AdapterError, match=message):
        read(folder(tmp_path, {**ROW, **change}))


def test_one_option_is_left_where_the_right_one_was_taken_out(tmp_path):
    _, sample = read(folder(tmp_path, {**UPD, "B": "", "image": ROW["image"]}))
    assert sample.question == "What is it?\nA. a cat" and not sample.answerable


def test_no_table(tmp_path):
    with pytest.raises(AdapterError, match=r"expected a table of MM-UPD"):
        read(tmp_path)
