"""`answerable_by:` of a dataset: the judge that reads references, and what may not stand beside it."""

from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.project.text_prices import text_costs
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.compiler.spec.resolved import Resolved
from qualm.runners.runtime.settings import Settings

LAVE = "{lave: {by: {hf: {artifact: mistral}}}}"


def resolve(root: Path, more: str) -> Resolved:
    path = root / "t.yaml"
    path.write_text(f"qualm: 1\nname: t\ndatasets:\n  a: {{card: certainly_uncertain_release, {more}}}\n")
    return resolve_file(path, root, RunWide(default="t"))


def test_the_judge_and_its_model_reach_the_stage(tmp_path: Path) -> None:
    plan = make_plan(resolve(tmp_path, f"answerable_by: {LAVE}"))
    stage = plan.stage("data-a")
    assert stage.params["answerable_by"]["plugin"] == "lave"
    assert stage.params["answerable_by"]["args"]["by"]["args"]["artifact"] == "registry/data/mistral"
    assert {"registry/data/mistral", "specs/prompts/lave_refusal.md"} <= set(stage.deps)
    assert make_plan(resolve(tmp_path, "answerable_by: rules")).stage("data-a").params["answerable_by"]["plugin"] == "rules"
    assert "answerable_by" not in make_plan(resolve(tmp_path, "unlabelled: true")).stage("data-a").params


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("where: not answerable", "datasets.a.where: reads `answerable`, which `answerable_by` decides afterwards"),
        ("uncertain: not answerable", "datasets.a.uncertain: reads `answerable`, which `answerable_by` decides afterwards"),
        ("ask_answerable: ambiguity_zero_shot", "datasets.a.ask_answerable: expected `ask_answerable` or `answerable_by`, got both"),
    ],
)
def test_nothing_reads_what_is_not_decided_yet(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        resolve(tmp_path, f"answerable_by: rules, {more}")
    assert says in str(caught.value)


def test_a_judge_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"datasets\.a\.answerable_by.*no judges plugin named 'ruls'; did you mean 'rules'"):
        resolve(tmp_path, "answerable_by: ruls")


def test_what_a_server_is_asked_is_told(tmp_path: Path) -> None:
    """One request for each reference: whether it abstains."""
    plan = make_plan(resolve(tmp_path, "answerable_by: {lave: {by: {openai: {model: m}}}}"))
    (cost,) = text_costs(plan, plan.stages, tmp_path, Settings())
    assert (cost.stage, cost.each, cost.questions, cost.load.requests, cost.load.received) == ("data-a", "reference", None, 1, 100)
