"""Five hundred questions that nobody should ask, about pictures of every kind, through every stage up to the report."""

from __future__ import annotations

import importlib
import math
from contextlib import chdir
from pathlib import Path

import polars as pl
import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.spec.canonical_json import canonical
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.registry.sample import GENERATIONS, IMAGES, SAMPLES, UNCERTAINTIES
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import StageError, read_stage
from tests.runners.reporting.test_report import Page, safe
from tests.support.data.hostile import READABLE, pictures, questions
from tests.support.models.tiny_models import tiny_llava

SPEC = """\
qualm: 1
name: t
datasets:
  asked: {card: synthetic_scenes, test: 500}
perturbations: [pixelate, typos: {p: 0.15}]
models:
  base: {hf_vlm: {artifact: tiny}}
inference: {draws: 2, max_new_tokens: 2}
judges: [rules]
estimators: [perplexity, pointwise_mutual_information, lexical_similarity]
metrics: [accuracy, auroc, uncertainty_reflection_rate, hallucination_rate]
slices: [category]
compare: {interval: {bootstrap: 5}}
report: {examples: 500}
"""
MARKED = "Is this <image> a picture?"
"""Says by the model's own mark that a second picture comes."""


class World:
    """A project whose dataset is what a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "t.yaml").write_text(SPEC)
        tiny_llava(folder / "registry/data/tiny", seed=3)
        self.plan: Plan = make_plan(resolve_file(folder / "t.yaml", folder, RunWide(default="t")))

    def ask(self, asked: dict[str, str]) -> None:
        place, shown = self.folder / "results/t/data/asked", pictures()
        write_table(place / "images/00000.parquet", [{"image_id": n, "image": {"bytes": shown[n], "path": n}} for n in READABLE], IMAGES)
        usual = {"split": "test", "answerable": True, "source": "test", "choices": []}
        rows = []
        for name, question in asked.items():
            number = int(name[1:])
            own = {"image_id": READABLE[number % len(READABLE)], "category": ["epistemic/<script>", "aleatoric/\u202e😀"][number % 2]}
            rows.append({**usual, **own, "sample_id": name, "question": question, "references": [question[:30] or "x"]})
        write_table(place / "samples.parquet", rows, SAMPLES)

    def run(self, name: str) -> dict[str, int]:
        path = self.folder / "specs/t/stages" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(canonical(self.plan.stage(name).as_json()))
        with chdir(self.folder):
            stage = read_stage(f"t/{name}", Settings(device="cpu", batch_size=64, workers=1, progress=False))
            importlib.import_module(f"qualm.runners.stages.{stage.kind}").run(stage)
        return dict(stage.counters)


@pytest.mark.slow
def test_what_can_be_asked_is_answered_judged_scored_and_shown_as_text(tmp_path: Path) -> None:
    world = World(tmp_path)
    asked = {f"s{i:03d}": question for i, question in enumerate([*questions(), MARKED])}
    world.ask(asked)
    with pytest.raises(StageError) as caught:
        world.run("infer-base-asked")
    refused = {name for name in asked if f"sample '{name}', " in str(caught.value)}
    assert max(map(len, asked.values())) >= 100_000 and "s500" in refused  # a model of 512 tokens is asked neither
    assert str(caught.value).startswith(f"{len(refused)} samples cannot be asked; all others are answered and kept")
    assert "tokens, and the model reads at most 512" in str(caught.value)
    assert "its text contains '<image>', by which this model's template marks" in str(caught.value)
    assert all(len(asked[name]) > 512 for name in refused - {"s500"}) and len(refused) < 10
    world.ask({name: question for name, question in asked.items() if name not in refused})
    counters = world.run("infer-base-asked")
    assert counters["answers computed"] == 0  # they were kept
    rows = read_table(tmp_path / "results/t/generations/base/asked.parquet", GENERATIONS).to_pylist()
    assert len(rows) == (len(asked) - len(refused)) * 3 * 3
    assert all(isinstance(r["text"], str) and all(p <= 0 and math.isfinite(p) for p in r["token_logprobs"]) for r in rows)
    for stage in ("judge", "estimate", "score", "report"):
        world.run(stage)
    values = read_table(tmp_path / "results/t/uncertainties.parquet", UNCERTAINTIES)["value"].to_pylist()
    assert all(v is None or math.isfinite(v) for v in values) and sum(v is None for v in values) < 10
    scores = pl.read_parquet(tmp_path / "results/t/scores.parquet").filter(pl.col("slice") == "all", pl.col("label") == "accuracy")
    assert set(scores["n"]) == {len(asked) - len(refused)}
    text = (tmp_path / "results/t/report.html").read_text(encoding="utf-8")
    page = Page(text)
    safe(text, page)
    assert "<script>alert('x')</script>" in page.text and not set("\u202e\x00\x1b\x07") & set(text)
