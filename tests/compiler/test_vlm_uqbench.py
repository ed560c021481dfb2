"""VLM-UQBench at the paper's scale: the constants that the paper states are those of the resolved spec."""

import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.resolved import Resolved


@pytest.fixture(scope="module")
def resolved() -> Resolved:
    return Project().resolve("vlm_uqbench")


def test_strengths_are_those_of_appendix_b5(resolved: Resolved) -> None:
    strengths = {
        "blur": {"radius": 10.0}, "dark": {"factor": 0.2}, "bright": {"factor": 4.0}, "cutout": {"ratio": 0.2},
        "gaussian_noise": {"sigma": 50.0}, "pixelate": {"k": 5.0}, "salt_and_pepper": {"p": 0.2}, "solarize": {},
        "typos": {"p": 0.15}, "dropwords": {"p": 0.15}, "shuffle": {"k": 1}, "inv": {"temperature": 0.7}, "sbj": {"temperature": 0.7},
        "clip_mask": {"strength": 1.0, "smooth": "gaussian"}, "amb": {}, "ive": {},
    }  # fmt: skip
    found = {use.plugin.name: use.args for use in resolved.perturbations}
    assert found.keys() == strengths.keys()
    assert {name: {key: found[name][key] for key in of} for name, of in strengths.items()} == strengths
    modalities = [use.plugin.declares["MODALITY"] for use in resolved.perturbations]
    assert [modalities.count(kind) for kind in ("image", "text", "cross")] == [8, 5, 3]


def test_decoding_is_the_paper_s_and_lm_polygraph_s(resolved: Resolved) -> None:
    of = resolved.spec.inference
    assert (of.draws, of.temperature, of.top_k, of.top_p) == (10, 0.7, 50, 1.0)


def test_nine_estimators_of_which_a_closed_model_lacks_three(resolved: Resolved) -> None:
    assert len(resolved.estimators) == 9
    (closed,) = (model for model in resolved.models if model.ref.label == "gpt-4o-mini")
    lacking = {estimator.label for estimator in resolved.estimators if not closed.asked_for(estimator)}
    assert lacking == {"mean_token_entropy", "pointwise_mutual_information", "p_true"}


def test_subsets_have_150_of_each_class_and_only_clean_ones_are_perturbed(resolved: Resolved) -> None:
    datasets = resolved.spec.datasets
    taken = {name: dataset.balance.take for name, dataset in datasets.items() if dataset.balance is not None}
    assert taken == dict.fromkeys(("clean", "image", "text", "cross"), 150)
    perturbed = {name for name, dataset in datasets.items() if dataset.perturb is not False}
    assert perturbed == {"clean", "vqav2", "hallucination"}
