import numpy as np
import pytest

from qualm.registry.sample import SAMPLES
from qualm.registry.scenes.contrast import parse_query, possible_answers
from qualm.registry.scenes.questions import matches
from qualm.runners.contracts.pairs import PairError
from qualm.runners.contracts.saliency import answer_of
from qualm.runners.plugins.saliency.scene_graph import scene_graph
from qualm.runners.runtime.records import read_table
from tests.support.data.scenes_folder import scenes_folder
from tests.support.data.targets import context


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        return scenes_folder(root, test=120)


def rows_of(folder):
    return read_table(folder / "samples.parquet", SAMPLES).to_pylist()


def test_drawn_questions_are_about_one_object_and_the_graph_answers_them(folder):
    one = context()
    found = list(scene_graph(one, folder, rows_of(folder), each=2, alone=True))
    pictures = {r["image_id"] for r in rows_of(folder)}
    assert len({t.key for t in found}) == len(found) and {t.row["image_id"] for t in found} <= pictures
    assert len(found) + one.dropped["no object that is unique"] >= len(pictures)
    for t in found:
        (i,) = t.thing.objects
        query = parse_query(t.question)
        assert matches(t.scene["objects"][i], query.of) and possible_answers(query, t.scene) == (t.answer,)
        assert t.scene["objects"][i][query.ask] == t.answer
        assert t.thing.name in t.question
        assert sorted(o for other in t.others for o in other.objects) == [k for k in range(len(t.scene["objects"])) if k != i]
    of_one = [t.thing.objects for t in found if t.row["image_id"] == found[0].row["image_id"]]
    assert len(set(of_one)) == len(of_one)


def test_templates_ask_something_else_about_the_same_object(folder):
    found = list(scene_graph(context(), folder, rows_of(folder)))
    for t in found:
        asks = dict(t.asks())
        assert t.question not in asks
        for text, answer in asks.items():
            assert possible_answers(parse_query(text), t.scene) == (answer,)
            assert all(matches(t.scene["objects"][i], parse_query(text).of) for i in t.thing.objects)
    assert np.mean([len(list(t.asks())) for t in found]) > 2


def test_more_rows_change_nothing_of_the_earlier(folder):
    rows = rows_of(folder)
    few = list(scene_graph(context(), folder, rows[:30]))
    many = list(scene_graph(context(), folder, rows))
    assert [(t.key, t.question) for t in few] == [(t.key, t.question) for t in many[: len(few)]]


def test_own_questions_are_taken_where_they_ask_for_an_attribute(folder):
    one = context()
    rows = rows_of(folder)
    found = list(scene_graph(one, folder, rows, ask="source", alone=True))
    assert {t.key for t in found} == {r["sample_id"] for r in rows if r["category"].startswith("attribute/")}
    assert all(t.answer == answer_of(t.row) for t in found)
    assert sum(one.dropped.values()) + len(found) == len(rows)


def test_a_thing_that_is_alone_is_not_asked_about_unless_one_wants_the_empty_table(folder):
    one = context()
    rows = rows_of(folder)
    some, every = list(scene_graph(one, folder, rows)), list(scene_graph(context(), folder, rows, alone=True))
    assert [t.key for t in some] == [t.key for t in every if len(t.scene["objects"]) > 1]
    assert one.dropped["nothing else in the image"] == len(every) - len(some) > 0


def test_a_picture_without_a_graph_is_counted_and_a_folder_without_any_refused(folder, tmp_path):
    one = context()
    stray = {**rows_of(folder)[0], "image_id": "elsewhere"}
    assert list(scene_graph(one, folder, [stray])) == [] and one.dropped == {"no scene graph": 1}
    with pytest.raises(PairError, match="expected scene graphs as"):
        list(scene_graph(one, tmp_path, [stray]))


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"references": ["a", "b", "b"], "answer_index": None, "choices": []}, "b"),
        ({"references": [], "answer_index": 1, "choices": ["x", "y"]}, "y"),
        ({"references": [], "answer_index": None, "choices": []}, None),
        ({"references": ["I don't know."], "answer_index": None, "choices": [], "answerable": False}, None),
    ],
)
def test_the_answer_of_a_source(row, answer):
    assert answer_of({"answerable": True, **row}) == answer
