import numpy as np

from qualm.runners.contracts.abstentions import Answers


def answers(**changes):
    columns = {
        "confidence": [0.1, 0.4, 0.4, 0.9], "correct": [1.0, 0.0, 1.0, 0.5], "pred_is_idk": [0.0, 0.0, 1.0, 0.0],
        "gt_is_idk": [0.0, 1.0, 1.0, 1.0],
    }  # fmt: skip
    return Answers(**{name: np.array(values) for name, values in columns.items()}, group=np.arange(4), **changes)


def test_answers_below_the_threshold_become_refusals_unless_they_are():
    assert answers().becomes_abstention(0.4).tolist() == [True, False, False, False]
    assert answers().becomes_abstention(0.5).tolist() == [True, True, False, False]
    assert answers().becomes_abstention(np.array([0, 0.41, 1, 1])).tolist() == [False, True, False, True]


def test_a_refusal_is_right_where_there_is_no_answer():
    after = answers().abstain_below(0.5)
    assert after.correct.tolist() == [0.0, 1.0, 1.0, 0.5] and after.pred_is_idk.tolist() == [1, 1, 1, 0]
    assert after.confidence.tolist() == [0.1, 0.4, 0.4, 0.9] and after.gt_is_idk.tolist() == [0, 1, 1, 1]


def test_the_complement_is_the_confidence_of_a_new_refusal_only():
    after = answers(turned_confidence="complement").abstain_below(0.5)
    np.testing.assert_allclose(after.confidence, [0.9, 0.6, 0.4, 0.9])


def test_a_choice_of_rows_keeps_all_columns_in_step():
    some = answers(turned_confidence="complement").rows(np.array([False, True, False, True]))
    assert len(some) == 2 and some.group.tolist() == [1, 3] and some.correct.tolist() == [0.0, 0.5]
    assert some.turned_confidence == "complement"
