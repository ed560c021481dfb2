"""Values that are undefined or over few of many answers say why, in the score table, the terminal's lines and the report's."""

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry import CUT_SHORT
from qualm.registry.sample import JUDGEMENTS, SAMPLES, Sample
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring import unscored
from qualm.runners.scoring.score_warnings import metric_notes, unscored_warnings
from tests.support.projects.scored import scored
from tests.support.projects.stages import ref

METRICS = [ref("accuracy"), ref("idk_rate"), ref("ece")]
OPTIONS = ("tea", "juice", "milk", "coffee")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def of_choice(n, **more):
    return [Sample(f"s{i}", "What is in the cup?", choices=OPTIONS, answer_index=3, **more) for i in range(n)]


def of_words(n, **more):
    return [Sample(f"s{i}", "What is in the cup?", **({"references": ("coffee", "D")} | more)) for i in range(n)]


def texts(*replies):
    return {f"s{i}": reply for i, reply in enumerate(replies)}


@pytest.mark.parametrize("judge", ["rules", "option_match"])
def test_words_for_options_are_judged_and_refusals_counted(judge):
    found = scored(of_choice(4), texts("D. coffee", "The answer is (B)", "I am not sure", "(D)"), [ref(judge)], METRICS)
    accuracy, refusals = found["all", "accuracy"], found["all", "idk_rate"]
    assert (accuracy["value"], accuracy["n"], accuracy["n_unscored"], accuracy["why"]) == (0.5, 4, 0, None)
    assert (refusals["value"], refusals["n"], refusals["n_unscored"]) == (0.25, 4, 0)


def test_many_unreadable_replies_are_a_warning_and_few_are_not():
    many = scored(of_choice(10), texts(*["D"] * 9, "A or B"), [ref("option_match")], METRICS[:1])
    assert many["all", "accuracy"]["why"] == unscored.UNREAD_OPTION and many["all", "accuracy"]["value"] == 1
    assert unscored_warnings(many.values()) == [f"d, m: 1 of 10 answers are not scored (accuracy): {unscored.UNREAD_OPTION}"]
    few = scored(of_choice(11), texts(*["D"] * 10, "A or B"), [ref("option_match")], METRICS[:1])
    assert few["all", "accuracy"]["n_unscored"] == 1 and few["all", "accuracy"]["why"] is None and not unscored_warnings(few.values())


def test_open_questions_and_a_judge_of_options_only():
    """What a recording without `options: choices` came to: all unscored, and nothing said so."""
    found = scored(of_words(16), texts(*["D"] * 16), [ref("option_match")], METRICS)
    row = found["all", "accuracy"]
    assert (row["value"], row["n"], row["n_unscored"], row["why"]) == (None, 0, 16, unscored.OPEN_QUESTIONS)
    assert unscored_warnings(found.values())[0].startswith("d, m: all 16 answers are not scored (accuracy): open questions,")
    assert "options: choices" in unscored_warnings(found.values())[0]
    assert found["all", "idk_rate"]["why"] == "no answer was judged" and found["all", "idk_rate"]["value"] is None


def test_options_in_words_and_no_judge_of_options():
    found = scored(of_choice(3), texts("D", "D", "D"), [ref("exact_match")], METRICS[:2])
    assert found["all", "accuracy"]["why"] == unscored.NO_JUDGE_OF_OPTIONS
    assert metric_notes(found.values()) == [f"d: idk_rate is undefined (m): {found['all', 'idk_rate']['why']}"]


@pytest.mark.parametrize(
    ("samples", "replies", "why"),
    [
        (of_words(4), texts("coffee"), f"{unscored.NO_ANSWER}"),
        (of_words(4, references=()), texts(*["coffee"] * 4), unscored.NO_REFERENCE),
        ([Sample(f"s{i}", "?", choices=OPTIONS) for i in range(4)], texts(*["D"] * 4), unscored.NO_RIGHT_OPTION),
    ],
)
def test_each_reason_has_its_words(samples, replies, why):
    assert scored(samples, replies, [ref("rules")], METRICS[:1])["all", "accuracy"]["why"] == why


def test_other_columns_than_ratings_name_what_is_lacking():
    found = scored(of_words(3), texts(*["coffee"] * 3), [ref("rules")], [ref("ece"), ref("option_rate", option="A"), ref("auroc")])
    assert found["all", "ece"]["why"] == unscored.WITHOUT["confidence"]
    assert found["all", "option_rate"]["why"] == unscored.WITHOUT["n_options"]
    assert found["all", "auroc"]["why"] == unscored.WITHOUT["uncertainty"]


def test_the_most_common_reason_goes_first():
    mixed = [*of_words(3, references=()), *[Sample(f"t{i}", "?", references=("x",)) for i in range(2)]]
    found = scored(mixed, texts("a", "b", "c"), [ref("rules")], METRICS[:1])
    assert found["all", "accuracy"]["why"] == f"{unscored.NO_REFERENCE} (3 of these)"


def test_declining_is_right_where_no_option_can_be():
    samples = [Sample(f"s{i}", "?", choices=OPTIONS, answerable=False) for i in range(2)]
    found = scored(samples, texts("I cannot tell", "D"), [ref("rules")], [ref("accuracy"), ref("f1_idk")])
    assert found["all", "accuracy"]["value"] == 0.5 and found["all", "f1_idk"]["value"] == pytest.approx(2 / 3)


def why(judges, judged=None, answers=("one", "many", "open"), clean=None, **more):
    """Why each of a question with one option, one with four and an open one would be unscored."""
    usual = {"question": "?", "answerable": True, "references": ["x"]}
    rows = [
        {**usual, "sample_id": "one", "choices": ["tea"], "answer_index": 0, **more},
        {**usual, "sample_id": "many", "choices": list(OPTIONS), "answer_index": 1, **more},
        {**usual, "sample_id": "open", **more},
    ]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    table = None if judged is None else pa.Table.from_pylist(judged, schema=JUDGEMENTS)
    of_clean = None if clean is None else pa.table({"sample_id": list(clean)})
    return list(unscored.reasons(samples, pa.table({"sample_id": list(answers)}), table, judges, "here", of_clean).texts)


def test_reasons_go_by_the_judge_of_each_kind_of_question():
    assert why((None, None)) == [unscored.NO_JUDGE_OF_OPTIONS, unscored.NO_JUDGE_OF_OPTIONS, unscored.NO_JUDGE]
    assert why(("rules", None)) == [unscored.NO_JUDGE_OF_OPTIONS, unscored.NO_JUDGE_OF_OPTIONS, unscored.NO_TEXT]
    assert why((None, "option_match")) == [unscored.NO_NUMBERS, unscored.NO_NUMBERS, unscored.NO_JUDGE]
    assert why(("rules", "option_match"), answers=("many",)) == [unscored.NO_ANSWER, unscored.NO_NUMBERS, unscored.NO_ANSWER]
    under = why(("rules", "option_match"), answers=("many",), clean=("one", "many"))
    assert under == [unscored.NO_VARIANT, unscored.NO_NUMBERS, unscored.NO_ANSWER]


def test_questions_that_were_not_asked_lack_no_confidence_but_an_answer():
    of_rows = unscored.Reasons(np.array([unscored.NO_ANSWER, unscored.NO_VARIANT, unscored.NO_TEXT], dtype=object))
    rows, taken = np.array([0, 1]), {"confidence": np.full(2, np.nan), "correct": np.full(2, np.nan)}
    assert unscored.why_unscored(of_rows, ["confidence", "correct"], taken, rows) == f"{unscored.NO_ANSWER} (1 of these)"
    cut = unscored.Reasons(np.array([CUT_SHORT] * 2, dtype=object))
    assert unscored.why_unscored(cut, ["confidence", "correct"], taken, rows) == CUT_SHORT
    probed = unscored.Reasons(np.array([unscored.NO_TEXT] * 2, dtype=object), probed=True)
    assert unscored.why_unscored(probed, ["uncertainty"], {"uncertainty": np.full(2, np.nan)}, rows).endswith(unscored.OF_PROBES)
    taken = {name: np.full(3, np.nan) for name in taken}
    assert unscored.why_unscored(of_rows, ["confidence", "correct"], taken, np.arange(3)) == unscored.NO_CONFIDENCE


def test_replies_that_could_not_be_read_are_told_of_the_judge_whose_ratings_are_scored():
    def said(name, judge, parse_ok, draw=0):
        return {"model": "m", "dataset": "d", "sample_id": name, "variant": "clean", "draw": draw, "judge": judge, "parse_ok": parse_ok}

    rows = [said("open", "rules", False), said("many", "option_match", False), said("one", "option_match", True)]
    assert why(("rules", "option_match"), rows) == [unscored.NO_NUMBERS, unscored.UNREAD_OPTION, unscored.UNREAD]
    others = [said("open", "rules", False, draw=1), said("many", "rules", False), said("open", "option_match", False)]
    assert why(("rules", "option_match"), others) == [unscored.NO_NUMBERS, unscored.NO_NUMBERS, unscored.NO_TEXT]
    assert why(("rules", None), [said("open", "rules", None)])[2] == unscored.NO_TEXT


def test_data_without_an_answer_to_compare_with():
    assert why(("rules", "option_match"), references=[], answer_index=None) == [unscored.NO_RIGHT_OPTION] * 2 + [unscored.NO_REFERENCE]
    declining = why(("rules", "option_match"), references=[], answer_index=None, answerable=False)
    assert declining == [unscored.NO_NUMBERS, unscored.NO_NUMBERS, unscored.NO_TEXT]


def test_answers_that_were_cut_short_are_unscored_and_say_so():
    cut = "cut short by the budget"
    found = scored(of_words(4), texts("coffee", "tea", None, None), [ref("exact_match")], METRICS, no_answer={"s2": cut, "s3": cut})
    row = found["all", "accuracy"]
    assert (row["value"], row["n"], row["n_unscored"], row["why"]) == (0.5, 2, 2, cut)


NOT_JUDGED = "no answer was judged"
OF_WORDS = "for answers in words, and these are read from their options' numbers, or were not judged"
LACKS_ONE = "compares perturbed inputs with clean ones, and these answers lack one of the two"


@pytest.mark.parametrize(
    ("reads", "all_choice", "judged", "reason"),
    [
        (("pred_is_idk",), True, False, OF_WORDS), (("pred_is_idk",), True, True, NOT_JUDGED), (("pred_is_idk",), False, False, NOT_JUDGED),
        (("confidence", "clean_correct"), False, True, NOT_JUDGED), (("confidence", "clean_uncertainty"), False, True, LACKS_ONE),
        (("uncertainty_change",), False, True, LACKS_ONE), (("group_of_room", "correct"), False, True, "no sample has the field 'room'"),
        (("rated_by_lave",), False, True, "judge 'lave' rated none of these answers"),
        (("rated_by_",), False, True, "no open answer was rated"),
        (("confidence", "predicted"), False, True, unscored.WITHOUT["n_options"]),
        (("covered",), False, True, unscored.WITHOUT["covered"]), (("fold",), False, True, "these answers have no `fold`"),
    ],
)  # fmt: skip
def test_why_a_metric_is_absent_is_said_of_the_first_column_that_is_not_there(reads, all_choice, judged, reason):
    assert unscored.why_column_missing(reads, ["confidence", "answerable"], all_choice, judged) == reason


def test_rows_that_no_metric_can_score_and_the_most_frequent_reason():
    texts = np.array([unscored.NO_ANSWER, unscored.NO_TEXT, unscored.UNREAD, unscored.UNREAD, "", unscored.NO_TEXT], dtype=object)
    some = unscored.Reasons(texts)
    assert (
        some.most_common(np.array([1, 2, 3])) == f"{unscored.UNREAD} (2 of these)" and some.most_common(np.array([2, 3])) == unscored.UNREAD
    )
    assert some.most_common(np.array([1, 2])) == f"{min(unscored.NO_TEXT, unscored.UNREAD)} (1 of these)", "of equals the first by name"
    assert some.most_common(np.array([4])) == "" == some.most_common(np.array([], dtype=int))
    assert (
        some.are_all_unscorable(np.array([0]))
        and not some.are_all_unscorable(np.array([0, 1]))
        and not some.are_all_unscorable(np.array([], dtype=int))
    )
    every, chosen, without = np.arange(3), np.array([False, False, True]), np.array([True, True, False])
    held = some.under_threshold(every, chosen, without).texts
    assert (
        held.tolist() == [unscored.NO_ANSWER, unscored.NO_THRESHOLD, unscored.CHOSEN_ON, *texts[3:]] and some.texts[1] == unscored.NO_TEXT
    )
