"""How long a run takes whose stages work side by side, and what the workers of a cluster get: by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.project.inference import StageEstimate
from qualm.compiler.project.parallel import WorkerShare, forecast_parallel, makespan
from qualm.compiler.project.rebuilds import Forecast
from qualm.compiler.project.resources import MemoryEstimate
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.runners.runtime.settings import Settings

NONE: frozenset[str] = frozenset()
SPEC = """\
qualm: 1
name: t
datasets: {scenes: {card: synthetic_scenes, test: 10}}
models:
  base: {hf_vlm: {artifact: x}}
  other: {hf_vlm: {artifact: x, dtype: bfloat16}}
  api: {openai: {model: m, base_url: "http://lab/v1"}}
judges: [rules]
metrics: [accuracy]
"""


@pytest.mark.parametrize(("jobs", "seconds"), [(1, 10.0), (2, 6.0), (3, 6.0)])
def test_stages_begin_in_order_as_soon_as_they_can(jobs: int, seconds: float) -> None:
    takes = {"data": 1.0, "a": 2.0, "b": 4.0, "c": 2.0, "score": 1.0}
    data = frozenset({"data"})
    before = {"data": NONE, "a": data, "b": data, "c": data, "score": frozenset("abc")}
    # two at a time: a and b begin at 1, c at 3, when a has ended; b and c end at 5
    assert makespan(takes, before, jobs) == seconds


def test_stages_that_take_a_whole_cluster_wait_for_each_other() -> None:
    takes, before = {"a": 2.0, "b": 3.0, "c": 4.0}, dict.fromkeys("abc", NONE)
    assert makespan(takes, before, 3) == 4.0 and makespan(takes, before, 3, frozenset("ab")) == 5.0


def planned(root: Path) -> Plan:
    (root / "specs").mkdir()
    (root / "specs/t.yaml").write_text(SPEC)
    return make_plan(resolve_file(root / "specs/t.yaml", root, RunWide(default="t")))


def memory(size: float) -> MemoryEstimate:
    return MemoryEstimate(weights=size, cache=0.0, activations=0.0, logits=0.0)


def test_a_cluster_divides_the_questions_to_local_models(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    names = [s.name for s in plan.stages]
    forecasts = [Forecast(s.name, s.kind, "unchanged" if s.kind == "data" else "run") for s in plan.stages]
    estimates = [
        StageEstimate("infer-base-scenes", "base", 600, 32, memory(2e9), 120.0, "measured"),
        StageEstimate("infer-other-scenes", "other", 600, 32, memory(9e9), 40.0, "measured"),
    ]
    folder = tmp_path / ".qualm/runs/t"
    folder.mkdir(parents=True)
    for name, seconds in {"infer-api-scenes": 30.0, "judge": 5.0}.items():
        (folder / f"{name}.json").write_text(json.dumps({"seconds": seconds}))
        (tmp_path / "specs/t/stages").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"specs/t/stages/{name}.json").write_text("{}")
    alone = forecast_parallel(plan, forecasts, estimates, tmp_path, Settings(), 1)
    assert alone.seconds == alone.one_by_one == 195.0 and alone.shares == () and "judge" not in alone.unknown
    assert {"score", "report"} & {*names} <= {*alone.unknown}
    assert forecast_parallel(plan, forecasts, estimates, tmp_path, Settings(), 3).seconds == 125.0
    cluster = {"CPU": 4.0, "memory": 20e9}
    there = forecast_parallel(plan, forecasts, estimates, tmp_path, Settings(device="cpu"), 3, cluster)
    api, base, other = there.shares
    size = memory(2e9).total
    assert (
        base == WorkerShare("infer-base-scenes", 4, {"CPU": 1.0, "memory": float(int(size))}, 600, 32) and base.batches == 5
    )  # 19 in fours
    assert other.workers == int(20e9 // memory(9e9).total) and api == WorkerShare("infer-api-scenes", 1, {"CPU": 0.1})
    assert there.seconds == 120 / 4 + 40 / other.workers + 5.0  # beside them the server; then the judge
    assert there.as_json()["shares"][1]["batches"] == 5


def test_a_cluster_without_room_for_a_model_answers_one_after_the_other(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    forecasts = [Forecast(s.name, s.kind, "run" if s.kind == "infer" else "unchanged") for s in plan.stages]
    estimates = [
        StageEstimate("infer-base-scenes", "base", 600, 32, memory(2e9), 120.0, "measured"),
        StageEstimate("infer-other-scenes", "other", 600, 32, memory(9e9), 40.0, "measured"),
        StageEstimate("infer-api-scenes", "api", None, 0, None, 0.5, "measured"),  # of one question: nobody knows how many there are
    ]
    found = forecast_parallel(plan, forecasts, estimates, tmp_path, Settings(device="cpu"), 3, {"CPU": 4.0, "memory": 1e9})
    assert [(s.stage, s.workers, s.batches) for s in found.shares] == [
        ("infer-api-scenes", 1, None), ("infer-base-scenes", 0, None), ("infer-other-scenes", 0, None),
    ]  # fmt: skip
    assert (found.seconds, found.one_by_one, found.unknown) == (160.0, 160.0, ("infer-api-scenes",))
    assert [WorkerShare("s", 2, {}, questions, 32).batches for questions in (1, 64, 65, 128, 129)] == [1, 1, 2, 2, 3]


def test_servers_with_a_key_are_asked_from_here(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    forecasts = [Forecast(s.name, s.kind, "run") for s in plan.stages]
    settings = Settings(servers={"http://lab/v1": {"key": "KEY"}})
    shares = forecast_parallel(plan, forecasts, [], tmp_path, settings, 1, {"CPU": 1.0}).shares
    assert [s.stage for s in shares] == ["infer-base-scenes", "infer-other-scenes"] and shares[0].batches is None
