import json
import re

import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._vqa import CATEGORIES, Annotation, read_questions


def question(number, image=1, text="What?"):
    return {"question_id": number, "image_id": image, "question": text}


def annotation(number, image=1, answers=("red",), **more):
    told = [{"answer": a, "answer_id": i} for i, a in enumerate(answers)]
    return {"question_id": number, "image_id": image, "question_type": "what", "answers": told, **more}


def read(tmp_path, questions, annotations, **options):
    bad = []
    for name, records in (("questions", questions), ("annotations", annotations)):
        (tmp_path / f"{name}.json").write_text(json.dumps({name: records}))
    context = AdapterContext(tmp_path, source=tmp_path, bad=bad.append)
    paths = (tmp_path / "questions.json", None if annotations is None else tmp_path / "annotations.json")
    return list(read_questions(context, *paths, "VQA", **options)), [str(error) for error in bad]


def test_questions_come_in_official_order_whatever_that_of_the_annotations(tmp_path):
    questions = [question(n, n) for n in (3, 1, 2)]
    found, bad = read(tmp_path, questions, [annotation(n, n, [f"a{n}"], answer_type="other") for n in (1, 2, 3)])
    assert bad == [] and [asked.question_id for asked in found] == [3, 1, 2]
    assert found[0].annotation == Annotation(3, "what", "other", ("a3",)) and found[1].annotation.answers == ("a1",)


def test_a_part_without_public_answers(tmp_path):
    found, bad = read(tmp_path, [question(1)], None)
    assert bad == [] and found[0].annotation is None and found[0].question == "What?"


@pytest.mark.parametrize(
    "annotations, message",
    [
        ([annotation(2)], "question_id 1: has no annotation in"),
        ([annotation(1, image=9)], "question_id 1: image_id 1 here, 9 in"),
        ([annotation(1), annotation(2), annotation(3)], "2 annotations of questions that .* does not have: 2..."),
        ([annotation(1, answers=())], "answers: expected a list of at least one, got 0 of them"),
        ([annotation(1) | {"answers": "red"}], "answers: expected a list of at least one, got 'red'"),
        ([annotation(1, answers=(7,))], r"answers\[0\]: answer: expected text, got 7"),
    ],
)
def test_what_does_not_fit_together_is_told(tmp_path, annotations, message):
    _, bad = read(tmp_path, [question(1)], annotations)
    assert any(re.search(message, text) for text in bad), bad


def test_every_question_must_have_as_many_answers_as_people(tmp_path):
    _, bad = read(tmp_path, [question(1)], [annotation(1, answers=("a", "b"))], people=3)
    assert "answers: expected a list of 3, got 2 of them" in bad[0]
    assert read(tmp_path, [question(1)], [annotation(1, answers=("a", "b", "c"))], people=3)[1] == []


def test_categories_hold_no_slash():
    assert not any("/" in category for category in CATEGORIES.values())


def test_a_file_without_its_list(tmp_path):
    (tmp_path / "questions.json").write_text("{}")
    with pytest.raises(AdapterError):
        list(read_questions(AdapterContext(tmp_path, source=tmp_path), tmp_path / "questions.json", None, "VQA"))
