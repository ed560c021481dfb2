import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.vizwiz import vizwiz
from qualm.registry.sample import Image, Sample

WORDS = ["red"] * 7 + ["unanswerable", "Unsuitable image", "maroon"]


def record(number=0, split="val", **changes):
    answers = [{"answer": word, "answer_confidence": "yes"} for word in WORDS]
    made = {"image": f"VizWiz_{split}_{number:08d}.jpg", "question": "What color is this?", "answers": answers}
    made |= {"answer_type": "other", "answerable": 1}
    return {**(made if split != "test" else {k: made[k] for k in ("image", "question")}), **changes}


def folder(root, records, split="val"):
    (root / "Annotations").mkdir(parents=True, exist_ok=True)
    (root / split).mkdir(exist_ok=True)
    (root / "Annotations" / f"{split}.json").write_text(json.dumps(records))
    for one in records:
        if isinstance(one, dict) and "/" not in one.get("image", "/"):
            (root / split / one["image"]).write_bytes(one["image"].encode())
    return root


def read(source, **arguments):
    selects = arguments.pop("selects", lambda sample: True)
    return list(vizwiz(AdapterContext(source, source=source, selects=selects), **arguments))


def test_a_question_with_its_ten_answers(tmp_path):
    unanswerable = record(1, answerable=0, answer_type="unanswerable")
    image, first, _, second = read(folder(tmp_path, [record(), unanswerable]))
    assert image == Image("VizWiz_val_00000000", b"VizWiz_val_00000000.jpg", "val/VizWiz_val_00000000.jpg")
    assert first == Sample(
        "VizWiz_val_00000000",
        "What color is this?",
        "VizWiz_val_00000000",
        references=tuple(WORDS),
        category="other",
        split="val",
        source="vizwiz",
        group="VizWiz_val_00000000",
        meta={"answer_type": "other", "said_unanswerable": "2"},
    )
    assert (second.answerable, second.category, second.references) == (False, "unanswerable", tuple(WORDS))


def test_a_type_with_a_slash_is_one_category(tmp_path):
    (_, sample) = read(folder(tmp_path, [record(answer_type="yes/no")]))
    assert sample.category == "yes-no" and sample.meta["answer_type"] == "yes/no"


def test_the_test_split_says_nothing_of_answers(tmp_path):
    (_, sample) = read(folder(tmp_path, [record(split="test")], "test"), split="test")
    assert (sample.references, sample.category, dict(sample.meta)) == ((), "", {})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"surprise": 1}, r"val.json: line 1, record 0: unknown keys surprise; expected image, question, answers, answer_type, answerable"),
        ({"answer_type": "maybe"}, "answer_type: expected one of yes/no, number, other, unanswerable, got 'maybe'"),
        ({"answerable": 2}, "answerable: expected 0 or 1, got 2"),
        ({"answers": []}, "answers: expected a list of 10, got 0 of them"),
        ({"answers": "red"}, "answers: expected a list of 10, got 'red'"),
        ({"answers": [{"answer": "x"}] * 10}, r"answers\[0\]: missing answer_confidence; it has: answer"),
        ({"answers": [{"answer": "x", "answer_confidence": "sure"}] * 10}, "expected a text and a confidence"),
        (
            {"answers": [*record()["answers"][:9], {"answer": 3, "answer_confidence": "no"}]},
            r"answers\[9\]: expected a text and a confidence",
        ),
        ({"answers": "redredredr"}, "answers: expected a list of 10, got 'redredredr'"),
        ({"question": None}, "question: expected text, got None"),
        ({"image": "../../x.jpg"}, "expected its image at val/../../x.jpg"),
    ],
)
def test_what_is_unknown_is_reported_and_never_guessed(tmp_path, changes, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, [record(**changes)]))


def test_missing_keys_and_files(tmp_path):
    bare = record()
    del bare["answers"]
    with pytest.raises(AdapterError, match="record 0: missing answers; it has: image, question, answer_type, answerable"):
        read(folder(tmp_path, [bare]))
    for text, says in (
        ("{}", "record 0: missing image, question"),
        ("[]", "got an empty list"),
        ("[1", "a whole JSON list"),
        ("[3]", "record of keys"),
    ):
        (tmp_path / "Annotations/val.json").write_text(text)
        with pytest.raises(AdapterError, match=says):
            read(tmp_path)


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, [record()]), {}
