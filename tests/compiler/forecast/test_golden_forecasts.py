"""What specs need, take and cost before anything has run, held to tests/golden/forecasts.json.

After a change that is meant: HELD=write pytest tests/compiler/forecast/test_golden_forecasts.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qualm.compiler.forecast.inference import estimate
from qualm.compiler.forecast.needs import lines, needs
from qualm.compiler.forecast.prices import costs
from qualm.compiler.forecast.rebuilds import Forecast
from qualm.compiler.forecast.text_prices import text_costs
from qualm.compiler.forecast.together import together
from qualm.compiler.plan.make import make_plan
from qualm.compiler.resolve.resolve import resolve_file
from qualm.compiler.spec.language import RunWide
from qualm.runners.runtime.settings import Settings
from qualm.runners.servers.config import Price
from tests.compiler.every_spec import root
from tests.support.checks.held_numbers import held
from tests.support.projects.tiny_project import write_dataset

__all__ = ["root"]
SPECS = ("everything", "quickstart", "certainly_uncertain", "vlm_uqbench", "vlm_uncertainty_bench_asked", "attribution_scenes")
SETTINGS = replace(Settings(), servers={"default": {"price": Price(2.5, 10.0)}})
CLUSTER = {"CPU": 32.0, "GPU": 4.0, "memory": 256 * 2**30}
BUILT = """\
qualm: 1
name: built
datasets:
  open: {card: synthetic_scenes, test: 10}
  quiz: {card: synthetic_scenes, format: multiple_choice, test: 10}
models:
  here: {hf_vlm: {hub: llava-hf/llava-1.5-7b-hf, revision: 0123456789012345678901234567890123456789, dtype: bfloat16}}
  there: {openai: {model: m, logprobs: 5, partial_p_true: true}}
perturbations: [blur: {radius: [2, 6]}]
inference: {draws: 3, max_new_tokens: 5}
judges: [rules, lave: {by: {openai: {model: w, base_url: "http://lab/v1"}}, max_new_tokens: 20}]
estimators: [lexical_similarity, p_true]
metrics: [accuracy, auroc]
compare: {baseline: here}
"""


def forecast(path: Path, root: Path) -> dict[str, Any]:
    """All that `qualm plan` says of it but what would run, where nothing has."""
    resolved = resolve_file(path, root, RunWide(default="t"))
    plan = make_plan(resolved)
    run = [Forecast(stage.name, stage.kind, "run") for stage in plan.stages]
    estimates = list(estimate(plan, run, root, SETTINGS, "a100"))
    missing = [need for need in needs(plan, run, root, SETTINGS) if need.kind != "extra"]  # which parts are installed differs
    whole = together(plan, run, estimates, root, SETTINGS, 3, CLUSTER)
    return {
        "estimates": {e.stage: e.as_json() for e in estimates},
        "costs": [c.as_json() for c in costs(resolved, plan, run, root, SETTINGS)],
        "costs of texts": [c.as_json() for c in text_costs(plan, plan.stages, root, SETTINGS)],
        "needs": [n.as_json() for n in missing],
        "needs as printed": list(lines(missing)),
        "together": whole.as_json(),
    }


@pytest.mark.parametrize("name", SPECS)
def test_of_a_spec_whose_data_are_not_built_it_is_as_ever(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("OPENAI_API_KEY", "HF_TOKEN"):
        monkeypatch.delenv(key, raising=False)
    held("forecasts.json", name, forecast(root / "specs" / f"{name}.yaml", root))


def test_of_built_data_it_is_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "built.yaml").write_text(BUILT)
    write_dataset(tmp_path / "results/built/data/open", 6, choices=False)
    write_dataset(tmp_path / "results/built/data/quiz", 5, choices=True)
    held("forecasts.json", "built", forecast(tmp_path / "built.yaml", tmp_path))
