"""The shipped specs and one with everything in it, as texts and in a checkout."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "specs"
EVERYTHING = """\
qualm: 1
name: everything
seed: 3
datasets:
  scenes: {card: synthetic_scenes, test: 20, where: not answerable or category == 'x', uncertain: not answerable, limit: 10}
  easy: {card: synthetic_scenes, level: [easy, hard], format: [open, multiple_choice], test: 9, splits: [test], prompt: {system: Hi.}}
  image: {card: vizwiz_ans_difference, where: clean or image, uncertain: image, ask_answerable: ambiguity_zero_shot, disjoint: [text]}
  text: {card: vizwiz_ans_difference, where: LQI >= 4 and INV <= 2}
taxonomy:
  epistemic: {knowledge: {definition: Not to be seen., answer: Say so., examples: [Who is it?]}}
pairs:
  ours:
    recipes: [{from_caption: {dataset: scenes, category: epistemic/knowledge, generator: rules}, as: told}]
    near_duplicates: {distance: 3, drop: true}
perturbations: [blur: {radius: [1, 2.5]}, shuffle: {unit: words}, jpeg, amb, inv: {generator: {openai: {model: x, base_url: "http://a"}}}]
models:
  base: {hf_vlm: {artifact: scene-vlm-base}, about: {family: scenes, billions: 0.001, chat: false}}
  far: {openai: {model: x, logprobs: 5}, leave_out: [p_true], prompt: {answer_format: short}}
prompt: {system: Be brief., examples: {split: train, shots: 2}}
finetunes:
  tuned: {sft: {base: base, train: [ours], steps: 3, tune: {lora: {r: 2}}}}
inference: {draws: 3, temperature: 0.5, top_p: 0.9, confidence: verify}
judges: [rules]
estimators: [perplexity, semantic_entropy: {version: [sum, frequency], nli: lexical}, deg_mat: {similarity: jaccard}, p_true]
conformal: {half: {scores: [lac, aps], alpha: [0.1, 0.2], calibration: {fraction: 0.5, split: rows}}}
abstentions: {unsure: {thresholding: {}, of: [base], fit: half}}
metrics: [accuracy, ece: {bins: 15}, auroc, uncertainty_reflection_rate, hallucination_change_correlation, coverage]
slices: [category, kind]
compare: {baseline: base, correction: holm, interval: {bootstrap: 20, level: 0.9}}
report: {examples: 3}
"""
"""What the shipped specs leave out."""
SOURCES = {p.name: p.read_text(encoding="utf-8") for p in sorted(FOLDER.glob("*.yaml"))} | {"everything.yaml": EVERYTHING}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the specs that others read models of."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "specs").mkdir()
    for name, text in SOURCES.items():
        (folder / "specs" / name).write_text(text, encoding="utf-8")
    return folder
