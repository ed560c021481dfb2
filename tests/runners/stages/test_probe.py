"""The probe stage on answers whose hidden states tell, in one dataset, whether they are wrong."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file
from sklearn.linear_model import LogisticRegression

from qualm.registry.plugins import registry
from qualm.registry.sample import GENERATIONS, PROBE_FITS, SAMPLES, UNCERTAINTIES
from qualm.runners.contracts.probes import ProbeDesign
from qualm.runners.data.internals import schema, write_internals
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.stage import StageError
from qualm.runners.stages import judge, probe
from qualm.runners.training import probe_data
from qualm.runners.training.probe import train_probe
from qualm.runners.training.probe_data import ProbeTask, probe_task
from tests.support.projects.stages import stage

N, D = 150, 6
VARIANTS = ("clean", "blur@radius=2.0")
SIGNAL = "hidden_states/0.5/prompt_last"


def ref(plugin, **args):
    return {"label": plugin, "plugin": plugin, "args": args}


def asked(plugin="p_ik", args=None, **more):
    args = args if args is not None else {"layer": "middle", "decay": 1.0}
    return {"label": plugin, "plugin": plugin, "args": args, "of": ["m"], "fit": "half", "transfer": True, "seed": 42} | more


class World:
    """One model, two datasets; what is inside it tells what is wrong by the first number in `a`, and by minus that number in `b`."""

    def __init__(self, splits=("test",)):
        rng = np.random.default_rng(0)
        self.inputs = {"datasets": {}, "generations": {"m": {}}, "internals": {"m": {}}}
        self.states, self.wrong, self.split = {}, {}, {}
        for name, sign in (("a", 1), ("b", -1)):
            rows, answers, inside = [], [], []
            for i in range(N):
                split = splits[i // 3 % len(splits)]
                rows.append(
                    {
                        "sample_id": f"s{i}",
                        "question": "?",
                        "group": f"g{i // 3}",
                        "references": ["red"],
                        "answerable": True,
                        "split": split,
                    }
                )
                for variant in VARIANTS:
                    state = rng.normal(size=D).astype(np.float16)
                    wrong = bool(sign * float(state[0]) + 0.3 * rng.normal() > 0)
                    text = "blue" if wrong else "red"
                    answers.append({"sample_id": f"s{i}", "variant": variant, "draw": 0, "text": text, "token_logprobs": [-0.1 * (i % 7)]})
                    inside.append({"sample_id": f"s{i}", "variant": variant, "draw": 0, SIGNAL: state})
                    self.states[name, variant, f"s{i}"], self.wrong[name, variant, f"s{i}"] = state, wrong
                    self.split[name, f"s{i}"] = split
            write_table(Path(f"{name}/samples.parquet"), rows, SAMPLES)
            write_table(Path(f"{name}.parquet"), answers, GENERATIONS)
            tables = [pa.Table.from_pylist([r for r in inside if r["variant"] == v], schema([SIGNAL])) for v in VARIANTS]
            halves = [table.slice(start, 80) for table in tables for start in (0, 80)]
            write_internals(Path(f"{name}-internals.parquet"), halves, [SIGNAL], {})
            self.inputs["datasets"][name] = name
            self.inputs["generations"]["m"][name] = f"{name}.parquet"
            self.inputs["internals"]["m"][name] = f"{name}-internals.parquet"
        judge.run(stage("judge", {"judges": [ref("rules")]}, self.inputs, ["judgements"]))
        self.inputs["judgements"] = "results/judgements"

    def run(self, *probes):
        params = {"probes": list(probes), "judge": "rules", "confidence": "sequence"}
        of = stage("probe", params, self.inputs, ["probe_values", "probe_fits", "probe_weights"])
        probe.run(of)
        self.counters = of.counters
        rows = read_table(Path("results/probe_values"), UNCERTAINTIES).to_pylist()
        values = {(r["estimator"], r["dataset"], r["variant"], r["sample_id"]): r["value"] for r in rows}
        fits = {(r["probe"], r["dataset"]): r for r in read_table(Path("results/probe_fits"), PROBE_FITS).to_pylist()}
        return values, fits

    def by_hand(self, learnt, told):
        """scikit-learn's probability of what is wrong of some keys (dataset, variant, sample), taught by others."""
        features = np.array([self.states[key] for key in learnt], dtype=float)
        mean, scale = features.mean(axis=0), features.std(axis=0)
        model = LogisticRegression(tol=1e-12, max_iter=10_000).fit((features - mean) / scale, [self.wrong[key] for key in learnt])
        return model.predict_proba((np.array([self.states[key] for key in told], dtype=float) - mean) / scale)[:, 1]


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return World()


def auroc(values, wrong):
    bad, good = values[wrong], values[~wrong]
    return (bad[:, None] > good).mean() + (bad[:, None] == good).mean() / 2


def test_half_of_the_groups_teaches_and_the_other_is_told_of(world):
    values, fits = world.run(asked())
    told = [key for key in world.states if ("p_ik", *key) in values]
    learnt = [key for key in world.states if key not in told and key[1] == "clean"]
    groups = {(name, int(sample[1:]) // 3) for name, _, sample in told}
    assert groups.isdisjoint({(name, int(sample[1:]) // 3) for name, _, sample in learnt}) and len(told) > N
    assert fits["p_ik", "a"]["n"] == len(learnt) and fits["p_ik", "a"]["learnt_from"] == "a, b"
    assert fits["p_ik", "a"]["n_groups"] == len(learnt) // 3
    assert fits["p_ik", "a"]["share"] == pytest.approx(np.mean([world.wrong[key] for key in learnt]))
    assert [values["p_ik", *key] for key in told] == pytest.approx(world.by_hand(learnt, told), abs=1e-6)
    assert world.counters == {"uncertainties": len(values), "undefined": 0, "probes": 3} and len(values) == 2 * len(told)


def test_one_data_set_alone_has_no_other_to_learn_from(world):
    for key in ("datasets", "generations", "internals"):
        (world.inputs[key]["m"] if key != "datasets" else world.inputs[key]).pop("b")
    values, fits = world.run(asked())
    assert list(fits) == [("p_ik", "a")] and fits["p_ik", "a"]["learnt_from"] == "a" and {key[0] for key in values} == {"p_ik"}


def test_a_name_of_several_variants_is_none_to_compare_with(world):
    rows = read_table(Path("a.parquet"), GENERATIONS).to_pylist()
    write_table(Path("a.parquet"), rows + [row | {"variant": "blur@radius=1"} for row in rows if row["variant"] != "clean"], GENERATIONS)
    with pytest.raises(
        StageError, match=r"dataset 'a': expected one variant to compare with, got blur@radius=1, blur@radius=2.0; name one"
    ):
        world.run(asked("bicr", BICR))


@pytest.mark.parametrize("features", [np.zeros(3), np.zeros((2, 4)), np.zeros((3, 1, 1))])
def test_a_design_is_of_as_many_answers_as_it_was_handed(monkeypatch, features):
    monkeypatch.setattr(registry, "load", lambda kind, name: lambda *columns, **args: ProbeDesign(features))
    task = probe_task(asked())
    with pytest.raises(StageError, match=r"features of 3 answers, \(3, d\)"):
        task.design(dict.fromkeys(task.reads), 3, "here")


def test_one_that_has_learnt_from_other_data_alone_stands_beside_it(world):
    values, fits = world.run(asked())
    told = [key for key in world.states if key[0] == "a" and ("p_ik@other_data", *key) in values]
    others = [key for key in world.states if key[:2] == ("b", "clean") and ("p_ik", *key) not in values]
    assert fits["p_ik@other_data", "a"]["learnt_from"] == "b" and fits["p_ik@other_data", "a"]["n"] == len(others)
    found = np.array([values["p_ik@other_data", *key] for key in told])
    assert found == pytest.approx(world.by_hand(others, told), abs=1e-6)
    assert auroc(found, np.array([world.wrong[key] for key in told])) < 0.1  # what tells in `b` says the contrary in `a`
    weights = load_file("results/probe_weights")
    assert {"p_ik/m/0.weight", "p_ik@other_data/m/a/0.weight", "p_ik@other_data/m/b/0.weight"} <= set(weights)


def test_validation_rows_teach_and_are_not_told_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = World(("test", "val"))
    values, fits = world.run(asked(fit="val", transfer=False))
    assert {world.split[name, sample] for _, name, _, sample in values} == {"test"} and {p for p, _ in fits} == {"p_ik"}
    learnt = [key for key in world.states if key[1] == "clean" and world.split[key[0], key[2]] == "val"]
    told = [key for key in world.states if world.split[key[0], key[2]] == "test"]
    assert [values["p_ik", *key] for key in told] == pytest.approx(world.by_hand(learnt, told), abs=1e-6)


def test_high_uncertainty_is_learnt_without_a_judge(world):
    rows = [
        {"model": "m", "dataset": name, "sample_id": sample, "variant": variant, "estimator": "spread", "value": 2.0 * wrong + 0.1}
        for (name, variant, sample), wrong in world.wrong.items()
    ]
    write_table(Path("uncertainties.parquet"), rows, UNCERTAINTIES)
    world.inputs["uncertainties"] = "uncertainties.parquet"
    del world.inputs["judgements"]
    args = {"of": "spread", "layer": "middle", "place": "prompt_last", "decay": 1.0}
    values, fits = world.run(asked("semantic_entropy_probe", args))
    assert fits["semantic_entropy_probe", "a"]["threshold"] == 0.1
    told = [key for key in world.states if ("semantic_entropy_probe", *key) in values]
    learnt = [key for key in world.states if key not in told and key[1] == "clean"]
    assert [values["semantic_entropy_probe", *key] for key in told] == pytest.approx(world.by_hand(learnt, told), abs=1e-6)


def test_nothing_to_tell_apart_is_said_and_leaves_the_values_undefined(world):
    rows = read_table(Path("a.parquet"), GENERATIONS).to_pylist()
    write_table(Path("a.parquet"), [row | {"text": "red"} for row in rows], GENERATIONS)
    judge.run(stage("judge", {"judges": [ref("rules")]}, world.inputs, ["judgements"]))
    values, fits = world.run(asked())
    assert fits["p_ik@other_data", "b"]["why"].startswith("0 of ") and fits["p_ik@other_data", "b"]["share"] == 0
    assert {v for (p, d, *_), v in values.items() if (p, d) == ("p_ik@other_data", "b")} == {None}
    assert fits["p_ik", "b"]["why"] is None


def test_no_questions_to_learn_from_end_the_stage(world):
    with pytest.raises(StageError, match=r"probe 'p_ik': no dataset has questions of split 'val'.*`fit: half`"):
        world.run(asked(fit="val"))


BICR = {"layer": "middle", "under": "blur", "margin": 0.1, "weight": 0.5, "units": 8, "epochs": 2, "rate": 1e-3}


def test_a_probe_that_compares_is_handed_the_same_answers_under_its_variant(world, monkeypatch):
    handed = []
    monkeypatch.setattr("qualm.runners.training.probe.train_probe", lambda *of: handed.append(of) or train_probe(*of))
    values, _ = world.run(asked("bicr", BICR, transfer=False))
    design, wrong, _, beside = handed[0]
    learnt = [key for key in world.states if key[1] == "clean" and ("bicr", *key) not in values]
    assert np.array_equal(design.features, np.array([world.states[key] for key in learnt], dtype=float))
    assert np.array_equal(beside, np.array([world.states[name, VARIANTS[1], sample] for name, _, sample in learnt], dtype=float))
    assert wrong.tolist() == [world.wrong[key] for key in learnt]


@pytest.mark.slow
def test_a_probe_that_compares_tells_at_home_and_is_misled_elsewhere(world):
    """What tells in `a` says the contrary in `b`: one that has learnt from both halves is unsure, one from the other data is wrong."""
    values, fits = world.run(asked("bicr", BICR | {"epochs": 15, "rate": 2e-2}))
    assert fits["bicr@other_data", "a"]["learnt_from"] == "b" and fits["bicr", "a"]["learnt_from"] == "a, b"
    told = [key for key in world.states if key[0] == "a" and ("bicr", *key) in values]
    wrong = np.array([world.wrong[key] for key in told])
    home, elsewhere = (auroc(np.array([values[label, *key] for key in told]), wrong) for label in ("bicr", "bicr@other_data"))
    assert elsewhere < 0.2 < home


def test_without_answers_to_compare_with_there_is_no_probe(world):
    values, fits = world.run(asked("bicr", BICR | {"under": "dark"}))
    assert fits["bicr", "a"]["why"] == "there are no answers under 'dark' to compare with" and set(values.values()) == {None}
    assert world.counters["without a probe (there are no answers under 'dark' to compare with)"] == len(fits)


def test_all_classifiers_of_a_probe_read_its_answers_once(world, monkeypatch):
    read, designed = [], []
    greedy, design = probe_data.greedy_by_variant, ProbeTask.design
    monkeypatch.setattr(probe_data, "greedy_by_variant", lambda path, columns: read.append(path) or greedy(path, columns))
    monkeypatch.setattr(ProbeTask, "design", lambda self, handed, n, where: designed.append(where) or design(self, handed, n, where))
    values, _ = world.run(asked())
    assert sorted(read) == ["a.parquet", "b.parquet"]
    groups = 2  # row groups of a variant, each designed for what is learnt from and for what is told of
    assert len(designed) == 2 * (groups * len(VARIANTS) + groups)
    labels = [label for label, name, variant, _ in values if (name, variant) == ("a", "clean")]
    assert labels == sorted(labels) and set(labels) == {"p_ik", "p_ik@other_data"}
