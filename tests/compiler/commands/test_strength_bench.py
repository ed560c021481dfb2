"""Which dataset, which model, which samples a strength is judged on; what is missing, with what makes it."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pytest

from qualm.compiler.commands.strength import open_bench
from qualm.compiler.commands.strength_entry import find_entry
from qualm.compiler.commands.strength_request import StrengthRequest, goal_of
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError
from qualm.runners.data.dataset import Variant
from qualm.runners.inference.run import answer_tables
from qualm.runners.runtime.stage import make_stage
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.calibration_project import SPEC, calibration_project
from tests.support.projects.tiny_project import write_dataset


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llava(tmp_path_factory.mktemp("model"))


def opened(project: Project, request: StrengthRequest, auto: bool = False):  # type: ignore[no-untyped-def]
    """What a bench holds: names of its samples, knobs, model's label, estimator, stage."""
    resolved, plan = project.resolve("s"), project.plan("s")
    entry = find_entry(project.spec_path("s"), project.root, resolved, request.perturbation)
    goal = goal_of(request, entry) if auto else None
    with chdir(project.root), open_bench(project, resolved, plan, entry, request, goal) as (bench, knobs, stage):
        return bench, [k.name for k in knobs], stage


def test_the_first_data_set_and_no_model(tmp_path: Path, model: Path) -> None:
    project = calibration_project(tmp_path, model, samples=6)
    bench, knobs, stage = opened(project, StrengthRequest("blur", samples=4))
    assert bench.dataset.name == "scenes" and len(bench.dataset) == 4 and bench.respondent is None and knobs == ["radius"]
    assert (stage.key, stage.kind, stage.seed, stage.params) == ("s/strength", "infer", 7, {})
    assert len(opened(project, StrengthRequest("blur", samples=40))[0].dataset) == 6
    assert bench.seed == 7 and bench.subject.plugin.name == "blur" and bench.subject.args["radius"] == 1.0


def test_a_share_of_answers_needs_a_model_and_a_distance_does_not(tmp_path: Path, model: Path) -> None:
    project = calibration_project(tmp_path, model, samples=3)
    assert opened(project, StrengthRequest("blur", auto=True), auto=True)[0].respondent.label == "tiny"
    assert opened(project, StrengthRequest("blur", auto=True, distance="psnr=20"), auto=True)[0].respondent is None
    assert opened(project, StrengthRequest("blur", model="tiny"))[0].respondent.label == "tiny"


def test_a_model_is_asked_as_in_the_benchmark(tmp_path: Path, model: Path) -> None:
    """Else a strength would be chosen for other questions, and no answer be shared with the benchmark."""
    text = SPEC.replace("test: 24}", "test: 24, prompt: {template: 'Look. {question}'}}").replace(
        "{hf_vlm: {artifact: tiny}}", "{hf_vlm: {artifact: tiny}, prompt: {answer_format: short}}"
    )
    project = calibration_project(tmp_path, model, text, samples=3)
    bench, _, stage = opened(project, StrengthRequest("blur", model="tiny"))
    infer = project.plan("s").stage("infer-tiny-scenes")
    assert stage.params["prompt"] == infer.params["prompt"] == {"template": "Look. {question}", "answer_format": "short"}
    assert stage.params["max_new_tokens"] == 4 and bench.respondent is not None
    of_benchmark = make_stage("s/infer-tiny-scenes", infer.as_json(), project.settings)
    with chdir(project.root):
        assert len(bench.answers(None, [0])) == stage.counters["answers computed"] == 1
        asked = bench.respondent
        answer_tables(asked.model, asked.plugin.module, [bench.dataset.only([0])], [Variant("clean")], frozenset({"text"}), of_benchmark)
    assert of_benchmark.counters["answers computed"] == 0, "the benchmark finds the answer"


def named(project: Project, text: str) -> Project:
    (project.root / "specs/s.yaml").write_text(text)
    return Project(project.root)


def test_data_sets_and_models_by_name(tmp_path: Path, model: Path) -> None:
    two = SPEC.replace("  scenes: {", "  zoo: {card: synthetic_scenes, test: 3}\n  scenes: {").replace(
        "  tiny: ", "  other: {hf_vlm: {artifact: gone}}\n  tiny: "
    )
    project = calibration_project(tmp_path, model, two, samples=3)
    write_dataset(tmp_path / "results/s/data/zoo", 5, choices=False)
    assert opened(project, StrengthRequest("blur"))[0].dataset.name == "scenes"  # the first by name
    assert len(opened(project, StrengthRequest("blur", dataset="zoo"))[0].dataset) == 5
    for request, message in (
        (StrengthRequest("blur", dataset="zo"), "the spec has no dataset 'zo'; did you mean 'zoo'?"),
        (StrengthRequest("blur", model="huge"), "the spec has no model 'huge'; there are: other, tiny"),
    ):
        with pytest.raises(ProjectError) as caught:
            opened(project, request)
        assert str(caught.value) == message
    with pytest.raises(ProjectError, match="model 'other': registry/data/gone is not on this disk; `qualm run s` makes it or gets it"):
        opened(project, StrengthRequest("blur", model="other"))
    with pytest.raises(ProjectError, match="the spec has several models; say which with --model: other, tiny"):
        opened(project, StrengthRequest("blur", auto=True), auto=True)


def test_no_model_and_no_data(tmp_path: Path, model: Path) -> None:
    project = calibration_project(tmp_path, model, SPEC.split("models:")[0], samples=3)
    with pytest.raises(ProjectError, match="the spec has no model to find a strength with"):
        opened(project, StrengthRequest("blur", auto=True), auto=True)
    text = SPEC.replace("test: 24}", "test: 24, evaluate: false}").split("models:")[0]
    with pytest.raises(ProjectError, match="the spec has no dataset to find a strength with"):
        opened(named(project, text), StrengthRequest("blur"))


def test_a_data_set_that_is_not_made_yet(tmp_path: Path, model: Path) -> None:
    project = calibration_project(tmp_path, model, samples=3)
    (tmp_path / "results/s/data/scenes/samples.parquet").unlink()
    with pytest.raises(
        ProjectError,
        match=r"^the dataset 'scenes' is not made yet; make it in the project's root: `qualm compile s && dvc repro --pull data-scenes`$",
    ):
        opened(project, StrengthRequest("blur"))


def test_the_uncertainty_that_is_shown(tmp_path: Path, model: Path) -> None:
    project = calibration_project(tmp_path, model, samples=3)
    request = StrengthRequest("blur", model="tiny")
    assert opened(project, request)[0].respondent.estimator == {"label": "perplexity", "plugin": "perplexity", "args": {"form": "log"}}
    other = SPEC.replace("[perplexity]", "[p_true, mean_token_entropy, perplexity]")
    assert opened(named(project, other), request)[0].respondent.estimator["label"] == "mean_token_entropy"
    fallback = {"label": "max_sequence_probability", "plugin": "max_sequence_probability", "args": {}}
    assert opened(named(project, SPEC.replace("[perplexity]", "[p_true]")), request)[0].respondent.estimator == fallback
