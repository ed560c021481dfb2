from qualm.runners.scoring.apply_judge import depends_on_abstentions, describe_abstention_judges

JUDGES = [{"label": "rules", "plugin": "rules"}, {"label": "by_a_model", "plugin": "lave"}]


def test_the_judge_whose_verdict_is_scored_is_named():
    assert (
        describe_abstention_judges({"judge": "rules"}, JUDGES)
        == "Whether an answer abstains is decided by the detector of rules (judge rules)"
    )
    both = describe_abstention_judges({"judge": "rules", "judge_of": {"d": "by_a_model"}}, JUDGES)
    assert both.endswith("the detector of rules (judge rules) and the language model (judge by_a_model)")


def test_nothing_is_said_without_a_judge():
    assert describe_abstention_judges({"judge": None}, JUDGES) == "" and describe_abstention_judges({"judge": "rules"}, []) == ""


def test_metrics_that_rest_on_abstentions():
    resting = ["f1_idk", "lave_idk_accuracy", "confidence_weighted_accuracy", "idk_rate", "hedge_rate"]
    assert all(depends_on_abstentions(name) for name in resting) and not depends_on_abstentions("brier")
