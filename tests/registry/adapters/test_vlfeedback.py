import io
import json

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.vlfeedback import vlfeedback
from qualm.registry.sample import Image, Sample


def completion(text, *ratings):
    aspects = ("Helpfulness", "Visual Faithfulness", "Ethical Considerations")
    notes = {aspect: {"Rating": rating, "Rationale": "because"} for aspect, rating in zip(aspects, ratings, strict=True)}
    return {"model": "m", "response": text, "annotations": notes}


GOOD, FAIR, POOR, ODD = (
    completion("Two dogs.", "5", "5", "5"),
    completion("Some dogs.", "4", "4", "4"),
    completion("A cat.", "2", "1", "5"),
    completion("Sorry?", "N/A", "5", "5"),
)


def record(*completions, **changes):
    return {"id": "svit-1", "prompt": "What is it?\n", "img_path": "1.jpg", "completions": list(completions), **changes}


def folder(root, records):
    (root / "images").mkdir(exist_ok=True)
    (root / "images/1.jpg").write_bytes(b"jpg")
    (root / "vlfeedback_80k.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    return root


def read(source, **arguments):
    return list(vlfeedback(AdapterContext(source, source=source), **arguments))


def chosen(made):
    return [(s.references[0], s.meta["rejected"]) for s in made if isinstance(s, Sample)]


def test_every_two_answers_that_are_rated_differently(tmp_path):
    made = read(folder(tmp_path, [record(POOR, GOOD, FAIR, ODD)]))
    assert isinstance(made[0], Image) and made[0].path == "images/1.jpg"
    assert chosen(made) == [("Two dogs.", "A cat."), ("Some dogs.", "A cat."), ("Two dogs.", "Some dogs.")]
    first = made[1]
    assert first == Sample(
        first.sample_id, "What is it?", made[0].image_id, ("Two dogs.",), split="train", source="vlfeedback", group=made[0].image_id,
        meta={"rejected": "A cat.", "rating": "5", "rejected_rating": "2.667"},
    )  # fmt: skip
    assert first.sample_id.endswith("/1-0") and made[0].image_id.startswith("svit-1-")


def test_extremes_margins_and_aspects(tmp_path):
    source = folder(tmp_path, [record(FAIR, POOR, GOOD, ODD)])
    assert chosen(read(source, pairs="extremes")) == [("Two dogs.", "A cat.")]
    assert chosen(read(source, margin=1.5)) == [("Two dogs.", "A cat.")]
    assert len(chosen(read(source, aspects=["Visual Faithfulness"]))) == 5  # the unrated one counts now, and GOOD is no better than it
    assert chosen(read(source, aspects=["Ethical Considerations"])) == [
        ("A cat.", "Some dogs."),
        ("Two dogs.", "Some dogs."),
        ("Sorry?", "Some dogs."),
    ]


def test_a_margin_is_more_than_so_much_and_ties_go_by_order(tmp_path):
    source = folder(tmp_path, [record(FAIR, GOOD)])
    assert chosen(read(source, margin=0.99)) == [("Two dogs.", "Some dogs.")] and chosen(read(source, margin=1.0)) == []
    again, silent = completion("Three dogs.", "5", "5", "5"), completion(" ", "1", "1", "1")
    source = folder(tmp_path, [record(GOOD, FAIR, again, silent)])
    assert chosen(read(source)) == [("Two dogs.", "Some dogs."), ("Three dogs.", "Some dogs.")]
    assert chosen(read(source, pairs="extremes")) == [("Two dogs.", "Some dogs.")]
    assert chosen(read(folder(tmp_path, [record(ODD, silent)]), pairs="extremes")) == []
    for rating in ("n/a", "None", "", " 3 "):
        rated = chosen(read(folder(tmp_path, [record(GOOD, completion("Hm.", rating, "1", "1"))])))
        assert rated == ([("Two dogs.", "Hm.")] if rating == " 3 " else [])


def test_equal_answers_and_equal_ratings_are_no_preference(tmp_path):
    assert (
        read(folder(tmp_path, [record(GOOD, completion("A dog.", "5", "5", "5")), record(GOOD, completion("Two dogs.", "1", "1", "1"))]))
        == []
    )


def test_ids_that_come_again(tmp_path):
    made = [
        s
        for s in read(folder(tmp_path, [record(GOOD, POOR), record(GOOD, POOR), record(GOOD, POOR, prompt="Why?")]))
        if isinstance(s, Sample)
    ]
    assert len({s.sample_id for s in made}) == 3 and len({s.image_id for s in made}) == 1


def test_as_parquet_with_pictures_inside(tmp_path):
    data = io.BytesIO()
    PIL.Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(data, "PNG")
    rated = [GOOD, POOR]
    columns = {key: [one[key] for one in rated] for key in ("model", "response", "annotations")}
    row = {"id": "a", "prompt": "What?", "models": ["m"], "completions": columns, "image": {"bytes": data.getvalue(), "path": None}}
    (tmp_path / "data").mkdir()
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "data/train-00000-of-00001.parquet")
    image, sample = read(tmp_path)
    assert image.data == data.getvalue() and chosen([sample]) == [("Two dogs.", "A cat.")]
    row["image"]["bytes"] = b"<html>"
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "data/train-00000-of-00001.parquet")
    with pytest.raises(AdapterError, match=r"train-00000-of-00001\.parquet: row 0: expected an image, got a web page"):
        read(tmp_path)
    (tmp_path / "data/train-00000-of-00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(AdapterError, match="row 0: truncated or corrupt Parquet"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            record(GOOD, completion("x", "6", "5", "5")),
            r"completions\[1\]: annotations.Helpfulness: Rating: expected 1 to 5 or N/A, got '6'",
        ),
        (record({"response": "x"}), r"completions\[0\]: missing annotations"),
        (record(GOOD, surprise=1), "record 0: unknown keys surprise"),
        (record(GOOD, img_path="9.jpg"), r"expected its image at images/9\.jpg or 9\.jpg"),
        (record() | {"completions": {"response": ["a"], "annotations": []}}, "expected lists of one length"),
        (record() | {"completions": "x"}, "completions: expected a list"),
        (record() | {"completions": {"response": "a", "annotations": "b"}}, "expected lists of one length"),
        (record(GOOD, completion("x", "0", "5", "5")), "Rating: expected 1 to 5 or N/A, got '0'"),
    ],
)
def test_what_is_not_as_described(tmp_path, changed, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, [changed]))


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, [record(GOOD, POOR)]), {}
