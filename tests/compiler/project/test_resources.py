"""Memory and time: against real tiny models, against sums by hand, and as `qualm plan` shows them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from qualm.compiler.commands.main import app
from qualm.compiler.project import resources
from qualm.compiler.project.model_sizes import Size, size_of_folder, size_of_hub_model
from qualm.compiler.project.resources import CARDS, Workload, largest_batch, measured_seconds, memory, parse_gpu, seconds
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.entries.published_models import published
from qualm.runners.contracts.models import ModelContext, Request
from qualm.runners.inference.check_cases import scene_cases
from qualm.runners.inference.model_under_test import Plain
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import messages
from tests.support.models.each_family import EACH_FAMILY
from tests.support.models.tiny_models import FAMILIES, TEMPLATES, tiny_llava
from tests.support.projects.tiny_project import write_dataset

ROOT = Path(__file__).parents[3]
QWEN = size_of_hub_model("Qwen/Qwen2-VL-7B-Instruct")
UQB = Workload(frozenset({"p_true", "logprobs_without_image", "logprobs_without_question"}), 10, 16, 391)


@pytest.mark.slow
@pytest.mark.parametrize("family", EACH_FAMILY)
def test_sizes_are_those_of_the_model(family, tmp_path):
    folder = FAMILIES[family](tmp_path)
    size = size_of_folder(folder)
    assert isinstance(size, Size), size
    model = hf_vlm(ModelContext("m", folder), template=TEMPLATES.get(family))
    module = model.load()
    assert size.language + size.vision == sum(p.numel() for p in module.parameters())
    assert size.weight_bytes("float32") == sum(p.numel() * p.element_size() for p in module.parameters())
    assert size.tied == (module.get_output_embeddings().weight is module.get_input_embeddings().weight)
    assert size.vocabulary == module.get_input_embeddings().weight.shape[0]
    case = scene_cases(3)[0]
    request = Request(model.render(messages(case.question)), case.image)
    plain = Plain(model)
    inputs = plain.inputs([request.prompt], [case.image])
    cache = plain.forward(inputs, use_cache=True).past_key_values
    tokens = inputs["input_ids"].shape[1]
    whole = [layer for layer in cache.layers if layer.keys.shape[2] == tokens]  # a layer with a window keeps less
    kept = sum(layer.keys.nbytes + layer.values.nbytes for layer in whole)
    assert size.cache_bytes("float32") * tokens * len(whole) / size.layers == kept and len(cache.layers) == size.layers


def test_draws_that_are_shown_are_read_once_more():
    plain = Workload(frozenset({"p_true"}), 10, 16, 391)
    shown = Workload(frozenset({"p_true", "p_true_sampling"}), 10, 16, 391)
    assert shown.follow - plain.follow == (16 + 48) + 10 * 16 and shown.passes == plain.passes + 1
    assert memory(QWEN, shown, 4, "bfloat16").cache - memory(QWEN, plain, 4, "bfloat16").cache == 4 * 160 * 57344


def test_attention_evidence_and_gradients_read_the_answer_again():
    def passes(*needs):
        return Workload(frozenset(needs), 0, 16, 391).passes - 16

    attention = ("attention/all/image_share", "attention/middle_third/previous")
    assert passes("hidden_states/0.5/answer_last", "token_ends") == 0
    assert passes(*attention) == 1 and passes("evidence/conflict", "evidence/ignorance") == 1
    assert passes(*attention, "image_information/all/0.5") == 2 == passes("image_information/all/0.5")
    assert passes("gradient/all/-1") == 3 and passes("gradient/all/-1", "evidence/conflict", "top_logprobs") == 5
    assert Workload(frozenset(attention), 0, 16, 391).follow == 16


def test_the_table_says_which_output_layers_are_embeddings():
    """Where it is one matrix, an embedding's worth of parameters is counted once."""
    for name in ("google/gemma-3-4b-it", "Qwen/Qwen2-VL-2B-Instruct", "microsoft/kosmos-2-patch14-224"):
        assert size_of_hub_model(name).tied
    assert not QWEN.tied and all(size_of_hub_model(n) is not None for n, m in published().items() if m.text)


def test_a_7b_by_hand():
    assert QWEN.cache_bytes("bfloat16") == 2 * 28 * 4 * 128 * 2 == 57344
    assert QWEN.weight_bytes("bfloat16") == pytest.approx(8.291e9 * 2, rel=1e-3)
    linear = 7.616e9 - 2 * 152064 * 3584
    assert QWEN.body == pytest.approx(linear)
    assert QWEN.weight_bytes("bfloat16", "int8") == pytest.approx(linear + (2 * 152064 * 3584 + 0.676e9) * 2)
    taken = memory(QWEN, UQB, 32, "bfloat16")
    prompt, answers, question_about_answer = 391 + 64, 11 * 16, 48 + 16
    assert taken.cache == 32 * (prompt + answers + prompt + question_about_answer) * 57344
    # The image encoder's 4 x 391 patches take more than the prompt's 455 tokens.
    assert taken.activations == pytest.approx(32 * 4 * 391 * (0.676e9 / 288) ** 0.5 * 16 * 2, rel=1e-9)
    assert memory(replace(QWEN, vision_width=100.0), UQB, 32, "bfloat16").activations == 32 * 455 * 16 * 3584 * 2
    assert taken.logits == 32 * 11 * 152064 * 12
    assert taken.total == 1.1 * (taken.weights + taken.cache + taken.activations + taken.logits) + 2**29


@pytest.mark.parametrize(
    ("name", "patches", "width"),
    [
        ("HuggingFaceTB/SmolVLM-256M-Instruct", 16, 768),
        ("HuggingFaceTB/SmolVLM2-2.2B-Instruct", 9, 1152),
        ("google/gemma-3-4b-it", 16, 1152),
        ("llava-hf/llava-1.5-7b-hf", 1, (0.324e9 / 288) ** 0.5),
        ("Qwen/Qwen2-VL-2B-Instruct", 4, (0.665e9 / 288) ** 0.5),
    ],
)
def test_image_encoders_of_published_models(name, patches, width):
    """Widths are those of the configurations, or of an encoder of 24 layers: CLIP ViT-L has 1024."""
    size = size_of_hub_model(name)
    assert size.patches == patches and size.vision_width == pytest.approx(width)


def test_a_7b_s_seconds_by_hand():
    h200 = CARDS["h200"]
    spent = seconds(QWEN, UQB, 32, "bfloat16", h200)
    follow = (16 + 48) + 2 * (16 + 64)
    flops = 2 * QWEN.body * (455 + follow) + 2 * 0.676e9 * 4 * 391 + 2 * 28 * 3584 * 455**2
    assert spent.prefill == pytest.approx(flops / (0.4 * 989e12))
    computed = 2 * (QWEN.body + 152064 * 3584) * 11 * 15 / (0.4 * 989e12)
    moved = 15 * (7.616e9 * 2 / 32 + (455 + 11 * 8) * 57344) / 4.8e12
    assert spent.decode == pytest.approx(max(computed, moved), rel=1e-6)
    assert spent.launches == 0.7e-3 * 28 * (16 + 2 + 1) / 32
    assert spent.total == spent.prefill + spent.decode + spent.launches
    assert seconds(QWEN, UQB, 32, "float32", h200).prefill > 10 * spent.prefill


def test_what_fits():
    batch = largest_batch(QWEN, UQB, CARDS["l4"].memory, "bfloat16")
    assert batch >= 1 and memory(QWEN, UQB, batch, "bfloat16").total <= CARDS["l4"].memory < memory(QWEN, UQB, 2 * batch, "bfloat16").total
    assert largest_batch(QWEN, UQB, CARDS["t4"].memory, "bfloat16") == 0
    assert largest_batch(QWEN, UQB, CARDS["t4"].memory, "float16", "nf4") >= 1


def test_cards():
    assert parse_gpu("H200") is CARDS["h200"]
    made = parse_gpu("100 500 16")
    assert (made.half, made.traffic, made.memory) == (1e14, 5e11, 16 * 2**30)
    with pytest.raises(ProjectError, match="gpu 'h20': expected b200, "):
        parse_gpu("h20")


def test_damaged_files_are_a_reason(tmp_path):
    folder = tiny_llava(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"\xff" * 20)
    assert "not a safetensors file" in size_of_folder(folder)
    (folder / "config.json").unlink()
    assert "config.json" in size_of_folder(folder)


def test_a_measured_rate(tmp_path):
    path = tmp_path / ".qualm" / "runs" / "t" / "infer.json"
    path.parent.mkdir(parents=True)
    assert measured_seconds(tmp_path, "t", "infer") is None
    path.write_text(json.dumps({"seconds": 30.0, "counters": {"answers computed": 120, "draws computed": 1200}}))
    assert measured_seconds(tmp_path, "t", "infer") == 0.25
    path.write_text(json.dumps({"seconds": 1.0, "counters": {"answers stored": 120}}))
    assert measured_seconds(tmp_path, "t", "infer") is None


SPEC = """\
qualm: 1
name: t
datasets: {scenes: {card: synthetic_scenes, test: 10}, far: {card: synthetic_scenes, test: 10, format: multiple_choice}}
models: {base: {hf_vlm: {artifact: tiny}}, big: {hf_vlm: {hub: Qwen/Qwen2-VL-7B-Instruct, revision: REVISION, dtype: bfloat16}}}
perturbations: [blur: {radius: [1, 2]}]
estimators: [perplexity]
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "t.yaml").write_text(SPEC.replace("REVISION", "a0" * 20))
    (tmp_path / "params.yaml").write_text("default: t\n")
    (tmp_path / "registry").mkdir()
    for source in (ROOT / "runners", *(p for p in (ROOT / "registry").iterdir() if p.name != "data")):
        (tmp_path / source.relative_to(ROOT)).symlink_to(source)
    tiny_llava(tmp_path / "registry" / "data" / "tiny")
    write_dataset(tmp_path / "results" / "t" / "data" / "scenes", 8, False)
    write_dataset(tmp_path / "results" / "t" / "data" / "far", 6, True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(*arguments):
    done = CliRunner().invoke(app, ["plan", "t", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_plan_says_what_inference_takes(project):
    takes = {f["stage"]: f["takes"] for f in json.loads(plan("--json", "--gpu", "h200"))}
    assert {stage for stage, found in takes.items() if found} == {f"infer-{m}-{d}" for m in ("base", "big") for d in ("scenes", "far")}
    tiny, big, choice = takes["infer-base-scenes"], takes["infer-big-scenes"], takes["infer-big-far"]
    assert (tiny["samples"], big["samples"], choice["samples"]) == (24, 24, 18)
    assert tiny["memory"]["weights"] == size_of_folder(project / "registry" / "data" / "tiny").weight_bytes("float32")
    work = Workload(frozenset({"text", "token_logprobs", "token_entropies"}), 0, 16, 391)
    assert big["batch"] == 24 and big["memory"]["total"] == memory(QWEN, work, 24, "bfloat16").total
    assert big["seconds"] == pytest.approx(24 * seconds(QWEN, work, 24, "bfloat16", CARDS["h200"]).total)
    one = Workload(frozenset(), 0, 1, 391)
    assert choice["seconds"] == pytest.approx(18 * seconds(QWEN, one, 18, "bfloat16", CARDS["h200"]).total)


def test_a_model_that_is_not_tuned_yet_is_as_large_as_what_it_is_tuned_from(project):
    spec = project / "specs" / "t.yaml"
    tuned = "finetunes: {one: {sft: {base: base, train: [scenes]}}, two: {sft: {base: one, train: [scenes]}}}\n"
    spec.write_text(spec.read_text().replace("perturbations", tuned + "perturbations"))
    takes = {f["stage"]: f["takes"] for f in json.loads(plan("--json"))}
    assert takes["infer-two-far"]["memory"]["weights"] == takes["infer-base-far"]["memory"]["weights"] > 0


def test_the_plan_in_words(project, monkeypatch):
    monkeypatch.setenv("QUALM_GPU", "t4")
    words = plan("-v")
    assert "infer-big-scenes, 24 questions: " in words and "(t4)" in words
    assert "cache: 56 KiB a token = 2 x 28 layers x 512 wide; batch 1 x (455 prompt + 1 answers x 16)" in words
    assert "more than the 14.7 GiB of t4: take a smaller batch, quantise" in words
    shutil.rmtree(project / "registry" / "data" / "tiny")
    assert "    2 stages: registry/data/tiny is not here yet\n" in plan() and "infer-base-scenes, 24" not in plan()
    assert "infer-base-scenes, 24 questions: registry/data/tiny is not here yet" in plan("-v")


def test_the_table_of_published_models():
    run = CliRunner().invoke
    rows = json.loads(run(app, ["ls", "models", "--published", "--json"]).stdout)
    assert len(rows) == len(published())
    llava = next(r for r in rows if r["name"] == "llava-hf/llava-1.5-7b-hf")
    assert llava["memory"]["bfloat16"] == pytest.approx(7.063e9 * 2 / 2**30) and llava["memory"]["cache_kib"] == 512
    words = run(app, ["ls", "models", "paligemma", "--published"], env={"COLUMNS": "200"}).stdout
    assert "all but logprobs_without_image, logprobs_without_both; needs a `template`" in words and "llava" not in words
    assert "cross-attention" in run(app, ["ls", "models", "Llama-3.2", "--published"], env={"COLUMNS": "200"}).stdout
    with pytest.raises(ProjectError, match="--published is for models"):
        run(app, ["ls", "metrics", "--published"], catch_exceptions=False)


def test_constants_are_named_in_the_docs():
    """The reader of docs/how-to/models.md can do the sum again."""
    assert (resources.ACTIVATIONS, resources.EFFICIENCY, resources.SLACK, resources.LAUNCH) == (16, 0.4, 1.1, 7e-4)
    assert torch.finfo(torch.bfloat16).bits / 8 == 2
