"""Several pictures, none, and videos, by every reader of tables."""

import base64
import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Picture

from qualm.registry.adapters import AdapterContext, AdapterError, find_problem
from qualm.registry.adapters.image_table import image_table
from qualm.registry.formats.picture_lists import MAX_IMAGES, picture_ids
from qualm.registry.sample import IMAGE_STRUCT, Image, Sample


def png(level):
    data = io.BytesIO()
    Picture.new("RGB", (4, 4), (level, 0, 0)).save(data, "PNG")
    return data.getvalue()


def gif(*levels):
    data = io.BytesIO()
    first, *rest = [Picture.new("RGB", (4, 4), (level, 0, 0)) for level in levels]
    first.save(data, "GIF", save_all=True, append_images=rest)
    return data.getvalue()


@pytest.fixture
def source(tmp_path):
    for name, level in (("a.png", 1), ("b.png", 2), ("c.png", 3)):
        (tmp_path / name).write_bytes(png(level))
    return tmp_path


ROWS = [
    {"image": ["a.png", "b.png"], "question": "Is <image> like <image>?", "answer": "no"},
    {"image": ["b.png"], "question": "<image> What is it?", "answer": "b"},
    {"image": "c.png", "question": "What?", "answer": "c"},
    {"image": ["c.png", "a.png"], "question": "Which is it?", "answer": "d"},
    {"image": [], "question": "What is a cone?", "answer": "e"},
]
IDS = [("a.png", "b.png"), ("b.png",), ("c.png",), ("c.png", "a.png"), ()]
QUESTIONS = ["Is <image> like <image>?", "What is it?", "What?", "Which is it?", "What is a cone?"]


def table(source, rows, reader=image_table, **arguments):
    (source / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(reader(AdapterContext(source, source=source), files={"test": "test.jsonl"}, **arguments))


def samples(items):
    """Those of the items that are samples; each is held to what every reader relies on."""
    items, seen, pictures = list(items), set(), set()
    for item in items:
        if isinstance(item, Image):
            assert item.image_id not in pictures
            pictures.add(item.image_id)
        else:
            assert find_problem(item, pictures, seen) == ""
            seen.add(item.sample_id)
    return [item for item in items if isinstance(item, Sample)]


def test_json_lines(source):
    made = samples(table(source, ROWS, text_only=True))
    assert [picture_ids(s.image_id) for s in made] == IDS and [s.question for s in made] == QUESTIONS
    assert [s.group for s in made] == ["a.png", "b.png", "c.png", "c.png", ""]


def test_csv_with_a_list_and_with_several_columns(source):
    with (source / "list.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([["image", "question", "answer"], *([json.dumps(r["image"]), r["question"], "x"] for r in ROWS[:2])])
    made = samples(image_table(AdapterContext(source, source=source), files={"test": "list.csv"}))
    assert [picture_ids(s.image_id) for s in made] == IDS[:2]
    (source / "columns.csv").write_text("first,second,question,answer\na.png,b.png,Same?,no\nc.png,,What?,c\n")
    made = samples(image_table(AdapterContext(source, source=source), files={"test": "columns.csv"}, image=["first", "second"]))
    assert [picture_ids(s.image_id) for s in made] == [("a.png", "b.png"), ("c.png",)]


def test_a_sample_with_one_picture_is_the_same_however_it_is_read(source):
    alone = samples(table(source, [{**ROWS[2]}]))[0]
    assert samples(table(source, [{**ROWS[2], "image": ["c.png"]}]))[0] == alone


def parquet(source, cells, kind, **arguments):
    columns = {"image": pa.array(cells, kind), "question": ["Is <image> like <image>?", "What?"], "answer": ["x", "y"]}
    pq.write_table(pa.table(columns), source / "t.parquet")
    return list(image_table(AdapterContext(source, source=source), files={"test": "t.parquet"}, **arguments))


@pytest.mark.parametrize("kind", ["structs", "bytes"])
def test_parquet_with_lists(source, kind):
    cells = [[png(1), png(2)], [png(1)]]
    if kind == "structs":
        cells = [[{"bytes": data, "path": None} for data in row] for row in cells]
    items = parquet(source, cells, pa.list_(IMAGE_STRUCT if kind == "structs" else pa.binary()))
    first, second = samples(items)
    assert [item.data for item in items if isinstance(item, Image)] == [png(1), png(2)]
    assert len(picture_ids(first.image_id)) == 2 and picture_ids(first.image_id)[0] == second.image_id == first.group


def test_videos_are_frames_at_even_distances(source):
    (source / "clip.gif").write_bytes(gif(0, 50, 100, 150, 200, 250))
    rows = [{"image": "clip.gif", "question": "What happens?", "answer": "x"}, {"image": "clip.gif", "question": "Why?", "answer": "y"}]
    items = table(source, rows, frames=3)
    first, second = samples(items)
    assert picture_ids(first.image_id) == tuple(f"clip.gif#frame={n}" for n in (1, 3, 5)) and first.image_id == second.image_id
    levels = [Picture.open(io.BytesIO(item.data)).getpixel((0, 0))[0] for item in items if isinstance(item, Image)]
    assert levels == [50, 150, 250]
    cells = [{"bytes": gif(0, 100, 200), "path": "x.gif"}, {"bytes": None, "path": "clip.gif"}]
    first, second = samples(parquet(source, cells, IMAGE_STRUCT, frames=2))
    assert [name.rpartition("#")[2] for name in picture_ids(first.image_id)] == ["frame=0", "frame=2"]
    assert picture_ids(second.image_id) == ("clip.gif#frame=1", "clip.gif#frame=4")


def test_only_what_is_selected_is_read(source):
    (source / "b.png").unlink()
    (source / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (ROWS[0], ROWS[3])))
    context = AdapterContext(source, source=source, selects=lambda s: "b.png" not in picture_ids(s.image_id))
    assert len(list(image_table(context, files={"test": "test.jsonl"}))) == 3


@pytest.mark.parametrize(
    ("row", "arguments", "said"),
    [
        ({"image": []}, {}, "expected an image, got none; `text_only: true`"),
        ({"image": ["a.png", "b.png"], "question": "<image> ?"}, {}, "has 1 marks <image> and the sample 2 images"),
        ({"image": ["a.png", "no.png"]}, {}, "expected its image at no.png"),
        ({"image": ["a.png", "../x.png"]}, {}, "expected its image at"),
        ({"image": ["a.png"] * (MAX_IMAGES + 1)}, {}, f"{MAX_IMAGES + 1} images; more than {MAX_IMAGES} cannot be read"),
        ({"image": '["a.png"'}, {}, "expected an image, or a list of them as JSON"),
        ({"image": "no.gif"}, {"frames": 2}, "expected its video at no.gif"),
        ({"image": "../x.gif"}, {"frames": 2}, "expected its video at"),
        ({"image": "a\0b.gif"}, {"frames": 2}, "expected its video at"),
        ({"image": "x" * 5000}, {"frames": 2}, "expected its video at"),
        ({"image": "a.png"}, {"frames": 0}, f"frames: expected 1 to {MAX_IMAGES}, got 0"),
        ({"image": "a.png"}, {"frames": MAX_IMAGES + 1}, f"frames: expected 1 to {MAX_IMAGES}, got {MAX_IMAGES + 1}"),
        ({"image": "a.png"}, {"image": []}, r"expected a column, or different ones, got \[\]"),
        ({"image": "a.png"}, {"image": None, "text_only": True}, "which is null"),
        ({"image": "a.png"}, {"image": ["image", "image"]}, "expected a column, or different ones"),
        ({"image": "a.png"}, {"image": None, "frames": 2}, "which is null"),
    ],
)
def test_what_is_wrong_is_named(source, row, arguments, said):
    with pytest.raises(AdapterError, match=said):
        table(source, [{"question": "?", "answer": "x", **row}], **arguments)


def test_as_many_pictures_and_frames_as_may_be(source):
    (made,) = samples(table(source, [{"image": ["a.png"] * MAX_IMAGES, "question": "?", "answer": "x"}]))
    assert picture_ids(made.image_id) == ("a.png",) * MAX_IMAGES
    (source / "clip.gif").write_bytes(gif(*range(0, 4 * (MAX_IMAGES + 1), 3)))
    for n in (1, MAX_IMAGES):
        (made,) = samples(table(source, [{"image": "clip.gif", "question": "?", "answer": "x"}], frames=n))
        assert len(picture_ids(made.image_id)) == n
    with pytest.raises(AdapterError, match=f"{MAX_IMAGES + 1} images; more than {MAX_IMAGES} cannot be read; ask for fewer `frames`"):
        table(source, [{"image": ["clip.gif", "a.png"], "question": "?", "answer": "x"}], frames=MAX_IMAGES)


def test_the_mark_of_a_single_picture_is_taken_out_of_a_list_alone(source):
    rows = [
        {"image": ["a.png"], "question": "<image>", "answer": "x"},
        {"image": "a.png", "question": "Is <image> a mark?", "answer": "x"},
        {"image": ["a.png"], "question": "Are <image> and <image> marks?", "answer": "x"},
    ]
    assert [made.question for made in samples(table(source, rows))] == [row["question"] for row in rows]


def test_base64_of_a_picture_is_no_list():
    assert not base64.b64encode(png(1)).decode().startswith("[")
