import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._parquet import cell_image
from qualm.registry.adapters.image_table import image_table
from qualm.registry.sample import IMAGE_STRUCT, Image, Sample
from tests.support.data.small_pictures import png


@pytest.fixture
def source(tmp_path):
    (tmp_path / "data").mkdir()
    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "image": {"_type": "Image"}}
    schema = pa.schema(
        [("image", IMAGE_STRUCT), ("question", pa.string()), ("answers", pa.list_(pa.string())), ("label", pa.int64())],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    rows = [
        {"image": {"bytes": png(1), "path": "a.png"}, "question": "What?", "answers": ["x", "y"], "label": 1},
        {"image": {"bytes": png(1), "path": "b.png"}, "question": "Who?", "answers": ["z"], "label": 0},
        {"image": {"bytes": None, "path": "far.png"}, "question": "Where?", "answers": [], "label": 0},
    ]
    (tmp_path / "far.png").write_bytes(png(2))
    for i, part in enumerate((rows[:2], rows[2:])):
        pq.write_table(pa.Table.from_pylist(part, schema=schema), tmp_path / f"data/test-0000{i}-of-00002.parquet")
    return tmp_path


def read(source, context=None, **arguments):
    arguments = {"files": {"test": "**/*.parquet"}, "answer": "answers", **arguments}
    return list(image_table(context or AdapterContext(source, source=source), **arguments))


def test_rows_and_pictures(source):
    made = read(source, category="label")
    assert [type(item).__name__[0] for item in made] == list("ISSIS")  # equal pictures come once
    assert made[0].data == png(1) and made[0].path == "a.png" and made[3].data == png(2)
    first, second, third = (item for item in made if isinstance(item, Sample))
    assert (first.question, first.references, first.category) == ("What?", ("x", "y"), "dog")
    assert first.image_id == second.image_id == first.group != third.image_id and third.references == ()


def test_plain_bytes_and_lists_of_one(source):
    for cells in ([png(3), png(3)], [[png(3)], [png(3)]]):
        pq.write_table(pa.table({"image": cells, "question": ["a", "b"], "answers": ["x", "y"]}), source / "plain.parquet")
        assert [type(i) for i in read(source, files={"test": "plain.parquet"})] == [Image, Sample, Sample]


def test_only_named_columns_are_read(source):
    assert len(read(source, image=None)) == 3


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([b"text"], "plain.parquet: row 0: image: expected an image, got 4 bytes that cannot be read as one"),
        ([png(1)[:-12]], "a PNG that is cut short"),
        ([None], "row 0: image: expected an image, got none"),
        ([[[png(1), png(2)]]], "image: expected an image as a path, bytes or base64, got \\["),
        ([{"bytes": None, "path": "../../etc/passwd"}], "expected its image at ../../etc/passwd within"),
    ],
)
def test_pictures_that_are_none(source, cells, said):
    pq.write_table(pa.table({"image": cells, "question": ["a"], "answers": ["x"]}), source / "plain.parquet")
    with pytest.raises(AdapterError, match=said):
        read(source, files={"test": "plain.parquet"})


def test_files_that_are_none(source, monkeypatch):
    with pytest.raises(AdapterError, match="parquet: no column 'query'; there are: image, question, answers, label"):
        read(source, question="query")
    monkeypatch.setattr("qualm.registry.formats.columnar.SPAN", 10)
    with pytest.raises(AdapterError, match=r"a row group of .* bytes"):
        read(source)
    (source / "data/test-00001-of-00002.parquet").write_bytes(b"PAR1 cut")
    monkeypatch.undo()
    with pytest.raises(AdapterError, match=r"00001-of-00002.parquet: row 0: truncated or corrupt Parquet"):
        read(source)


def test_a_row_group_of_as_many_bytes_as_are_read(source, monkeypatch):
    sizes = [pq.read_metadata(path).row_group(0).total_byte_size for path in sorted((source / "data").iterdir())]
    monkeypatch.setattr("qualm.registry.formats.columnar.SPAN", max(sizes))
    assert len(read(source)) == 5
    monkeypatch.setattr("qualm.registry.formats.columnar.SPAN", max(sizes) - 1)
    with pytest.raises(AdapterError, match=f"a row group of {max(sizes):,} bytes; rewrite it with smaller ones"):
        read(source)


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        (b"x", (b"x", "")),
        ([b"x"], (b"x", "")),
        ({"bytes": b"x", "path": "a.png"}, (b"x", "a.png")),
        ({"bytes": b"x"}, (b"x", "")),
        ({"bytes": b"", "path": "far.png"}, (png(2), "far.png")),
        ({"path": "far.png"}, (png(2), "far.png")),
        ("far.png", (png(2), "far.png")),
        ([], "here: expected one image, got 0; a question has one here"),
        (["far.png", "far.png"], "here: expected one image, got 2"),
        ("", "here: expected an image as bytes, or a path, got ''"),
        ({"bytes": None, "path": None}, "here: expected an image as bytes, or a path, got None"),
        ({"bytes": b"x", "width": 3}, "here: expected an image as bytes, or a path, got {'bytes'"),
        (7, "here: expected an image as bytes, or a path, got 7"),
    ],
)
def test_a_picture_however_the_column_has_it(source, cell, found):
    if isinstance(found, tuple):
        assert cell_image(source, cell, "here") == found
    else:
        with pytest.raises(AdapterError, match=f"^{found}"):
            cell_image(source, cell, "here")


def labelled(source, *labels):
    path = source / "data/test-00000-of-00002.parquet"
    schema = pq.read_schema(path)
    rows = [{"image": {"bytes": png(1), "path": "a.png"}, "question": f"{i}?", "answers": ["x"], "label": n} for i, n in enumerate(labels)]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def test_numbers_of_classes(source):
    labelled(source, 1, -1, None)
    made = [s.references for s in read(source, answer="label") if isinstance(s, Sample)]
    assert made[:3] == [("dog",), (), ()]  # -1 is what nobody labelled
    labelled(source, 0, -2)
    with pytest.raises(AdapterError, match=r"row 1: label: expected a class from 0 to 1, or -1 for none, got -2"):
        read(source, answer="label")
    labelled(source, 1, 2, 0)
    with pytest.raises(AdapterError, match=r"00000-of-00002.parquet: row 1: label: expected a class from 0 to 1, or -1 for none, got 2"):
        read(source, answer="label")
    told = []
    context = AdapterContext(source, source=source, bad=told.append)
    assert len([s for s in read(source, context, answer="label") if isinstance(s, Sample)]) == 3
    assert len(told) == 1 and context.place[0].endswith("00001-of-00002.parquet: row 0")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")), "row 0: .* can't decode byte 0xff"),
        (pa.array([10**17], pa.timestamp("ms")), r"row 0: truncated or corrupt Parquet \(days="),
    ],
)
def test_values_that_python_does_not_have(source, answers, said):
    pq.write_table(pa.table({"image": [png(1)], "question": ["?"], "answers": answers}), source / "plain.parquet")
    with pytest.raises(AdapterError, match=said):
        read(source, files={"test": "plain.parquet"})


def test_columns_twice(source):
    pq.write_table(pa.table([["?"], ["x"], ["y"]], names=["question", "answers", "answers"]), source / "plain.parquet")
    with pytest.raises(AdapterError, match=r"plain\.parquet: expected each column once, got twice: answers; rename or remove one"):
        read(source, files={"test": "plain.parquet"}, image=None)


def test_a_column_may_say_that_a_question_has_no_answer(source):
    pq.write_table(pa.table({"question": ["a", "b"], "answers": ["x", "y"], "not": [True, False]}), source / "plain.parquet")
    args = {"files": {"test": "plain.parquet"}, "image": None}
    assert [sample.answerable for sample in read(source, unanswerable="not", **args)] == [False, True]
    with pytest.raises(AdapterError, match="`answerable` and `unanswerable` both name a column"):
        read(source, unanswerable="not", answerable="not", **args)
