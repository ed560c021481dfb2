"""Tables 2 to 4: estimators against labelled subsets, and beside asking outright."""

from qualm.runners.reporting.sections.uncertain_questions import uncertain_questions
from tests.runners.reporting.made_results import made_results, sample, score

SAMPLES = {"image": [sample("a"), sample("b")], "text": [sample("c")], "cot": [sample(n, meta=[("asked", "?")]) for n in "ab"]}


def results(*rows, rankings=()):
    return made_results(rows, samples=SAMPLES, rankings=rankings)


def of(metric, value, estimator, dataset="image", **more):
    return score(f"{metric}[{estimator}]", value, dataset=dataset, **more)


def test_table_2_has_subsets_side_by_side_with_floors():
    best = {"among": "estimators", "dataset": "image", "slice": "all", "metric": "auroc_uncertain", "model": "m", "variant": "clean"}
    found = uncertain_questions(results(
        of("auroc_uncertain", 0.75, "luq", low=0.625, high=0.875), of("auroc_uncertain", 0.5, "p_true"),
        of("best_f1", 0.8, "luq"), of("best_f1", 2 / 3, "p_true"), of("best_f1_floor", 2 / 3, "luq"),
        of("auroc_uncertain", 0.25, "p_true", "text"), of("auroc_uncertain", None, "luq", "text", why="no scored question is uncertain"),
        of("auroc_uncertain", 0.9, "luq", "cot"), of("best_f1", 0.9, "luq", variant="blur"),
        rankings=[best | {"candidate": "luq", "is_best": True, "may_be_best": True}, best | {"candidate": "p_true", "may_be_best": False}],
    ))  # fmt: skip
    assert found is not None and not found.asked
    (table,) = found.subsets
    assert table.groups == [("image", 2), ("text", 1)]
    assert table.columns == [("AUROC ↑", ""), ("best F1 ↑", "floor 0.667"), ("AUROC ↑", "")]
    cells = dict(table.rows)
    assert [c.value for c in cells["LUQ"]] == ["0.75", "0.800", "undefined"] and cells["LUQ"][2].small == "no scored question is uncertain"
    assert [c.value for c in cells["P(True)"]] == ["0.500", "0.667", "0.250"]
    assert cells["LUQ"][0].heat == 26, "half of the strongest: half of the way from chance to 1"
    assert [c.strong for c in cells["LUQ"]] == [True, False, False] and cells["LUQ"][0].small == "0.62 – 0.88"
    assert (cells["P(True)"][0].heat, cells["P(True)"][1].heat, cells["P(True)"][2].tone) == (0, 0, "down"), (
        "chance and floor have no colour"
    )


def test_floors_are_over_the_questions_that_an_estimator_has_values_of():
    """One undefined value leaves 299 questions, 149 of them uncertain: calling them all so has 298 / 448, of all 300 it is 2 / 3."""
    less = 298 / 448
    found = uncertain_questions(results(
        of("best_f1", less, "luq", n=299, n_unscored=1), of("best_f1_floor", less, "luq", n=299, n_unscored=1),
        of("best_f1", 2 / 3, "p_true", n=300), of("best_f1_floor", 2 / 3, "p_true", n=300),
        of("best_f1", 0.6, "perplexity"), score("f1_uncertain", 0.625, dataset="cot"),
    ))  # fmt: skip
    assert found is not None
    (table,) = found.subsets
    assert table.columns == [("best F1 ↑", "floors 0.665 – 0.667, each over the questions of its row")]
    cells = {name: cells[0] for name, cells in table.rows}
    assert [(c.value, c.heat, c.tone) for c in cells.values()][:2] == [("0.665", 0, "up"), ("0.667", 0, "up")], "at its floor each"
    assert "; floor 0.665 on these" in cells["LUQ"].title and "floor" not in cells["perplexity"].title
    assert found.asked[0].note.endswith("Calling all questions uncertain has F1 0.667."), "of the best estimator, P(True)"


def test_table_4_has_the_best_estimator_beside_each_way_of_asking_the_same_questions():
    found = uncertain_questions(results(
        of("best_f1", 0.7, "p_true"), of("best_f1", 0.75, "luq", low=0.5, high=0.875), of("best_f1_floor", 0.6, "luq"),
        score("f1_uncertain", 0.625, dataset="cot", n_unscored=3), of("best_f1", 0.9, "luq", "text"),
    ))  # fmt: skip
    assert found is not None
    (sheet,) = found.asked
    assert sheet.header == ["model", "best estimator", "asked: cot"]
    assert sheet.rows == [["m", "0.75 (0.50 – 0.88), LUQ", "0.625, 3 unscored"]]
    assert sheet.note.endswith("Calling all questions uncertain has F1 0.600.") and sheet.wordy


def test_nothing_without_its_metrics():
    assert uncertain_questions(results(score("accuracy", 0.5, dataset="image"))) is None
