"""From a spec to estimators that read the inside of a model: what is computed, what is kept, and a third party's own estimator."""

import json

import numpy as np
import pytest
import torch

from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.registry.sample import GENERATIONS, UNCERTAINTIES
from qualm.runners.data.internals import read_internals
from qualm.runners.runtime.records import read_table
from tests.end_to_end.test_uncertainty import build
from tests.support.checks.plugin_files import made_up
from tests.support.models.tiny_models import tiny_llava

SPEC = """\
qualm: 1
name: t
datasets:
  open: {card: synthetic_scenes, test: 6}
  choice: {card: synthetic_scenes, format: multiple_choice, test: 2}
models:
  base: {hf_vlm: {artifact: tiny}}
perturbations: [blur: {radius: 2}]
inference: {draws: 3, max_new_tokens: 4}
estimators:
  - perplexity
"""
OWN = '''
import numpy as np

NEEDS = {"prompt": "hidden_states/{layer}/prompt_last"}


def prompt_length(prompt, *, layer: float | str = "last"):
    """Length of the prompt's last state."""
    return np.array([np.sqrt((row ** 2).sum()) for row in prompt])
'''


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("project")
    tiny_llava(folder / "registry" / "data" / "tiny", seed=3)
    return folder


def computed(counters):
    asked = {name: own for name, own in counters.items() if name.startswith("infer")}
    return {name: {kind: n for kind, n in own.items() if kind.endswith(" computed")} for name, own in asked.items()}


@pytest.mark.slow
def test_layers_are_added_and_nothing_is_answered_again(root):
    first = build(root, SPEC + "  - eigen_score\n", 4)
    assert computed(first)["infer-base-open"] == {"answers computed": 12, "draws computed": 36, "signals computed": 36}
    assert computed(first)["infer-base-choice"] == {"answers computed": 4}
    more = build(root, SPEC + "  - eigen_score: {layer: [middle, -1, 0.5]}\n", 3)
    assert computed(more)["infer-base-open"]["answers computed"] == computed(more)["infer-base-open"]["draws computed"] == 0
    assert 0 < computed(more)["infer-base-open"]["signals computed"] <= 36
    assert (root / "results/t/internals/base/open.parquet").is_file()
    fewer = build(root, SPEC, 3)
    assert not any(n for own in computed(fewer).values() for n in own.values())
    tables = list(read_internals(root / "results/t/internals/base/open.parquet", "clean", ["hidden_states/-1/answer_last"]))
    states = [row for table in tables for row in table["hidden_states/-1/answer_last"].to_pylist()]
    assert len(states) == 18 and {len(row) for row in states if row} == {32}


def test_what_a_model_cannot_give_is_an_error_of_the_spec(root):
    text = SPEC.replace("hf_vlm: {artifact: tiny}", "openai: {model: m}") + "  - eigen_score: {layer: -1}\n"
    (root / "t.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        resolve_file(root / "t.yaml", root, RunWide(default="t"))
    words = str(caught.value)
    assert (
        "eigen_score@layer=-1 needs hidden_states, which the model 'base' cannot give" in words
        or "eigen_score needs hidden_states" in words
    )
    assert "models of hf_vlm can" in words and "leave_out: [eigen_score]" in words
    (root / "t.yaml").write_text(SPEC + "  - eigen_score: {layer: deep}\n")
    with pytest.raises(SpecError, match=r"eigen_score reads draw_hidden_states/deep/answer_last: expected a layer as `middle`"):
        resolve_file(root / "t.yaml", root, RunWide(default="t"))


@pytest.mark.slow
def test_an_estimator_of_one_file_reads_what_it_names(root, tmp_path):
    with made_up(tmp_path) as add:
        add("estimators", "prompt_length", OWN)
        counters = build(root, SPEC + "  - prompt_length: {layer: 1}\n", 4)
    signal = "hidden_states/1/prompt_last"
    assert computed(counters)["infer-base-choice"]["signals computed"] == 4
    assert counters["estimate"]["uncertainties"] == 2 * (12 + 4)
    told = {r["sample_id"]: r["value"] for r in read_table(root / "results/t/uncertainties.parquet", UNCERTAINTIES).to_pylist()
            if r["estimator"].startswith("prompt_length") and r["variant"] == "clean"}  # fmt: skip
    for name in ("choice", "open"):
        for table in read_internals(root / f"results/t/internals/base/{name}.parquet", "clean", [signal]):
            for row in table.to_pylist():
                assert told[row["sample_id"]] == pytest.approx(np.linalg.norm(row[signal]), rel=1e-5)
    stage = json.loads((root / "specs/t/stages/infer-base-choice.json").read_text())
    assert signal in stage["params"]["needs"]


@pytest.mark.slow
def test_estimators_of_attention_and_of_relevance_have_values(root):
    names = ("rauq", "vauq", "visual_attention_ratio", "token_sar", "sar")
    listed = "".join(f"  - {name}\n" for name in names if name != "visual_attention_ratio")
    build(root, SPEC + listed + "  - visual_attention_ratio: {form: [share, entropy], layers: all}\n", 4)
    told = read_table(root / "results/t/uncertainties.parquet", UNCERTAINTIES).to_pylist()
    generations = read_table(root / "results/t/generations/base/open.parquet", GENERATIONS).to_pylist()
    greedy = {(r["sample_id"], r["variant"]): r["token_logprobs"] for r in generations if r["draw"] == 0}
    for name in names:
        own = [r for r in told if r["estimator"].startswith(name) and r["dataset"] == "open"]
        defined = [r["value"] for r in own if r["value"] is not None]
        assert len(own) in (12, 24) and len(defined) > len(own) // 2 and np.isfinite(defined).all(), name
    for variant in ("clean", "blur@radius=2"):
        column = "attention/middle_third/previous"
        rows = [
            row for table in read_internals(root / "results/t/internals/base/open.parquet", variant, [column]) for row in table.to_pylist()
        ]
        attention = {row["sample_id"]: row[column] for row in rows if row["draw"] == 0}
        values = {
            r["sample_id"]: r["value"] for r in told if r["estimator"] == "rauq" and (r["dataset"], r["variant"]) == ("open", variant)
        }
        for sample, value in values.items():
            p = np.exp(greedy[sample, variant])
            if value is None:
                assert len(p) < 2
                continue
            worst = []
            for layer in np.reshape(attention[sample], (-1, len(p) - 1)):
                c = [p[0]]
                for i in range(1, len(p)):
                    c.append(0.2 * p[i] + 0.8 * float(layer[i - 1]) * c[-1])
                worst.append(-np.mean(np.log(c)))
            assert value == pytest.approx(max(worst), rel=1e-6)
    assert not any(r["value"] is not None for r in told if r["dataset"] == "choice" and r["estimator"].startswith(names))


@pytest.mark.slow
def test_gradients_and_evidence_of_open_answers_have_values(root):
    listed = "  - sem_grad: {layers: '1:1'}\n  - evidential_uncertainty: {measure: [conflict, ignorance]}\n  - visual_semantic_entropy\n"
    build(root, SPEC + listed, 4)
    told = read_table(root / "results/t/uncertainties.parquet", UNCERTAINTIES).to_pylist()
    column = "gradient/1:1/-1"
    tables = read_internals(root / "results/t/internals/base/open.parquet", "clean", [column])
    gradient = {row["sample_id"]: row[column] for table in tables for row in table.to_pylist() if row["draw"] == 0}
    own = {
        r["sample_id"]: r["value"]
        for r in told
        if r["estimator"].startswith("sem_grad") and (r["dataset"], r["variant"]) == ("open", "clean")
    }
    assert own == {sample: pytest.approx(np.log(size[0]), abs=1e-6) for sample, size in gradient.items()} and len(own) == 6
    evidence = [r["value"] for r in told if r["estimator"].startswith("evidential_uncertainty") and r["dataset"] == "open"]
    assert len(evidence) == 24 and min(evidence) > 0
    visual = [r["value"] for r in told if r["estimator"] == "visual_semantic_entropy"]
    assert len(visual) == 6 and all(0 <= value < 1 for value in visual), "of clean open answers alone"
