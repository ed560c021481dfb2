from qualm.runners.scoring.apply_judge import abstention_words, rests_on_abstentions

JUDGES = [{"label": "rules", "plugin": "rules"}, {"label": "by_a_model", "plugin": "lave"}]


def test_the_judge_whose_verdict_is_scored_is_named():
    assert abstention_words({"judge": "rules"}, JUDGES) == "Whether an answer abstains is decided by the detector of rules (judge rules)"
    both = abstention_words({"judge": "rules", "judge_of": {"d": "by_a_model"}}, JUDGES)
    assert both.endswith("the detector of rules (judge rules) and the language model (judge by_a_model)")


def test_nothing_is_said_without_a_judge():
    assert abstention_words({"judge": None}, JUDGES) == "" and abstention_words({"judge": "rules"}, []) == ""


def test_metrics_that_rest_on_abstentions():
    resting = ["f1_idk", "lave_idk_accuracy", "confidence_weighted_accuracy", "idk_rate", "hedge_rate"]
    assert all(rests_on_abstentions(name) for name in resting) and not rests_on_abstentions("brier")
