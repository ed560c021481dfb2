"""What the permutations of a spec can show, counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.compiler.forecast.reach import smallest_p
from tests.compiler.resolve.fitted.test_abstentions import resolve

SPEC = """\
qualm: 1
name: t
datasets: {d: {card: synthetic_scenes}}
models:
  a: {hf_vlm: {artifact: x}}
  b: {hf_vlm: {artifact: x}}
  c: {hf_vlm: {artifact: x}}
judges: [rules]
estimators: [perplexity, mean_token_entropy]
"""
COMPARED = SPEC + "metrics: [accuracy, auroc]\nslices: [category]\n"


def test_a_spec_that_tests_nothing(tmp_path: Path) -> None:
    assert smallest_p(resolve(tmp_path, SPEC + "metrics: [accuracy]\n")) is None


@pytest.mark.parametrize("family", ["study", "slice", "metric"])
def test_a_spec_that_asks_no_questions_tests_nothing(tmp_path: Path, family: str) -> None:
    text = SPEC.replace("{card: synthetic_scenes}", "{card: synthetic_scenes, train: 40, evaluate: false}")
    text += "perturbations: [{blur: {radius: [2, 6]}}]\nmetrics: [uncertainty_reflection_rate]\n"
    assert smallest_p(resolve(tmp_path, text + f"compare: {{correction: holm, family: {family}}}\n")) is None


@pytest.mark.parametrize(
    ("family", "tests"),
    [("study", 2 * 3 * 2), ("slice", 2 * 3), ("metric", 2)],
)
def test_tests_are_those_of_pairs_labels_and_slices(tmp_path: Path, family: str, tests: int) -> None:
    """Two pairs of models; accuracy, and AUROC of two estimators; all questions and one value of a field at least."""
    found = smallest_p(resolve(tmp_path, COMPARED + f"compare: {{baseline: a, family: {family}, correction: holm, permutations: 99}}\n"))
    assert found is not None and found.tests == tests
    assert found.p == pytest.approx(tests / 100) and found.enough == tests * 20
    assert ("nothing can be significant" in found.advice) is (tests >= 5)


def test_max_t_does_not_depend_on_the_number_of_tests(tmp_path: Path) -> None:
    found = smallest_p(resolve(tmp_path, COMPARED + "compare: {baseline: a}\n"))
    assert found is not None and found.p == pytest.approx(1 / 1001) and found.advice == ""
    few = smallest_p(resolve(tmp_path, COMPARED + "compare: {baseline: a, permutations: 10}\n"))
    assert few is not None and "take `permutations: 20` or more" in few.advice and "max_t`, for" not in few.advice
    none = smallest_p(resolve(tmp_path, COMPARED + "compare: {baseline: a, permutations: 0}\n"))
    assert none is not None and none.p == 1 and none.advice


@pytest.mark.parametrize(
    ("compare", "tests"),
    [
        ("baseline: a, pairs: [[b, c], [a, b]]", 3),  # of the baseline b and c, which a pair names once more, and the other pair
        ("pairs: [[b, c]]", 1),
        ("baseline: a, pairs: [[b, a]]", 3),  # the other way round it is another test
    ],
)
def test_a_pair_that_the_baseline_has_counts_once(tmp_path: Path, compare: str, tests: int) -> None:
    found = smallest_p(resolve(tmp_path, SPEC + f"metrics: [accuracy]\ncompare: {{{compare}, family: slice, correction: holm}}\n"))
    assert found is not None and found.tests == tests


def test_a_p_that_is_no_smaller_than_the_level_is_not_enough(tmp_path: Path) -> None:
    for permutations, advised in ((39, True), (40, False)):
        text = COMPARED + f"compare: {{baseline: a, family: metric, correction: holm, permutations: {permutations}}}\n"
        found = smallest_p(resolve(tmp_path, text))
        assert found is not None and found.p == pytest.approx(2 / (permutations + 1)) and bool(found.advice) is advised
    few = smallest_p(resolve(tmp_path, COMPARED + "compare: {baseline: a, family: study, correction: holm, permutations: 5}\n"))
    assert few is not None and (few.tests, few.p, few.permutations) == (12, 1.0, 5)


def test_metrics_of_sets_are_tested_for_every_conformal_setting(tmp_path: Path) -> None:
    text = SPEC.replace("{card: synthetic_scenes}", "{card: synthetic_scenes, format: multiple_choice}") + "metrics: [accuracy, set_size]\n"
    for settings, tests in (("[lac]", 2 * (1 + 1)), ("[lac], alpha: [0.05, 0.1]", 2 * (2 + 2))):
        more = f"conformal: {{half: {{scores: {settings}}}}}\ncompare: {{baseline: a, family: slice, correction: holm}}\n"
        found = smallest_p(resolve(tmp_path, text + more))
        assert found is not None and found.tests == tests


@pytest.mark.parametrize(("family", "tests"), [("study", 2 * (2 * 20)), ("slice", 20), ("metric", 12)])
def test_pairs_of_models_and_effects_are_counted_together(tmp_path: Path, family: str, tests: int) -> None:
    """Of each of two data sets six cells (three models, two variants) of two estimators, and of two pairs of models the accuracy, the mean
    uncertainty by both estimators, and how many inputs a perturbation left as they were."""
    text = SPEC.replace("}}\nmodels", "}, e: {card: synthetic_scenes}}\nmodels")
    text += "perturbations: [{blur: {radius: [2, 6]}}]\nmetrics: [accuracy, uncertainty_reflection_rate]\nslices: [category]\n"
    found = smallest_p(resolve(tmp_path, text + f"compare: {{baseline: a, correction: holm, family: {family}}}\n"))
    assert found is not None and found.tests == tests


def test_effects_of_perturbations_count(tmp_path: Path) -> None:
    text = SPEC + "perturbations: [{blur: {radius: [2, 6]}}]\nmetrics: [uncertainty_reflection_rate]\n"
    found = smallest_p(resolve(tmp_path, text + "compare: {correction: holm, permutations: 100}\n"))
    assert found is not None and found.tests == 3 * 2 * 2
    assert "or `correction: max_t`, for which the number of tests does not matter" in found.advice


@pytest.mark.parametrize(("family", "tests"), [("study", 3 * 2 * 2), ("slice", 3 * 2 * 2), ("metric", 3 * 2 * 2)])
def test_data_sets_that_stay_clean_are_not_tested(tmp_path: Path, family: str, tests: int) -> None:
    text = SPEC.replace("}}\nmodels", "}, e: {card: synthetic_scenes, perturb: false}}\nmodels")
    text += "perturbations: [{blur: {radius: [2, 6]}}]\nmetrics: [uncertainty_reflection_rate]\n"
    found = smallest_p(resolve(tmp_path, text + f"compare: {{correction: holm, family: {family}, permutations: 100}}\n"))
    assert found is not None and found.tests == tests
