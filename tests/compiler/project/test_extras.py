"""What stages need that is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.project.checkout import Project
from qualm.compiler.project.extras import advice, missing_extras
from qualm.registry.plugins import extras
from tests.compiler.spec.resolving import GOOD, resolve


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    for extra in ("models", "pictures", "quantize"):
        monkeypatch.setitem(extras.EXTRAS, extra, ("no_such_module",))


def test_nothing_is_missing_in_an_environment_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qualm.compiler.project.extras.is_installed", lambda extra: True)
    missing = missing_extras(Project(Path(__file__).parent).plan("quickstart").stages)
    assert missing == {} and advice(missing) == ""


@pytest.mark.usefixtures("light")
def test_stages_that_wait_for_an_extra() -> None:
    stages = Project(Path(__file__).parent).plan("quickstart").stages
    missing = missing_extras(stages)
    pairs, infer = ([s.name for s in stages if s.kind == kind] for kind in ("pair", "infer"))
    noisy = "infer-base-scenes"
    assert missing == {"models": infer, "pictures": [*pairs, noisy, "report"]}  # which shows the noise
    assert advice(missing) == f"not installed, needed by {', '.join(pairs)}, {noisy} and 3 more: pip install 'qualm-bench[models,pictures]'"


@pytest.mark.parametrize(
    ("model", "extras_of"),
    [
        ("hf_vlm: {artifact: a}", {"models"}),
        ("hf_vlm: {artifact: a, quantization: nf4}", {"models", "quantize"}),
        ("vllm: {artifact: a}", {"vllm"}),
        ("vllm: {artifact: a, quantization: awq}", {"vllm"}),
    ],
)
def test_quantised_weights_of_our_own_engine_alone_wait_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, extras_of: set[str]
) -> None:
    monkeypatch.setattr("qualm.compiler.project.extras.is_installed", lambda extra: False)
    plan = make_plan(resolve(tmp_path, GOOD.replace("hf_vlm: {artifact: scene-vlm-base}", model)))
    assert {extra for extra, stages in missing_extras(plan.stages).items() if "infer-base-scenes" in stages} == extras_of


def test_many_stages_are_counted() -> None:
    assert advice({"models": list("abcde")}).startswith("not installed, needed by a, b, c and 2 more: ")
