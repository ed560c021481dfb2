"""Laws that every judge keeps. Judges that ask a language model ask a small server, whose replies are the laws' own."""

import math
import string
import time
import zlib
from contextlib import nullcontext
from dataclasses import replace
from typing import get_args

import pytest

from qualm.registry.plugins.registry import get, load, names
from qualm.runners.contracts.judges import JudgeContext, JudgeError, Judgement
from tests.support.data.hostile import PIECES
from tests.support.servers.asked_judge import SETTINGS, prompt_of
from tests.support.servers.small_server import serving

JUDGES = names("judges")
ASKING = [name for name in JUDGES if "by" in {p.name for p in get("judges", name).parameters}]
PLAIN = [name for name in JUDGES if name not in ASKING]
LISTED = [name for name in PLAIN if "choices" in get("judges", name).reads]
OPEN = [name for name in PLAIN if name not in LISTED or "open" in get("judges", name).declares.get("READS", ())]
PEOPLE = 10
"""Equal references of a question: VQA's evaluation needs those of several people."""
REFERENCES = ["red", "a blue ball", "2", "Yes", "No"]
TO_THE_LETTER = {
    "amber": {"case", "outer spaces", "final period"},
    "exact_match": {"final period"},
    "mme": {"outer spaces"},
    "oodcv_vqa": {"case"},
    "pope": {"case", "outer spaces"},
    "vqa": {"case", "final period"},
}
"""Judges that repeat an official evaluator, and what a right answer loses its rating by there."""
DENIED_OR_YES = "pope"
"""It reads every reply as yes or no, as the official script does: an empty one is yes."""
NO_WITHIN_WORDS = {"oodcv_vqa", "pope"}
"""They read the "not" of an abstention as no, as the official scripts do."""
CUP = ["tea", "juice", "milk", "coffee"]
QUESTIONS = ["What color is it?", "How many are there?", "Is it red?", "What is in the cup?"]
LOOPS = ["red or ", "5, ", "no, wait: ", "the answer is ", "**5** = ", "(", "A or ", "tea coffee ", "A. tea ", "so "]


@pytest.fixture(scope="module")
def server():
    """A model whose reply follows from the prompt: a verdict in the form of some judge, or nothing of use."""
    said = [
        "Rating: 1",
        "Rating: 2",
        "correct",
        "incorrect",
        "unclear",
        "1. correct: yes",
        "1. hallucination: no",
        "14",
        "NO ANSWER",
        "B",
        "well",
    ]
    with serving(lambda body, nth: said[zlib.crc32(prompt_of(body).encode()) % len(said)]) as running:
        yield running


@pytest.fixture
def judge(request, tmp_path, monkeypatch):
    """Return a function that applies a judge to (question, references, prediction) triples."""
    monkeypatch.chdir(tmp_path)

    def apply(name, rows, choices=None, by=None, **args):
        plugin, n = get("judges", name), len(rows)
        questions, references, predictions = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
        listed = choices or ([CUP] * n if name in LISTED and "open" not in plugin.declares.get("READS", ()) else [[]] * n)
        columns = {"context": JudgeContext(SETTINGS), "evidence": ["a dog"] * n, "choices": listed}
        columns |= {"questions": questions, "references": references, "predictions": predictions}
        if name in ASKING:
            args["by"] = {"plugin": "openai", "args": {"model": "m", "base_url": (by or request.getfixturevalue("server")).url}}
        return load("judges", name)(*(columns[of] for of in plugin.reads), **args)

    return apply


def rows_of(name):
    """Answers of every sort: right, wrong, empty, abstaining, unanswerable, odd."""
    said = ["red", "2", "Yes", "No", "B", "milk", "", "I don't know", "it is red, or blue", "Rating: 3", *PIECES[:40:3]]
    right = [["milk", "C"]] if name in LISTED else [[reference] * PEOPLE for reference in REFERENCES]
    return [(QUESTIONS[i % 4], ([], right[i % len(right)])[i % 5 > 0], text) for i, text in enumerate(said)]


def test_every_judge_has_laws():
    assert set(JUDGES) == {*OPEN, *LISTED, *ASKING} and len(JUDGES) >= 16
    assert {*TO_THE_LETTER, *NO_WITHIN_WORDS} <= set(PLAIN)


@pytest.mark.parametrize("name", JUDGES)
def test_a_judgement_depends_on_its_own_row_and_is_in_order(name, judge):
    rows = rows_of(name)
    found = judge(name, rows)
    assert len(found) == len(rows) and judge(name, []) == []
    assert judge(name, rows[::-1]) == found[::-1]
    assert judge(name, [row for row in rows[:4] for _ in range(2)]) == [j for j in found[:4] for _ in range(2)]
    assert [judge(name, [row])[0] for row in rows[::3]] == found[::3]


@pytest.mark.parametrize("name", JUDGES)
def test_ratings_are_shares_and_marks_are_those_declared(name, judge):
    declared = set(get("judges", name).declares.get("MARKS", ()))
    found = judge(name, rows_of(name))
    assert {type(j) for j in found} == {Judgement} and {set(j.marks) == declared for j in found if j.marks} <= {True}
    for j in found:
        assert j.rating is None or 0 <= j.rating <= 1
        assert j.parse_ok or (j.rating is None and not j.marks)
        assert all(math.isfinite(mark) for mark in j.marks.values())
    assert not declared or any(j.marks for j in found)


@pytest.mark.parametrize("name", JUDGES)
def test_without_references_abstaining_is_right_and_any_answer_wrong(name, judge):
    says = {"lave": "Rating: 1", "llm_extract": "DECLINES"}.get(name, "well")
    with serving(lambda body, nth: says) if name in ASKING else nullcontext() as by:
        (declined,) = judge(name, [("What is it?", [], "I don't know.")], by=by)
    assert (declined.rating, declined.pred_is_idk, declined.parse_ok) == (1, True, True)
    says = {"lave": "Rating: 0", "llm_extract": "tea"}.get(name, "well")
    with serving(lambda body, nth: says) if name in ASKING else nullcontext() as by:
        (answered,) = judge(name, [("What is it?", [], "tea")], by=by)
    assert (answered.rating, answered.pred_is_idk) == (0, False)


@pytest.mark.parametrize("name", PLAIN)
def test_an_abstention_or_an_empty_reply_is_never_right(name, judge):
    def rated(said):
        rows = [("What is there?", [r, "C"] if name in LISTED else [r] * PEOPLE, said) for r in ["milk", *REFERENCES]]
        return judge(name, rows) + (judge(name, [(q, r[:1], said) for q, r, _ in rows]) if name not in LISTED else [])

    assert all(j.pred_is_idk for j in rated("I'm not sure.")) and not any(j.pred_is_idk for j in rated(""))
    assert (1 in {j.rating for j in rated("I'm not sure.")}) is (name in NO_WITHIN_WORDS)
    assert (1 in {j.rating for j in rated("")}) is (name == DENIED_OR_YES)


@pytest.mark.parametrize("name", OPEN)
def test_the_reference_is_right_in_any_dress_and_another_answer_is_not(name, judge):
    """In other case, between spaces or with a final period; evaluators that compare to the letter are listed."""

    def rate(reference, said, n=1 if name == "oodcv_vqa" else PEOPLE):
        (found,) = judge(name, [("What is there?", [reference] * n, said)])
        return found.rating

    readable = [reference for reference in REFERENCES if rate(reference, reference) is not None]
    assert readable and [rate(reference, reference) for reference in readable] == [1] * len(readable)
    dresses = {"case": [str.upper, str.lower], "outer spaces": ["\n{}\n".format, "  {} ".format], "final period": ["{}.".format]}
    harmful = {of for of, made in dresses.items() for dress in made for text in readable if rate(text, dress(text)) != 1}
    assert harmful == TO_THE_LETTER.get(name, set())
    other = {"red": "green", "a blue ball": "two cats", "2": "3", "Yes": "No", "No": "Yes"}
    assert not [text for text in readable if rate(text, other[text]) == 1]


@pytest.mark.parametrize("name", LISTED)
def test_the_right_letter_is_right_wherever_its_option_stands(name, judge):
    for turn in range(4):
        options = CUP[turn:] + CUP[:turn]
        place = options.index("milk")
        right = ["milk", string.ascii_uppercase[place]]
        for dress in ("{}", "{}.", " {}\n", "{}. " + options[place]):
            said = [dress.format(letter) for letter in "ABCD"]
            ratings = [j.rating for j in judge(name, [("What is in the cup?", right, text) for text in said], [options] * 4)]
            assert ratings == [float(i == place) for i in range(4)] or " " in dress.strip()
            assert ratings[place] == 1


@pytest.mark.parametrize("name", [name for name in PLAIN if "on_failure" in {p.name for p in get("judges", name).parameters}])
def test_what_cannot_be_read_may_be_wrong(name, judge):
    rows = [("What is in the cup?", ["milk", "C"], said) for said in ("C", "B", "(?)", "", "I'm not sure.")]
    strict = judge(name, rows)
    lenient = [replace(j, rating=0.0 if j.rating is None else j.rating) for j in strict]
    assert judge(name, rows, on_failure="wrong") == lenient != strict


@pytest.mark.parametrize("name", ASKING)
def test_a_reply_that_the_server_rejects_is_unscored_and_a_failing_server_an_error(name, judge):
    """A rejected request is no reply of the judge's, so it gets no rating of `on_failure` either."""
    rows = [("What is it?", ["a dog"], said) for said in ("rude", "fine")]
    options = next((p.annotation for p in get("judges", name).parameters if p.name == "on_failure"), None)
    for chosen in [{}, *({"on_failure": value} for value in get_args(options))]:
        with serving(lambda body, nth: (400, "{}", {}) if "rude" in prompt_of(body) else "Rating: 0") as by:
            found = judge(name, rows, by=by, **chosen)[0]
        assert (found.rating, found.parse_ok, dict(found.marks)) == (None, False, {})
    with serving(lambda body, nth: (500, "{}", {})) as by, pytest.raises(JudgeError, match=f"judge {name}: "):
        judge(name, [("Is it?", ["no"], "a bird")], by=by)


@pytest.mark.parametrize("name", JUDGES)
def test_columns_of_other_lengths_are_refused(name, judge):
    plugin = get("judges", name)
    columns = {"context": JudgeContext(SETTINGS), "evidence": [""], "choices": [CUP]}
    columns |= {"questions": ["?"], "references": [["red", "B"]], "predictions": ["red", "blue"]}
    args = {"by": {"plugin": "openai", "args": {"model": "m", "base_url": "http://127.0.0.1:9/v1"}}} if name in ASKING else {}
    with pytest.raises(ValueError, match="zip"):
        load("judges", name)(*(columns[of] for of in plugin.reads), **args)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_a_model_that_repeats_itself_is_soon_read(name, judge):
    """Time grows with the length and not with its square; the limit is never reached, however busy the machine."""
    start = time.process_time()
    judge(name, [("What color is it?", ["milk", "C"] if name in LISTED else ["red"] * PEOPLE, (words * 2000)[:2000]) for words in LOOPS])
    assert time.process_time() - start < 30


@pytest.mark.parametrize("name", PLAIN)
def test_hostile_replies_are_right_only_if_they_hold_the_answer(name, judge):
    right = ["milk", "C"] if name in LISTED else ["red"] * PEOPLE
    said = [*PIECES, "\ud800", "\\boxed{", "<answer>", "|", "..."]
    found = judge(name, [("What is it?", right, text) for text in said])
    assert len(found) > 50 and all(j.rating is None or 0 <= j.rating <= 1 for j in found)
    assert not [text for text, j in zip(said, found, strict=True) if j.rating and not any(r.casefold() in text.casefold() for r in right)]
