import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.certainly_uncertain_release import FILES, certainly_uncertain_release
from qualm.registry.sample import Image, Sample

TEST = {"id": 7, "image": "a.png", "question": "What is its name?", "category": "Knowledge awareness", "answerable": False}
TRAIN = {
    "id": "t1", "image": "a.png", "answerable": "yes", "type": "temporal",
    "conversations": [{"from": "human", "value": "<image>\nWhat is it?"}, {"from": "gpt", "value": "a dog"}],
}  # fmt: skip


def folder(root, test=(TEST,), train=(TRAIN,)):
    (root / "images").mkdir(parents=True, exist_ok=True)
    (root / "images/a.png").write_bytes(b"a picture")
    (root / FILES["test"]).write_text("".join(json.dumps(one) + "\n" for one in test))
    (root / FILES["train"]).write_text(json.dumps(list(train)))
    return root


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root), {}


def read(root, **arguments):
    return [item for item in certainly_uncertain_release(AdapterContext(root, source=root), **arguments) if isinstance(item, Sample)]


def test_both_files(tmp_path):
    train, test = read(folder(tmp_path))
    assert (train.sample_id, train.question, train.references, train.split) == ("train-t1", "What is it?", ("a dog",), "train")
    assert (train.category, train.answerable, train.meta) == ("aleatoric/temporal", True, {"category": "temporal"})
    assert (test.sample_id, test.references, test.answerable, test.category) == ("test-7", (), False, "epistemic/knowledge")
    first = next(iter(certainly_uncertain_release(AdapterContext(tmp_path, source=tmp_path))))
    assert isinstance(first, Image) and first.data == b"a picture"


def test_fields_to_keep_and_categories_of_other_names(tmp_path):
    (sample,) = read(folder(tmp_path, [{**TEST, "category": "other", "level": 3}]), parts=["test"], meta=["level", "absent"])
    assert (sample.category, sample.meta) == ("", {"category": "other", "level": "3"})


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"prompt": "x", "img": "a.png"}, r"expected a question .* fields that are there: img, prompt\. This release was not seen"),
        ({"question": "x?"}, "and an image .* fields that are there: question"),
        ({"question": "x?", "image": "a.png"}, "expected an answer, or a field `answerable` .*fields that are there: image, question"),
        (
            {"question": "x?", "image": "a.png", "answer": "b"},
            "expected a field `answerable`; .*`answerable_by: {lave: .*there: answer, image",
        ),
        ({**TEST, "answerable": "perhaps"}, "answerable: expected true or false, got 'perhaps'"),
        ({**TEST, "question": ["x"]}, "question: expected a text or number"),
        ({**TEST, "image": "b.png"}, "expected its image at"),
        (["x"], "expected an object"),
    ],
)
def test_another_layout_is_refused_with_its_fields(tmp_path, record, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, [record]), parts=["test"])


def test_questions_without_an_answer_can_be_asked_and_are_not_scored(tmp_path):
    bare = {"question": "x?", "image": "a.png"}
    (sample,) = read(folder(tmp_path, [bare]), parts=["test"], unlabelled=True)
    assert (sample.sample_id, sample.answerable, sample.references) == ("test-0", True, ())
    with pytest.raises(AdapterError, match="say who decides from the answers"):
        read(folder(tmp_path, [{**bare, "answer": "I don't know."}]), parts=["test"], unlabelled=True)


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("Knowledge", "epistemic/knowledge"), ("Complex", "epistemic/complexity"), ("Extraneous", "epistemic/extraneous"),
        ("Temporal", "aleatoric/temporal"), ("Ambiguous", "aleatoric/ambiguity"), ("ambiguity awareness", "aleatoric/ambiguity"),
    ],
)  # fmt: skip
def test_the_papers_words_for_categories(tmp_path, word, path):
    (sample,) = read(folder(tmp_path, [{**TEST, "category": word}]), parts=["test"])
    assert (sample.category, sample.meta["category"]) == (path, word)


def asked(question, image, category="Knowledge", answerable=None, **more):
    return {"question": question, "image": image, "category": category, "answer": "x", **more} | (
        {} if answerable is None else {"answerable": answerable}
    )


def pairs(root, records, judged=False):
    for record in records:
        (root / "images").mkdir(exist_ok=True)
        (root / "images" / record["image"]).write_bytes(b"a picture")
    notes = []
    context = AdapterContext(folder(root, records), source=root, note=notes.append, judged=judged)
    samples = [s for s in certainly_uncertain_release(context, parts=["test"]) if isinstance(s, Sample)]
    groups = {s.pair_id: [t.question for t in samples if t.pair_id == s.pair_id] for s in samples if s.pair_id}
    return list(groups.values()), notes, samples


def test_pairs_are_by_image_and_category(tmp_path):
    records = [
        asked("Whose?", "a.png", answerable=False), asked("Why?", "a.png", "Complex", False), asked("Where?", "a.png", answerable=True),
        asked("How?", "b.png", answerable=True), asked("When?", "b.png", "Complex", True),
    ]  # fmt: skip
    made, notes, samples = pairs(tmp_path, records)
    assert made == [["Whose?", "Where?"]]
    assert notes == ["3 of 5 questions of split test are of no contrastive pair"]
    assert {s.group for s in samples[:3]} == {"a"}


def test_extraneous_pairs_are_one_question_about_a_photograph_and_its_copy(tmp_path):
    records = [
        asked("What color is the car?", "COCO_val2014_000000000123.png", "Extraneous", True),
        asked("What color is the car?", "COCO_val2014_000000000456.png", "Extraneous", True),
        asked("What color is the car?", "000000000123_1.png", "Extraneous", False),
        asked("What is on the wall?", "000000000123_2.png", "Extraneous", False),
    ]
    made, _, samples = pairs(tmp_path, records)
    assert made == [["What color is the car?"] * 2]
    assert [bool(s.pair_id) for s in samples] == [True, False, True, False]
    assert [s.group for s in samples] == ["000000000123", "000000000456", "000000000123", "000000000123"]


def test_what_is_no_contrast_is_no_pair(tmp_path):
    both = [asked("Whose?", "a.png", answerable=True), asked("Why?", "a.png", answerable=True)]
    assert pairs(tmp_path, both)[0] == []
    three = [asked(f"Whose {n}?", "a.png", answerable=n == "x") for n in "xyz"]
    assert pairs(tmp_path, three)[0] == []
    assert pairs(tmp_path, [asked("Whose?", "a.png"), asked("Why?", "a.png")], judged=True)[0] == [["Whose?", "Why?"]]
    given = [asked(f"Whose {n}?", "a.png", answerable=n == "x", pair_id=n < "z") for n in "xyz"]
    assert pairs(tmp_path, [{**g, "pair_id": str(g["pair_id"])} for g in given])[0] == [["Whose x?", "Whose y?"]]


def test_parts_that_there_are_not(tmp_path):
    with pytest.raises(AdapterError, match="expected parts among train, test, got 'val'"):
        read(folder(tmp_path), parts=["val"])
