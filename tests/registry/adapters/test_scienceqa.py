import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.scienceqa import scienceqa
from qualm.registry.sample import Image, Sample


def problem(split, image="image.png", hint="", **more):
    return {
        "question": "Which of these states is farthest north?",
        "choices": ["West Virginia", "Louisiana", "Arizona", "Oklahoma", "Maine"],
        "answer": 4,
        "hint": hint,
        "image": image,
        "task": "closed choice",
        "grade": "grade2",
        "subject": "social science",
        "topic": "geography",
        "category": "Geography",
        "skill": "Read a map: cardinal directions",
        "lecture": "Maps have four cardinal directions.",
        "solution": "Look at the compass rose.",
        "split": split,
        **more,
    }


PROBLEMS = {
    "1": problem("train"),
    "12": problem("test", hint="Use the map.", grade="grade7"),
    "3": problem("test", None, subject="language science", task="yes or no", choices=["yes", "no"], answer=0),
    "5": problem("val", None, "A passage."),
}
SPLITS = {"train": ["1"], "val": ["5"], "test": ["12", "3"], "minitest": ["3"]}


def layout(folder, problems=PROBLEMS, splits=SPLITS, inside="."):
    place = folder / inside
    place.mkdir(parents=True, exist_ok=True)
    (place / "problems.json").write_text(json.dumps(problems))
    (place / "pid_splits.json").write_text(json.dumps(splits))
    for number, record in problems.items():
        if isinstance(record.get("image"), str):
            picture = folder / "images" / record["split"] / number / record["image"]
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.write_bytes(number.encode())
    return folder


def read(source, selects=lambda sample: True, **arguments):
    return list(scienceqa(AdapterContext(source, source=source, selects=selects), **arguments))


def ids(made):
    return [x.sample_id for x in made if isinstance(x, Sample)]


@pytest.mark.parametrize("inside", [".", "data/scienceqa"])
def test_questions_with_and_without_a_picture(tmp_path, inside):
    image, first, second = read(layout(tmp_path, inside=inside))
    assert image == Image("test/12", b"12", "images/test/12/image.png")
    assert first.question == "Use the map.\nWhich of these states is farthest north?" and first.image_id == "test/12"
    assert first.choices[first.answer_index] == "Maine" and second.answer_index == 0
    assert (first.category, second.category) == ("social-science", "language-science")
    assert first.meta == {
        "subject": "social science",
        "topic": "geography",
        "skill": "Read a map: cardinal directions",
        "task": "closed choice",
        "grade": "7",
        "grades": "7-12",
        "has_text": "yes",
        "has_image": "yes",
        "no_context": "no",
        "hint": "Use the map.",
    }
    kept = ("grades", "has_text", "has_image", "no_context")
    assert [second.meta[k] for k in kept] == ["1-6", "no", "no", "yes"] and second.image_id is None


def test_splits_and_kinds(tmp_path):
    source = layout(tmp_path)
    assert ids(read(source, split="val_test")) == ["5", "12", "3"]
    assert [s.split for s in read(source, split="val_test") if isinstance(s, Sample)] == ["val", "test", "test"]
    assert ids(read(source, split="minitest")) == ["3"]
    assert ids(read(source, pictures="with")) == ["12"] and ids(read(source, pictures="without")) == ["3"]
    assert ids(read(source, split="val_test", task="closed choice")) == ["5", "12"]
    assert read(source, selects=lambda s: s.meta["has_image"] == "no")[0].sample_id == "3"


@pytest.mark.parametrize(("grade", "grades"), [("grade6", "1-6"), ("grade7", "7-12"), ("grade1", "1-6"), ("grade12", "7-12")])
@pytest.mark.parametrize(("hint", "image"), [("", None), ("Look.", None), ("", "image.png")])
def test_what_the_official_score_is_broken_down_by(tmp_path, grade, grades, hint, image):
    source = layout(tmp_path)
    (source / "problems.json").write_text(json.dumps(PROBLEMS | {"12": PROBLEMS["12"] | {"grade": grade, "hint": hint, "image": image}}))
    sample = next(x for x in read(source) if isinstance(x, Sample) and x.sample_id == "12")
    said = [sample.meta[key] for key in ("grades", "has_text", "has_image", "no_context")]
    assert said == [grades, *("yes" if one else "no" for one in (hint, image, not hint and not image))]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"answer": 5}, r"problems\.json: line 1, record 1: answer: expected 0 to 4, got 5"),
        ({"answer": True}, "answer: expected 0 to 4, got True"),
        ({"answer": -1}, "answer: expected 0 to 4, got -1"),
        ({"choices": "Maine"}, "choices: expected a list of at least two texts, got 'Maine'"),
        ({"choices": ["Maine", 2, "c", "d", "e"]}, "choices: expected a list of at least two texts"),
        ({"image": 7}, "image as a name or null, got 'Use the map.' and 7"),
        ({"grade": 7}, "grade: expected grade1 to grade12, got 7"),
        ({"grade": "grade13"}, "grade: expected grade1 to grade12, got 'grade13'"),
        ({"subject": "art"}, "subject: expected one of natural science, social science, language science, got 'art'"),
        ({"grade": "K"}, "grade: expected grade1 to grade12, got 'K'"),
        ({"choices": ["one"]}, "choices: expected a list of at least two texts"),
        ({"hint": None}, "expected hint as text"),
        ({"image": "gone/../../12"}, "expected its image at images/test/12/gone"),
        ({"surprise": 1}, "unknown keys surprise"),
    ],
)
def test_damaged(tmp_path, change, says):
    source = layout(tmp_path)
    (source / "problems.json").write_text(json.dumps(PROBLEMS | {"12": PROBLEMS["12"] | change}))
    with pytest.raises(AdapterError, match=says):
        read(source)


def test_splits_that_do_not_fit(tmp_path):
    with pytest.raises(AdapterError, match="missing minival"):
        read(layout(tmp_path), split="minival")
    with pytest.raises(AdapterError, match=r"pid_splits\.json: test: problem 9 is not in problems\.json"):
        read(layout(tmp_path, splits={"test": ["9"]}))
    for odd in ([["9"]], {"9": 1}):
        with pytest.raises(AdapterError, match="test: expected a list of ids"):
            read(layout(tmp_path, splits={"test": odd}))
    with pytest.raises(AdapterError, match="test: expected a list of ids"):
        read(layout(tmp_path, splits={"test": "9"}))
    (tmp_path / "pid_splits.json").unlink()
    with pytest.raises(AdapterError, match="expected which problem is of which split"):
        read(tmp_path)


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return layout(root), {}
