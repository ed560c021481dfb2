import json

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.vqav2 import vqav2
from qualm.registry.sample import Image, Sample

WORDS = ["down"] * 6 + ["at table", "skateboard", "down", "table"]


def question(number, image=42, text="Where is he looking?"):
    return {"image_id": image, "question": text, "question_id": number}


def annotation(number, image=42, **changes):
    answers = [{"answer": word, "answer_confidence": "yes", "answer_id": i} for i, word in enumerate(WORDS, 1)]
    same = {"question_type": "none of the above", "multiple_choice_answer": "down", "answers": answers}
    return {**same, "image_id": image, "answer_type": "other", "question_id": number, **changes}


def folder(root, questions, annotations=None, part="val2014", images=None):
    head = {"info": {"version": "2.0"}, "data_type": "mscoco", "license": {"name": "x"}}
    official = root / f"v2_OpenEnded_mscoco_{part}_questions.json"
    official.write_text(json.dumps(head | {"task_type": "Open-Ended", "questions": questions}))
    if annotations is not None:
        (root / f"v2_mscoco_{part}_annotations.json").write_text(json.dumps(head | {"annotations": annotations}))
    pictures = root / (images or part)
    pictures.mkdir(exist_ok=True)
    for one in questions:
        (pictures / f"COCO_{images or part}_{one['image_id']:012d}.jpg").write_bytes(str(one["image_id"]).encode())
    return root


def read(source, **arguments):
    more = {k: arguments.pop(k) for k in ("selects", "bad") if k in arguments}
    return list(vqav2(AdapterContext(source, source=source, **more), **arguments))


def test_questions_joined_with_what_ten_people_said(tmp_path):
    asked = [question(42000), question(42001, text="Is it?"), question(7000, 7)]
    said = [annotation(42000), annotation(42001, answer_type="yes/no", question_type="is it"), annotation(7000, 7)]
    image, first, second, other, third = read(folder(tmp_path, asked, said))
    assert image == Image("COCO_val2014_000000000042", b"42", "val2014/COCO_val2014_000000000042.jpg")
    assert first == Sample(
        "42000",
        "Where is he looking?",
        "COCO_val2014_000000000042",
        references=tuple(WORDS),
        category="other",
        split="val",
        source="vqav2",
        group="COCO_val2014_000000000042",
        meta={"answer_type": "other", "question_type": "none of the above"},
    )
    assert (second.category, second.meta["question_type"]) == ("yes-no", "is it")
    assert other.image_id == third.image_id == "COCO_val2014_000000000007"


def test_annotations_in_another_order(tmp_path):
    asked = [question(42000 + i, text=f"{i}?") for i in range(20)]
    said = [annotation(q["question_id"], multiple_choice_answer=q["question"]) for q in asked]
    made = [s for s in read(folder(tmp_path, asked, said[::-1])) if isinstance(s, Sample)]
    assert [s.sample_id for s in made] == [str(q["question_id"]) for q in asked]


def test_parts_and_what_they_are_called(tmp_path):
    folder(tmp_path, [question(1000, 1)], [annotation(1000, 1)], "train2014")
    folder(tmp_path, [question(2000, 2)], [annotation(2000, 2)])
    folder(tmp_path, [question(3000, 3)], None, "test-dev2015", "test2015")
    made = [s for s in read(tmp_path, parts=["train", "val", "test-dev"], val_is="test") if isinstance(s, Sample)]
    assert [(s.sample_id, s.split, len(s.references), s.category) for s in made] == [
        ("1000", "train", 10, "other"),
        ("2000", "test", 10, "other"),
        ("3000", "test-dev", 0, ""),
    ]


def test_complementary_pairs(tmp_path):
    source = folder(tmp_path, [question(1), question(2, 7), question(3)], [annotation(1), annotation(2, 7), annotation(3)])
    with pytest.raises(AdapterError, match=r"complementary_pairs\.json: expected VQA v2's complementary pairs \(or say"):
        read(source, complementary=True)
    (source / "v2_mscoco_val2014_complementary_pairs.json").write_text("[[1, 2]]")
    made = [s for s in read(source, complementary=True) if isinstance(s, Sample)]
    assert [s.meta.get("complement") for s in made] == ["2", "1", None]
    for odd in ("[1, 2, 3]", '[1, "2"]', '["1", 2]', "[1]", "12", "[1, true]"):
        (source / "v2_mscoco_val2014_complementary_pairs.json").write_text(f"[{odd}]")
        with pytest.raises(AdapterError, match="expected a pair of question ids"):
            read(source, complementary=True)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ([], "annotations of VQA v2, got an empty"),
        ([annotation(9)], r"question_id 1: has no annotation in .*v2_mscoco_val2014_annotations\.json"),
        ([annotation(1, 7)], "question_id 1: image_id 42 here, 7 in"),
        ([annotation(1), annotation(5)], "1 annotations of questions that .* does not have: 5"),
        ([annotation(1, answer_type="maybe")], "answer_type of its annotation: expected one of yes/no, number, other, got 'maybe'"),
        ([annotation(1, answers=[])], "answers: expected a list of 10, got 0 of them"),
        ([annotation(1, answers=[{"text": "x"}] * 10)], r"answers\[0\]: missing answer; it has: text"),
        ([annotation(1, surprise=1)], "unknown keys surprise"),
        ([annotation("1")], "question_id: expected a whole number, got '1'"),
    ],
)
def test_what_is_not_as_in_the_release_is_named(tmp_path, said, says):
    with pytest.raises(AdapterError, match=says):
        read(folder(tmp_path, [question(1)], said))


def test_bad_records_can_be_left_out(tmp_path):
    bad = []
    source = folder(tmp_path, [question(1), question(2), question(3)], [annotation(1), annotation(2, answers="x"), annotation(3)])
    made = [s.sample_id for s in read(source, bad=lambda error: bad.append(str(error))) if isinstance(s, Sample)]
    assert made == ["1", "3"]
    assert len(bad) == 2 and "answers: expected a list of 10" in bad[0] and "question_id 2: has no annotation" in bad[1]


def test_questions_that_llava_was_tuned_on_are_left_out(tmp_path):
    source = folder(tmp_path, [question(1), question(2, text="Is it?"), question(3, 7)], [annotation(1), annotation(2), annotation(3, 7)])
    entry = tmp_path / "llava"
    entry.mkdir()

    def talk(image, *asked):
        turns = [{"from": who, "value": text} for q in asked for who, text in (("human", q), ("gpt", "x"))]
        return {"id": "1", "image": image, "conversations": turns}

    told = [
        talk(
            "coco/train2017/000000000042.jpg", "<image>\nwhere is he looking?\nAnswer the question using a single word or phrase.", "What?"
        ),
        talk("gqa/images/7.jpg", "<image>\nWhere is he looking?"),
        {"id": "2", "conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi"}]},
    ]
    (entry / "llava_v1_5_mix665k.json").write_text(json.dumps(told))
    assert [s.sample_id for s in read(source, without_llava=str(entry)) if isinstance(s, Sample)] == ["2", "3"]
    with pytest.raises(AdapterError, match="expected LLaVA's conversations, found none"):
        read(source, without_llava=str(tmp_path))


def laid_out(root):
    """Official files and arguments, for what is tested of every adapter."""
    return folder(root, [question(42000)], [annotation(42000)]), {}
