from qualm.runners.scoring.score_warnings import collapse_warnings, metric_notes, unscored_warnings


def test_a_value_without_an_interval_is_told_of_once():
    few = {"why_no_interval": "3 scored groups: an interval needs 5"}
    rows = [row(why=None, **few), row(model="other", **few), row(variant="blur", **few), row(slice="category=x", **few)]
    rows += [row(model="blurred", variant="blur", **few), row(model="sliced", slice="category=x", **few)]
    assert metric_notes(rows) == ["d: ece has no interval (m, other): 3 scored groups: an interval needs 5"]
    assert metric_notes(rows, intervals=False) == []


def test_conformal_settings_of_one_metric_are_one_line():
    few = {"why": None, "why_no_interval": "no resample shows by how much"}
    rows = [row(metric=f"mce[{setting}]", model=model, **few) for setting in ("ours", "published") for model in ("m", "n")]
    assert metric_notes([*rows, row(metric="mce[other]", **few)]) == [
        "d: mce[ours, published] has no interval (m, n): no resample shows by how much",
        "d: mce[other] has no interval (m): no resample shows by how much",
    ]


def test_the_assumption_of_a_metric_with_a_value_is_one_line():
    rows = [row(metric=f"corrected_accuracy@method={name}", why=None) for name in ("ppi", "rogan_gladen")]
    assumed = "corrected_accuracy assumes that the labelled answers are a random sample of all answers"
    assert metric_notes([*rows, row(metric="accuracy", why=None), row(metric="of_another_package", why=None)]) == [assumed]
    assert metric_notes([row(metric="corrected_accuracy", value=None, why="none", n=0, n_unscored=0)])[0].startswith(
        "d: corrected_accuracy is undef"
    )


def row(**changes):
    plain = {"dataset": "d", "model": "m", "metric": "ece", "variant": "clean", "slice": "all", "value": 0.5, "n": 3, "n_unscored": 1}
    return {**plain, "why": "the judge gave no rating", **changes}


def test_unscored_answers_of_one_reason_are_one_line():
    rows = [row(), row(metric="auroc"), row(model="other", n=0, n_unscored=1200), row(why="no confidence", metric="mce")]
    assert unscored_warnings(rows) == [
        "d, m: 1 of 4 answers are not scored (ece, auroc): the judge gave no rating",
        "d, other: all 1,200 answers are not scored (ece): the judge gave no rating",
        "d, m: 1 of 4 answers are not scored (mce): no confidence",
    ]


def test_unscored_answers_of_several_models_are_one_line_where_all_is_alike():
    labels = ("ece[held/beta]", "ece[held/platt]", "coverage[half/lac]", "accuracy")
    rows = [row(model=model, metric=label, n=n) for n, model in ((0, "b"), (0, "a"), (3, "c"), (3, "d")) for label in labels]
    metrics = "ece, coverage, accuracy"
    assert unscored_warnings(rows) == [
        f"d, b, a: all 1 answers of each are not scored ({metrics}): the judge gave no rating",
        f"d, c, d: 1 of 4 answers of each are not scored ({metrics}): the judge gave no rating",
    ]


def test_only_clean_inputs_all_questions_and_given_reasons_count():
    assert unscored_warnings([row(variant="blur"), row(slice="category=x"), row(why=""), row(why=None), row(n_unscored=0)]) == []


def test_metrics_without_a_value_are_one_line_per_reason():
    without = {"value": None, "n": 0, "n_unscored": 0, "why": "every scored question is uncertain"}
    rows = [
        row(**without),
        row(**without, slice="category=x"),
        row(**without, model="b"),
        row(value=None, n=0),
        row(value=None, why="all 3 answers are wrong", model="few"),
        row(),
    ]
    assert metric_notes(rows) == [
        "d: ece is undefined (m, b): every scored question is uncertain",
        "d: ece is undefined (few): all 3 answers are wrong",
    ]
    assert unscored_warnings(rows[4:5]) == [], "the reason of an undefined value is not why one of its rows is unscored"
    assert metric_notes([row(**without, slice="category=x")]) == [], "a slice without a value is no news"


def test_many_models_are_counted_where_lines_are_short():
    many = [row(model=f"m{i:02}", metric="auroc", value=None, n=3, n_unscored=0, why="all are right") for i in range(26)]
    assert metric_notes(many, shorten=True) == [
        "d: auroc is undefined (26 models, such as m00 and m01; the report names all): all are right"
    ]
    assert metric_notes(many)[0].count("m") == 26 and metric_notes(many[:4], shorten=True) == metric_notes(many[:4])
    unscored = [row(model=f"m{i:02}") for i in range(5)]
    assert unscored_warnings(unscored, shorten=True)[0].startswith("d, 5 models, such as m00 and m01; the report names all: ")


def test_collapses_are_counted_per_model_whatever_the_metric():
    dark = {"variant": "dark", "collapsed": "97% of its answers are “5”"}
    rows = [
        row(),
        row(**dark),
        row(**dark, metric="accuracy"),
        row(**dark, slice="changed"),
        row(variant="blur"),
        row(variant="blur", model="n"),
    ]
    assert collapse_warnings(rows) == [
        "d, m: the model collapses under 1 of 2 variants, which means over perturbations leave out: dark (97% of its answers are “5”)"
    ]
