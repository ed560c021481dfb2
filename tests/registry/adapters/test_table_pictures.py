import base64
import io

import PIL.Image
import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._table_pictures import POINTER, TablePictures


def cell(level):
    data = io.BytesIO()
    PIL.Image.new("RGB", (8, 8), (level, level, level)).save(data, "PNG")
    text = base64.b64encode(data.getvalue()).decode()
    assert len(text) > POINTER
    return text


def pictures(tmp_path, **images):
    path = tmp_path / "t.tsv"
    path.write_text("index\timage\n" + "".join(f"{index[1:]}\t{image}\n" for index, image in images.items()))
    return TablePictures(path, AdapterContext(tmp_path, source=tmp_path), "a table")


def test_a_picture_is_known_by_its_bytes_and_given_once(tmp_path):
    table = pictures(tmp_path)
    first, image = table.read("1", cell(1), "t:2")
    assert image.image_id == first and base64.b64decode(cell(1)) == image.data
    table.give(image, "t:2")
    assert table.read("2", cell(1), "t:3") == (first, None) and table.read("3", cell(2), "t:4")[0] != first


def test_a_row_may_point_to_one_before_or_after_it(tmp_path):
    table = pictures(tmp_path, i1=cell(1), i2="1", i3="4", i4=cell(4))
    assert table.pointed_at == {"1", "4"}
    first, image = table.read("1", cell(1), "t:2")
    table.give(image, "t:2")
    assert table.read("2", "1", "t:3") == (first, None)
    later, image = table.read("3", "4", "t:4")
    assert base64.b64decode(cell(4)) == image.data and later == table.read("4", cell(4), "t:5")[0]


@pytest.mark.parametrize(
    "value, message",
    [
        ("9", "points to row '9', which has no image"),
        ("!" * (POINTER + 1), "image: expected base64"),
        (f'["{"a" * POINTER}"]', "a list of images; this card takes one"),
    ],
)
def test_cells_that_are_no_picture(tmp_path, value, message):
    with pytest.raises(AdapterError, match=f"t:2: image: points to row|t:2: {message}") as error:
        pictures(tmp_path, i1=cell(1)).read("1", value, "t:2")
    assert message in str(error.value)


def test_bytes_that_are_no_picture_are_refused_when_they_are_given(tmp_path):
    table = pictures(tmp_path)
    _, image = table.read("1", base64.b64encode(b"no picture" * 9).decode(), "t:2")
    with pytest.raises(AdapterError, match="t:2: image"):
        table.give(image, "t:2")
    assert table.read("2", base64.b64encode(b"no picture" * 9).decode(), "t:3")[1] is not None, "it counts as never sent"
