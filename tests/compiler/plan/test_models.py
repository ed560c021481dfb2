"""Of models only what somebody reads is asked."""

from pathlib import Path

import pytest

from qualm.compiler.plan.training_prompts import training_prompt_notes
from qualm.compiler.spec.canonical_json import canonical
from tests.compiler.plan.planned import SPEC, make, resolved


def test_an_estimator_on_greedy_signals_changes_no_inference(tmp_path: Path) -> None:
    more = SPEC.replace("[perplexity]", "[perplexity, mean_token_entropy, max_sequence_probability]")
    before, after = make(tmp_path), make(tmp_path, more)
    changed = {s.name for s in after.stages if canonical(s.as_json()) != canonical(before.stage(s.name).as_json())}
    assert changed == {"estimate", "report"}


@pytest.mark.slow
def test_a_dear_model_is_asked_a_part_and_scored_on_it(tmp_path: Path) -> None:
    plan = make(tmp_path, SPEC.replace("{artifact: scene-vlm-base}}", "{artifact: scene-vlm-base}, per_category: 4}"))
    part = {"per_category": 4, "seed": 7}
    assert plan.stage("infer-base-scenes").params["subset"] == part
    assert plan.stage("score").params["subsets"] == plan.stage("report").params["subsets"] == {"base": part}
    changed = {s.name for s in plan.stages if canonical(s.as_json()) != canonical(make(tmp_path).stage(s.name).as_json())}
    assert changed == {"infer-base-scenes", "infer-base-scenes_mc", "score", "report"}


def needed(tmp_path: Path, estimators: str, more: str = "") -> tuple[dict, dict]:
    text = SPEC.replace("judges: [rules]\nestimators: [perplexity]", f"estimators: {estimators}").replace("[accuracy, set_size]", "[auroc]")
    plan = make(tmp_path, text + more)
    return plan.stage("infer-base-scenes").params, plan.stage("estimate").params | {"inputs": plan.stage("estimate").inputs}


def test_only_what_the_estimators_need_is_computed(tmp_path: Path) -> None:
    greedy = ["text", "token_entropies", "token_logprobs"]
    infer, estimate = needed(tmp_path, "[perplexity]")
    assert infer["needs"] == sorted(["option_logits", *greedy])
    assert "draws" not in infer and "draws" not in estimate
    infer, estimate = needed(tmp_path, "[pointwise_mutual_information: {without: [image, question]}, p_true]")
    assert set(infer["needs"]) - {"option_logits", *greedy} == {"logprobs_without_image", "logprobs_without_question", "p_true"}
    infer, estimate = needed(tmp_path, "[semantic_entropy: {version: frequency}]", "inference: {draws: 4}\n")
    assert set(infer["needs"]) - {"option_logits", *greedy} == {"draws"}
    assert infer["draws"] == estimate["draws"] == 4
    assert "datasets" not in estimate["inputs"]
    _, estimate = needed(tmp_path, "[semantic_entropy: {compared: with_question}]")
    assert estimate["inputs"]["datasets"] == {"scenes": "results/t/data/scenes", "scenes_mc": "results/t/data/scenes_mc"}


def test_models_without_numbers_for_options_answer_in_words_where_a_judge_reads_them(tmp_path: Path) -> None:
    plan = make(
        tmp_path,
        """\
qualm: 1
name: t
datasets: {a: {card: mmbench}}
models:
  served: {openai: {model: m, logprobs: 5}}
  words: {openai: {model: m}}
judges: [option_match, rules]
metrics: [accuracy]
""",
    )
    assert plan.stage("infer-words-a").params["in_words"] is True and "in_words" not in plan.stage("infer-served-a").params
    assert plan.stage("score").params["judge"] == "rules"


def test_how_answers_are_decoded_is_told_where_something_reads_it(tmp_path: Path) -> None:
    asked = (
        SPEC.replace("[perplexity]", "[lexical_similarity]") + "inference: {draws: 3, temperature: 0.5, top_p: 0.8, max_new_tokens: 9}\n"
    )
    told = make(tmp_path, asked).stage("infer-base-scenes").params
    assert {key: told[key] for key in ("draws", "temperature", "top_p", "max_new_tokens")} == {
        "draws": 3,
        "temperature": 0.5,
        "top_p": 0.8,
        "max_new_tokens": 9,
    }
    greedy = make(tmp_path, asked.replace("lexical_similarity", "perplexity")).stage("infer-base-scenes").params
    assert greedy["max_new_tokens"] == 9 and not {"draws", "temperature", "top_p"} & set(greedy)
    limited = make(tmp_path, asked.replace("top_p: 0.8", "top_k: 50")).stage("infer-base-scenes").params
    assert limited["top_k"] == 50 and "top_k" not in told
    assert "also" not in told and "in_words" not in told and "subset" not in told


TUNED = SPEC.replace("test: 10}\n  scenes_mc", "test: 10, train: 10, evaluate: true}\n  scenes_mc").replace(
    "\njudges", "\nfinetunes:\n  tuned: {sft: {base: base, train: [scenes]}}\njudges"
)


def test_a_fine_tune_is_trained_with_the_prompt_that_it_is_asked_with(tmp_path: Path) -> None:
    def prompts(text: str) -> tuple[dict, dict]:
        plan = make(tmp_path, text)
        (tune,) = (stage for stage in plan.stages if stage.kind == "finetune")
        asked = plan.stage("infer-tuned-scenes")
        return tune.params.get("prompts", {}), asked.params.get("prompt", {})

    assert prompts(TUNED) == ({}, {})
    spec = TUNED + "prompt: {system: Be brief., answer_format: free}\n"
    of_spec = {"system": "Be brief.", "answer_format": "free"}
    assert prompts(spec) == ({"scenes": of_spec}, of_spec)
    of_dataset = spec.replace("scenes: {card: synthetic_scenes,", "scenes: {card: synthetic_scenes, prompt: {answer_format: short},")
    of_both = {**of_spec, "answer_format": "short"}
    assert prompts(of_dataset) == ({"scenes": of_both}, of_both)
    of_base = of_dataset.replace("scene-vlm-base}}", "scene-vlm-base}, prompt: {system: You see scenes.}}")
    expected = {"system": "You see scenes.", "answer_format": "short"}
    assert prompts(of_base) == ({"scenes": expected}, expected), "a fine-tune keeps the prompt of its base"


def test_what_training_leaves_out_of_a_prompt_is_said(tmp_path: Path) -> None:
    def notes(more: str, text: str = TUNED) -> list[str]:
        return list(training_prompt_notes(resolved(tmp_path, text + more)))

    assert notes("") == notes("prompt: {system: Be brief.}\n") == []
    shots = "prompt: {examples: [{question: 'Is it?', answer: 'yes'}], system: Be brief.}\n"
    assert notes(shots) == ["tuned is trained without the few-shot examples of its prompt, and asked with them"]
    assert next(s for s in make(tmp_path, TUNED + shots).stages if s.kind == "finetune").params["prompts"] == {
        "scenes": {"system": "Be brief."}
    }
    swept = "prompt: [{as: short, answer_format: short}, {as: bare, system: Look.}]\n"
    assert notes(swept) == ["tuned is trained with the first prompt, 'short', and asked with each of the 2"]
    assert next(s for s in make(tmp_path, TUNED + swept).stages if s.kind == "finetune").params["prompts"] == {
        "scenes": {"answer_format": "short"}
    }
    scratch = TUNED.replace("sft: {base: base, train: [scenes]}", "scratch_vlm: {train: [scenes]}")
    assert notes("prompt: {system: Be brief.}\n", scratch) == ["tuned is trained with the recipe's own questions, not with `prompt:`"]
