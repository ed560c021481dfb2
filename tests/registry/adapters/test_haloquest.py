import csv

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.haloquest import COLUMNS, haloquest
from qualm.registry.sample import Image, Sample

ROWS = [
    [
        "0",
        "cat.png",
        "https://x/cat.png",
        "generated",
        "false premises",
        "What does the collar say?",
        "There is no collar; It has none",
        "eval",
    ],
    ["1", "cat.png", "https://x/cat.png", "generated", "visual challenge", "How many ears?", "two; two; Two ears ", "eval"],
    ["2", "dog.jpg", "https://x/dog.jpg", "real", "insufficient context", "What is its name?", "we do not know", "eval"],
]


def folder(root, *rows, part="eval", header=COLUMNS):
    (root / "images").mkdir(parents=True, exist_ok=True)
    for name in ("cat.png", "dog.jpg", "a b.png"):
        (root / "images" / name).write_bytes(name.encode())
    with (root / f"haloquest-{part}.csv").open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([header, *(rows or ROWS)])
    return root


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root), {}


def read(root, **arguments):
    return list(haloquest(AdapterContext(root, source=root), **arguments))


def test_questions_and_their_pictures(tmp_path):
    made = read(folder(tmp_path))
    assert [item.image_id for item in made if isinstance(item, Image)] == ["cat.png", "dog.jpg"]
    premise, challenge, context = (item for item in made if isinstance(item, Sample))
    assert (premise.sample_id, premise.category, premise.answerable, premise.references) == ("eval-0", "false premise", False, ())
    assert premise.meta == {"image_type": "generated", "responses": "There is no collar; It has none", "url": "https://x/cat.png"}
    assert (challenge.answerable, challenge.references, challenge.group) == (True, ("two", "Two ears"), premise.group)
    assert (context.category, context.answerable, context.split) == ("insufficient context", False, "eval")


def test_a_picture_without_a_name_goes_by_its_address(tmp_path):
    row = ["7", "", "https://x/y/a%20b.png?z=1", "real", "visual challenge", "?", "x", "train"]
    picture, sample = read(folder(tmp_path, row, part="train"), parts=["train"])
    assert picture.image_id == sample.image_id == "a b.png" and sample.sample_id == "train-7"


def test_questions_alone(tmp_path):
    (tmp_path / "in").mkdir()
    source = folder(tmp_path / "in")
    (source / "images/cat.png").unlink()
    assert [item.image_id for item in read(source, pictures=False)] == [None] * 3
    with pytest.raises(AdapterError, match=r"expected its image at images/cat\.png"):
        read(source)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (4, "other", "hallucination type: expected one of false premises, insufficient context, visual challenge, got 'other'"),
        (0, "x", "expected a number, an image, a question and responses"),
        (6, " ; ", "expected a number, an image, a question and responses"),
        (5, " ", "expected a number, an image, a question and responses"),
        (slice(1, 3), ["", "https://x/"], "expected a number, an image, a question and responses"),
    ],
)
def test_rows_of_another_kind(tmp_path, place, value, message):
    row = [*ROWS[0]]
    row[place] = value
    with pytest.raises(AdapterError, match=message):
        read(folder(tmp_path, row))


def test_another_table(tmp_path):
    with pytest.raises(AdapterError, match=r"question"):
        read(folder(tmp_path, header=[*COLUMNS[:5], "asked", *COLUMNS[6:]]))
