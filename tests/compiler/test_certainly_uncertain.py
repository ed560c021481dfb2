"""The paper's scale: the constants that the paper states are those that the compiled stages hold, and what is missing is named."""

import json
import re
from pathlib import Path

import pytest

from qualm.compiler.plan.layout import MAX_STAGES
from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.project.checkout import Project
from qualm.compiler.project.needs import needs
from qualm.compiler.project.pair_counts import pair_counts
from qualm.compiler.project.rebuilds import Forecast
from qualm.compiler.results.graph import draw
from qualm.compiler.spec.resolved import Resolved
from qualm.registry.plugins.column_names import IN_WORDS
from qualm.registry.plugins.registry import ROOT
from qualm.runners.runtime.settings import Settings
from tests.support.processes.command_line import qualm


@pytest.fixture(scope="module")
def resolved() -> Resolved:
    return Project().resolve("certainly_uncertain")


@pytest.fixture(scope="module")
def plan(resolved: Resolved) -> Plan:
    return make_plan(resolved)


def test_five_categories_each_with_its_recipes(resolved: Resolved) -> None:
    (ours,) = resolved.pairs
    made: dict[str, list[str]] = {}
    for recipe in ours.recipes:
        made.setdefault(recipe.category, []).extend(recipe.datasets)
    assert made == {
        "epistemic/knowledge": ["docci"],
        "epistemic/complexity": ["docci"],
        "aleatoric/temporal": ["docci"],
        "aleatoric/ambiguity": ["docci"],
        "epistemic/extraneous": ["vqav2_train", "vqav2_test", "gqa"],
    }


CAPTIONED = ("epistemic/knowledge", "epistemic/complexity", "aleatoric/temporal", "aleatoric/ambiguity")


@pytest.mark.slow
def test_the_plan_counts_questions_as_the_paper_does(resolved: Resolved, plan: Plan) -> None:
    """Section 2.2: 24K and 6K of VQA v2, 53K of GQA, 5K of DOCCI's test images per category; Table 1: 77K = 2 x 38.2K, 2 x 9.6K."""
    counts = {c.recipe: c.questions for c in pair_counts(resolved)}
    caption = {"train": 19200, "test": 5000}
    assert counts == {
        **{f"from_caption@category={path}": caption for path in CAPTIONED},
        "from_vqa_train": {"train": 24000}, "from_vqa_test": {"test": 6000}, "from_gqa": {"train": 53000},
    }  # fmt: skip
    assert plan.stage("pair-ours-from_gqa").params["limit"] == {"train": 26500}
    shown = qualm("plan", "certainly_uncertain").stdout
    lines = " ".join(shown.split())
    assert "ours, epistemic/extraneous: train 77,000 (24,000 from_vqa_train, 53,000 from_gqa), test 6,000" in lines
    assert "ours, all: train 153,800, test 26,000" in lines


def test_painting_out_is_the_appendix_s(plan: Plan) -> None:
    vqa, gqa = (plan.stage(f"pair-ours-from_{name}").params["args"] for name in ("vqa_test", "gqa"))
    for args in (vqa, gqa):
        assert (args["dilate"], args["control"]) == (20, False)
        assert args["inpaint"]["plugin"] == "lama"
        assert (args["mask"]["args"]["box_threshold"], args["mask"]["args"]["text_threshold"]) == (0.3, 0.25)
    assert (vqa["saliency"]["plugin"], vqa["question"]) == ("question_llm", "llm")
    assert (gqa["saliency"]["plugin"], gqa["question"], len(gqa["idk"])) == ("gqa", "same", 4)


def test_tuning_is_the_appendix_s(plan: Plan) -> None:
    sft, dpo = (plan.stage(f"finetune-{name}").params["args"] for name in ("sft_ours", "dpo_ours"))
    assert (sft["batch"], sft["epochs"]) == (128, 1.0)
    lora = sft["tune"]["args"]
    assert (lora["r"], lora["alpha"], lora["dropout"]) == (64, 16.0, 0.05)
    assert (dpo["beta"], dpo["rate"], dpo["batch"], dpo["epochs"], dpo["max_length"]) == (0.1, 0.00001, 64 * 2, 1.0, 2048)
    assert (dpo["warmup"], dpo["decay"], dpo["beta2"]) == (0.1, 0.05, 0.98)
    llava = plan.stage("finetune-llava_13b_instruct_ours_llava").params["args"]
    assert (llava["tune"]["args"]["r"], llava["tune"]["args"]["alpha"], llava["rate"]) == (128, 256.0, 0.0002)
    assert llava["train"] == ["ours", "llava_instruct"]
    assert {f.ref.plugin.name for f in Project().resolve("certainly_uncertain").finetunes} == {"sft", "rtune", "dpo"}


def test_rows_of_the_papers_tables_that_begin_elsewhere(resolved: Resolved, plan: Plan) -> None:
    """Table 5: DPO on both kinds of preferences, and tuning from where pre-training ended; Table 4: models without a confidence."""
    assert plan.stage("finetune-dpo_ours_mminstruction").params["args"]["train"] == ["ours", "vlfeedback"]
    begun = {f.ref.label: f.models for f in resolved.finetunes if "instruct_ours" in f.ref.label}
    assert begun == {
        **dict.fromkeys(("llava_instruct_ours", "llava_instruct_ours_llava"), ("llava-1-5-7b-pretrained",)),
        **dict.fromkeys(("llava_13b_instruct_ours", "llava_13b_instruct_ours_llava"), ("llava-1-5-13b-pretrained",)),
    }
    for name in ("gpt-4v", "claude-3-5-sonnet"):
        asked = plan.stage(f"infer-{name}").params
        assert (asked["subset"], asked["needs"], asked[IN_WORDS]) == ({"per_category": 100, "seed": 42}, ["text"], True)
        assert name not in {m for a in resolved.abstentions for m in a.of}
    assert "p_yes" in plan.stage("infer-qwen2-vl-7b").params["needs"] and "subset" not in plan.stage("infer-qwen2-vl-7b").params


def test_other_benchmarks_are_asked_and_sources_are_not(resolved: Resolved, plan: Plan) -> None:
    evaluated = {d.label for d in resolved.evaluated}
    assert evaluated == {
        "ours", "unk_vqa", "tdiuc_absurd", "mmhal_bench", "pope@split=random", "pope@split=popular", "pope@split=adversarial", "amber",
        "shr", "hallusionbench", "vizwiz", "vqav2_val", "mme", "mmbench",
    }  # fmt: skip
    assert {d.label: d.limit for d in resolved.datasets if d.label in evaluated and d.limit} == {
        name: {"unit": "questions", "of": {"": 5000}} for name in ("unk_vqa", "tdiuc_absurd", "vqav2_val")
    }
    assert len(plan.stages) <= MAX_STAGES


def test_every_benchmark_has_its_own_rule(plan: Plan) -> None:
    only = plan.stage("judge").params["only"]
    assert {name: judges for name, (judges,) in ((name.split("@")[0], of) for name, of in only.items())} == {
        "ours": "lave", "unk_vqa": "lave", "tdiuc_absurd": "lave", "mmhal_bench": "mmhal", "pope": "pope", "amber": "amber", "shr": "shr",
        "hallusionbench": "hallusionbench", "vizwiz": "vqa", "vqav2_val": "vqa", "mme": "mme", "mmbench": "option_match",
    }  # fmt: skip
    assert plan.stage("score").params["judge"] == "lave"


def test_what_is_missing_is_named_and_nothing_is_invented(resolved: Resolved, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    blocked = [Forecast(s.name, s.kind, "blocked") for s in plan.stages]
    found = needs(plan, blocked, Path("/nowhere"), Settings())
    by_kind = {kind: {n.what for n in found if n.kind == kind} for kind in ("value", "hub", "environment")}
    hub = by_kind.pop("hub")
    assert {"Qwen/Qwen2-VL-7B-Instruct", "mistralai/Mistral-7B-Instruct-v0.2", "llava-hf/llava-v1.6-34b-hf"} < hub and len(hub) == 10
    assert by_kind == {"value": {"sha256"}, "environment": {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}}
    unread = {n.what for n in found if n.kind == "adapter"}
    assert unread == {d.card for d in resolved.datasets if d.adapter is None}
    added = {n.what for n in found if n.kind == "data"}
    assert {"big-lama", "sam-vit-huge", "grounding-dino-base", "internvl2-8b", "vqav2", "docci", "gqa"} <= added


@pytest.mark.slow
def test_programs_are_told_what_each_stage_needs() -> None:
    done = qualm("plan", "certainly_uncertain", "--json")
    stages = {s["stage"]: s for s in json.loads(done.stdout)}
    assert [n["kind"] for n in stages["data-docci"]["needs"]] == ["data"]
    assert {n["what"] for n in stages["pair-ours-from_gqa"]["needs"]} == {"big-lama", "gqa", "sam-vit-huge", "sha256"}


def test_the_page_on_the_papers_names_what_there_is(resolved: Resolved) -> None:
    """docs/reference/papers.md: the tests that hold its rows, and the rows of tuned models."""
    page = (ROOT / "docs/reference/papers.md").read_text(encoding="utf-8")
    section = page[page.index("## CertainlyUncertain") : page.index("## VLM-UQBench")]
    named = set(re.findall(r"`(tests/[^`]+)`", section))
    assert len(named) > 20 and not [name for name in named if not (ROOT / name).is_file()]
    rows = set(re.findall(r"`((?:llava|sft|rtune|dpo)_[a-z0-9_]*)(?:\.\.\.)?`", section))
    assert rows and not [row for row in rows if not any(f.ref.label.startswith(row) for f in resolved.finetunes)]
    for sign in ("knowledge", "temporal", "complexity"):
        assert f"`{sign}` asks" in section


def test_the_graph_knows_every_kind_of_stage(plan: Plan) -> None:
    assert "pair x 7" in draw(plan, "svg", False) and "assemble" in draw(plan, "mermaid", False)
