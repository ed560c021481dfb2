"""Supervised fine-tuning on small models of three architectures: what the loss is taken on, and what comes out."""

import csv
import io
import shutil
from contextlib import chdir
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from qualm.registry import LETTERS
from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError
from qualm.runners.contracts.models import ModelContext, Request
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.plugins.finetunes.sft import sft
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import messages
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.stage import StageError
from qualm.runners.training import batching
from qualm.runners.training import recipe as recipe_module
from qualm.runners.training.batching import IGNORE
from tests.support.models.tiny_models import FAMILIES
from tests.support.projects.asking import sample
from tests.support.projects.tiny_tuning import BASE, FULL, REFUSAL, SFT, Tuning, bare_stage, write_pairs

FAMILY = ["llava", "qwen2_vl", "idefics3"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return {name: FAMILIES[name](tmp_path_factory.mktemp(name)) for name in FAMILY}


@pytest.fixture
def make(tmp_path, models):
    """`make(family, **changes)`: a recipe as the stage would make it."""

    def made(family="llava", **changes):
        folder = tmp_path / "data"
        if not folder.exists():
            write_pairs(folder)
        context = FinetuneContext({"pairs": folder}, 7, {"base": {"plugin": "hf_vlm", "args": {}}}, {"base": models[family]})
        return sft(context, **{**SFT, **changes})

    made.folder = tmp_path / "data"
    return made


def plain_loss(folder, rows, data, network=None):
    """Minus the mean log-probability of every answer's tokens, one plain forward pass each, from the text up."""
    model = hf_vlm(ModelContext("plain", folder))
    network = network or model.load()
    total, count = 0.0, 0
    for row in rows:
        sample = data.table.slice(row, 1).to_pylist()[0]
        conversation = messages(sample["question"], sample["choices"] or ())
        said = LETTERS[sample["answer_index"]] if sample["choices"] else sample["references"][0]
        turn = {"role": "assistant", "content": [{"type": "text", "text": said}]}
        whole = model.processor.apply_chat_template([*conversation, turn], tokenize=False)
        until = next(i for i in range(len(whole)) if whole[i:].startswith(model.tokenizer.eos_token) and i > whole.rindex(said))
        whole = whole[: until + len(model.tokenizer.eos_token)]
        prompt = model.encode([Request(model.render(conversation), data.image(row))]).tensors
        full = model.encode([Request(whole, data.image(row))]).tensors
        ids, start = full["input_ids"][0], prompt["input_ids"].shape[1]
        assert ids[:start].tolist() == prompt["input_ids"][0].tolist()
        with torch.no_grad():
            logprobs = network(**full).logits[0].log_softmax(-1)
        total -= sum(float(logprobs[t - 1, ids[t]]) for t in range(start, len(ids)))
        count += len(ids) - start
    return total / count


@pytest.mark.parametrize("family", FAMILY)
def test_loss_is_that_of_plain_forward_passes(make, models, family):
    recipe = make(family)
    batch = recipe.batches(0)
    data = DatasetFolder("pairs", make.folder)
    examples = recipe.share.mixture.batch(0, 6)
    recipe.module.eval()
    loss, _ = recipe.module.share_loss(batch)
    assert loss.item() == pytest.approx(plain_loss(models[family], [e.row for e in examples], data), rel=1e-5)


@pytest.mark.parametrize("family", FAMILY)
def test_loss_is_on_answer_tokens_alone(make, models, family):
    """Token by token: what is trained is the answer and the end of the turn; the prompt is that of inference."""
    recipe = make(family)
    model = recipe.share.encoder.model
    data = DatasetFolder("pairs", make.folder)
    for step in range(2):
        padded = recipe.batches(step)["batches"][0]
        for row, example in enumerate(recipe.share.mixture.batch(step, 6)):
            asked = padded["labels"][row] != IGNORE
            ids, mask = padded["input_ids"][row], padded["attention_mask"][row].bool()
            answer = padded["labels"][row][asked].tolist()
            assert ids[1:][asked[:-1]].tolist() == answer  # each label is the very next token
            assert answer[-1] == model.tokenizer.eos_token_id and model.tokenizer.eos_token_id not in answer[:-1]
            assert model.tokenizer.decode(answer[:-1]).strip() == example.answer
            sample = data.samples[example.row]
            prompt = model.render(messages(sample["question"], sample["choices"] or ()))
            encoded = model.encode([Request(prompt, data.image(example.row))]).tensors["input_ids"][0].tolist()
            assert ids[mask].tolist() == [*encoded, *answer]


def test_targets(make):
    examples = make().share.mixture.pools[""]
    said = {e.row: e.answer for e in examples}
    assert said[0] == "red" and said[1] == REFUSAL and said[24] == "A" and said[25] == "B"
    assert len(said) == 27  # the row of split test and the one without a reference are left out


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILY)
def test_packed_loss_equals_padded(make, family):
    padded, packed = make(family, together=2), make(family, packed=True, together=2)
    one, two = padded.batches(0), packed.batches(0)
    assert sum(len(batch["input_ids"]) for batch in two["batches"]) < len(one["batches"][0]["input_ids"])
    padded.module.eval()
    if family == "qwen2_vl":  # positions along three axes begin anew for every picture; its own code cannot be told
        packed.module.to("cpu")
        with pytest.raises(FinetuneError, match="leave `packed` out"):
            packed.module.on_train_start()
        return
    packed.module.eval()
    packed.module.on_train_start()
    packed.module.eval()
    assert packed.module.share_loss(two)[0].item() == pytest.approx(padded.module.share_loss(one)[0].item(), rel=1e-5)


def test_two_batches_of_a_step_give_the_gradient_of_one(make, monkeypatch):
    """The network in double precision, so that nothing but the single precision of the loss tells them apart."""
    monkeypatch.setattr(batching, "WORTH", 0.0)

    def gradient(batches):
        module = recipe.module
        module.double().eval()
        module.zero_grad()
        wide = [{k: v.double() if v.is_floating_point() else v for k, v in batch.items()} for batch in batches["batches"]]
        loss = module.share_loss({**batches, "batches": wide})[0]
        loss.backward()
        return loss.item(), torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])

    recipe = make(packed=True, batch=12, together=2)
    two = recipe.batches(0)
    monkeypatch.setattr(recipe_module, "pack_in_batches", lambda *arguments: [batching.pack(*arguments)])
    one = recipe.batches(0)
    assert (len(two["batches"]), len(one["batches"])) == (2, 1)
    (loss_of_two, of_two), (loss_of_one, of_one) = gradient(two), gradient(one)
    assert loss_of_two == pytest.approx(loss_of_one, rel=1e-6)
    assert (of_two - of_one).norm() < 1e-6 * of_one.norm()


def test_shares_add_up_to_the_batch(make):
    recipe = make(batch=5)
    recipe.module.eval()
    for step in (0, recipe.steps - 1):
        whole = float(recipe.module.share_loss(recipe.batches(step))[0])
        for parts in (2, 3, 8):
            shares = [float(recipe.module.share_loss(recipe.share(step, part, parts))[0]) for part in range(parts)]
            assert sum(shares) / parts == pytest.approx(whole, rel=1e-6)


def test_weights_are_shares_of_what_is_drawn(tmp_path, models):
    for name, n in (("ours", 4), ("other", 12)):
        write_pairs(tmp_path / name, n)
    context = FinetuneContext(
        {n: tmp_path / n for n in ("ours", "other")}, 7, {"base": {"plugin": "hf_vlm", "args": {}}}, {"base": models["llava"]}
    )
    recipe = sft(context, **{**SFT, "train": ["ours", "other"], "weights": [3.0, 1.0], "batch": 8, "steps": 5})
    assert recipe.share.mixture.drawn() == {"ours": 30, "other": 10}
    for step in range(5):
        names = [e.dataset for e in recipe.share.mixture.batch(step, 8)]
        assert names.count("ours") == 6
    everything = sft(context, **{**SFT, "train": ["ours", "other"], "steps": None, "batch": 9})
    drawn = [(e.dataset, e.row) for s in range(everything.steps) for e in everything.share.mixture.batch(s, 9)]
    assert len(drawn) == len(set(drawn)) == 11 + 27
    with pytest.raises(FinetuneError, match="weights: expected one for each of the 2 datasets"):
        sft(context, **{**SFT, "train": ["ours", "other"], "weights": [1.0]})


def test_label_smoothing_by_hand(make):
    """(1 - s) times minus the target's log-probability, and s times minus the mean over the vocabulary, averaged over answer tokens."""
    recipe = make(label_smoothing=0.25)
    recipe.module.network.eval()
    share = recipe.share(0, 0, 1)
    batch = share["batches"][0]
    with torch.no_grad():
        inputs = {name: value for name, value in batch.items() if name not in ("labels", "owner")}
        logprobs = recipe.module.network(**inputs, use_cache=False).logits.double().log_softmax(-1)
        loss = float(recipe.module.share_loss(share)[0])
    answer = batch["labels"] != IGNORE
    target = logprobs[answer].gather(-1, batch["labels"][answer][:, None])[:, 0]
    assert loss == pytest.approx(float(-(0.75 * target + 0.25 * logprobs[answer].mean(-1)).mean()), rel=1e-5)


def test_verification_turns(make):
    recipe = make(verify=0.5, steps=8)
    drawn = recipe.share.mixture.drawn()
    assert drawn["verify"] == sum(drawn.values()) / 2
    pool = recipe.share.mixture.pools["verify"]
    assert len(pool) == 48 and {e.answer for e in pool} == {"yes", "no"}
    (own, _, _), answers = pool[0].conversation, [e.answer for e in pool[:2]]
    assert answers == ["yes", "no"] and pool[0].conversation[1]["content"][0]["text"] == "red"
    assert pool[1].conversation[1]["content"][0]["text"] == REFUSAL and own["content"][0]["type"] == "image"


def test_long_examples_are_dropped_and_counted(tmp_path, models):
    write_pairs(tmp_path)
    stage = bare_stage()
    counted = stage.counters
    context = FinetuneContext({"pairs": tmp_path}, 7, {"base": {"plugin": "hf_vlm", "args": {}}}, {"base": models["llava"]}, stage=stage)
    sft(context, **{**SFT, "max_length": 30})
    assert counted["dropped (too long)"] + counted["examples"] == 27 and counted["examples"] > 0
    with pytest.raises(FinetuneError, match="all 27 examples are longer than 5 tokens"):
        sft(context, **{**SFT, "max_length": 5})


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llava", "qwen2_vl"])
def test_an_adapter_loads_with_plain_peft_and_with_ours(tmp_path, models, family):
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText

    project = Tuning(tmp_path, models[family])
    project.stage("sft", {**SFT, "steps": 3})
    stage = project.run()
    assert stage.counters["trained"] < stage.counters["parameters"] / 10
    names = {p.name for p in project.model().iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "chat_template.jinja"} <= names
    with chdir(tmp_path):
        ours = hf_vlm(ModelContext("tuned", Path("results/t/models/tuned")))
        merged = ours.load()
        plain = PeftModel.from_pretrained(
            AutoModelForImageTextToText.from_pretrained("registry/data/tiny"), "results/t/models/tuned"
        ).eval()
        named = hf_vlm(ModelContext("named", Path("registry/data/tiny")), artifact="registry/data/tiny", adapter="results/t/models/tuned")
        base = hf_vlm(ModelContext("base", Path("registry/data/tiny")))
        data = DatasetFolder("pairs", Path("results/t/data/pairs"))
        given = ours.encode([Request(ours.render(messages("What color is the cube ?")), data.image(0))]).tensors
        with torch.no_grad():
            torch.testing.assert_close(merged(**given).logits, plain(**given).logits, atol=1e-4, rtol=1e-4)
            assert not torch.allclose(merged(**given).logits, base.load()(**given).logits, atol=1e-2)
    assert named.digest == ours.digest != base.digest


def test_full_tuning_saves_a_whole_model(tmp_path, models):
    project = Tuning(tmp_path, models["llava"])
    project.stage("sft", {**SFT, "tune": FULL, "steps": 1, "rate": 1e-3})
    project.run()
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {p.name for p in project.model().iterdir()}
    before, after = (hf_vlm(ModelContext("m", f)).load().state_dict() for f in (models["llava"], project.model()))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and not any("vision" in name for name in changed)


@pytest.mark.slow
def test_a_tuned_model_is_tuned_again(tmp_path, models):
    project = Tuning(tmp_path, models["llava"])
    project.stage("sft", {**SFT, "steps": 1}, name="first")
    project.run("first")
    tuned = {"plugin": "hf_vlm", "args": {"artifact": "results/t/models/first"}}
    project.stage(
        "sft", {**SFT, "base": "first", "steps": 1}, "second", models={"first": tuned}, folders={"first": "results/t/models/first"}
    )
    project.run("second")
    with chdir(tmp_path):
        second = hf_vlm(ModelContext("second", Path("results/t/models/second")))
        assert [str(a) for a in second.base.adapters] == ["results/t/models/first", "results/t/models/second"]
        assert str(second.base.folder) == "registry/data/tiny"
        second.load()


@pytest.mark.slow
def test_bfloat16(tmp_path, models):
    project = Tuning(tmp_path, models["llava"])
    half = {"base": {**BASE, "args": {"artifact": "registry/data/tiny", "dtype": "bfloat16"}}}
    project.stage("sft", {**SFT, "steps": 8}, models=half)
    project.run()
    losses = [float(line.split(",")[1]) for line in project.log().splitlines()[1:]]
    assert losses[-1] < losses[0]
    project.stage("sft", {**SFT, "steps": 1, "tune": FULL, "rate": 1e-3}, name="whole", models=half)
    project.run("whole")
    saved = hf_vlm(ModelContext("m", project.model("whole")), dtype="bfloat16").load()
    assert {p.dtype for p in saved.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"tune": {"plugin": "lora", "args": {"targets": "no_such_layer"}}},
            "pattern 'no_such_layer': no linear layer fits; their names end in",
        ),
        ({"train": ["pairs", "pairs"]}, "train: expected different datasets"),
        ({"base": "nobody"}, "model 'nobody' is not among this stage's inputs: base"),
    ],
)
def test_what_cannot_be_trained_is_said(make, changes, message):
    with pytest.raises(FinetuneError, match=message):
        make(**changes)


def test_no_rows_of_split_train(tmp_path, models):
    project = Tuning(tmp_path, models["llava"])
    shutil.rmtree(tmp_path / "results/t/data/pairs")
    from tests.support.projects.tiny_project import write_dataset

    write_dataset(tmp_path / "results/t/data/pairs", 6, choices=False)
    project.stage("sft", SFT)
    with pytest.raises(StageError, match="only rows of 'train' are trained on"):
        project.run()


SEVERAL = [
    "What differs ?",
    "Is <image> like <image> ?",
    "What color is the cube in <image> and <image> ?",
    "What shape is it ?",
    "How many ?",
]


def several_pictures(folder):
    """Two pictures without marks and twice with, one picture, and none."""
    write_pairs(folder, n=6)
    ids = ['["i0", "i1"]', '["i2", "i0"]', '["i2", "i0"]', "i3", None]
    rows = [sample(f"s{i}", ids[i], question) for i, question in enumerate(SEVERAL)]
    rows = [{**row, "references": ["red", "big blue", "yes", "cube", "4"][i : i + 1], "split": "train"} for i, row in enumerate(rows)]
    write_table(folder / "samples.parquet", rows, SAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("family", FAMILY)
def test_samples_with_several_pictures_and_with_none(make, models, family, packed):
    """The loss is that of one plain pass for each, whatever stands beside it in the batch."""
    if packed and family == "qwen2_vl":
        pytest.skip("is not packed")
    several_pictures(make.folder)
    recipe = make(family, batch=5, steps=1, packed=packed, together=2)
    recipe.module.eval()
    loss, _ = recipe.module.share_loss(recipe.batches(0))
    data = DatasetFolder("pairs", make.folder)
    assert sorted(e.row for e in recipe.share.mixture.batch(0, 5)) == [0, 1, 2, 3, 4]
    model = hf_vlm(ModelContext("plain", models[family]))
    network, total, count = model.load(), 0.0, 0
    for row, question in enumerate(SEVERAL):
        images = data.item(row).images()
        conversation = messages(question, n_images=len(images))
        prompt = model.encode([Request(model.render(conversation), images[0] if images else None, more=images[1:])]).tensors
        answer = model.answer_ids(conversation, data.table["references"][row].as_py()[0])
        ids, start = torch.tensor([[*prompt["input_ids"][0].tolist(), *answer]]), prompt["input_ids"].shape[1]
        own = {n: v for n, v in prompt.items() if n not in ("input_ids", "attention_mask") and v.shape != prompt["input_ids"].shape}
        types = {n: torch.nn.functional.pad(v, (0, len(answer))) for n, v in prompt.items() if n not in own and n != "input_ids"}
        types["attention_mask"] = torch.ones_like(ids)
        with torch.no_grad():
            logprobs = network(input_ids=ids, **types, **own).logits[0].log_softmax(-1)
        total -= sum(float(logprobs[t - 1, ids[0, t]]) for t in range(start, ids.shape[1]))
        count += len(answer)
    assert loss.item() == pytest.approx(total / count, rel=1e-5)


def test_a_family_of_one_picture_is_not_trained_on_several(tmp_path, models, monkeypatch):
    several_pictures(tmp_path / "data")
    monkeypatch.setattr("qualm.runners.inference.hf.model.ONE_PICTURE", {"llava"})
    context = FinetuneContext({"pairs": tmp_path / "data"}, 7, {"base": {"plugin": "hf_vlm", "args": {}}}, {"base": models["llava"]})
    with pytest.raises(FinetuneError, match=r"dataset 'pairs': sample 's0': has 2 images: llava, the family of model 'base', takes one"):
        sft(context, **SFT)


@pytest.mark.parametrize("plugin", ["sft", pytest.param("dpo", marks=pytest.mark.slow)])
def test_the_log_has_accuracy_calibration_error_and_auroc_of_validation_rows(tmp_path, models, plugin):
    project = Tuning(tmp_path, models["llava"])
    file = tmp_path / "results/t/data/pairs/samples.parquet"
    table = pq.read_table(file)
    split = [
        "val" if name[:3] in ("p00", "p01", "p02") else old
        for name, old in zip(*(table[c].to_pylist() for c in ("sample_id", "split")), strict=True)
    ]
    place = table.schema.get_field_index("split")
    pq.write_table(table.set_column(place, table.schema.field(place), pa.array(split)), file)
    project.stage(plugin, {"base": "base", "train": ["pairs"], "steps": 20, "batch": 8, "rate": 3e-2, "tune": FULL})
    project.run()
    rows = list(csv.DictReader(io.StringIO(project.log())))
    measured = [row for row in rows if row["val_accuracy"]]
    assert [int(row["step"]) for row in measured] == [5, 10, 15, 20]
    for row in measured:
        assert 0 <= float(row["val_accuracy"]) <= 1 and 0 <= float(row["val_calibration_error"]) <= 1
    if plugin == "sft":
        assert float(measured[-1]["val_accuracy"]) > 0.3 and 0 <= float(measured[-1]["val_auroc"]) <= 1
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(tmp_path / ".qualm/tensorboard/t/tuned")).Reload()
    assert {"val_accuracy", "val_calibration_error", "val_auroc", "loss"} <= set(events.Tags()["scalars"])
