"""What the inference stages of a plan will take: on a tiny model's own files and built tables, against sums by hand."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.project.inference import MAX_BATCH, StageEstimate, estimate
from qualm.compiler.project.model_sizes import Size, size_of_folder, size_of_hub_model
from qualm.compiler.project.rebuilds import Forecast
from qualm.compiler.project.resources import CARDS, Workload, memory, seconds
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.registry.sample import SAMPLES
from qualm.runners.inference import batch_size
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from tests.support.projects.tiny_project import write_dataset

SPEC = """\
qualm: 1
name: t
datasets:
  open: {card: synthetic_scenes, test: 10}
  quiz: {card: synthetic_scenes, format: multiple_choice, test: 10, train: 10, evaluate: true}
models:
  base: {hf_vlm: {artifact: x, dtype: bfloat16}}
  api: {openai: {model: m}}
finetunes:
  tuned: {sft: {base: base, train: [quiz]}}
  whole: {sft: {base: base, train: [quiz], tune: full}}
  again: {sft: {base: whole, train: [quiz], tune: full}}
perturbations: [blur: {radius: [2, 6]}]
inference: {draws: 3, max_new_tokens: 5}
judges: [rules]
metrics: [accuracy]
"""
WORK = Workload(frozenset({"draws", "option_logits", "text", "token_entropies", "token_logprobs"}), 3, 5, 16)


@cache
def plan_of(text: str = SPEC) -> Plan:
    """A plan holds no path of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.yaml"
        path.write_text(text)
        return make_plan(resolve_file(path, path.parent, RunWide(default="t")))


def asking(estimator: str) -> str:
    """The spec with an estimator, and without the model that gives too little for it."""
    return SPEC.replace("  api: {openai: {model: m}}\n", "").replace("metrics:", f"estimators: [{estimator}]\nmetrics:")


def write_model(folder: Path, layers: int = 1) -> Path:
    """400 + layers * (32 + 64) + 400 numbers of a language model, 36 of a vision part that cuts 32 pixels into patches of 8."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes = {
        "model.embed_tokens.weight": (50, 8),
        **{f"model.layers.{i}.self_attn.k_proj.weight": (4, 8) for i in range(layers)},
        **{f"model.layers.{i}.self_attn.q_proj.weight": (8, 8) for i in range(layers)},
        "lm_head.weight": (50, 8),
        "vision.weight": (6, 6),
    }
    save_file({name: np.zeros(shape, np.float32) for name, shape in shapes.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"vision_config": {"image_size": 32, "patch_size": 8}}))
    return folder


def run(
    plan: Plan, root: Path, actions: dict[str, str] | None = None, gpu: str | None = None, **settings: object
) -> dict[str, StageEstimate]:
    """Of the stages that are given an action; of all where none is."""
    forecasts = [Forecast(s.name, s.kind, (actions or {}).get(s.name, "unchanged" if actions else "run")) for s in plan.stages]  # type: ignore[arg-type]
    return {e.stage: e for e in estimate(plan, forecasts, root, Settings(**settings), gpu)}  # type: ignore[arg-type]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_model(tmp_path / "registry/data/x")
    write_dataset(tmp_path / "results/t/data/open", 7, choices=False)
    write_dataset(tmp_path / "results/t/data/quiz", 4, choices=True)
    return tmp_path


def test_hidden_states_are_priced_by_their_vectors(root: Path) -> None:
    """7 open questions under 3 variants with 3 draws and a state of 8 units each; of 4 choices the prompts alone."""
    plan = plan_of(asking("eigen_score"))
    (stage,) = (s for s in plan.stages if s.name == "infer-base-open")
    assert stage.outputs["internals"] == {"open": "results/t/internals/base/open.parquet"}
    assert "draw_hidden_states/0.5/answer_last" in stage.params["needs"]
    estimates = run(plan, root)
    assert estimates["infer-base-open"].stored == 7 * 3 * 3 * 8 * 2 and estimates["infer-base-quiz"].stored == 0
    line = "hidden states: draw_hidden_states/0.5/answer_last x 3, of 8 units in float16: 63 vectors = 9.39e-07 GiB; "
    assert estimates["infer-base-open"].arithmetic[-1] == f"{line}equal answers are stored once"
    (root / "results/t/data/open/samples.parquet").unlink()
    assert run(plan, root)["infer-base-open"].stored == 3 * 8 * 2


def test_states_of_the_prompt_are_there_once_and_for_choices_too(root: Path) -> None:
    probe = "probes:\n  knows: {p_ik: , of: [base], fit: half}\nmetrics:"
    plan = plan_of(asking("eigen_score").replace("metrics:", probe))
    estimates = run(plan, root)
    assert estimates["infer-base-open"].stored == 7 * 3 * (3 + 1) * 8 * 2 and estimates["infer-base-quiz"].stored == 4 * 3 * 8 * 2
    assert "hidden_states/0.5/prompt_last x 1, of 8 units in float16: 84 vectors" in estimates["infer-base-open"].arithmetic[-1]
    (root / "results/t/data/open/samples.parquet").unlink()
    assert run(plan, root)["infer-base-open"].stored == (3 + 1) * 8 * 2


def test_attention_is_priced_by_its_numbers_for_each_token(root: Path) -> None:
    """Of 5 tokens at most; `previous` of each of 2 layers, of the picture the means over them."""
    write_model(root / "registry/data/x", layers=2)
    plan = plan_of(asking("rauq, {visual_attention_ratio: {form: [share, entropy]}}"))
    one = run(plan, root)["infer-base-open"]
    assert one.stored == 7 * 3 * (5 * 2 + 5 + 5) * 2
    looks = ("0.15:0.56/image_entropy", "0.15:0.56/image_share", "middle_third/previous")
    line = f"numbers of each token in float16: {', '.join(f'attention/{look}' for look in looks)}: at most 20 an open question"
    assert line in one.arithmetic[-1]
    (root / "results/t/data/open/samples.parquet").unlink()
    assert run(plan, root)["infer-base-open"].stored == (5 * 2 + 5 + 5) * 2


def test_numbers_in_double_precision_take_more(root: Path) -> None:
    write_model(root / "registry/data/x", layers=4)
    plan = plan_of(asking("sem_grad, {evidential_uncertainty: {measure: [conflict, ignorance]}}"))
    one = run(plan, root)["infer-base-open"]
    assert one.stored == 7 * 3 * (1 + 2 * 5) * 8
    line = "numbers of the answer in float64: evidence/conflict, evidence/ignorance, gradient/0.5:-2/-1: at most 11 an open question"
    assert line in one.arithmetic[-1]


def test_stages_that_are_run_on_this_machine_s_models(root: Path) -> None:
    plan = plan_of()
    every = [f"infer-{model}-{data}" for model in ("again", "base", "tuned", "whole") for data in ("open", "quiz")]
    assert sorted(run(plan, root)) == every
    actions = {"infer-base-open": "run", "infer-base-quiz": "perhaps", "infer-tuned-open": "blocked", "infer-tuned-quiz": "restore"}
    assert sorted(run(plan, root, actions)) == ["infer-base-open", "infer-base-quiz", "infer-tuned-open"]


def test_questions_are_counted_under_every_variant(root: Path) -> None:
    estimates = run(plan_of(), root)
    assert (estimates["infer-base-open"].samples, estimates["infer-base-quiz"].samples) == (7 * 3, 4 * 3)
    plain = run(plan_of(SPEC.replace("perturbations: [blur: {radius: [2, 6]}]\n", "")), root)
    assert (plain["infer-base-open"].samples, plain["infer-base-quiz"].samples) == (7, 4)


def test_questions_are_open_where_nobody_wrote_options(root: Path) -> None:
    """An empty list or none at all: both have draws, which choices do not."""
    before = run(plan_of(), root, gpu="a100")["infer-base-open"]
    path = root / "results/t/data/open/samples.parquet"
    samples = [row | {"choices": None if i % 2 else []} for i, row in enumerate(read_table(path, SAMPLES).to_pylist())]
    write_table(path, samples, SAMPLES)
    assert read_table(path, SAMPLES)["choices"].null_count == 3
    assert run(plan_of(), root, gpu="a100")["infer-base-open"] == before


@pytest.mark.parametrize(
    ("settings", "gpu", "batch"),
    [({}, None, 21), ({"batch_size": 4}, None, 4), ({"batch_size": 4}, "a100", 4), ({"batch_size": 50}, None, 21), ({}, "t4", 21)],
)
def test_the_batch_is_the_setting_s_and_never_more_than_the_questions(
    root: Path, settings: dict[str, int], gpu: str | None, batch: int
) -> None:
    assert run(plan_of(), root, gpu=gpu, **settings)["infer-base-open"].batch == batch


def test_batches_where_nobody_knows_how_many_questions_there_are(root: Path) -> None:
    plan = plan_of()
    (root / "results/t/data/open/samples.parquet").unlink()
    blind = run(plan, root)["infer-base-open"]
    assert (blind.samples, blind.batch, blind.seconds) == (None, 32, None)
    assert run(plan, root, gpu="t4")["infer-base-open"].batch == MAX_BATCH == batch_size.MAX_BATCH
    assert run(plan, root, gpu="1 1 0.001")["infer-base-open"].batch == 1


def test_a_model_s_memory_and_where_it_does_not_fit(root: Path) -> None:
    plan = plan_of(asking("lexical_similarity"))
    size = size_of_folder(root / "registry/data/x")
    assert isinstance(size, Size) and (size.language, size.vision, size.image_tokens) == (896, 36, 16)
    one = run(plan, root, batch_size=4)["infer-base-open"]
    assert one.memory == memory(size, WORK, 4, "bfloat16") and one.memory.weights == 932 * 2
    row, token = (16 + 64) + (1 + 3) * 5, 2 * 1 * 4 * 2
    assert one.memory.cache == 4 * row * token
    assert one.arithmetic == (
        "size: 8.96e-07 + 3.6e-08 billion parameters (registry/data/x, one image token per patch)",
        "weights: 1.74e-06 GiB as bfloat16",
        "cache: 0.01562 KiB a token = 2 x 1 layers x 4 wide; batch 4 x (80 prompt + 4 answers x 5) = 5.96e-06 GiB",
        f"activations {4 * 80 * 16 * 8 * 2 / 2**30:.3g} GiB, logits {4 * 4 * 50 * 12 / 2**30:.3g} GiB; with a tenth of slack 0.5 GiB",
    )
    fitting = run(plan, root, gpu="t4", batch_size=4)["infer-base-open"]
    assert not [line for line in fitting.arithmetic if "more than" in line] and len(fitting.arithmetic) == 6
    small = run(plan, root, gpu="1 1 0.001", batch_size=4)["infer-base-open"]
    (line,) = [line for line in small.arithmetic if "more than" in line]
    assert line.startswith("more than the 0.001 GiB of ") and "take a smaller batch" in line


def test_the_card_of_the_settings_unless_another_is_named(root: Path) -> None:
    plan = plan_of()
    forecasts = [Forecast(s.name, s.kind, "run") for s in plan.stages]
    for own, named, used in (("t4", None, "t4"), ("t4", "l4", "l4"), ("", "l4", "l4"), ("", None, "")):
        assert {e.by for e in estimate(plan, forecasts, root, Settings(gpu=own), named)} == {used}


def test_seconds_of_open_questions_and_of_choices(root: Path) -> None:
    plan = plan_of(asking("lexical_similarity"))
    size = size_of_folder(root / "registry/data/x")
    assert isinstance(size, Size)
    estimates = run(plan, root, gpu="t4", batch_size=4)
    opened = seconds(size, WORK, 4, "bfloat16", CARDS["t4"])
    chosen = seconds(size, Workload(frozenset(), 0, 1, 16), 4, "bfloat16", CARDS["t4"])
    assert estimates["infer-base-open"].seconds == pytest.approx(7 * 3 * opened.total)
    assert estimates["infer-base-quiz"].seconds == pytest.approx(4 * 3 * chosen.total)
    assert chosen.decode == 0 < opened.decode and estimates["infer-base-open"].by == "t4"
    (root / "results/t/data/open/samples.parquet").unlink()
    assert run(plan, root, gpu="t4", batch_size=4)["infer-base-open"].seconds == pytest.approx(opened.total)


def test_what_was_measured_here_wins_over_a_card(root: Path) -> None:
    plan = plan_of()
    record = root / ".qualm/runs/t/infer-base-open.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"counters": {"answers computed": 4}, "seconds": 2.0}))
    for gpu in (None, "t4"):
        one = run(plan, root, gpu=gpu)["infer-base-open"]
        assert (one.seconds, one.by) == (7 * 3 * 0.5, "measured")
        assert one.arithmetic[-1] == "time: 0.5 s an answer when this stage last ran here"
    (root / "results/t/data/open/samples.parquet").unlink()
    assert run(plan, root)["infer-base-open"].seconds == 0.5


def test_a_model_that_is_not_tuned_yet_is_as_large_as_what_it_begins_from(root: Path) -> None:
    plan = plan_of()
    estimates = run(plan, root)
    own = estimates["infer-base-open"].arithmetic[0]
    assert estimates["infer-tuned-open"].arithmetic[0] == estimates["infer-again-open"].arithmetic[0] == own
    write_model(root / "results/t/models/whole")
    assert "(results/t/models/whole, " in run(plan, root)["infer-again-open"].arithmetic[0]


def test_models_of_which_nothing_is_here(tmp_path: Path) -> None:
    plan = plan_of()
    estimates = run(plan, tmp_path, gpu="t4")
    assert estimates["infer-base-open"] == StageEstimate("infer-base-open", "base", None, why="registry/data/x is not here yet")
    assert estimates["infer-tuned-open"].why == "results/t/models/tuned is not here yet"
    (tmp_path / "registry/data/x").mkdir(parents=True)
    (tmp_path / "registry/data/x/config.json").write_text("{}")
    why = run(plan, tmp_path)["infer-base-open"].why
    assert why.endswith("registry/data/x: its weights have no self_attn.k_proj and embed_tokens, which give the size of its cache")


def test_models_of_the_hub_are_those_of_the_table(root: Path) -> None:
    name = "Qwen/Qwen2-VL-7B-Instruct"
    hub = f"{{hf_vlm: {{hub: {name}, revision: {'a' * 40}, dtype: float16, quantization: int8}}}}"
    estimates = run(plan_of(SPEC.replace("{openai: {model: m}}", hub)), root, batch_size=2)
    size, one = size_of_hub_model(name), estimates["infer-api-open"]
    assert size is not None and one.memory is not None and one.memory.weights == size.weight_bytes("float16", "int8")
    assert one.arithmetic[1].endswith(" GiB as int8, else float16")
    unknown = run(plan_of(SPEC.replace("{openai: {model: m}}", hub.replace(name, "a/b"))), root)["infer-api-open"]
    assert unknown.why == "a/b is not in the table of published models (registry/entries/published_models.yaml)" and unknown.samples == 21


def test_signals_about_the_answer_are_read_from_a_copy_of_the_cache(root: Path) -> None:
    plan = plan_of(asking("p_true"))
    (line,) = [line for line in run(plan, root, batch_size=4)["infer-base-open"].arithmetic if line.startswith("cache")]
    assert "batch 4 x (80 prompt + 1 answers x 5) and a copy = " in line


def test_as_json_has_the_total_of_the_memory(root: Path) -> None:
    one = run(plan_of(), root)["infer-base-open"]
    assert one.memory is not None
    assert one.as_json()["memory"]["total"] == one.memory.total and one.as_json()["samples"] == 21
    assert StageEstimate("s", "m", None, why="gone").as_json()["memory"] is None


def test_no_such_card(root: Path) -> None:
    with pytest.raises(ProjectError, match="h1000"):
        run(plan_of(), root, gpu="h1000")
