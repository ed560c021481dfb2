"""On records written by hand in the official layout."""

import json

import numpy as np
import pytest

from qualm.runners.contracts.masks import MaskRequest
from qualm.runners.contracts.pairs import PairError
from qualm.runners.plugins.masks.boxes import boxes
from qualm.runners.plugins.saliency.gqa import gqa
from tests.support.data.targets import context, noise

OBJECTS = {
    "1": {"name": "man", "x": 5, "y": 5, "w": 10, "h": 30, "attributes": ["tall"], "relations": [{"name": "holding", "object": "2"}]},
    "2": {"name": "umbrella", "x": 2, "y": 0, "w": 20, "h": 8, "attributes": ["open", "green"], "relations": []},
    "3": {"name": "car", "x": 30, "y": 20, "w": 15, "h": 10, "attributes": ["red"], "relations": [{"name": "near", "object": "1"}]},
    "4": {"name": "car", "x": 50, "y": 22, "w": 30, "h": 10, "attributes": [], "relations": []},
    "5": {"name": "tree", "x": 0, "y": 0, "w": 5, "h": 40, "attributes": [], "relations": []},
}


def question(text, words, operation="query", **annotations):
    select = {"operation": "select", "dependencies": [], "argument": "x (1)"}
    steps = [select, {"operation": operation, "dependencies": [0], "argument": "color"}]
    attached = {"question": words, "answer": {}, "fullAnswer": {}, **annotations}
    return {"question": text, "imageId": "n1", "semantic": steps, "annotations": attached}


QUESTIONS = {
    "q0": question("What color is the car?", {"4": "3"}),
    "q1": question("What is the man on the left of the car holding?", {"8": "4", "3": "1"}, answer={"0": "2"}),
    "q2": question("Is there a car?", {"3": "3"}, operation="exist"),
    "q3": question("What is the weather like?", {}),
    "q4": question("What color is the umbrella?", {"4:6": "2"}),
    "q6": question("Gone?", {"0": "99"}),
}


def row(key, image="n1", answer="red", **more):
    text = QUESTIONS.get(key, {}).get("question", "?")
    return {
        "sample_id": key, "image_id": image, "question": text, "references": [answer] if answer else [], "choices": [],
        "answer_index": None, "answerable": True, "meta": [], "split": "train", "group": "", **more,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sceneGraphs").mkdir()
    graph = {"width": 90, "height": 45, "objects": OBJECTS}
    (tmp_path / "sceneGraphs/train_sceneGraphs.json").write_text(json.dumps({"n1": graph, "other": graph}))
    (tmp_path / "train_balanced_questions.json").write_text(json.dumps(QUESTIONS))
    return tmp_path


def test_every_object_of_the_name_goes(folder):
    (found,) = gqa(context(), folder, [row("q0")])
    assert (found.key, found.answer, found.thing.name, found.thing.plural) == ("q0", "red", "car", "car")
    assert found.thing.boxes == ((30, 20, 15, 10), (50, 22, 30, 10))
    (mask,) = boxes(context())([MaskRequest(found, found.thing, noise(90, 45))])
    expected = np.zeros((45, 90), bool)
    for o in OBJECTS.values():
        if o["name"] == "car":
            expected[o["y"] : o["y"] + o["h"], o["x"] : o["x"] + o["w"]] = True
    assert (mask == expected).all()
    assert {t.name for t in found.others} == {"man", "umbrella", "tree"} and all(len(t.boxes) == 1 for t in found.others)


def test_several_objects_of_a_question_go_together_named_by_the_first(folder):
    (found,) = gqa(context(), folder, [row("q1", answer="umbrella")])
    assert found.thing.name == "man" and len(found.thing.boxes) == 3
    assert {t.name for t in found.others} == {"tree"}  # the umbrella is the answer


def test_spans_of_words_other_ids_and_other_places(folder, tmp_path):
    (found,) = gqa(context(), folder, [row("mine", "images/n1.jpg", meta=[("question_id", "q4")])])
    assert found.thing.name == "umbrella"
    assert [t.key for t in gqa(context(), tmp_path / "nowhere", [row("q0")], graphs=str(folder))] == ["q0"]


def test_what_is_dropped_is_counted_by_its_reason(folder):
    one = context()
    rows = [row("q2"), row("q3"), row("q5"), row("q0", "elsewhere"), row("q0", answer=None), row("q0", answerable=False), row("q6")]
    assert list(gqa(one, folder, rows)) == []
    assert one.dropped == {
        "asks whether it is there": 1, "no object in the question": 2, "no question annotation": 1, "no scene graph": 1, "no answer": 2,
    }  # fmt: skip


def test_templates_ask_what_the_graph_answers_once(folder):
    (umbrella,) = gqa(context(), folder, [row("q4")])
    assert list(umbrella.asks()) == []  # its colour is what it asks already
    (cars,) = gqa(context(), folder, [row("q0")])
    assert list(cars.asks()) == []  # two of them
    (man,) = gqa(context(), folder, [row("q1")])
    assert list(man.asks()) == [("What is the man holding?", "umbrella")]


def test_missing_and_damaged_files_are_refused(folder, tmp_path):
    with pytest.raises(PairError, match=r"expected GQA's .*sceneGraphs\.json, found none"):
        list(gqa(context(), tmp_path / "none", [row("q0")]))
    file = folder / "train_balanced_questions.json"
    file.write_text(file.read_text()[:200])
    with pytest.raises(PairError, match="expected a whole JSON object"):
        list(gqa(context(), folder, [row("q0")]))
