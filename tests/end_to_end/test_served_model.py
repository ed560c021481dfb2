"""A spec whose model is behind a server, from YAML to the report: with samples that it refuses, and options that it does not show."""

import importlib
import json
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.project.prices import costs
from qualm.compiler.project.rebuilds import Forecast
from qualm.compiler.spec.canonical_json import canonical
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.registry.sample import GENERATIONS, JUDGEMENTS, UNCERTAINTIES
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, read_stage
from tests.support.data.score_files import read_labelled
from tests.support.servers.toy_server import Toy, serving

SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, level: easy, format: open, test: 12}
  scenes_mc: {card: synthetic_scenes, level: easy, format: multiple_choice, test: 20}
perturbations: [blur: {radius: 2}]
models:
  gpt: {openai: {model: toy, base_url: "http://lab/v1", logprobs: 18, partial_p_true: true, prompt_logprobs: true}}
  less:
    openai: {model: toy, base_url: "http://lab/v1", logprobs: 18}
    leave_out: [p_true, pointwise_mutual_information]
inference: {draws: 3, confidence: verify}
judges: [rules]
estimators:
  - perplexity
  - p_true
  - pointwise_mutual_information
  - lexical_similarity
  - semantic_entropy
conformal: {half: {scores: [lac]}}
metrics: [accuracy, {ece: {bins: 5}}, auroc, coverage]
compare: {interval: {bootstrap: 20}}
"""


def refuses(body: dict, nth: int) -> tuple | None:  # type: ignore[type-arg]
    content = body["messages"][0]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    return (400, "against our rules", {}) if text and len(text) % 7 == 0 else None


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "t.yaml").write_text(SPEC)
        self.resolved = resolve_file(folder / "t.yaml", folder, RunWide(default="t"))
        self.plan: Plan = make_plan(self.resolved)
        with serving(Toy(trouble=refuses)) as self.server, chdir(folder):
            self.settings = Settings(progress=False, workers=2, servers={"http://lab/v1": {"address": self.server.url}})
            self.stages = {s.name: self._run(s.name, canonical(s.as_json())) for s in self.plan.stages}

    def _run(self, name: str, text: str) -> Stage:
        path = Path("specs/t/stages") / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        stage = read_stage(f"t/{name}", self.settings)
        importlib.import_module(f"qualm.runners.stages.{stage.kind}").run(stage)
        return stage


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield World(tmp_path_factory.mktemp("served"))


@pytest.mark.slow
def test_what_was_refused_is_counted_and_never_guessed(world: World) -> None:
    rows = read_table(world.folder / "results/t/generations/gpt/scenes.parquet", GENERATIONS).to_pylist()
    assert len(rows) == 12 * 2 * 4
    refused = {(r["sample_id"], r["variant"]) for r in rows if r["draw"] == 0 and r["text"] is None}
    assert 0 < len(refused) < 24
    for row in rows:
        if (row["sample_id"], row["variant"]) in refused:
            assert all(row[c] is None for c in ("text", "token_logprobs", "p_yes", "p_true", "logprobs_without_image"))
    values = read_table(world.folder / "results/t/uncertainties.parquet", UNCERTAINTIES).to_pylist()
    of_refused = [v for v in values if (v["model"], v["dataset"]) == ("gpt", "scenes") and (v["sample_id"], v["variant"]) in refused]
    assert len(of_refused) == 5 * len(refused) and all(v["value"] is None for v in of_refused)
    assert sum(v["value"] is not None for v in values if v["dataset"] == "scenes") > 60
    told = [json.loads(line) for line in (world.folder / ".qualm/runs/t/infer-gpt-scenes.served.jsonl").read_text().splitlines()]
    assert {(u["sample"], u["variant"]) for u in told[-1]["undefined"] if u["part"] == "answer"} == refused


def test_scores_say_how_many_they_leave_out(world: World) -> None:
    scores = read_labelled(world.folder / "results/t/scores.parquet").to_pylist()
    rows = read_table(world.folder / "results/t/generations/gpt/scenes.parquet", GENERATIONS).to_pylist()
    judged = [r for r in read_table(world.folder / "results/t/judgements.parquet", JUDGEMENTS).to_pylist() if r["draw"] == 0]
    for variant in ("clean", "blur@radius=2"):
        missing = sum(r["text"] is None for r in rows if r["draw"] == 0 and r["variant"] == variant)
        unread = sum(r["rating"] is None for r in judged if (r["model"], r["dataset"], r["variant"]) == ("gpt", "scenes", variant))
        assert 0 < missing <= unread
        (accuracy,) = [s for s in scores if (s["model"], s["dataset"], s["variant"], s["metric"]) == ("gpt", "scenes", variant, "accuracy")]
        assert (accuracy["n"], accuracy["n_unscored"]) == (12 - unread, unread)
    options = read_table(world.folder / "results/t/generations/gpt/scenes_mc.parquet", GENERATIONS).to_pylist()
    hidden = sum(r["option_logits"] is None for r in options if r["variant"] == "clean")
    of_gpt = [s for s in scores if s["model"] == "gpt"]
    (accuracy,) = [s for s in of_gpt if (s["dataset"], s["variant"], s["metric"]) == ("scenes_mc", "clean", "accuracy[half]")]
    assert 0 < hidden < 20 and accuracy["n"] > 0 and 0 < accuracy["n_unscored"] <= hidden
    assert (world.folder / "results/t/report.html").is_file()


def test_what_is_left_out_for_one_model_is_scored_of_the_other(world: World) -> None:
    scores = read_labelled(world.folder / "results/t/scores.parquet").to_pylist()
    estimators = {
        m: {s["metric"][len("auroc[") : -1] for s in scores if s["model"] == m and s["metric"].startswith("auroc[")}
        for m in ("gpt", "less")
    }
    assert estimators["gpt"] - estimators["less"] == {"p_true", "pointwise_mutual_information"} and estimators["less"] < estimators["gpt"]
    rows = read_table(world.folder / "results/t/generations/less/scenes.parquet", GENERATIONS)
    assert rows["p_true"].null_count == rows["logprobs_without_both"].null_count == rows.num_rows


def test_the_server_was_sent_no_more_than_was_foretold(world: World) -> None:
    forecasts = [Forecast(s.name, s.kind, "run") for s in world.plan.stages]
    foretold = list(costs(world.resolved, world.plan, forecasts, world.folder, world.settings))
    assert [c.questions for c in foretold] == [24, 40, 24, 40]
    probes = 2  # two requests find out what temperature does to log-probabilities
    assert len(world.server.bodies) <= sum(c.load.requests for c in foretold) + probes
    longest = sum(b["max_tokens"] * b.get("n", 1) for b in world.server.bodies)
    assert longest <= sum(c.load.received for c in foretold) + probes
