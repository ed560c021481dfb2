"""From datasets to a recipe: pools and weights, how many steps, the shares of a batch, and what is refused."""

import math
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.splits import SplitRule
from qualm.runners.plugins.metrics.ece import ece
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.training.batching import pack, pack_in_batches, pad
from qualm.runners.training.encoding import Encoder
from qualm.runners.training.examples import read_rows
from qualm.runners.training.recipe import Amount, Material, Mixture, Shares, build_recipe, trainable_model
from qualm.runners.training.tuner import Course, Tuner
from tests.support.models.tiny_models import FAMILIES
from tests.support.projects.tiny_tuning import FULL, bare_stage, write_pairs

COURSE = Course(1e-3, "constant", 0.0, 0.0, 0.95, 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return FAMILIES["llava"](tmp_path_factory.mktemp("llava"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    places = {name: tmp_path_factory.mktemp(name) for name in ("one", "two")}
    write_pairs(places["one"], 4, choices=1)
    write_pairs(places["two"], 2, choices=0)
    return places


def context(data, folder, stage=None, **models):
    refs = {"base": {"plugin": "hf_vlm", "args": {}}, **models}
    return FinetuneContext(data, 7, refs, dict.fromkeys(refs, folder), stage or bare_stage())


def examples(rows):
    return [row.example() for row in rows]


def test_rows_are_those_of_training_that_have_an_answer(data, folder):
    made = context(data, folder)
    material = Material(made, ["one", "two"], None)
    assert {name: len(rows) for name, rows in material.rows.items()} == {"one": 9, "two": 4} and material.weights is None
    assert made.stage.counters == {"dropped (no answer to learn)": 2}


def test_one_pool_of_everything_or_one_of_each_with_its_weight(data, folder):
    everything, weights = Material(context(data, folder), ["two", "one"], None).mixture(examples)
    assert weights == {"": 1.0} and [e.dataset for e in everything[""]] == ["one"] * 9 + ["two"] * 4
    pools, weights = Material(context(data, folder), ["two", "one"], [3.0, 1.0]).mixture(examples)
    assert weights == {"two": 3.0, "one": 1.0} and {name: len(pool) for name, pool in pools.items()} == {"two": 4, "one": 9}


def test_a_share_of_something_more(data, folder):
    material = Material(context(data, folder), ["one", "two"], [3.0, 1.0])
    pools, weights = material.with_share(*material.mixture(examples), "pairs", 0.2, lambda rows: examples(rows[:1]))
    assert weights == pytest.approx({"one": 0.6, "two": 0.2, "pairs": 0.2}) and [e.dataset for e in pools["pairs"]] == ["one", "two"]
    none = "pairs: expected contrastive pairs with two different answers in one, two, found none; train on a pair set"
    with pytest.raises(FinetuneError, match=f"^{none}$"):
        material.with_share(*material.mixture(examples), "pairs", 0.2, lambda rows: [])


def test_what_is_no_material_is_refused(data, folder, tmp_path):
    made = context({**data, "test": tmp_path}, folder)
    with pytest.raises(FinetuneError, match=r"^weights: expected one for each of the 2 datasets of `train`, got 1$"):
        Material(made, ["one", "two"], [1.0])
    with pytest.raises(FinetuneError, match=r"^train: expected different datasets, got one, one; give `weights` to see one more often$"):
        Material(made, ["one", "one"], None)
    with pytest.raises(FinetuneError, match=r"^dataset 'two': none of its 4 rows can be used by this recipe; take it out of `train:`$"):
        Material(made, ["one", "two"], None).mixture(lambda rows: examples(rows) if rows[0].dataset == "one" else [])


def test_a_model_that_can_be_trained(data, folder):
    served = {"plugin": "openai", "args": {"model": "x", "base_url": "http://127.0.0.1:9/v1"}}
    made = context(data, folder, served=served, half={"plugin": "hf_vlm", "args": {"dtype": "float16"}})
    assert trainable_model(made, "base").label == "base"
    with pytest.raises(
        FinetuneError, match=r"^model 'served': expected one with weights \(hf_vlm\), got OpenAIModel; name another as `base`$"
    ):
        trainable_model(made, "served")
    with pytest.raises(FinetuneError, match=r"^model 'half': float16 overflows in training; say `dtype: bfloat16` or float32$"):
        trainable_model(made, "half")


def built(data, folder, amount, weights=None, make=examples, dtype="float32", **plugin):
    made = context(data, folder, base={"plugin": "hf_vlm", "args": {"dtype": dtype}})
    material = Material(made, ["one", "two"], weights)
    recipe = build_recipe(made, trainable_model(made, "base"), plugin or FULL, material, *material.mixture(make), amount, COURSE, Tuner)
    return recipe, made.stage.counters


def amount(batch=4, epochs=1.0, steps=None, longest=None, packed=False, together=1):
    return Amount(batch, epochs, steps, longest, packed, together)


@pytest.mark.parametrize(
    ("how", "steps"), [(amount(), 4), (amount(13), 1), (amount(12), 2), (amount(4, 0.5), 2), (amount(4, 2.0), 7), (amount(4, 9.0, 5), 5)]
)
def test_how_many_steps_it_takes(data, folder, how, steps):
    recipe, _ = built(data, folder, how)
    assert (recipe.steps, recipe.batch_size, recipe.precision) == (steps, how.batch, "32-true")


@pytest.mark.parametrize(("steps", "every"), [(5, 1), (39, 1), (40, 2), (100, 5), (2000, 100), (4000, 100)])
def test_a_curve_has_twenty_rows_or_one_in_a_hundred_steps(data, folder, steps, every):
    assert built(data, folder, amount(steps=steps))[0].log_every == every


def test_what_is_drawn_is_counted(data, folder):
    counters = built(data, folder, amount(4, steps=5), [3.0, 1.0])[1]
    assert counters == {"dropped (no answer to learn)": 2, "examples": 13, "drawn (one)": 15, "drawn (two)": 5}
    assert built(data, folder, amount())[1] == {"dropped (no answer to learn)": 2, "examples": 13}


def test_examples_that_are_too_long_are_left_out_and_counted(data, folder):
    made = context(data, folder)
    material, model = Material(made, ["one", "two"], [1.0, 1.0]), trainable_model(made, "base")
    encode = Encoder(model, material.datasets)
    lengths = {name: sorted(len(encode(e)) for e in pool) for name, pool in material.mixture(examples)[0].items()}
    most = lengths["one"][3]
    counters = built(data, folder, amount(longest=most), [1.0, 1.0])[1]
    kept = {name: sum(n <= most for n in of) for name, of in lengths.items()}
    assert counters["examples"] == sum(kept.values()) and counters["dropped (too long)"] == 13 - sum(kept.values()) > 0
    with pytest.raises(FinetuneError, match=r"^max_length: all 9 examples of one are longer than 3 tokens; raise `max_length`$"):
        built(data, folder, amount(longest=3), [1.0, 1.0])
    with pytest.raises(FinetuneError, match=r"^max_length: all 13 examples are longer than 3 tokens; raise `max_length`$"):
        built(data, folder, amount(longest=3))


def test_weights_of_four_bytes_under_half_precision_are_mixed(data, folder):
    assert built(data, folder, amount(), dtype="bfloat16")[0].precision == "bf16-mixed"


def test_packing_is_held_to_padding_before_anything_is_trained(data, folder):
    assert built(data, folder, amount())[0].module.check_packing is None
    recipe, _ = built(data, folder, amount(batch=3, packed=True))
    padded, packed = recipe.module.check_packing()
    assert padded["input_ids"].shape[0] == 3 and packed["input_ids"].numel() >= int((padded["owner"] >= 0).sum())
    many, _ = built(data, folder, amount(batch=12, packed=True))
    assert many.share.both_ways()[0]["input_ids"].shape[0] == 8


@pytest.fixture
def shares(data, folder):
    def make(packed=False, rejected=False, batch=5, total=7):
        made = context(data, folder)
        material = Material(made, ["one"], None)
        model = hf_vlm_of(folder)
        pool = [row.example(rejected="blue cube") if rejected else row.example() for row in material.rows["one"]]
        encoder = Encoder(model, material.datasets)
        mixture = Mixture({"": pool}, {"": 1.0}, 7, total)
        return Shares(encoder, mixture, amount(batch, packed=packed), model.tokenizer.pad_token_id, 4), encoder, mixture

    return make


def hf_vlm_of(folder):
    from qualm.runners.contracts.models import ModelContext

    model = hf_vlm(ModelContext("m", folder))
    model.load()
    return model


def same(a, b):
    return a.keys() == b.keys() and all((a[name] == b[name]).all() for name in a)


def test_a_whole_batch_and_its_scales(shares):
    share, encoder, mixture = shares()
    batch, drawn = share.whole(0), mixture.batch(0, 5)
    assert same(batch["batches"][0], pad([encoder(e) for e in drawn], encoder.model.tokenizer.pad_token_id))
    assert batch["per_token"] == 1 / sum(len(encoder.answer(e)) for e in drawn) and batch["per_pair"] == 1 / 5
    assert (batch["pairs"], batch["place"]) == (5, "0 0")


def test_shares_are_scaled_so_that_their_mean_is_the_batchs(shares):
    share, encoder, mixture = shares()
    drawn, parts = mixture.batch(0, 5), [share(0, part, 2) for part in range(2)]
    assert [p["pairs"] for p in parts] == [3, 2] and [p["place"] for p in parts] == ["0 0", "0 1"]
    assert {p["per_pair"] for p in parts} == {2 / 5}
    assert {p["per_token"] for p in parts} == {2 / sum(len(encoder.answer(e)) for e in drawn)}
    assert math.isclose(sum(p["pairs"] * p["per_pair"] for p in parts) / 2, 1.0)


def test_a_last_batch_that_is_smaller_leaves_shares_without_weight(shares):
    share, _, _ = shares()
    parts = [share(1, part, 3) for part in range(3)]
    assert [p["pairs"] for p in parts] == [1, 1, 1] and [p["per_pair"] for p in parts] == [3 / 2, 3 / 2, 0.0]
    assert parts[2]["per_token"] == 0.0 and same(parts[2]["batches"][0], parts[0]["batches"][0])


def test_preferences_stand_behind_what_is_preferred(shares):
    share, encoder, mixture = shares(rejected=True)
    batch, drawn = share.whole(0), mixture.batch(0, 5)
    coded = [encoder(e) for e in drawn] + [encoder(e, e.rejected) for e in drawn]
    assert same(batch["batches"][0], pad(coded, encoder.model.tokenizer.pad_token_id)) and batch["pairs"] == 5
    assert batch["per_token"] == 1 / sum(len(encoder.answer(e)) for e in drawn), "of the better answers alone"
    padded, _ = share.both_ways()
    assert padded["input_ids"].shape[0] == 10


def test_packed_shares(shares):
    share, encoder, mixture = shares(packed=True)
    coded = [encoder(e) for e in mixture.batch(0, 5)]
    filler = encoder.model.tokenizer.pad_token_id
    whole = share.whole(0)["batches"]
    assert len(whole) == 2 and all(map(same, whole, pack_in_batches(coded, filler, 4)))
    (half,) = share(0, 0, 2)["batches"]
    assert same(half, pack(coded[:3], filler, 4)), "several devices make as many passes as each other"


def validated(data, folder, tmp_path, splits):
    """A recipe on a dataset of which rows are moved to other splits: name of the row -> split."""
    table = pq.read_table(data["one"] / "samples.parquet")
    moved = [splits.get(name, old) for name, old in zip(*(table[c].to_pylist() for c in ("sample_id", "split")), strict=True)]
    shutil.copytree(data["one"], tmp_path / "one")
    column = table.schema.get_field_index("split")
    pq.write_table(table.set_column(column, table.schema.field(column), pa.array(moved)), tmp_path / "one" / "samples.parquet")
    made = context({"one": tmp_path / "one"}, folder)
    material = Material(made, ["one"], None)
    return build_recipe(made, trainable_model(made, "base"), FULL, material, *material.mixture(examples), amount(), COURSE, Tuner), made


def test_validation_rows_are_measured_as_torchmetrics_and_scikit_learn_measure_them(data, folder, tmp_path):
    names = ["p00-a", "p00-u", "p01-a", "c0"]
    recipe, made = validated(data, folder, tmp_path, dict.fromkeys(names, "val") | {"mute": "val"})
    found = recipe.evaluate()
    model = trainable_model(made, "base")
    model.load()  # only then does it know its ends of turn
    rows = DatasetFolder("one", tmp_path / "one", SplitRule(("val",)))
    encode, confidence, right = Encoder(model, {"one": rows}), [], []
    for row in (row for row in read_rows(rows, lambda **counts: None) if row.sample_id in names):
        coded = encode(row.example())
        ids = torch.tensor([[*coded.prompt, *coded.answer]])
        with torch.no_grad():
            logits = recipe.module.network(input_ids=ids, **coded.picture).logits[0].float().softmax(-1)
        for place, token in enumerate(coded.answer, len(coded.prompt)):
            confidence.append(float(logits[place - 1].max()))
            right.append(int(logits[place - 1].argmax()) == token)
    assert found["val_accuracy"] == pytest.approx(np.mean(right)) and len(set(right)) == 1
    error = ece(np.array(confidence), np.array(right) * 1.0, np.zeros(len(right)), np.ones((1, len(right))))
    assert found["val_calibration_error"] == pytest.approx(error[0], abs=1e-5)
    assert math.isnan(found["val_auroc"]), "no answer token is right"
    recipe.module.eval()
    again = recipe.evaluate()
    assert (again["val_accuracy"], again["val_calibration_error"]) == (found["val_accuracy"], found["val_calibration_error"])


def test_without_validation_rows_nothing_is_measured(data, folder, tmp_path):
    assert validated(data, folder, tmp_path, {})[0].evaluate() == {}
