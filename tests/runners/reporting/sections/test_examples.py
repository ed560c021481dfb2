"""Questions to look at: which are picked and for which reason, how answers are worded, and that images stay within their budget."""

import math

import pytest

from qualm.registry.sample import IMAGES
from qualm.runners.reporting.sections import examples as module
from qualm.runners.reporting.sections.examples import KINDS, answer_text, examples, images_of, options_of, thumbnail, verdict
from qualm.runners.runtime.records import write_table
from tests.runners.reporting.conftest import picture
from tests.runners.reporting.made_results import made_results, sample, score

NAN = math.nan


def answer(name, correct, confidence=0.5, model="m", dataset="d", **more):
    row = {"model": model, "dataset": dataset, "sample_id": name, "correct": correct, "confidence": confidence}
    return {**row, "text": f"{model} says {name}", "predicted": None, "pred_is_idk": False, **more}


def shown(tmp_path, answers, how_many=99, datasets=("d",), models=("m",), samples=None, pictures=None, seed=7):
    folders = {}
    for dataset in datasets:
        folders[dataset] = str(tmp_path / dataset)
        if pictures:
            rows = [{"image_id": i, "image": None if data is None else {"bytes": data, "path": i}} for i, data in pictures.items()]
            write_table(tmp_path / dataset / "images" / "00000.parquet", rows, IMAGES)
    names = {d: list(dict.fromkeys(a["sample_id"] for a in answers if a["dataset"] == d)) for d in datasets}
    rows = samples or {d: [sample(n) for n in names[d]] for d in datasets}
    scores = [score("accuracy", 0.5, m, d) for m in models for d in datasets]
    results = made_results(scores, samples=rows, answers=answers, inputs={"datasets": folders}, seed=seed)
    return examples(results, how_many, list(datasets))


def why(made):
    return {e.sample_id: next((a.why for a in e.answers if a.why), "") for e in made}


def test_kinds_take_turns_until_there_are_enough(tmp_path):
    """The surest wrong answer first, then any wrong, the least sure right, any right, one that is not scored."""
    answers = [
        answer("w1", 0.0, 0.9), answer("w2", 0.49, 0.95), answer("w3", 0.0, 0.1), answer("r1", 1.0, 0.3), answer("r2", 0.5, 0.2),
        answer("r3", 1.0, 0.8), answer("u1", None, 0.9), answer("u2", NAN, 0.9),
    ]  # fmt: skip
    one = shown(tmp_path, answers, 1)
    assert why(one) == {"w2": "most confident wrong"}
    five = why(shown(tmp_path, answers, 5))
    assert list(five.values()) == list(KINDS) and five.get("u1", five.get("u2")) == "unscored"
    assert {"w2": "most confident wrong", "r2": "least confident right"}.items() <= five.items()
    everything = why(shown(tmp_path, answers, 99))
    assert len(everything) == 8 and sorted(everything) == sorted(a["sample_id"] for a in answers)
    assert everything["u1"] == everything["u2"] == "unscored"


def test_answers_without_confidence_are_neither_surest_nor_least_sure(tmp_path):
    answers = [answer("w", 0.0, None), answer("r", 1.0, NAN)]
    assert why(shown(tmp_path, answers)) == {"w": "wrong", "r": "right"}


def test_models_take_turns_within_a_kind_and_a_question_stands_once(tmp_path):
    answers = [answer(n, 0.0, c, m) for n, c in (("a", 0.9), ("b", 0.8), ("c", 0.7)) for m in ("m", "n")]
    made = shown(tmp_path, answers, 2, models=("m", "n"))
    assert [(e.sample_id, [(a.model, a.why) for a in e.answers]) for e in made] == [
        ("a", [("m", "most confident wrong"), ("n", "")]), ("b", [("m", ""), ("n", "most confident wrong")]),
    ]  # fmt: skip
    assert len(shown(tmp_path, answers, 99, models=("m", "n"))) == 3


def test_questions_are_shared_out_among_data_sets_the_first_getting_more(tmp_path):
    answers = [answer(f"{d}{i}", 0.0, dataset=d) for d in "def" for i in range(5)]
    for how_many, counts in ((7, [3, 2, 2]), (8, [3, 3, 2]), (9, [3, 3, 3]), (2, [1, 1, 0]), (0, [0, 0, 0])):
        made = shown(tmp_path, answers, how_many, tuple("def"))
        assert [sum(e.dataset == d for e in made) for d in "def"] == counts


def test_the_same_seed_picks_the_same_and_another_others(tmp_path):
    answers = [answer(f"s{i:02}", 1.0, None) for i in range(40)]
    first = list(why(shown(tmp_path, answers, 5)))
    assert first == list(why(shown(tmp_path, answers, 5))) != list(why(shown(tmp_path, answers, 5, seed=8)))


def test_a_question_is_shown_whole(tmp_path):
    many, options = [f"r{i}" for i in range(8)], ["red", None, "blue"]
    whole = sample("a", choices=options, answer_index=2, references=many, category="kind", answerable=False, question=None)
    (made,) = shown(tmp_path, [answer("a", 1.0, 0.125, predicted=2)], samples={"d": [whole]})
    assert (made.dataset, made.sample_id, made.question, made.category, made.answerable) == ("d", "a", "", "kind", False)
    assert made.references == [f"r{i}" for i in range(6)]
    assert made.choices == [("A  red", False), ("B  ", False), ("C  blue", True)]
    (one,) = made.answers
    assert (one.text, one.verdict, one.confidence, one.width, one.why) == ("C  blue", "right", "0.12", 12, "least confident right")
    assert (made.thumbnail, made.no_image) == ("", "")
    (bare,) = shown(tmp_path, [answer("a", 1.0)], samples={"d": [sample("a", references=None, category=None, answerable=None)]})
    assert (bare.references, bare.category, bare.answerable, bare.choices) == ([], "", True, [])


@pytest.mark.parametrize(
    ("confidence", "text", "width"),
    [(0.5, "0.50", 50), (0.0, "0.00", 0), (1.0, "1.00", 100), (1.5, "1.50", 100), (-0.5, "−0.50", 0), (None, "–", 0), (NAN, "–", 0)],
)
def test_a_bar_is_as_wide_as_the_confidence(tmp_path, confidence, text, width):
    (made,) = shown(tmp_path, [answer("a", 1.0, confidence)])
    assert (made.answers[0].confidence, made.answers[0].width) == (text, width)


def test_answers_in_words():
    assert options_of({"choices": None}) == [] and options_of({"choices": ["a", None]}) == ["a", ""]
    assert answer_text("said", 1, ["x", "y"]) == "B  y" and answer_text("said", None, ["x"]) == "said" == answer_text("said", 0, [])
    assert answer_text("said", 1, ["x"]) == "B" and answer_text("said", 2, ["x", "y"]) == "C"
    assert answer_text("said", 27, list(map(str, range(30)))) == "28  27" and answer_text("said", 99, ["x"]) == "100"
    assert [verdict(v) for v in (None, NAN, 0.0, 1.0, 0.5, 0.99)] == ["unscored", "unscored", "wrong", "right", "partly", "partly"]


def test_pictures_are_found_where_they_lie(tmp_path):
    write_table(
        tmp_path / "images" / "00000.parquet",
        [{"image_id": "a", "image": {"bytes": b"1", "path": ""}}, {"image_id": "b", "image": None},
         {"image_id": "c", "image": {"bytes": b"", "path": ""}}, {"image_id": "d", "image": {"bytes": b"2", "path": ""}}],
        IMAGES,
    )  # fmt: skip
    assert images_of(tmp_path / "images", {"a", "b", "c", "d", "e"}) == {"a": b"1", "d": b"2"}
    assert images_of(tmp_path / "images", {"d"}) == {"d": b"2"}
    assert images_of(tmp_path / "images", set()) == {} == images_of(tmp_path / "nowhere", {"a"})


def test_a_thumbnail_or_why_there_is_none():
    uri, no = thumbnail([picture(0)], 10**6)
    assert uri.startswith("data:image/jpeg;base64,") and no == ""
    assert thumbnail([picture(0)], len(uri)) == (uri, "")
    assert thumbnail([picture(0)], len(uri) - 1) == ("", "image left out: the page has reached its size limit")
    assert thumbnail([None], 10**6) == ("", "image not found") and thumbnail([b"no"], 10**6)[1].startswith("image not readable (")


def test_all_thumbnails_together_stay_within_the_budget(tmp_path, monkeypatch):
    answers = [answer(n, 0.0, c) for n, c in (("a", 0.9), ("b", 0.8), ("c", 0.7))]
    rows = {"d": [sample("a", image_id="p"), sample("b", image_id="gone"), sample("c", image_id="p")]}
    size = len(thumbnail([picture(0)], 10**6)[0])
    for budget, third in ((2 * size, ""), (2 * size - 1, "image left out"), (size, "image left out")):
        monkeypatch.setattr(module, "BUDGET", budget)
        made = {e.sample_id: e for e in shown(tmp_path, answers, samples=rows, pictures={"p": picture(0)})}
        assert next(iter(made)) == "a" and len(made["a"].thumbnail) == size
        assert {n: e.no_image.partition(":")[0] for n, e in made.items()} == {"a": "", "b": "image not found", "c": third}
        assert bool(made["c"].thumbnail) == (not third)


def test_samples_of_one_name_in_two_data_sets_keep_their_own_answers(tmp_path):
    answers = [answer("a", 0.0, text="of d"), answer("a", 1.0, dataset="e", text="of e")]
    made = shown(tmp_path, answers, datasets=("d", "e"))
    assert [(e.dataset, [(a.text, a.verdict) for a in e.answers]) for e in made] == [("d", [("of d", "wrong")]), ("e", [("of e", "right")])]


def test_a_model_that_said_nothing_is_not_shown(tmp_path):
    (made,) = shown(tmp_path, [answer("a", 0.0)], models=("n", "m"))
    assert [a.model for a in made.answers] == ["m"]


def test_what_was_thought_stands_beside_the_answer_and_why_there_is_none(tmp_path):
    answers = [
        answer("a", 1.0, thinking="Is it red? <b>Yes</b>."),
        answer("b", None, text="", no_answer="cut short by the budget"),
        answer("c", 0.0),
    ]
    views = {e.sample_id: e.answers[0] for e in shown(tmp_path, answers)}
    assert views["a"].thinking == "Is it red? <b>Yes</b>." and views["c"].thinking == ""
    assert views["b"].text == "no answer: cut short by the budget" and views["a"].text == "m says a"
    long = shown(tmp_path, [answer("a", 1.0, thinking="x" * 5000)])[0].answers[0].thinking
    assert 0 < len(long) <= module.THOUGHT + 30  # and how long it was
