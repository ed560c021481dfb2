"""calibrate, judge, estimate and score on a small table: open and multiple-choice rows, a perturbed variant, gaps."""

import csv
import json
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, roc_auc_score
from torchmetrics.classification import BinaryCalibrationError

from qualm.registry.sample import (
    ATTRIBUTIONS,
    COMPARISONS,
    CONFORMAL_SETS,
    CONFORMAL_THRESHOLDS,
    EFFECTS,
    ESTIMATOR_COMPARISONS,
    GENERATIONS,
    JUDGEMENTS,
    RANKINGS,
    SAMPLES,
    UNCERTAINTIES,
)
from qualm.runners.data.aligned import read_samples
from qualm.runners.results import perturbation
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring import paired_tests
from qualm.runners.scoring.families import adjusted
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.measuring.read_cells import read_cells
from qualm.runners.scoring.measuring.slices import make_slices
from qualm.runners.scoring.measuring.tables import Tables
from qualm.runners.stages import calibrate, estimate, judge, score
from tests.support.data.score_files import read_labelled
from tests.support.projects.stages import ref

N = 120
GAP = 5
"""This sample has no generation."""


SETTING = {
    "label": "ours",
    "scores": [ref("lac"), ref("aps")],
    "alpha": 0.2,
    "quantile": "standard",
    "empty_set": "argmax",
    "calibration": {"fraction": 0.5, "seed": 1, "split": "groups"},
}
SCORE = {
    "metrics": [ref("accuracy"), ref("coverage"), ref("set_size"), ref("ece"), ref("auroc"), ref("option_rate", "A_rate", option="A")],
    "slices": ["category", "kind"],
    "interval": {"bootstrap": 50, "level": 0.9},
    "judge": "rules",
    "confidence": "sequence",
}
OUTPUTS = ["scores", "metrics", "reliability", "risk_coverage", "set_sizes"]


def stage(kind, params, inputs, outputs, seed=7):
    return Stage(f"s/{kind}", "s", kind, kind, params, inputs, {o: f"results/{o}" for o in outputs}, seed, Settings())


class World:
    """Two datasets and two models in the current folder, and the stages over them."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.choice, self.open = [], []
        for i in range(N):
            same = {"sample_id": f"s{i}", "category": "ab"[i % 2], "group": f"g{i // 3}", "question": "?", "answerable": True}
            self.choice.append(same | {"choices": list("wxyz")[: 3 + i % 2], "answer_index": int(rng.integers(0, 3))})
            answer = {"references": ["red"], "answerable": True} if i % 4 else {"references": [], "answerable": False}
            self.open.append(same | answer | {"meta": [("kind", "even" if i % 2 else "odd")]})
        self.inputs = {"datasets": {}, "generations": {}}
        for name, rows in (("choice", self.choice), ("open", self.open)):
            write_table(Path("data") / name / "samples.parquet", rows, SAMPLES)
            self.inputs["datasets"][name] = f"data/{name}"
        self.answers = {}
        for model in ("m1", "m2"):
            for name in ("choice", "open"):
                self._generate(rng, model, name)

    def _generate(self, rng, model, name):
        rows = []
        for variant in ("clean", "blur@radius=2.0"):
            for i in range(N):
                if i == GAP:
                    continue
                row = {"sample_id": f"s{i}", "variant": variant, "draw": 0, "token_logprobs": [-float(rng.random())] * 2}
                if name == "choice":
                    sample = self.choice[i]
                    row["option_logits"] = [float(rng.normal(2.0 * (k == sample["answer_index"]))) for k in range(len(sample["choices"]))]
                else:
                    row["text"] = ["red", "blue", "I don't know"][rng.integers(0, 3)]
                rows.append(row)
        path = Path("generations") / model / f"{name}.parquet"
        write_table(path, rows[::-1] if model == "m2" else rows, GENERATIONS)
        self.inputs["generations"].setdefault(model, {})[name] = str(path)
        self.answers[model, name] = {(r["variant"], r["sample_id"]): r for r in rows}

    def run_all(self, seed=7, estimators=("perplexity",), **changes):
        calibrate.run(stage("calibrate", {"settings": [SETTING]}, self.inputs, ["sets", "thresholds"]))
        judge.run(stage("judge", {"judges": [ref("rules")]}, self.inputs, ["judgements"]))
        estimate.run(stage("estimate", {"estimators": [ref(name) for name in estimators]}, self.inputs, ["uncertainties"]))
        inputs = self.inputs | {n: f"results/{n}" for n in ("sets", "judgements", "uncertainties")}
        run = stage("score", SCORE | changes, inputs, OUTPUTS, seed)
        score.run(run)
        return run

    def scores(self):
        rows = read_labelled(Path("results/scores")).to_pylist()
        return {(r["model"], r["dataset"], r["variant"], r["slice"], r["metric"]): r for r in rows}


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return World()


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """The folder of a world whose stages ran with the usual parameters, and that world."""
    folder = tmp_path_factory.mktemp("usual")
    with chdir(folder):
        made = World()
        made.run_all()
    return folder, made


@pytest.fixture
def scored(usual, monkeypatch):
    """Its world, for tests that only read."""
    monkeypatch.chdir(usual[0])
    return usual[1]


def test_judgements(scored):
    rows = read_table(Path("results/judgements"), JUDGEMENTS).to_pylist()
    assert {r["dataset"] for r in rows} == {"open"}
    assert len(rows) == 2 * 2 * (N - 1)
    for row in rows:
        text = scored.answers[row["model"], "open"][row["variant"], row["sample_id"]]["text"]
        answerable = scored.open[int(row["sample_id"][1:])]["answerable"]
        assert row["pred_is_idk"] == (text == "I don't know")
        assert row["gt_is_idk"] != answerable
        assert row["rating"] == float(text == ("red" if answerable else "I don't know"))


def test_sentences_that_an_estimator_compares_by_words_have_a_caution(world):
    path = Path(world.inputs["generations"]["m2"]["open"])
    rows = read_table(path, GENERATIONS).to_pylist()
    write_table(path, [row | {"text": "The car in front of the house is red."} for row in rows], GENERATIONS)
    world.run_all(lexical=["perplexity", "luq"])  # luq has no values here
    found = {(key[0], key[1]) for key, row in world.scores().items() if row["caution"]}
    assert found == {("m2", "open")}
    assert world.scores()["m2", "open", "clean", "all", "accuracy"]["caution"].startswith("perplexity: compared by words alone")


def test_multiple_choice_in_words(world):
    """A model that gave words and no numbers: judged by what reads words, scored as any other; options' numbers go first."""
    said = {}
    for model in ("m1", "m2"):
        path = Path(world.inputs["generations"][model]["choice"])
        rows = read_table(path, GENERATIONS).to_pylist()
        for row in rows:
            i = int(row["sample_id"][1:])
            row["text"] = ["(B)", "w", "no idea", "C"][i % 4]
            if model == "m2":
                row["option_logits"] = None
                right = "ABC"[world.choice[i]["answer_index"]]
                said[row["variant"], row["sample_id"]] = {0: right == "B", 1: right == "A", 2: False, 3: right == "C"}[i % 4]
        write_table(path, rows, GENERATIONS)
    judge.run(stage("judge", {"judges": [ref("option_match"), ref("rules")]}, world.inputs, ["judgements"]))
    judged = read_table(Path("results/judgements"), JUDGEMENTS).to_pylist()
    assert {(r["judge"], r["dataset"], r["model"]) for r in judged} == {
        ("option_match", "choice", "m2"), ("rules", "choice", "m2"), ("rules", "open", "m1"), ("rules", "open", "m2")
    }  # fmt: skip
    of_choices = [r for r in judged if (r["dataset"], r["judge"]) == ("choice", "option_match")]
    assert {(r["variant"], r["sample_id"]): r["rating"] for r in of_choices} == said
    assert [r["rating"] for r in judged if (r["dataset"], r["judge"]) == ("choice", "rules")] == [r["rating"] for r in of_choices]
    changes = SCORE | {"metrics": [ref("accuracy"), ref("group_accuracy"), ref("idk_rate")], "judge_of_choices": {"choice": "option_match"}}
    score.run(stage("score", changes, world.inputs | {"judgements": "results/judgements"}, OUTPUTS))
    scores = world.scores()
    clean = {int(name[1:]): right for (variant, name), right in said.items() if variant == "clean"}
    known = [right for right in clean.values() if right is not None]
    row = scores["m2", "choice", "clean", "all", "accuracy"]
    assert row["value"] == pytest.approx(np.mean(known)) and (row["n"], row["n_unscored"]) == (len(known), N - len(known))
    groups = [[clean.get(i) for i in range(start, start + 3)] for start in range(0, N, 3)]
    whole = [all(g) for g in groups if None not in g]
    assert scores["m2", "choice", "clean", "all", "group_accuracy"]["value"] == pytest.approx(np.mean(whole))
    numbers = [
        np.argmax(world.answers["m1", "choice"]["clean", f"s{i}"]["option_logits"]) == world.choice[i]["answer_index"]
        for i in range(N)
        if i != GAP
    ]
    assert scores["m1", "choice", "clean", "all", "accuracy"]["value"] == pytest.approx(np.mean(numbers))
    assert scores["m2", "open", "clean", "all", "accuracy"]["n"] == N - 1
    refusals = scores["m2", "choice", "clean", "all", "idk_rate"]
    assert refusals["value"] == pytest.approx(sum(int(name[1:]) % 4 == 2 for v, name in said if v == "clean") / len(clean))
    assert refusals["n"] + refusals["n_unscored"] == N and ("m1", "choice", "clean", "all", "idk_rate") not in scores


def test_uncertainties(scored):
    rows = read_table(Path("results/uncertainties"), UNCERTAINTIES).to_pylist()
    assert len(rows) == 2 * 2 * 2 * (N - 1)
    for row in rows[::50]:
        logprobs = scored.answers[row["model"], row["dataset"]][row["variant"], row["sample_id"]]["token_logprobs"]
        assert row["value"] == pytest.approx(-np.mean(logprobs), abs=1e-6)


def test_sets(scored):
    limits = {(r["model"], r["score"]): r for r in read_table(Path("results/thresholds"), CONFORMAL_THRESHOLDS).to_pylist()}
    sets = read_table(Path("results/sets"), CONFORMAL_SETS).to_pylist()
    assert len(sets) == 2 * 2 * 2 * N
    groups = {}
    for row in sets:
        sample = scored.choice[int(row["sample_id"][1:])]
        groups.setdefault(sample["group"], set()).add(row["is_calibration"])
        if row["sample_id"] == f"s{GAP}":
            assert row["set_size"] is row["covered"] is row["set_mask"] is None
            continue
        assert row["set_size"] == bin(row["set_mask"]).count("1") >= 1
        assert row["covered"] == bool(row["set_mask"] >> sample["answer_index"] & 1)
        if row["score"] == "lac":
            logits = np.array(scored.answers[row["model"], "choice"][row["variant"], row["sample_id"]]["option_logits"])
            probs = np.exp(logits) / np.exp(logits).sum()
            inside = 1 - probs <= limits[row["model"], "lac"]["threshold"] + 1e-9  # written with nine digits
            assert row["set_mask"] == sum(1 << int(k) for k in (np.flatnonzero(inside) if inside.any() else [probs.argmax()]))
    assert all(len(sides) == 1 for sides in groups.values())
    limit = limits["m1", "lac"]
    assert limit["n_calibration"] + limit["n_test"] == N - 1
    assert limit["n_groups"] == sum(True in sides for sides in groups.values()) < limit["n_calibration"]


def test_every_model_calibrates_on_the_same_rows(scored):
    sets = read_table(Path("results/sets"), CONFORMAL_SETS).to_pylist()
    chosen = {(r["model"], r["variant"], r["score"]): set() for r in sets}
    for r in sets:
        if r["is_calibration"]:
            chosen[r["model"], r["variant"], r["score"]].add(r["sample_id"])
    assert len({frozenset(s) for s in chosen.values()}) == 1


def test_labels_follow_from_what_a_metric_reads(scored):
    found = {}
    for model, dataset, _, part, metric in scored.scores():
        if model == "m1" and part == "all":
            found.setdefault(dataset, set()).add(metric)
    sets = {f"{m}[ours/{s}]" for m in ("coverage", "set_size") for s in ("lac", "aps", "mean")}
    assert found["choice"] == sets | {f"{m}{of}" for m in ("accuracy", "ece", "A_rate") for of in ("", "[ours]")} | {"auroc[perplexity]"}
    assert found["open"] == {"accuracy", "ece", "auroc[perplexity]"}


def test_open_answers_against_scikit_learn(scored):
    scores = scored.scores()
    for model in ("m1", "m2"):
        for variant in ("clean", "blur@radius=2.0"):
            for part, chosen in (("all", range(N)), ("category=a", range(0, N, 2)), ("kind=even", range(1, N, 2))):
                right, unsure = [], []
                for i in chosen:
                    row = scored.answers[model, "open"].get((variant, f"s{i}"))
                    if row:
                        right.append(row["text"] == ("red" if scored.open[i]["answerable"] else "I don't know"))
                        unsure.append(-np.mean(row["token_logprobs"]))
                row = scores[model, "open", variant, part, "accuracy"]
                assert row["value"] == pytest.approx(accuracy_score([True] * len(right), right))
                assert (row["n"], row["n_unscored"]) == (len(right), len(chosen) - len(right))
                assert row["low"] < row["value"] < row["high"]
                auroc = scores[model, "open", variant, part, "auroc[perplexity]"]["value"]
                assert auroc == pytest.approx(roc_auc_score(~np.array(right), unsure))


def test_slices_by_yes_or_no_and_by_combinations(world):
    world.run_all(slices=["answerable", "category*answerable"])
    counts = {k[3]: r["n"] + r["n_unscored"] for k, r in world.scores().items() if k[:3] + k[4:] == ("m1", "open", "clean", "accuracy")}
    assert counts == {
        "all": N,
        "answerable=false": N // 4,
        "answerable=true": 3 * N // 4,
        "category*answerable=a*false": N // 4,
        "category*answerable=a*true": N // 4,
        "category*answerable=b*true": N // 2,
    }


def test_mean_over_scores(scored):
    scores = scored.scores()
    for variant in ("clean", "blur@radius=2.0"):
        parts = {s: scores["m2", "choice", variant, "all", f"set_size[ours/{s}]"] for s in ("lac", "aps", "mean")}
        assert parts["mean"]["value"] == pytest.approx((parts["lac"]["value"] + parts["aps"]["value"]) / 2)
        assert parts["lac"]["low"] < parts["mean"]["low"] or parts["aps"]["low"] < parts["mean"]["low"]


def test_counts_of_test_rows(scored):
    sets = read_table(Path("results/sets"), CONFORMAL_SETS).to_pylist()
    test = {r["sample_id"] for r in sets if not r["is_calibration"]}
    row = scored.scores()["m1", "choice", "clean", "all", "accuracy[ours]"]
    assert row["n"] == len(test - {f"s{GAP}"})
    assert row["n_unscored"] == len(test & {f"s{GAP}"})


def test_intervals_do_not_depend_on_what_else_is_scored(usual, world):
    with chdir(usual[0]):
        before = usual[1].scores()
    world.run_all(slices=[], metrics=SCORE["metrics"][::-1])
    after = world.scores()
    assert all(close(before[key], row) for key, row in after.items())
    del world.inputs["generations"]["m1"]
    world.run_all()
    after = world.scores()
    assert set(after) == {k for k in before if k[0] == "m2"}
    assert all(close(before[key], row) for key, row in after.items())


def close(one, other):
    return all(
        a == b or (isinstance(a, float) and a == pytest.approx(b, abs=1e-9)) for a, b in zip(one.values(), other.values(), strict=True)
    )


@pytest.mark.slow
def test_same_bytes_again_and_other_draws_with_another_seed(usual, world):
    first = {name: (usual[0] / "results" / name).read_bytes() for name in OUTPUTS}
    world.run_all()
    assert first == {name: Path("results", name).read_bytes() for name in OUTPUTS}
    before = world.scores()
    world.run_all(seed=8)
    after = world.scores()
    assert all(before[k]["value"] == after[k]["value"] for k in before)
    assert any(before[k]["low"] != after[k]["low"] for k in before)


def test_grouped_interval_against_a_loop(world):
    """The bootstrap written out: draw groups, concatenate their rows, score each draw alone."""
    world.run_all(interval={"bootstrap": 2000, "level": 0.9}, metrics=[ref("accuracy")], slices=[])
    row = world.scores()["m1", "open", "clean", "all", "accuracy"]
    right = {i: None for i in range(N)}
    for i in right:
        made = world.answers["m1", "open"].get(("clean", f"s{i}"))
        right[i] = None if made is None else made["text"] == ("red" if world.open[i]["answerable"] else "I don't know")
    rng = np.random.default_rng(5)
    draws = []
    for _ in range(2000):
        rows = [right[3 * g + k] for g in rng.integers(0, N // 3, N // 3) for k in range(3)]
        draws.append(np.mean([r for r in rows if r is not None]))
    low, high = np.quantile(draws, [0.05, 0.95])
    assert row["low"] == pytest.approx(low, abs=0.01)
    assert row["high"] == pytest.approx(high, abs=0.01)


def test_nothing_scorable_is_null_and_counted(world):
    write_table(Path("generations/m1/open.parquet"), [{"sample_id": "s0", "variant": "clean", "draw": 0}], GENERATIONS)
    world.run_all()
    row = world.scores()["m1", "open", "clean", "all", "accuracy"]
    assert row["value"] is row["low"] is row["high"] is None
    assert (row["n"], row["n_unscored"]) == (0, N)
    assert "accuracy" not in json.loads(Path("results/metrics").read_text())["m1"].get("open", {})


def test_without_a_judge_open_answers_are_unscored(world):
    inputs = {k: world.inputs[k] for k in ("datasets", "generations")}
    score.run(stage("score", SCORE | {"judge": None}, inputs, OUTPUTS))
    row = world.scores()["m1", "open", "clean", "all", "accuracy"]
    assert (row["value"], row["n"], row["n_unscored"]) == (None, 0, N)
    assert "accuracy" in {k[4] for k in world.scores() if k[1] == "choice"}


def test_metrics_file_and_plots(scored):
    nested = json.loads(Path("results/metrics").read_text())
    assert nested["m1"]["choice"]["coverage[ours/lac]"] == scored.scores()["m1", "choice", "clean", "all", "coverage[ours/lac]"]["value"]
    with Path("results/set_sizes").open() as handle:
        sizes = list(csv.DictReader(handle))
    n = scored.scores()["m1", "choice", "clean", "all", "set_size[ours/lac]"]["n"]
    assert sum(int(r["count"]) for r in sizes if (r["model"], r["score"]) == ("m1", "lac")) == n
    with Path("results/reliability").open() as handle:
        rows = list(csv.DictReader(handle))
    assert sum(int(r["n"]) for r in rows if (r["model"], r["dataset"]) == ("m1", "choice")) == n
    assert {r["setting"] for r in rows} == {"ours", ""}
    assert all(0 <= float(r["expected_low"]) <= float(r["confidence"]) + 0.5 and float(r["expected_high"]) <= 1 for r in rows)


def test_calibration_errors_are_tested_and_nothing_else(scored):
    scores = scored.scores()
    for key, row in scores.items():
        assert (row["p_null"] is not None) == (row["null"] is not None) == key[4].startswith("ece") or row["n_groups"] < 5, key
    whole = scores["m1", "open", "clean", "all", "ece"]
    assert 0 < whole["p_null"] <= 1 and whole["null"].startswith("confidence is each answer's chance to be right; answers of one group")


def test_verified_answers_have_their_own_yes_as_confidence(world):
    """ECE with confidence `verify` is that of p_yes; an answer without one is unscored."""
    path = Path(world.inputs["generations"]["m1"]["open"])
    rng = np.random.default_rng(3)
    rows = [row | {"p_yes": float(rng.random())} for row in world.answers["m1", "open"].values()]
    rows[0]["p_yes"] = None
    write_table(path, rows, GENERATIONS)
    world.run_all(confidence="verify", metrics=[ref("ece")], slices=[])
    kept = [row for row in rows if row["variant"] == "clean" and row["p_yes"] is not None]
    right = [float(row["text"] == ("red" if world.open[int(row["sample_id"][1:])]["answerable"] else "I don't know")) for row in kept]
    expected = BinaryCalibrationError(n_bins=15)(torch.tensor([r["p_yes"] for r in kept]).double(), torch.tensor(right))
    found = world.scores()["m1", "open", "clean", "all", "ece"]
    assert found["value"] == pytest.approx(float(expected), abs=1e-6)
    assert found["n"] == len(kept)


def test_wrong_parameters(world):
    with pytest.raises(StageError, match=r"slices: no sample of datasets .* has 'nonsense'"):
        world.run_all(slices=["nonsense"])
    by = {"label": "group_accuracy", "plugin": "group_accuracy", "args": {"by": "nonsense", "of": "correct"}}
    with pytest.raises(
        StageError, match=r"metric group_accuracy: no sample of datasets .* has 'nonsense': it is not a field of these samples, and "
    ):
        world.run_all(metrics=[by])


def test_answers_to_other_samples(world):
    write_table(Path("generations/m1/open.parquet"), [{"sample_id": "zz", "variant": "clean", "draw": 0}], GENERATIONS)
    with pytest.raises(StageError, match="samples that dataset 'open' does not have"):
        judge.run(stage("judge", {"judges": [ref("rules")]}, world.inputs, ["judgements"]))


def test_a_split_that_leaves_nothing_to_test(world):
    rows = [row | {"group": "one"} for row in world.choice]
    write_table(Path("data/choice/samples.parquet"), rows, SAMPLES)
    with pytest.raises(StageError, match="conformal setting 'ours', dataset 'choice': all 120 rows are one group"):
        calibrate.run(stage("calibrate", {"settings": [SETTING]}, world.inputs, ["sets", "thresholds"]))


def test_with_too_few_groups_every_option_is_in_every_set_and_the_score_says_why(world):
    """Six groups, three of which calibrate; alpha = .2 needs four, however many questions they have."""
    rows = [row | {"group": f"g{i % 6}"} for i, row in enumerate(world.choice)]
    write_table(Path("data/choice/samples.parquet"), rows, SAMPLES)
    world.run_all(conformal=[SETTING])
    limits = read_table(Path("results/thresholds"), CONFORMAL_THRESHOLDS).to_pylist()
    assert {(limit["threshold"], limit["n_groups"]) for limit in limits} == {(np.inf, 3)}
    why = "every set has all options: 3 groups of questions calibrate, and a threshold at alpha = 0.2 needs 4"
    sets = read_table(Path("results/sets"), CONFORMAL_SETS).to_pylist()
    sizes = {(r["set_size"], len(world.choice[int(r["sample_id"][1:])]["choices"])) for r in sets if r["set_size"] is not None}
    assert sizes == {(n, n) for _, n in sizes}
    for metric in ("coverage", "set_size"):
        found = world.scores()["m1", "choice", "clean", "all", f"{metric}[ours/lac]"]
        assert found["value"] is not None and found["low"] is found["high"] is None and found["why_no_interval"] == why
    assert world.scores()["m1", "choice", "clean", "all", "coverage[ours/lac]"]["promise"] == why


def test_no_clean_variant(world):
    rows = [{"sample_id": "s0", "variant": "blur", "draw": 0, "option_logits": [1.0, 2.0, 3.0]}]
    write_table(Path("generations/m1/choice.parquet"), rows, GENERATIONS)
    with pytest.raises(StageError, match="model 'm1', dataset 'choice': expected answers to the clean variant to calibrate on, found none"):
        calibrate.run(stage("calibrate", {"settings": [SETTING]}, world.inputs, ["sets", "thresholds"]))


PAIRED = [ref(name) for name in ("uncertainty_reflection_rate", "uncertainty_tie_rate", "auroc_perturbed")]
HALLUCINATIONS = [
    ref("hallucination_change_correlation", only_clean_correct=False, right_from=0.5),
    ref("hallucination_rate", only_clean_correct=True, right_from=0.5),
]


def test_a_variant_is_paired_with_the_clean_answers_to_the_same_samples(world):
    run = world.run_all(metrics=[*PAIRED, *HALLUCINATIONS], slices=["kind"])
    found = world.scores()
    assert {key[2] for key in found} == {"blur@radius=2.0"}  # nothing is paired with itself
    told = {(r["model"], r["dataset"], r["variant"], r["sample_id"]): r["value"] for r in _rows("uncertainties", UNCERTAINTIES)}
    rated = {(r["model"], r["variant"], r["sample_id"]): r["rating"] for r in _rows("judgements", JUDGEMENTS)}
    for model in ("m1", "m2"):
        for label, wanted in (("all", range(N)), ("kind=odd", range(0, N, 2))):
            ids = [f"s{i}" for i in wanted if i != GAP]
            blurred, clean = ([told[model, "open", v, i] for i in ids] for v in ("blur@radius=2.0", "clean"))
            row = found[model, "open", "blur@radius=2.0", label, "uncertainty_reflection_rate[perplexity]"]
            assert row["value"] == pytest.approx(np.mean([b > c for b, c in zip(blurred, clean, strict=True)]))
            assert (row["n"], row["n_unscored"]) == (len(ids), len(wanted) - len(ids))
            was, now = (np.array([rated[model, v, i] for i in ids]) for v in ("clean", "blur@radius=2.0"))
            became_wrong = (was == 1) & (now == 0)
            row = found[model, "open", "blur@radius=2.0", label, "hallucination_rate"]
            assert (row["value"], row["n"]) == (pytest.approx(became_wrong.sum() / was.sum()), was.sum())
            row = found[model, "open", "blur@radius=2.0", label, "hallucination_change_correlation[perplexity]"]
            assert row["value"] == pytest.approx(np.corrcoef(became_wrong, np.subtract(blurred, clean))[0, 1])
            assert row["low"] < row["value"] < row["high"]
    assert not [name for name in run.counters if name.startswith("undefined (")]


def test_the_grid_is_tested_and_corrected_as_a_whole(world):
    OUTPUTS.append("effects")
    try:
        run = world.run_all(metrics=[*PAIRED, *HALLUCINATIONS], slices=[], tests={"correction": "holm", "family": "metric"})
    finally:
        OUTPUTS.remove("effects")
    rows, scores = _rows("effects", EFFECTS), world.scores()
    assert run.counters["effects"] == len(rows) == 2 * 2 * 3
    for row in rows:
        same = scores[row["model"], row["dataset"], row["variant"], row["slice"], row["metric"]]
        assert (row["value"], row["n"]) == (pytest.approx(same["value"]), same["n"])
    for dataset in ("open", "choice"):
        of = [row for row in rows if row["dataset"] == dataset and row["metric"] == "uncertainty_reflection_rate[perplexity]"]
        raw = sorted(row["p"] for row in of)
        assert sorted(row["p_adjusted"] for row in of) == pytest.approx(sorted(adjusted(raw, "holm")))


def test_models_and_estimators_are_ranked(world):
    """The values are those of the scores; the differences of estimators are paired within a model."""
    OUTPUTS.extend(("rankings", "estimator_comparisons"))
    try:
        world.run_all(slices=["kind"], family="study", estimators=("perplexity", "max_sequence_probability"))
    finally:
        del OUTPUTS[-2:]
    scores, rows, pairs = world.scores(), _rows("rankings", RANKINGS), _rows("estimator_comparisons", ESTIMATOR_COMPARISONS)
    of_models = [r for r in rows if r["among"] == "models"]
    assert {r["slice"].partition("=")[0] for r in of_models} == {"all", "kind"} and {r["variant"] for r in of_models} == {"clean"}
    for row in of_models:
        assert row["value"] == pytest.approx(scores[row["candidate"], row["dataset"], "clean", row["slice"], row["metric"]]["value"])
        assert row["candidates"] == 2 and 0 < row["p_adjusted"] <= 1 and row["is_best"] <= row["may_be_best"]
    assert {(r["a"], r["b"]) for r in pairs} == {("perplexity", "max_sequence_probability")}
    assert all(r["value_b"] - r["value_a"] == pytest.approx(r["difference"]) for r in pairs)


def test_the_study_of_perturbations_stands_beside_the_scores(world):
    made = ["effects", *perturbation.FIELDS, "modality_scores", "rank_stability", "attributions", "blames"]
    OUTPUTS.extend(made)
    blur = {"variant": "blur@radius=2.0", "plugin": "blur", "modality": "image", "args": {"radius": 2.0}}
    tests = {"correction": "holm", "family": "metric"}
    try:
        world.run_all(metrics=[*PAIRED, *HALLUCINATIONS], slices=["kind"], tests=tests, variants=[blur])
    finally:
        del OUTPUTS[-len(made) :]
    scores, effects = world.scores(), {(r["model"], r["dataset"], r["slice"], r["metric"]): r for r in _rows("effects", EFFECTS)}
    with Path("results/urr").open() as handle:
        rows = list(csv.DictReader(handle))
    assert {(r["model"], r["dataset"]) for r in rows} == {(m, d) for m in ("m1", "m2") for d in ("choice", "open")} and len(rows) == 4
    for row in rows:
        label = f"{row['metric']}[{row['estimator']}]"
        same = scores[row["model"], row["dataset"], row["variant"], "all", label]
        assert (float(row["value"]), float(row["low"]), int(row["n"])) == (same["value"], same["low"], same["n"])
        assert float(row["p_adjusted"]) == effects[row["model"], row["dataset"], "all", label]["p_adjusted"]
    assert read_labelled(Path("results/modality_scores")).num_rows > 4 and _rows("attributions", ATTRIBUTIONS) == []


def test_samples_a_perturbation_does_not_apply_to_are_unscored(world):
    path = Path("generations/m1/open.parquet")
    rows = [
        r for r in _rows(path, GENERATIONS) if (r["variant"], r["sample_id"]) not in {("blur@radius=2.0", f"s{i}") for i in range(50, 90)}
    ]
    write_table(path, rows, GENERATIONS)
    world.run_all(metrics=[*PAIRED, *HALLUCINATIONS], slices=[])
    row = world.scores()["m1", "open", "blur@radius=2.0", "all", "uncertainty_reflection_rate[perplexity]"]
    assert (row["n"], row["n_unscored"]) == (N - 41, 41)


def test_without_clean_answers_nothing_is_paired(world):
    path = Path("generations/m1/open.parquet")
    write_table(path, [r for r in _rows(path, GENERATIONS) if r["variant"] != "clean"], GENERATIONS)
    world.run_all(metrics=[*PAIRED, ref("accuracy")], slices=[])
    of_m1 = {key[4] for key in world.scores() if key[:2] == ("m1", "open")}
    assert of_m1 == {"accuracy"}


def test_why_a_value_is_undefined_is_counted(world):
    path = Path("generations/m1/open.parquet")
    rows = [{**r, "text": "red"} if r["variant"] != "clean" else r for r in _rows(path, GENERATIONS)]
    rows = [{**r, "text": "I don't know"} if int(r["sample_id"][1:]) % 4 == 0 and r["variant"] != "clean" else r for r in rows]
    write_table(path, rows, GENERATIONS)
    run = world.run_all(metrics=HALLUCINATIONS[:1], slices=[])
    assert world.scores()["m1", "open", "blur@radius=2.0", "all", "hallucination_change_correlation[perplexity]"]["value"] is None
    assert run.counters["undefined (no answer became wrong)"] == 1


def test_under_another_question_nothing_is_right_or_wrong(world):
    metrics = [*SCORE["metrics"], *PAIRED, *HALLUCINATIONS, ref("idk_rate")]
    world.run_all(metrics=metrics, slices=[])
    before = world.scores()
    OUTPUTS.append("effects")
    try:
        tests = {"correction": "holm", "family": "metric"}
        run = world.run_all(metrics=metrics, slices=[], unscored=["blur@radius=2.0"], tests=tests)
    finally:
        OUTPUTS.remove("effects")
    after = world.scores()
    assert after.keys() == before.keys()
    gone = {k for k in after if k[2] != "clean" and k[4].startswith(("accuracy", "coverage[", "ece", "auroc[", "hallucination_"))}
    for key, row in after.items():
        if key not in gone:
            assert row == before[key], "who answers how, and how surely, is known as ever"
        else:
            assert (row["value"], row["n"]) == (None, 0)
    assert after["m1", "open", "blur@radius=2.0", "all", "accuracy"]["n_unscored"] == N
    assert after["m1", "open", "blur@radius=2.0", "all", "idk_rate"]["value"] > 0
    assert run.counters["undefined (the old answer need not hold for the rewritten question)"] == len(gone) > 20
    tested = {r["metric"]: r for r in _rows("effects", EFFECTS) if (r["model"], r["dataset"]) == ("m1", "open")}
    assert tested["hallucination_rate"]["p_adjusted"] is None and tested["uncertainty_reflection_rate[perplexity]"]["p_adjusted"] > 0


def _rows(name, schema):
    return read_table(Path("results") / name if isinstance(name, str) else name, schema).to_pylist()


def test_models_asked_whether_questions_are_uncertain(world):
    """The samples of `open`, some of them asked about: what a model says follows from its rating and the truth."""
    rng = np.random.default_rng(4)
    truth, says = rng.integers(0, 2, N), rng.integers(0, 3, N)
    for i, row in enumerate(world.open):
        row |= {"answerable": True, "references": [["no", "yes"][truth[i]]], "meta": [("asked", "which?"), ("uncertain", str(truth[i]))]}
    write_table(Path("data/open/samples.parquet"), world.open, SAMPLES)
    words = ["I count one. Answer: no", "Answer: yes", "hard"]
    path = Path("generations/m1/open.parquet")
    write_table(path, [{**r, "text": words[says[int(r["sample_id"][1:])]]} for r in _rows(path, GENERATIONS)], GENERATIONS)
    judges = [ref("rules"), ref("final_answer")]
    judge.run(stage("judge", {"judges": judges}, world.inputs, ["judgements"]))
    score.run(
        stage(
            "score", SCORE | {"metrics": [ref("f1_uncertain")], "slices": []}, world.inputs | {"judgements": "results/judgements"}, OUTPUTS
        )
    )
    row = world.scores()["m1", "open", "clean", "all", "f1_uncertain"]
    kept = [i for i in range(N) if i != GAP and says[i] < 2]
    hits = sum(truth[i] * says[i] for i in kept)
    assert row["value"] == pytest.approx(2 * hits / sum(truth[i] + says[i] for i in kept))
    assert (row["n"], row["n_unscored"]) == (len(kept), N - len(kept))
    assert not [key for key in world.scores() if key[1] == "choice"]  # these ask nothing of the kind


def test_intervals_of_conformal_sets_are_over_draws_of_calibration_rows(world):
    metrics = [ref("coverage"), ref("set_size")]
    world.run_all(conformal=[SETTING], interval={"bootstrap": 200, "level": 0.9}, metrics=metrics, slices=["category"])
    scores = world.scores()
    for metric in ("coverage", "set_size"):
        for rest in ("lac", "aps", "mean"):
            row = scores["m1", "choice", "clean", "all", f"{metric}[ours/{rest}]"]
            assert row["low"] <= row["value"] <= row["high"] and row["low_at_threshold"] <= row["value"] <= row["high_at_threshold"]
    row = scores["m1", "choice", "clean", "all", "set_size[ours/lac]"]
    assert row["high"] - row["low"] > row["high_at_threshold"] - row["low_at_threshold"], "one threshold varies less"
    row = scores["m1", "choice", "clean", "all", "coverage[ours/lac]"]
    assert row["target"] == 0.8 and row["band_low"] < 0.8 < row["band_high"]
    assert row["promise"].startswith("at least 0.8 for a question drawn at random from a new group, each group counting once")
    shifted = scores["m1", "choice", "blur@radius=2.0", "all", "coverage[ours/lac]"]
    assert shifted["promise"] == "nothing is promised: calibrated on clean inputs"
    part = scores["m1", "choice", "clean", "category=a", "set_size[ours/lac]"]
    assert part["low"] < part["value"] < part["high"]
    world.run_all(metrics=metrics, slices=[])
    unknown = world.scores()["m1", "choice", "clean", "all", "coverage[ours/lac]"]
    assert unknown["low_at_threshold"] is None and unknown["value"] == row["value"]


def test_comparisons_draw_what_calibrates_too(world):
    world.run_all(conformal=[SETTING], metrics=[ref("coverage"), ref("set_size")], slices=[])
    inputs = world.inputs | {n: f"results/{n}" for n in ("sets", "judgements", "uncertainties")}
    run = stage("score", SCORE | {"conformal": [SETTING]}, inputs, OUTPUTS)
    samples = read_samples("choice", "data/choice")
    a, b = (cell for cell in read_cells(run, samples, Tables(run, [samples])) if cell.variant == "clean")
    for part in make_slices(samples, ["category"], 100, 7):
        for test in paired_tests.compare(read_metrics([ref("set_size"), ref("coverage")]), a, b, part, 0.9):
            assert test.why or (test.low <= test.difference <= test.high and 0 < test.p <= 1)
            if part.label == "all":
                assert not test.why and test.value_a == pytest.approx(
                    world.scores()["m1", "choice", "clean", "all", test.metric]["value"], abs=0.05
                )


def test_pairs_of_the_studies_are_tested_over_whole_datasets_by_what_is_drawn(world):
    judge.run(stage("judge", {"judges": [ref("rules")]}, world.inputs, ["judgements"]))
    inputs = world.inputs | {"judgements": "results/judgements"}
    compare = {"baseline": None, "pairs": [], "margin": None, "correction": "none", "family": "study"}
    for pairs, studied, others in (([], [["m1", "m2"], ["m1", "gone"]], False), ([["m2", "m1"]], [["m1", "m2"]], True)):
        changes = {"metrics": [ref("accuracy"), ref("auroc"), ref("ece")], "compare": compare | {"pairs": pairs, "studied": studied}}
        score.run(stage("score", SCORE | changes, inputs, [*OUTPUTS, "comparisons"]))
        tests = read_table(Path("results/comparisons"), COMPARISONS).to_pylist()
        assert {(t["a"], t["b"]) for t in tests} == ({("m2", "m1")} if others else {("m1", "m2")}), "a pair is tested once"
        assert ({t["metric"] for t in tests} == {"accuracy"} and {t["slice"] for t in tests} == {"all"}) is not others
        assert any(t["dataset"] == "choice" and t["p"] is not None for t in tests)


@pytest.mark.slow
@pytest.mark.parametrize("per", ["category", "label"])
def test_sets_with_a_threshold_for_each_part(world, per):
    """Values are the stage's, intervals and tests redraw every part's threshold, the band and the promise are of the parts."""
    setting = SETTING | {"per": per}
    calibrate.run(stage("calibrate", {"settings": [setting]}, world.inputs, ["sets", "thresholds"]))
    judge.run(stage("judge", {"judges": [ref("rules")]}, world.inputs, ["judgements"]))
    inputs = world.inputs | {n: f"results/{n}" for n in ("sets", "judgements")}
    compare = {"baseline": "m1", "pairs": [], "margin": None, "correction": "none", "family": "study"}
    changes = {"metrics": [ref("coverage"), ref("set_size")], "conformal": [setting], "compare": compare, "slices": ["category"]}
    score.run(stage("score", SCORE | changes, inputs, [*OUTPUTS, "comparisons"]))
    sets = [r for r in read_table(Path("results/sets"), CONFORMAL_SETS).to_pylist() if r["variant"] == "clean" and r["model"] == "m1"]
    found = world.scores()["m1", "choice", "clean", "all", "coverage[ours/lac]"]
    test = [r for r in sets if r["score"] == "lac" and not r["is_calibration"]]
    covered = [r["covered"] for r in test if r["covered"] is not None]
    assert found["value"] == pytest.approx(np.mean(covered)) and found["n"] == len(covered)
    assert found["low"] < found["value"] < found["high"] and found["low_at_threshold"] is not None
    assert found["band_low"] < found["target"] <= found["band_high"]
    assert ("given the category" if per == "category" else "given the letter of the right option") in found["promise"]
    (of_test,) = (
        r
        for r in read_table(Path("results/comparisons"), COMPARISONS).to_pylist()
        if (r["slice"], r["metric"]) == ("all", "set_size[ours/lac]")
    )
    assert of_test["low"] < of_test["difference"] < of_test["high"] and 0 < of_test["p"] <= 1
