"""The abstain stage and the cells that come of it, on a small table of open answers."""

import io
import re
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from qualm.registry.sample import ABSTENTION_RULES, ABSTENTIONS, COMPARISONS, GENERATIONS, IMAGES, SAMPLES
from qualm.runners.data.aligned import read_samples
from qualm.runners.data.calibration_split import calibration_rows
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.stage import StageError
from qualm.runners.scoring import unscored
from qualm.runners.stages import abstain, judge, score
from tests.support.data.score_files import read_labelled
from tests.support.projects.stages import ref, stage

N = 240
VARIANTS = ("clean", "blur@radius=2.0")


def method(label="thresholded", plugin="thresholding", args=None, **more):
    args = args or {"criterion": "lave_idk_accuracy", "grid": "paper"}
    base = {"of": ["m"], "fit": "half", "per": "all", "confidence": "kept", "seed": 42}
    return {"label": label, "plugin": plugin, "args": args} | base | more


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
        rows = read_labelled(Path("results/scores")).to_pylist()
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
    scores = world.score("lave_idk_accuracy", "idk_rate", "f1_idk", "answerable_accuracy", "effective_reliability", "ece")
    kept = {r["sample_id"]: r for r in rows if r["variant"] == "clean" and not r["is_fit"]}
    texts = {r["sample_id"]: r["text"] for r in read_table(Path("generations.parquet"), GENERATIONS).to_pylist() if r["variant"] == "clean"}
    right = []
    for name, row in kept.items():
        sample = world.rows[int(name[1:])]
        right.append(not sample["answerable"] if row["abstains"] else sample["answerable"] and texts[name] == "red")
    found = scores["m+thresholded", "clean", "all", "lave_idk_accuracy"]
    assert found["value"] == pytest.approx(np.mean(right))
    assert (found["n"], found["n_unscored"]) == (len(kept), N - len(kept))
    assert {scores["m+thresholded", "clean", "all", label]["why"] for label in ("lave_idk_accuracy", "ece")} == {unscored.CHOSEN_ON}
    assert scores["m+thresholded", "clean", "all", "idk_rate"]["value"] == pytest.approx(np.mean([r["abstains"] for r in kept.values()]))
    assert scores["m", "clean", "all", "idk_rate"]["value"] == 0
    assert scores["m+thresholded", "clean", "all", "effective_reliability"]["value"] is not None, "the other half still has both folds"
    assert scores["m", "clean", "all", "lave_idk_accuracy"]["n"] == N
    assert found["value"] > scores["m", "clean", "all", "lave_idk_accuracy"]["value"]
    assert scores["m", "clean", "answerable=false", "lave_idk_accuracy"]["value"] == 0
    assert scores["m+thresholded", "clean", "answerable=false", "lave_idk_accuracy"]["value"] > 0.3
    assert (rules[0]["n_abstained"], rules[0]["n"]) == (sum(r["abstains"] for r in kept.values()), len(kept))


def test_confidences_can_be_read_anew_without_declining(world):
    """A temperature changes what depends on confidence and nothing else."""
    (rule,), rows = world.abstain(method("scaled", "temperature", {"shift": True}))
    assert (rule["threshold"], rule["n_abstained"], rule["attained"]) == (0.0, 0, True) and rule["statement"].startswith("Temperature ")
    said = {r["sample_id"]: np.exp(r["token_logprobs"][0]) for r in read_table(Path("generations.parquet"), GENERATIONS).to_pylist()
            if r["variant"] == "clean"}  # fmt: skip
    t, b = (float(text) for text in re.findall(r"Temperature (\S+) and shift ([^:]+):", rule["statement"])[0])
    for row in (r for r in rows if r["variant"] == "clean"):
        odds = np.log(said[row["sample_id"]] / (1 - said[row["sample_id"]])) / t + b
        assert row["confidence"] == pytest.approx(1 / (1 + np.exp(-odds)), abs=0.01)
    scores = world.score("lave_idk_accuracy", "confidence_weighted_accuracy", "ece", "idk_rate")
    half = {r["sample_id"] for r in rows if r["is_fit"]}
    assert scores["m+scaled", "clean", "all", "lave_idk_accuracy"]["n"] == N - len(half)
    assert scores["m+scaled", "clean", "all", "idk_rate"]["value"] == 0
    assert scores["m+scaled", "clean", "all", "confidence_weighted_accuracy"]["value"] != pytest.approx(
        scores["m", "clean", "all", "confidence_weighted_accuracy"]["value"]
    )


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
    assert "at most 0.2, calibrated on 120 questions" in rules[1]["statement"]
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
    found = world.score("accuracy")
    assert found["m+thresholded", "clean", "all", "accuracy"]["n"] == (~fits).sum() - 1
    assert found["m+thresholded", "clean", "category=rare", "accuracy"]["why"] == unscored.NO_THRESHOLD


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


class Worded(World):
    """A model that looks, one that does not, and questions half of which say by a word that they have no answer."""

    def __init__(self):
        self.rows = []
        answers = {"looks": [], "guesses": []}
        for i in range(N):
            lacks = i % 2 == 1
            word = " tomorrow" if lacks and i % 4 == 1 else ""
            split = "train" if i < N // 2 else "test"
            row = {"sample_id": f"s{i}", "question": f"What of {i % 6 // 2}{word}?", "group": f"g{i // 2}", "answerable": not lacks}
            self.rows.append(row | {"references": ["no telling"] if lacks else ["red"], "split": split})
            truth = "I cannot tell." if lacks else "red"
            guess = "I cannot tell." if word else "red"
            for model, clean, swapped in (("looks", truth, guess), ("guesses", guess, guess)):
                for variant, text in (("clean", clean), ("swapped_picture", swapped)):
                    said = {"sample_id": f"s{i}", "variant": variant, "draw": 0, "text": text, "token_logprobs": [float(np.log(0.9))]}
                    answers[model] += [said] * (split == "test")
        write_table(Path("data/samples.parquet"), self.rows, SAMPLES)
        for model, said in answers.items():
            write_table(Path(f"{model}.parquet"), said, GENERATIONS)
        self.inputs = {"datasets": {"d": "data"}, "generations": {m: {"d": f"{m}.parquet"} for m in answers}}
        judge.run(stage("judge", {"judges": [ref("rules")]}, self.inputs, ["judgements"]))
        self.inputs["judgements"] = "results/judgements"

    def refuse(self, of, *methods, way="blind_refuser"):
        params = {"abstentions": list(methods), way: of, "judge": "rules", "confidence": "sequence"}
        run = stage("abstain", params, self.inputs, ["abstentions", "abstention_rules"])
        abstain.run(run)
        rules = read_table(Path("results/abstention_rules"), ABSTENTION_RULES).to_pylist()
        return rules, read_table(Path("results/abstentions"), ABSTENTIONS).to_pylist(), run

    def compare(self, pairs):
        params = {"metrics": [ref("lave_idk_accuracy"), ref("confidence_weighted_accuracy")], "slices": [], "judge": "rules",
                  "interval": {"bootstrap": 50, "level": 0.95}, "confidence": "sequence", "family": "study",
                  "compare": {"baseline": None, "pairs": pairs, "margin": None, "correction": "max_t", "family": "study"}}  # fmt: skip
        outputs = ["scores", "metrics", "reliability", "risk_coverage", "set_sizes", "comparisons"]
        score.run(stage("score", params, self.inputs | {"abstentions": "results/abstentions"}, outputs))
        rows = read_table(Path("results/comparisons"), COMPARISONS).to_pylist()
        scores = read_labelled(Path("results/scores")).to_pylist()
        return {(r["a"], r["b"], r["metric"]): r for r in rows}, {(r["model"], r["metric"]): r["value"] for r in scores}


@pytest.fixture
def worded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Worded()


def test_the_blind_refuser_refuses_by_the_word_and_the_model_answers_the_rest(worded):
    (rule,), rows, _ = worded.refuse(["looks"])
    assert (rule["method"], rule["fit"], rule["n_fit"], rule["n_abstained"], rule["n"]) == ("blind_refuser", "train", 120, 30, 120)
    assert (rule["threshold"], rule["part"], rule["attained"]) == (0.5, "all", True)
    by_id = {r["sample_id"]: r for r in rows if r["variant"] == "clean"}
    for row in worded.rows[N // 2 :]:
        said = by_id[row["sample_id"]]
        assert said["abstains"] == ("tomorrow" in row["question"]) and said["is_fit"] is False
        assert (said["confidence"] > 0.5 and said["confidence"] != 0.9) if said["abstains"] else said["confidence"] == pytest.approx(0.9)
    assert {r["variant"] for r in rows} == {"clean"}, "in front of the model that looks, not of itself with another picture"


@pytest.mark.slow
def test_the_picture_refuser_refuses_by_the_paint_whatever_the_words(worded):
    rng = np.random.default_rng(0)
    images = []
    for i, row in enumerate(worded.rows):
        row["image_id"] = f"i{i}"
        pixels = rng.integers(0, 100, (16, 16, 3), dtype=np.uint8) + np.uint8(150 * (not row["answerable"]))
        with io.BytesIO() as out:
            PIL.Image.fromarray(pixels).save(out, "PNG")
            images.append({"image_id": f"i{i}", "image": {"bytes": out.getvalue(), "path": f"i{i}"}})
    write_table(Path("data/samples.parquet"), worded.rows, SAMPLES)
    write_table(Path("data/images/0.parquet"), images, IMAGES)
    (rule,), rows, _ = worded.refuse(["guesses"], way="picture_refuser")
    assert (rule["method"], rule["fit"], rule["n_fit"], rule["n_abstained"], rule["n"]) == ("picture_refuser", "train", 120, 60, 120)
    assert rule["statement"].startswith("Refuses by the image alone")
    truths = {row["sample_id"]: row["answerable"] for row in worded.rows}
    assert rows and all(said["abstains"] == (not truths[said["sample_id"]]) for said in rows)


def test_a_model_that_ignores_the_picture_gains_nothing_over_itself_with_another(worded):
    worded.refuse(["guesses"])
    tests, scores = worded.compare([[f"{m}+swapped_picture", m] for m in ("guesses", "looks")] + [["guesses+blind_refuser", "looks"]])
    for metric in ("lave_idk_accuracy", "confidence_weighted_accuracy"):
        none, some = (tests[f"{m}+swapped_picture", m, metric] for m in ("guesses", "looks"))
        assert none["difference"] == 0 and none["p_adjusted"] == 1
        assert some["difference"] > 0.2 and some["p_adjusted"] < 0.05
        assert tests["guesses+blind_refuser", "looks", metric]["p_adjusted"] < 0.05
    assert scores["looks", "lave_idk_accuracy"] == 1
    assert scores["looks+swapped_picture", "lave_idk_accuracy"] == scores["guesses+blind_refuser", "lave_idk_accuracy"] == 0.75


def test_methods_and_the_refuser_go_together_and_other_pictures_are_not_abstained_on(worded):
    rules, rows, _ = worded.refuse(["looks"], method(of=["looks"]))
    assert {r["method"] for r in rules} == {"thresholded", "blind_refuser"} and {r["model"] for r in rows} == {"looks"}
    assert {r["variant"] for r in rows} == {"clean"}


def test_a_refuser_with_nothing_to_learn_from_is_a_mistake(worded):
    table = read_table(Path("data/samples.parquet"), SAMPLES).to_pylist()
    write_table(Path("data/samples.parquet"), [{**r, "answerable": True} for r in table], SAMPLES)
    with pytest.raises(StageError, match="blind refuser: there is nothing to learn from \\(d: one class only"):
        worded.refuse(["looks"])


def test_a_data_set_where_it_has_no_say_is_counted_and_has_no_such_row(worded):
    plain = [{"sample_id": f"p{i}", "question": "?", "answerable": True, "split": "test", "references": ["red"]} for i in range(3)]
    rows = [{**r, "split": "test"} for r in worded.rows]
    write_table(Path("plain/samples.parquet"), plain, SAMPLES)
    write_table(Path("data/samples.parquet"), rows, SAMPLES)
    said = [{"sample_id": f"p{i}", "variant": "clean", "draw": 0, "text": "red", "token_logprobs": [-0.1]} for i in range(3)]
    write_table(Path("plain.parquet"), said, GENERATIONS)
    worded.inputs["datasets"]["plain"] = "plain"
    worded.inputs["generations"]["looks"]["plain"] = "plain.parquet"
    rules, made, run = worded.refuse(["looks"])
    assert run.counters["datasets_without_blind_refuser"] == 1 and {r["dataset"] for r in (*rules, *made)} == {"d"}
    assert rules[0]["fit"] == "in turn"
