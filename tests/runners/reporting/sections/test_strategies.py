"""What training and abstaining change: columns, groups, ranks, averages, rules and costs, each by hand on a few rows."""

import pytest

from qualm.runners.reporting.marks import MarkedNumber
from qualm.runners.reporting.sections.strategies import answerable_only, categories, cost_table, kind_of, strategies
from qualm.runners.scoring.unscored import NO_CONFIDENCE
from tests.runners.reporting.made_results import made_results, sample, score

REFUSALS = {"d": [sample("a"), sample("b", answerable=False)]}
MAINS = ("epistemic", "aleatoric")
LEAVES = ("aleatoric/temporal", "epistemic/knowledge", "epistemic/extraneous")
TAXONOMY = {"epistemic": {"knowledge": {}, "extraneous": {}}, "aleatoric": {"temporal": {}}}
NBSP = "\N{NO-BREAK SPACE}"


def compared(metric, difference, a="base", b="n", p=0.02, part="all", dataset="d", **more):
    row = {"a": a, "b": b, "dataset": dataset, "slice": part, "metric": metric, "difference": difference, "p_adjusted": p}
    return {**row, "low": difference - 0.125 if difference is not None else None, "high": 0.5, "n": 20, "higher_is_better": True, **more}


def sliced(metric, value, model="m", parts=(*MAINS, *LEAVES), **more):
    return [score(metric, value, model, slice=f"category={part}", **more) for part in parts]


def only(scores, **more):
    (table,) = strategies(made_results(scores, samples=REFUSALS, **more))
    return table


def test_columns_are_the_three_central_metrics_by_main_kind_then_all_then_calibration():
    metrics = ("confidence_weighted_accuracy", "f1_idk", "lave_idk_accuracy")
    averaged = [score(metric, 0.5, slice="macro:category") for metric in metrics]
    scores = [row for metric in metrics for row in [*sliced(metric, 0.5), score(metric, 0.5)]] + [score("ece", 0.1), score("ece_idk", 0.2)]
    assert "mean of categories" not in dict(only(scores, taxonomy=TAXONOMY).parts.groups), "only where the spec has macro averages"
    scores += averaged
    table = only(scores, taxonomy=TAXONOMY, made={"compare": {"correction": "holm", "family": "slice"}}, baseline="m")
    three = [f"F1 IDK{NBSP}↑", f"accuracy{NBSP}↑", f"conf.-w. acc.{NBSP}↑"]
    assert table.board.columns == [*three, f"ECE IDK{NBSP}↓"] and table.board.groups == [("all questions", 4)]
    assert table.parts.columns == three * 3
    assert table.parts.groups == [("epistemic", 3), ("aleatoric", 3), ("mean of categories", 3)]
    assert table.categories == ["epistemic/knowledge", "epistemic/extraneous", "aleatoric/temporal"]
    ((model, kind, marks),) = table.board.rows
    assert (model, kind) == ("m", "") and [m.value for m in marks] == ["0.500"] * 3 + ["0.200"]
    assert [m.value for m in table.parts.rows[0][2]] == ["0.500"] * 9
    assert (table.dataset, table.baseline, table.correction) == (
        "d",
        "m",
        "corrected by Holm's method over all tests on one dataset and slice",
    )
    plain = only([score("f1_idk", 0.5)])
    assert (plain.board.groups, plain.board.columns) == ([("all questions", 1)], [f"F1 IDK{NBSP}↑"])
    assert (plain.parts, plain.averages, plain.correction) == (None, None, "corrected as the spec says")


def test_refusals_and_plain_questions_stand_beside_the_headline():
    """A model that never abstains, one that does, and its cost on answerable questions."""
    scores = [score(metric, value, model) for model, values in {"base": (0.0, 0.0, 0.1), "sft": (0.75, 0.5, 0.5)}.items()
              for metric, value in zip(("f1_idk", "idk_rate", "confidence_weighted_accuracy"), values, strict=True)]  # fmt: skip
    plain = [score(m, v, "sft", "p", low=0.0, high=1.0) for m, v in (("ece", 0.25), ("confidence_weighted_accuracy", 0.5))]
    others = [score("accuracy", 0.5, "sft", "q")]
    tests = [compared("ece", 0.125, b="sft", dataset="p", higher_is_better=False)]
    samples = {**REFUSALS, "p": [sample("a")], "q": [sample("a")]}
    (table,) = strategies(made_results([*scores, *plain, *others], samples=samples, comparisons=tests, baseline="base"))
    assert table.board.groups == [("all questions", 3), ("p (all answerable)", 2)]
    assert table.board.columns == [f"F1 IDK{NBSP}↑", f"conf.-w. acc.{NBSP}↑", "abstained", f"conf.-w. acc.{NBSP}↑", f"ECE{NBSP}↓"]
    (_, _, base), (_, _, tuned) = table.board.rows
    assert [m.value for m in base] == ["0.000", "0.100", "0.000", "–", "–"]
    assert [m.value for m in tuned] == ["0.750", "0.500", "0.500", "0.5", "0.2"] and tuned[-1].sign == "▽"
    assert table.prevalence == "1 of 2 questions (50.0%) are unanswerable" and table.without == []


def test_a_model_without_confidences_has_a_dash_and_the_reason():
    why = {"why": NO_CONFIDENCE, "n": 0, "n_unscored": 10}
    scores = [score("f1_idk", 0.5, m) for m in "mn"] + [score("confidence_weighted_accuracy", 0.25, "n")]
    table = only([*scores, score("confidence_weighted_accuracy", None, **why)])
    assert table.without == ["m"]
    rows = {model: marks for model, _, marks in table.board.rows}
    assert rows["m"][1] == MarkedNumber("–", "no confidence", title=NO_CONFIDENCE)
    assert rows["n"][1].value == "0.250"


def test_a_table_is_for_data_sets_on_which_refusals_are_scored():
    assert strategies(made_results([score("accuracy", 0.5)], samples=REFUSALS)) == []
    assert strategies(made_results([score("f1_idk", 0.5)], samples={"d": [sample("a")]})) == []
    (table,) = strategies(made_results([score("f1_idk", 0.5)]))
    assert table.prevalence == "", "whose samples are not at hand"
    silent = {"d": [*REFUSALS["d"], sample("c", answerable=None), sample("e", answerable=None)]}
    (table,) = strategies(made_results([score("f1_idk", 0.5)], samples=silent))
    assert table.prevalence == "1 of 4 questions (25.0%) are unanswerable", "questions without the field are answerable"


def test_whether_every_question_has_an_answer():
    results = made_results([score("f1_idk", 0.5)], samples={"d": [sample("a", answerable=None)], **{"e": REFUSALS["d"]}})
    assert answerable_only(results, "d") and not answerable_only(results, "e") and not answerable_only(results, "gone")


def test_categories_are_in_the_taxonomys_order_and_unknown_ones_last():
    parts = ("zeta", "aleatoric/temporal", "epistemic", "epistemic/extraneous", "aleatoric", "epistemic/knowledge", "zeta/eta")
    results = made_results(
        [*sliced("f1_idk", 0.5, parts=parts), score("f1_idk", 0.5), score("f1_idk", 0.5, slice="kind=x")], taxonomy=TAXONOMY
    )
    mains, leaves = categories(results, "d")
    assert mains == ["epistemic", "aleatoric", "zeta"]
    assert leaves == ["epistemic/knowledge", "epistemic/extraneous", "aleatoric/temporal", "zeta/eta"]
    assert categories(results, "e") == ([], [])
    plain = made_results(sliced("f1_idk", 0.5, parts=("b", "a/x", "a")))
    assert categories(plain, "d") == (["a"], ["a/x"]), "b has nothing below it"


def test_how_a_model_was_derived_is_said_and_the_order_is_that_of_the_page():
    rules = [{"model": "base", "method": "cut", "dataset": "e"}]
    models = ["x", "own", "base+cut", "tuned", "r", "base", "p"]
    params = {"baseline": "base", "finetunes": {"tuned": "sft", "r": "rtune", "own": "mine", "p": "dpo"}}
    results = made_results([score("f1_idk", 0.5, m) for m in models], rules=rules, samples=REFUSALS, **params)
    assert {model: kind_of(results, model) for model in results.models} == {
        "base": "", "x": "", "base+cut": "abstention or recalibration", "tuned": "supervised fine-tuning",
        "r": "R-tuning", "p": "DPO", "own": "mine",
    }  # fmt: skip
    (table,) = strategies(results)
    assert [model for model, _, _ in table.board.rows] == results.models


def ranked(metric, candidates, part="all"):
    """Return rows of the table of rankings: candidate -> (significantly better than all others, not worse than a better one)."""
    column = {"dataset": "d", "variant": "clean", "slice": part, "metric": metric, "among": "models"}
    return [{**column, "candidate": name, "is_best": best, "may_be_best": may} for name, (best, may) in candidates.items()]


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ({"b": (True, True), "a": (False, False), "c": (False, False)}, ["", "best", ""]),
        ({"b": (False, True), "c": (False, True), "a": (False, False)}, ["lead", "lead", ""]),
        ({"b": (False, True), "c": (False, True), "a": (False, True)}, ["", "", ""]),
        ({}, ["", "", ""]),
    ],
    ids=["best", "shared", "no evidence", "not ranked"],
)
def test_marks_come_from_the_rankings_and_not_from_overlap(candidates, expected):
    scores = [score("f1_idk", value, name, low=value - 0.01, high=value + 0.01) for name, value in (("a", 0.1), ("b", 0.5), ("c", 0.9))]
    table = only(scores, rankings=ranked("f1_idk", candidates) + ranked("f1_idk", {"a": (True, True)}, "category=epistemic"))
    ranks = {model: marks[-1].rank for model, _, marks in table.board.rows}
    assert [ranks[name] for name in "cba"] == expected


def test_a_value_with_its_test_against_the_baseline():
    scores = [
        score("f1_idk", 0.5, "base"),
        score("f1_idk", 0.75, "n", low=0.5, high=1.0, n=1200, n_unscored=3),
        score("lave_idk_accuracy", 0.5, "n"),
        score("lave_idk_accuracy", None, "base", n=0, n_unscored=4, why="no answer was judged"),
    ]
    tests = [compared("f1_idk", 0.25), compared("f1_idk", 0.25, a="other", b="base"), compared("f1_idk", 0.9, part="kind=a")]
    (_, _, base), (_, _, n) = only(scores, baseline="base", comparisons=tests).board.rows
    assert n[0] == MarkedNumber(
        "0.8",
        "0.5 – 1.0",
        "",
        "△",
        "better",
        "n = 1,200, unscored 3; +0.25 (+0.12 to +0.50) against base, p = 0.0200",
    )
    assert base[0] == MarkedNumber("0.500", title="n = 10")
    assert base[1] == MarkedNumber("undefined", title="no answer was judged; n = 0, unscored 4", why="no answer was judged")
    table = only([score("f1_idk", 0.5, "m"), score("lave_idk_accuracy", 0.5, "n")])
    rows = {model: marks for model, _, marks in table.board.rows}
    assert rows["m"][1] == MarkedNumber("–", title="not measured")


def test_averages_are_unweighted_means_over_categories():
    scores = [score("f1_idk", 0.9), *sliced("f1_idk", 0.9, parts=MAINS), *sliced("f1_idk", 0.25, parts=LEAVES[:1])]
    scores += sliced("f1_idk", 0.5, parts=LEAVES[1:2]) + sliced("f1_idk", 0.75, parts=LEAVES[2:]) + [score("f1_idk", 0.1, "n")]
    averages = only(scores, taxonomy=TAXONOMY).averages
    assert (averages.groups, averages.columns) == ([("epistemic", 1), ("aleatoric", 1), ("all", 1)], [f"F1 IDK{NBSP}↑"] * 3)
    assert averages.rows == [("m", ["0.625", "0.250", "0.500"]), ("n", ["undefined", "undefined", "undefined"])]
    assert averages.sizes == "Each has 10 questions"


def test_averages_say_that_a_category_of_few_questions_counts_as_much():
    scores = [score("f1_idk", 0.9), *sliced("f1_idk", 0.5, parts=[*MAINS, *LEAVES[:2]]), *sliced("f1_idk", 1.0, parts=LEAVES[2:], n=6)]
    averages = only(scores, taxonomy=TAXONOMY).averages
    assert averages.rows == [("m", ["0.750", "0.500", "0.667"])]
    assert averages.sizes == f"All categories have equal weight, although {LEAVES[2]} has 6 questions and the largest 10"


def test_a_mean_over_categories_of_which_one_is_undefined_is_undefined():
    scores = [score("f1_idk", 0.9), *sliced("f1_idk", 0.9, parts=MAINS), *sliced("f1_idk", 0.25, parts=LEAVES[:2])]
    averages = only([*scores, *sliced("f1_idk", None, parts=LEAVES[2:])], taxonomy=TAXONOMY).averages
    assert averages.rows == [("m", ["undefined", "0.250", "undefined"])]


def test_further_tests_are_those_that_are_not_against_the_baseline():
    scores = [score(metric, 0.5, m) for metric in ("f1_idk", "answerable_accuracy", "ece") for m in ("base", "n", "o")]
    tests = [
        compared("f1_idk", 0.25, "n", "o"),
        compared("ece", 0.125, "n", "o"),
        compared("f1_idk", 0.25),
        compared("f1_idk", 0.25, "n", "o", part="kind=a"),
        compared("f1_idk", 0.25, "n", "o", dataset="e"),
        compared("f1_idk", 0.5, "o", "base"),
    ]
    header, rows = only(scores, baseline="base", comparisons=tests).further
    assert header == [f"F1 IDK{NBSP}↑", f"answerable accuracy{NBSP}↑", f"ECE{NBSP}↓ (squared ece_debiased)"]
    assert [(who, [m.value for m in marks]) for who, marks in rows] == [
        ("o against n", ["+0.25", "–", "+0.1"]), ("base against o", ["+0.50", "–", "–"]),
    ]  # fmt: skip
    assert only(scores, baseline="base", comparisons=[compared("f1_idk", 0.25)]).further is None


RULE = {"model": "m", "dataset": "d", "method": "cut", "part": "all", "threshold": 0.5, "attained": True, "statement": "It promises.",
        "fit": "val", "n_fit": 1200, "n_abstained": 300, "n": 1000}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "m+cut: threshold 0.500; fitted on 1,200 answers of the validation split; turns 30.0% of 1,000 answers into abstentions. "
         "It promises."),
        ({"part": "epistemic", "fit": "half"}, "m+cut, epistemic: threshold 0.500; fitted on 1,200 answers of half of the test groups; "
         "turns 30.0% of 1,000 answers into abstentions. It promises."),
        ({"threshold": None, "n_fit": 0, "n": 0, "n_abstained": 0, "fit": "test"}, "m+cut: no threshold, "
         "since there are no answers to choose it on; fitted on 0 answers of the test split itself, which is optimistic. It promises."),
        ({"attained": False, "fit": "elsewhere"}, "m+cut: threshold 0.500; fitted on 1,200 answers of elsewhere; turns 30.0% "
         "of 1,000 answers into abstentions. It promises. The rule could not be fitted, or attains no target."),
    ],
)  # fmt: skip
def test_a_rule_in_words(change, text):
    assert only([score("f1_idk", 0.5)], rules=[{**RULE, **change}, {**RULE, "dataset": "e"}]).rules == [text]


PLAIN = {"d": REFUSALS["d"], "p": [sample("a")], "q": [sample("a")]}


def costs(**more):
    scores = [score("answerable_accuracy", v, m, low=v - 0.25, high=v + 0.125) for m, v in (("base", 0.75), ("n", 0.5), ("o", 0.5))]
    scores += [score("accuracy", 0.5, m, "p") for m in ("base", "n")] + [
        score("vqa_accuracy", 0.25, "base", "p"),
        score("ece", 0.5, "n", "q"),
    ]
    return cost_table(made_results(scores, samples=PLAIN, baseline="base", **more))


def test_what_it_costs_where_questions_have_answers():
    tests = [compared("answerable_accuracy", -0.25, low=-0.5, high=-0.125), compared("accuracy", 0.25, dataset="p", b="n", low=None)]
    table = costs(comparisons=tests)
    assert table.columns == [("d", "answerable accuracy ↑"), ("p", "VQA accuracy ↑")] and table.baseline == "base"
    assert [(model, [(m.value, m.interval) for m in marks]) for model, marks in table.rows] == [
        ("base", [("0.75", "(0.50 – 0.88)"), ("0.250", "")]), ("n", [("0.50", "−0.25 (−0.50 to −0.12)"), ("–", "")]),
        ("o", [("0.50", "0.25 – 0.62"), ("–", "")]),
    ]  # fmt: skip


@pytest.mark.parametrize(("low", "high"), [(None, 0.5), (-0.5, None)])
def test_a_change_without_an_interval(low, high):
    assert costs(comparisons=[compared("answerable_accuracy", -0.25, low=low, high=high)]).rows[1][1][0].interval == "−0.250"


def test_a_change_that_is_undefined_leaves_the_values_own_interval():
    assert costs(comparisons=[compared("answerable_accuracy", None)]).rows[1][1][0].interval == "0.25 – 0.62"


def test_benchmarks_of_other_kinds_are_shown_by_their_own_metrics():
    """Table 6: refusals by all accuracy, hallucinations by what their judges measure; what no model was measured by is left out."""
    scores = [score("answerable_accuracy", 0.5, m) for m in "mn"] + [score("lave_idk_accuracy", 0.5, "m")]
    scores += [score("lave_idk_accuracy", 0.25, "m", "unk"), score("answerable_accuracy", 0.5, "m", "unk")]
    scores += [
        score("mmhal_score", 3.0, "m", "mmhal"),
        score("mmhal_hallucination_rate", 0.5, "m", "mmhal"),
        score("accuracy", 1, "m", "mmhal"),
    ]
    scores += [
        score("yes_no_f1@positive=no", 0.5, "m", "amber"),
        score("mme_score", None, "m", "amber"),
        score("vqa_accuracy", 0.5, "m", "vqa"),
    ]
    pairs = [sample("a", pair_id="1"), sample("b", pair_id="1", answerable=False)]
    samples = {"d": pairs, "unk": REFUSALS["d"], "mmhal": [sample("a")], "amber": [sample("a")], "vqa": [sample("a")]}
    table = cost_table(made_results(scores, samples=samples))
    assert table.columns == [
        ("d", "answerable accuracy ↑"), ("unk", "answerable accuracy ↑"), ("unk", "LAVE IDK accuracy ↑"), ("mmhal", "mmhal score ↑"),
        ("mmhal", "mmhal hallucination rate ↓"), ("amber", "yes no F1 positive=no ↑"), ("vqa", "VQA accuracy ↑"),
    ]  # fmt: skip


def test_there_are_no_costs_without_refusals_or_with_one_model():
    assert cost_table(made_results([score("accuracy", 0.5, m) for m in "mn"], samples={"d": [sample("a")]})) is None
    assert cost_table(made_results([score("answerable_accuracy", 0.5)], samples=REFUSALS)) is None
    assert cost_table(made_results([score("f1_idk", 0.5, m) for m in "mn"], samples=REFUSALS)) is None
    assert cost_table(made_results([score("answerable_accuracy", 0.5, m) for m in "mn"], samples=REFUSALS)) is not None


BLIND_MODELS = ("base", "base+blind_refuser", "n", "n+swapped_picture")


def test_an_improvement_counts_only_beyond_the_baselines_that_ignore_the_image():
    scores = [score("f1_idk", 0.5, m) for m in (*BLIND_MODELS, "o")]
    tests = [
        compared("f1_idk", 0.4), compared("f1_idk", 0.3, b="o"), compared("f1_idk", 0.1, "n+swapped_picture", "n"),
        compared("f1_idk", 0.2, "base+blind_refuser", "n"), compared("f1_idk", 0.01, "base+blind_refuser", "o", p=0.4),
    ]  # fmt: skip
    foreign = [compared("f1_idk", -0.9, "base+blind_refuser", "n", **where) for where in ({"part": "kind=a"}, {"dataset": "e"})]
    table = only(scores, baseline="base", comparisons=[*tests, *foreign])
    assert [model for model, kind, _ in table.board.rows if kind == "baseline"] == ["base+blind_refuser", "n+swapped_picture"]
    header, rows = table.beyond
    assert header == [f"F1 IDK{NBSP}↑"]
    assert [(m, mark.value, mark.interval, mark.sign) for m, (mark,) in rows] == [
        ("n", "+0.1", "over n+swapped_picture", "△"), ("o", "0.0", "over base+blind_refuser", ""),
    ]  # fmt: skip
    (sentence,) = table.gains
    assert sentence.startswith(
        "F1 IDK: significantly better than base and than all their baselines that ignore the image or the question: n. "
        "Better than base but not shown to be better than all their baselines that ignore the image or the question: o (0.0"
    )
    tests[-1] = compared("f1_idk", 0.2, "base+blind_refuser", "o")
    sentence, limit = only(scores, baseline="base", comparisons=tests).gains
    assert sentence.endswith("ignore the image or the question: n, o.") and limit.endswith("shuffled or removed image: o.")


def test_without_baselines_that_ignore_the_image_the_table_says_what_is_missing():
    scores = [score("f1_idk", 0.5, m) for m in ("base", "n")]
    table = only(scores, baseline="base", comparisons=[compared("f1_idk", 0.4)])
    assert table.beyond is None and table.gains[0].startswith(
        "This spec has no baseline that ignores the image or the question (add `blind:`)"
    )
    table = only([score("f1_idk", 0.5, m) for m in BLIND_MODELS])
    assert table.beyond is None and table.gains[0].startswith("No model was tested against the baselines that ignore the image")
    assert only([score("f1_idk", 0.5)]).gains == []


def test_what_the_blind_refuser_does_is_told_in_words():
    rule = {**RULE, "method": "blind_refuser", "statement": "Refuses by the question alone.", "fit": "train"}
    assert only([score("f1_idk", 0.5)], rules=[rule]).rules == [
        "m+blind_refuser: Refuses by the question alone. It was trained on 1,200 questions. It refuses 30.0% of 1,000 questions."
    ]
