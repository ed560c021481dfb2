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
