"""Metrics bring their companions, and are held to what the spec has."""

from tests.compiler.spec.resolving import change, problems, resolve


def test_metrics_bring_those_without_which_they_mislead(tmp_path):
    text = change(
        "  - auroc\n", "  - best_f1\n  - uncertainty_reflection_rate\n  - hallucination_change_correlation: {only_clean_correct: true}\n"
    )
    found = {ref.label: ref.args for ref in resolve(tmp_path, text).metrics}
    assert {"best_f1_floor", "uncertainty_tie_rate"} <= set(found)
    assert found["hallucination_rate@only_clean_correct=true"] == {"only_clean_correct": True, "right_from": 0.5}
    both = text.replace("  - best_f1\n", "  - best_f1\n  - best_f1_floor\n  - hallucination_rate: {only_clean_correct: [true, false]}\n")
    labels = [ref.label for ref in resolve(tmp_path, both).metrics]
    assert sorted(labels) == labels and len(set(labels)) == len(labels)
    assert sum(label.startswith("hallucination_rate") for label in labels) == 2


def test_a_companion_has_the_values_of_the_metric_that_brings_it(tmp_path):
    """One of other values beside it is another metric."""
    hcc = "hallucination_change_correlation: {only_clean_correct: true}"
    text = change("  - auroc\n", f"  - {hcc}\n  - hallucination_rate: {{only_clean_correct: false}}\n")
    labels = [ref.label for ref in resolve(tmp_path, text).metrics]
    assert [label for label in labels if label.startswith("hallucination_rate")] == [
        "hallucination_rate",
        "hallucination_rate@only_clean_correct=true",
    ]
    own = {"only_clean_correct": True, "right_from": 0.7}
    text = change("  - auroc\n", "  - hallucination_change_correlation: {only_clean_correct: true, right_from: 0.7}\n")
    (brought,) = [ref for ref in resolve(tmp_path, text).metrics if ref.plugin.name == "hallucination_rate"]
    assert brought.args == own


def test_nothing_to_compare_with_the_clean_inputs(tmp_path):
    text = change("  - auroc\n", "  - hallucination_rate\n").replace("perturbations:\n  - blur: {radius: [2, 6]}\n", "")
    assert problems(tmp_path, text) == [
        "t.yaml:14:5: metrics[2]: hallucination_rate compares perturbed inputs with clean ones, "
        "and this spec has no perturbations (add `perturbations:`)"
    ]


def test_a_slice_or_comparison_that_stands_there_twice(tmp_path):
    assert problems(tmp_path, change("metrics:", "slices: [category, answerable, category]\nmetrics:")) == [
        "t.yaml:13:9: slices: expected each of them once, and category is there twice, got a list ['category', 'answerable', 'category']"
    ]
    (problem,) = problems(tmp_path, change("metrics:", "compare: {pairs: [[base, other], [base, other]]}\nmetrics:"))
    assert "compare.pairs: expected each of them once, and [base, other] is there twice" in problem


def test_ratings_of_sampled_answers_need_a_judge_and_several_of_them(tmp_path):
    text = change("  - auroc\n", "  - sampling_share\n")
    resolve(tmp_path, text)
    (problem,) = problems(tmp_path, text.replace("judges: [rules]\n", ""))
    assert "sampling_share reads ratings of sampled answers, and this spec has no judges (add `judges:`)" in problem
    (problem,) = problems(tmp_path, text + "inference: {draws: 1}\n")
    assert "sampling_share compares sampled answers; expected at least 2, got 1 (raise `inference.draws`)" in problem


def test_macro_averages_name_fields_or_datasets(tmp_path):
    resolve(tmp_path, change("metrics:", "macro_averages: [category*answerable, datasets]\nmetrics:"))
    (problem,) = problems(tmp_path, change("metrics:", "macro_averages: [categroy, datasets]\nmetrics:"))
    assert problem == "t.yaml:13:18: macro_averages[0]: samples have no field 'categroy' (did you mean 'category'?)"


def test_metrics_of_data_that_nobody_is_asked(tmp_path):
    """What a model is trained on is asked where the spec says so."""
    sft = "finetunes: {tuned: {sft: {base: base, train: [scenes]}}}\n"
    tuned = change("test: 10}", "test: 10, train: 4}").replace("judges:", f"{sft}judges:")
    (problem,) = problems(tmp_path, tuned)
    assert problem.startswith("t.yaml:15:3: metrics: there is nothing to measure: no model answers any dataset of this spec")
    assert problem.endswith("(write `evaluate: true` beside a `card:`, or add another dataset)")
    resolve(tmp_path, tuned.replace("train: 4", "train: 4, evaluate: true"))
    assert not resolve(tmp_path, tuned.replace("train: 4", "train: 4, evaluate: false")).evaluated, "so it is meant"
