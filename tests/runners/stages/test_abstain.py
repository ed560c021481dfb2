"""The abstain stage and the cells that come of it, on a small table of open answers."""

from pathlib import Path

import numpy as np
import pytest

from qualm.registry.sample import ABSTENTION_RULES, ABSTENTIONS, GENERATIONS, SAMPLES, SCORES
from qualm.runners.data.aligned import read_samples
from qualm.runners.data.calibration_split import calibration_rows
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import abstain, judge, score

N = 240
VARIANTS = ("clean", "blur@radius=2.0")


def ref(plugin, label=None, **args):
    return {"label": label or plugin, "plugin": plugin, "args": args}


def method(label="thresholded", plugin="thresholding", args=None, **more):
    args = args or {"criterion": "lave_idk_accuracy", "grid": "paper"}
    base = {"of": ["m"], "fit": "half", "per": "all", "confidence": "kept", "seed": 42}
    return {"label": label, "plugin": plugin, "args": args} | base | more


def stage(kind, params, inputs, outputs):
    return Stage(f"s/{kind}", "s", kind, kind, params, inputs, {o: f"results/{o}" for o in outputs}, 7, Settings())


class World:
    """One model that is right about as often as it is sure, and never declines."""

    def __init__(self, splits=("test",)):
        rng = np.random.default_rng(0)
        self.rows, answers = [], []
        for i in range(N):
            lacks = i % 4 == 0
            row = {"sample_id": f"s{i}", "question": "?", "group": f"g{i // 3}", "category": "ab"[i % 2], "answerable": not lacks}
            self.rows.append(row | {"references": ["no telling"] if lacks else ["red"], "split": splits[i // 3 % len(splits)]})
            for variant in VARIANTS:
                sure = float(rng.random() * (0.6 if lacks else 1.0))
                text = "red" if rng.random() < sure + 0.2 else "blue"
                answers.append({"sample_id": f"s{i}", "variant": variant, "draw": 0, "text": text, "token_logprobs": [float(np.log(sure))]})
        write_table(Path("data/samples.parquet"), self.rows, SAMPLES)
        write_table(Path("generations.parquet"), answers, GENERATIONS)
        self.inputs = {"datasets": {"d": "data"}, "generations": {"m": {"d": "generations.parquet"}}}
        judge.run(stage("judge", {"judges": [ref("rules")]}, self.inputs, ["judgements"]))
        self.inputs["judgements"] = "results/judgements"

    def abstain(self, *methods):
        params = {"abstentions": list(methods), "judge": "rules", "confidence": "sequence"}
        abstain.run(stage("abstain", params, self.inputs, ["abstentions", "abstention_rules"]))
        rules = read_table(Path("results/abstention_rules"), ABSTENTION_RULES).to_pylist()
        return rules, read_table(Path("results/abstentions"), ABSTENTIONS).to_pylist()

    def score(self, *metrics):
        params = {
            "metrics": [ref(m) for m in metrics],
            "slices": ["category", "answerable"],
            "interval": {"bootstrap": 20, "level": 0.9},
            "judge": "rules",
            "confidence": "sequence",
        }
        run = stage(
            "score",
            params,
            self.inputs | {"abstentions": "results/abstentions"},
            ["scores", "metrics", "reliability", "risk_coverage", "set_sizes"],
        )
        score.run(run)
        rows = read_table(Path("results/scores"), SCORES).to_pylist()
        return {(r["model"], r["variant"], r["slice"], r["metric"]): r for r in rows}


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return World()


def test_half_of_the_groups_chooses_and_the_other_half_is_scored(world):
    rules, rows = world.abstain(method())
    (rule,) = rules
    fits = calibration_rows(read_samples("d", "data").groups, 0.5, 42, "groups")
    assert {r["sample_id"] for r in rows if r["is_fit"]} == {f"s{i}" for i in np.flatnonzero(fits)}
    assert rule["n_fit"] == fits.sum() and rule["n"] == N - fits.sum()
    assert rule["n_abstained"] == sum(r["abstains"] for r in rows if r["variant"] == "clean" and not r["is_fit"])
    assert {r["variant"] for r in rows} == set(VARIANTS)
    assert all(r["abstains"] == (r["confidence"] < rule["threshold"]) for r in rows)


def test_scored_as_a_model_of_its_own(world):
    rules, rows = world.abstain(method())
    scores = world.score("lave_idk_accuracy", "idk_rate", "f1_idk", "answerable_accuracy", "effective_reliability")
    kept = {r["sample_id"]: r for r in rows if r["variant"] == "clean" and not r["is_fit"]}
    texts = {r["sample_id"]: r["text"] for r in read_table(Path("generations.parquet"), GENERATIONS).to_pylist() if r["variant"] == "clean"}
    right = []
    for name, row in kept.items():
        sample = world.rows[int(name[1:])]
        right.append(not sample["answerable"] if row["abstains"] else sample["answerable"] and texts[name] == "red")
    found = scores["m+thresholded", "clean", "all", "lave_idk_accuracy"]
    assert found["value"] == pytest.approx(np.mean(right))
    assert (found["n"], found["n_unscored"]) == (len(kept), N - len(kept))
    assert scores["m+thresholded", "clean", "all", "idk_rate"]["value"] == pytest.approx(np.mean([r["abstains"] for r in kept.values()]))
    assert scores["m", "clean", "all", "idk_rate"]["value"] == 0
    assert scores["m+thresholded", "clean", "all", "effective_reliability"]["value"] is not None, "the other half still has both folds"
    assert scores["m", "clean", "all", "lave_idk_accuracy"]["n"] == N
    assert found["value"] > scores["m", "clean", "all", "lave_idk_accuracy"]["value"]
    assert scores["m", "clean", "answerable=false", "lave_idk_accuracy"]["value"] == 0
    assert scores["m+thresholded", "clean", "answerable=false", "lave_idk_accuracy"]["value"] > 0.3
    assert (rules[0]["n_abstained"], rules[0]["n"]) == (sum(r["abstains"] for r in kept.values()), len(kept))


def test_chosen_on_the_test_rows_it_is_called_optimistic(world):
    rules, rows = world.abstain(method(fit="test"))
    assert rules[0]["method"] == "thresholded (optimistic)" and rules[0]["n_fit"] == rules[0]["n"] == N
    assert not any(r["is_fit"] for r in rows)
    scores = world.score("lave_idk_accuracy")
    assert scores["m+thresholded (optimistic)", "clean", "all", "lave_idk_accuracy"]["n"] == N


def test_validation_rows_choose_and_are_not_counted_as_applied(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = World(splits=("train", "val", "test"))
    (rule,), rows = world.abstain(method(fit="val"))
    split = {r["sample_id"]: r["split"] for r in world.rows}
    assert {split[r["sample_id"]] for r in rows if r["is_fit"]} == {"val"}
    assert rule["n_fit"] == sum(s == "val" for s in split.values())
    assert rule["n"] == sum(s == "test" for s in split.values())
    scores = world.score("lave_idk_accuracy")
    for model in ("m", "m+thresholded"):
        row = scores[model, "clean", "all", "lave_idk_accuracy"]
        assert (row["n"], row["n_unscored"]) == (rule["n"], 0), "answers that were chosen on are not scored, nor counted as missing"


def test_datasets_without_validation_rows_have_no_model_that_abstains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = World(splits=("val", "test"))
    only_test = [row for row in world.rows if row["split"] == "test"]
    write_table(Path("other/samples.parquet"), only_test, SAMPLES)
    names = {row["sample_id"] for row in only_test}
    table = read_table(Path("generations.parquet"), GENERATIONS).to_pylist()
    write_table(Path("other.parquet"), [row for row in table if row["sample_id"] in names], GENERATIONS)
    world.inputs["datasets"]["external"] = "other"
    world.inputs["generations"]["m"]["external"] = "other.parquet"
    judge.run(stage("judge", {"judges": [ref("rules")]}, {k: world.inputs[k] for k in ("datasets", "generations")}, ["judgements"]))
    rules, rows = world.abstain(method(fit="val"))
    assert {r["dataset"] for r in rules} == {r["dataset"] for r in rows} == {"d"}


def test_a_threshold_per_category(world):
    rules, rows = world.abstain(method(per="category"))
    assert [r["part"] for r in rules] == ["a", "b"]
    limits = {r["part"]: r["threshold"] for r in rules}
    assert limits["a"] != limits["b"]
    assert all(r["threshold"] == limits[world.rows[int(r["sample_id"][1:])]["category"]] for r in rows)


def test_the_confidence_of_what_is_turned(world):
    _, kept = world.abstain(method())
    _, other = world.abstain(method(confidence="complement"))
    for one, two in zip(kept, other, strict=True):
        assert two["confidence"] == pytest.approx(1 - one["confidence"] if one["abstains"] else one["confidence"])


def test_several_methods_and_only_of_whom_was_said(world):
    control = method("controlled", "risk_control", {"alpha": 0.2, "unit": "group"})
    rules, _ = world.abstain(method(), control, method("nobody", of=["other"]))
    assert [r["method"] for r in rules] == ["thresholded", "controlled"]
    assert "at most 0.2, by 40 exchangeable groups" in rules[1]["statement"]
    scores = world.score("accuracy")
    assert {k[0] for k in scores} == {"m", "m+thresholded", "m+controlled"}


def test_a_category_without_rows_to_choose_on_is_unscored_and_counted(world):
    samples = read_samples("d", "data")
    fits = calibration_rows(samples.groups, 0.5, 42, "groups")
    rows = [row | {"category": "rare" if k == int(np.flatnonzero(~fits)[0]) else "usual"} for k, row in enumerate(world.rows)]
    write_table(Path("data/samples.parquet"), rows, SAMPLES)
    rules, made = world.abstain(method(per="category"))
    assert (rules[0]["part"], rules[0]["threshold"], rules[0]["n_fit"]) == ("rare", None, 0)
    assert sum(r["abstains"] is None for r in made) == len(VARIANTS)
    assert world.score("accuracy")["m+thresholded", "clean", "all", "accuracy"]["n"] == (~fits).sum() - 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fit": "val"}, r"abstention 'thresholded': no dataset has open questions of split 'val' to choose on \(d\)"),
        ({"judge": None}, "its open answers were not judged"),
    ],
)
def test_what_cannot_be_done(world, change, message):
    if "judge" in change:
        world.inputs.pop("judgements")
    with pytest.raises(StageError, match=message):
        world.abstain(method(**{k: v for k, v in change.items() if k != "judge"}))


def test_multiple_choice_is_passed_over(world):
    rows = [row | {"choices": ["x", "y"], "answer_index": 0} for row in world.rows]
    write_table(Path("data/samples.parquet"), rows, SAMPLES)
    assert world.abstain(method()) == ([], [])
