import base64
import csv

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.mmbench import mmbench
from qualm.registry.sample import Image, Sample
from tests.support.data.small_pictures import png

COLUMNS = ["index", "question", "hint", "A", "B", "C", "D", "answer", "category", "image", "source", "l2-category", "comment", "split"]


PICTURES = [png(n) for n in range(3)]
CELLS = [base64.b64encode(p).decode() for p in PICTURES]


def row(index, options, answer, image=CELLS[0], **more):
    return {
        "index": index,
        "question": f"Question {index % 1_000_000}?",
        **dict(zip("ABCD", options, strict=False)),
        "answer": answer,
        "category": "object_localization",
        "image": image,
        "l2-category": "finegrained_perception",
        "split": "dev",
        **more,
    }


OFFICIAL = [
    row(241, ["yes", "no"], "B", hint='A "hint",\nin two lines.'),
    row(252, ["a", "b", "c", "all of the above"], "C", CELLS[1], category="action_recognition"),
    row(253, ["1", "2", "3", "4"], "A", CELLS[2], source="scienceqa", comment="x"),
    row(1_000_241, ["no", "yes"], "A"),
    row(1_000_252, ["c", "a", "b", "all of the above"], "A", CELLS[1]),
]


def table(folder, rows, columns=COLUMNS, name="mmbench_dev_20230712.tsv"):
    with (folder / name).open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, columns, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return folder


def read(source, selects=lambda sample: True, **arguments):
    return list(mmbench(AdapterContext(source, source=source, selects=selects), **arguments))


def samples(made):
    return [x for x in made if isinstance(x, Sample)]


def test_rotations_of_a_question_are_one_group(tmp_path):
    made = read(table(tmp_path, OFFICIAL))
    found = samples(made)
    assert [s.sample_id for s in found] == ["241", "252", "253", "1000241", "1000252"]
    assert [s.group for s in found] == ["question 241", "question 252", "question 253", "question 241", "question 252"]
    assert [s.meta["rotation"] for s in found] == ["0", "0", "0", "1", "1"]
    assert found[0].question == 'A "hint",\nin two lines.\nQuestion 241?' and found[1].question == "Question 252?"
    assert found[0].choices == ("yes", "no") and found[0].answer_index == 1 and found[3].choices[0] == "no"
    assert found[4].meta["base_index"] == "252"
    assert found[1].meta == {"rotation": "0", "base_index": "252", "options": "4", "l2-category": "finegrained_perception"}
    assert found[1].category == "action_recognition" and found[1].split == "dev"


def test_rotations_share_their_picture(tmp_path):
    made = read(table(tmp_path, OFFICIAL))
    images = [x for x in made if isinstance(x, Image)]
    assert [i.data for i in images] == PICTURES
    first, _, _, rotation, _ = samples(made)
    assert first.image_id == rotation.image_id == images[0].image_id
    assert made.index(images[0]) < made.index(first)


@pytest.mark.parametrize("order", [1, -1])
def test_an_image_cell_may_be_another_row_index(tmp_path, order):
    made = read(table(tmp_path, [*OFFICIAL[:3], row(1_000_241, ["no", "yes"], "A", "241")][::order]))
    images = [x for x in made if isinstance(x, Image)]
    found = {s.sample_id: s for s in samples(made)}
    assert {i.data for i in images} == set(PICTURES) and len(images) == 3
    assert found["1000241"].image_id == found["241"].image_id
    seen = set()
    for item in made:
        if isinstance(item, Image):
            seen.add(item.image_id)
        else:
            assert item.image_id in seen


def test_a_picture_that_only_a_wanted_row_points_at_is_given(tmp_path):
    source = table(tmp_path, [*OFFICIAL[:3], row(1_000_241, ["no", "yes"], "A", "241")])
    made = read(source, selects=lambda s: s.meta["rotation"] == "1")
    assert [type(x).__name__ for x in made] == ["Image", "Sample"] and made[0].data == PICTURES[0]


def test_numbers_at_the_edge_of_a_rotation(tmp_path):
    made = samples(
        read(table(tmp_path, [row(999_999, ["a", "b"], "A"), row(1_000_000, ["b", "a"], "B"), row(10**18 - 1, ["a", "b"], "A")]))
    )
    assert [(s.meta["rotation"], s.meta["base_index"]) for s in made] == [("0", "999999"), ("1", "0"), ("999999999999", "999999")]


def test_without_rotations(tmp_path):
    assert [s.sample_id for s in samples(read(table(tmp_path, OFFICIAL), rotations=False))] == ["241", "252", "253"]


def test_the_test_split_has_no_answers(tmp_path):
    rows = [{k: v for k, v in OFFICIAL[0].items() if k != "answer"}]
    source = table(tmp_path, rows, [c for c in COLUMNS if c != "answer"], "MMBench_TEST_EN.tsv")
    assert samples(read(source, table="MMBench_TEST_EN.tsv"))[0].answer_index is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"A": ""}, r"mmbench_dev_20230712\.tsv: line 6: A to D: expected two to four options without a gap, got \['', 'yes'"),
        ({"answer": "C"}, "answer: expected one of A, B, got 'C'"),
        ({"answer": ""}, "answer: expected one of A, B, got ''"),
        ({"index": "x"}, "index: expected a whole number, got 'x'"),
        ({"index": "1" * 19}, "index: expected a whole number, got '1111"),
        ({"B": ""}, r"A to D: expected two to four options without a gap, got \['no', ''"),
        ({"B": "", "C": "c"}, "A to D: expected two to four options without a gap"),
        ({"C": "c", "D": "d", "answer": "AB"}, "answer: expected one of A, B, C, D, got 'AB'"),
        ({"category": "", "image": ""}, "category, image: expected text, got an empty cell"),
        ({"question": ""}, "question: expected text, got an empty cell"),
        ({"image": "!" * 70}, r"tsv: line 6: image: expected base64"),
        ({"image": base64.b64encode(b"<html>" * 20).decode()}, "image: expected an image, got a web page"),
        ({"image": "77"}, "image: points to row '77', which has no image"),
    ],
)
def test_damaged(tmp_path, change, says):
    with pytest.raises(AdapterError, match=says):
        read(table(tmp_path, [*OFFICIAL[:3], OFFICIAL[3] | change]))


def test_columns_and_tables_are_those_of_the_release(tmp_path):
    with pytest.raises(AdapterError, match=r"no table 'mmbench_dev_20230712.tsv'; there are: none"):
        read(tmp_path)
    with pytest.raises(AdapterError, match=r"no table '../x.tsv'"):
        read(tmp_path, table="../x.tsv")
    with pytest.raises(AdapterError, match="unknown keys E"):
        read(table(tmp_path, [row(1, ["a", "b"], "A", E="e")], [*COLUMNS, "E"]))
    with pytest.raises(AdapterError, match="missing category"):
        read(table(tmp_path, [{"index": 1}], [c for c in COLUMNS if c != "category"]))


def test_bad_rows_can_be_left_out(tmp_path):
    rows = [*OFFICIAL[:2], OFFICIAL[2] | {"answer": "E"}, row(1_000_241, ["no", "yes"], "A", "77"), row(1_000_252, ["b", "a"], "A", "252")]
    source, told = table(tmp_path, rows), []
    context = AdapterContext(tmp_path, source=source, bad=lambda error: told.append(str(error)))
    assert [s.sample_id for s in samples(mmbench(context))] == ["241", "252", "1000252"]
    assert len(told) == 2 and "answer: expected one of A, B, C, D, got 'E'" in told[0] and "points to row '77'" in told[1]


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return table(root, OFFICIAL), {}
