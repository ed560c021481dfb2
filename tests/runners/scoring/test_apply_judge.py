from collections import Counter

import pyarrow as pa

from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.runtime.settings import Settings
from qualm.runners.scoring.apply_judge import Answered, judge, judge_ref
from qualm.runners.scoring.judge_queue import answers_in_words, sample_rows

PEOPLE = ("unanswerable",) * 7 + ("soup",) * 3


def judged(plugin, answers, **args):
    made = judge({"label": plugin, "plugin": plugin, "args": args}, answers, Settings(progress=False), Counter())
    return [None if j.rating is None else round(j.rating, 6) for j in made]


def test_what_people_said_of_a_question_that_cannot_be_answered():
    answers = [Answered("What is in the can?", (), said, PEOPLE) for said in ("unanswerable", "soup", "I can't tell", "beans")]
    assert judged("vqa", answers) == [1, 0.9, 0, 0]
    assert judged("vqa", answers, refusal="unanswerable") == [1, 0.9, 1, 0]
    assert judged("rules", answers) == [1, 0, 1, 0]  # says nothing of PEOPLE: any way of declining is right


def test_two_answers_are_what_people_said():
    assert judged("vqa", [Answered("What is it?", (), "soup", ("soup", "soup"))]) == [round(1 / 3, 6)]


def test_one_way_to_decline_is_nobody_s_answer():
    answers = [Answered("What color is the cat?", (), said, ("There is no cat.",)) for said in ("I don't know.", "black")]
    assert judged("vqa", answers) == [1, 0]


def test_answers_that_are_equal_to_a_judge_are_judged_once():
    answers = [Answered("?", (), "no idea", (way,)) for way in ("I don't know.", "There is no cat.")]
    counters = Counter()
    judge({"label": "rules", "plugin": "rules", "args": {}}, answers, Settings(progress=False), counters)
    assert counters["same as another"] == 1


def test_a_judge_that_a_plugin_names_is_called_by_its_label_or_its_own_name():
    assert judge_ref("rules") == {"label": "rules", "plugin": "rules", "args": {}}
    assert judge_ref({"plugin": "vqa", "args": {"refusal": "no"}}, "ours") == {"label": "ours", "plugin": "vqa", "args": {"refusal": "no"}}


def test_an_option_in_words_beyond_the_letters():
    options = [f"thing {i:02}" for i in range(30)]
    rows = [{"sample_id": "a", "question": "?", "choices": options, "answer_index": 27, "answerable": True, "group": ""}]
    said = [{"sample_id": "a", "variant": "clean", "draw": 0, "text": "It is thing 27."}]
    samples, table = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES)), pa.Table.from_pylist(said, schema=GENERATIONS)
    _, answers = answers_in_words(samples, table, sample_rows(samples, table, "here"))
    assert answers == [Answered("?", ("thing 27", "28"), "It is thing 27.", choices=tuple(options))]
    for ref in (judge_ref("option_match"), {"label": "m", "plugin": "option_match", "args": {"rule": "mmbench"}}):
        assert [j.rating for j in judge(ref, answers, Settings(progress=False), Counter())] == [1]


def test_the_stage_hands_both_over():
    rows = [
        {"sample_id": "a", "question": "?", "references": PEOPLE, "answerable": False, "group": ""},
        {"sample_id": "b", "question": "?", "references": ["red"], "answerable": True, "group": ""},
    ]
    said = [{"sample_id": name, "variant": "clean", "draw": 0, "text": "soup"} for name in "ab"]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    table = pa.Table.from_pylist(said, schema=GENERATIONS)
    made, answers = answers_in_words(samples, table, sample_rows(samples, table, "here"))
    assert answers == [Answered("?", (), "soup", people=PEOPLE), Answered("?", ("red",), "soup")]
    assert [row["gt_is_idk"] for row in made] == [True, False]
