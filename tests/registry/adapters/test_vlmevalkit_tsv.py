import base64
import csv
import io

import pytest
from PIL import Image as Picture

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.vlmevalkit_tsv import vlmevalkit_tsv
from qualm.registry.sample import Sample


def cell(colour):
    made = io.BytesIO()
    Picture.new("RGB", (4, 4), (colour, 0, 0)).save(made, "PNG")
    return base64.b64encode(made.getvalue()).decode()


def table(folder, rows, name="X.tsv"):
    with (folder / name).open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(dict.fromkeys(k for row in rows for k in row)), delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    return folder


def read(source, **arguments):
    return list(vlmevalkit_tsv(AdapterContext(source, source=source), **arguments))


def test_options_hints_and_rotations(tmp_path):
    rows = [
        {
            "index": 1,
            "question": "Which?",
            "hint": "Look.",
            "A": "x",
            "B": "y",
            "C": "",
            "answer": "B",
            "category": "k",
            "l2-category": "l",
            "image": cell(1),
        },
        {
            "index": 2,
            "question": "What?",
            "hint": "",
            "A": "x",
            "B": "y",
            "C": "z",
            "answer": "C",
            "category": "k",
            "l2-category": "l",
            "image": cell(2),
        },
        {
            "index": 1_000_001,
            "question": "Which?",
            "hint": "Look.",
            "A": "y",
            "B": "x",
            "answer": "A",
            "category": "k",
            "l2-category": "l",
            "image": "1",
        },
    ]
    made = read(table(tmp_path, rows))
    assert [type(item).__name__[0] for item in made] == list("ISISS")
    first, second, third = (item for item in made if isinstance(item, Sample))
    assert (first.sample_id, first.question, first.choices, first.answer_index) == ("1", "Look.\nWhich?", ("x", "y"), 1)
    assert second.choices == ("x", "y", "z") and second.question == "What?" and first.meta == {"l2-category": "l"}
    assert third.group == first.group == "question 1" and third.image_id == first.image_id and third.answer_index == 0


def test_open_questions_and_pictures_beside_the_table(tmp_path):
    (tmp_path / "pics").mkdir()
    (tmp_path / "pics/a.png").write_bytes(b"a")
    rows = [
        {"index": "q1", "question": "What?", "answer": '["cat", "cats"]', "image_path": "a.png"},
        {"index": "q2", "question": "Who?", "answer": "nobody", "image_path": '["a.png"]'},
    ]
    made = read(table(tmp_path, rows), images="pics")
    assert [type(item).__name__[0] for item in made] == list("ISS")
    assert [(s.references, s.choices, s.group) for s in made[1:]] == [(("cat", "cats"), (), "a.png"), (("nobody",), (), "a.png")]


def test_open_questions_whatever_columns_there_are(tmp_path):
    source = table(tmp_path, [{"index": 1, "question": "What?", "A": "x", "B": "y", "answer": "an x", "image": cell(1)}])
    (_, sample) = read(source, kind="open")
    assert (sample.choices, sample.references) == ((), ("an x",))
    with pytest.raises(AdapterError, match="expected one of AB"):
        read(source)


def test_a_name_comes_again_in_the_folder_of_another_split(tmp_path):
    for split in ("val", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "a.png").write_bytes(split.encode())
        table(tmp_path, [{"index": 1, "question": "What?", "answer": split, "image_path": "a.png"}], f"{split}.tsv")
    made = read(tmp_path, images="{split}", files={"val": "val.tsv", "test": "test.tsv"})
    assert [getattr(x, "data", None) or (x.image_id, x.references) for x in made] == [
        b"val",
        ("val_a.png", ("val",)),
        b"test",
        ("test_a.png", ("test",)),
    ]


@pytest.mark.parametrize(
    ("row", "arguments", "said"),
    [
        ({"index": 1, "question": "?"}, {}, "X.tsv: line 2: no image; expected a column `image`"),
        ({"index": 1, "question": "?", "image": "no base64!" * 9}, {}, "image: expected base64"),
        ({"index": 1, "question": "?", "image": "2"}, {}, "points to row '2', which has no image"),
        ({"index": 1, "question": "?", "image_path": "../x"}, {}, "expected its image at"),
        ({"index": 1, "question": "?", "image_path": '["a", "b"]'}, {}, "expected one image"),
        ({"index": 1, "question": "?", "image_path": "[" * 100_000}, {}, "image_path: expected a path, or a list as JSON"),
        ({"index": 1, "question": "?", "A": "x", "B": "y", "answer": "E", "image": "2"}, {}, "answer: expected one of AB"),
        ({"index": 1, "question": "?", "image": "2"}, {"kind": "multiple_choice"}, "expected the columns A and B"),
        ({"number": 1, "question": "?"}, {}, "missing index"),
    ],
)
def test_damage(tmp_path, row, arguments, said):
    with pytest.raises(AdapterError, match=said):
        read(table(tmp_path, [row]), **arguments)


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    one = {"question": "Which?", "A": "x", "B": "y", "answer": "B", "category": "k", "l2-category": "l", "hint": ""}
    return table(root, [{**one, "index": index, "image": cell(index % 10)} for index in (1, 2, 1_000_001)]), {}
