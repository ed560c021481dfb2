"""Samples under a strength that is turned: what comes out, what a model says, how much differs, and where to search."""

import math

import numpy as np
import pytest

from qualm.registry.plugins.registry import get
from qualm.runners.data.rows import choose_stratified
from qualm.runners.review import bench as module
from qualm.runners.review.bench import AdjustablePerturbation, Answer, Bench, Respondent, open_dataset
from qualm.runners.review.effects import DISTANCES, distance_goal, mean_reading, share_goal, share_reading
from qualm.runners.review.knobs import numeric_knobs
from qualm.runners.runtime.stage import StageError
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.asking import bare_stage, picture, png, sample, write_samples

OPTIONS = ["red", "blue", "green"]
GRAY = {"sigma": 40.0, "channels": "each"}
PERPLEXITY = {"label": "perplexity", "plugin": "perplexity", "args": {}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two open questions with pictures, one with options, one without a picture; and one to train on."""
    monkeypatch.chdir(tmp_path)
    rows = [sample("a", "p0", "What color is the cube ?"), sample("b", "p1", "What ?"), sample("c", "p0", "Which ?", OPTIONS),
            sample("d", None, "What is a cone ?"), {**sample("t", "p0", "?"), "split": "train"}]  # fmt: skip
    rows = [{**row, "category": "x" if row["sample_id"] in "ab" else ""} for row in rows]
    return write_samples(tmp_path / "d", rows, {f"p{i}": png(picture(i, 16)) for i in range(2)})


def dataset(folder, modality="image", samples=99, splits=None, seed=7):
    return open_dataset("d", folder, splits, modality, samples, seed)


def names(found):
    return [s["sample_id"] for s in found.samples]


def subject(plugin="gaussian_noise", args=None):
    return AdjustablePerturbation(
        get("perturbations", plugin), GRAY if args is None else args, lambda a: f"{plugin}@{'-'.join(f'{v}' for v in a.values())}"
    )


class Said:
    """Answers by variant: other keys above a strength."""

    def __init__(self, lacking=()):
        self.asked, self.lacking = [], lacking

    def ask(self, found, variants):
        self.asked.append(([v.name for v in variants], names(found)))
        return {v.name: {n: Answer("", self.key(v.name, n), 0.0) for n in names(found) if v.name == "clean" or n not in self.lacking}
                for v in variants}  # fmt: skip

    @staticmethod
    def key(variant, name):
        return f"other {name}" if "-50.0" in variant.replace("@", "-") or ("-20.0" in variant.replace("@", "-") and name == "a") else "same"


def test_scored_samples_that_the_perturbation_could_change(folder):
    assert names(dataset(folder)) == ["a", "b", "c"] and names(dataset(folder, "cross")) == ["a", "b", "c"]
    assert names(dataset(folder, "text")) == ["a", "b", "c", "d"] and names(dataset(folder, splits=["train"])) == ["t"]
    for seed in (7, 8):
        chosen = choose_stratified([("a", "x"), ("b", "x"), ("c", "")], 2, seed)
        assert set(names(dataset(folder, samples=2, seed=seed))) == chosen and len(chosen) == 2
    words = write_samples(folder.parent / "w", [sample("d", None, "?")], {})
    with pytest.raises(
        StageError, match=r"^dataset 'd' has no sample that a perturbation of image could change; name another with --dataset$"
    ):
        dataset(words)
    assert names(dataset(words, "text")) == ["d"]


def test_a_variant_has_whole_numbers_where_its_parameter_is_whole():
    shuffled = subject("jpeg", {"quality": 30}).variant({"quality": 7.0})
    assert shuffled.args == {"quality": 7} and type(shuffled.args["quality"]) is int and shuffled.name == "jpeg@7"
    noisy = subject().variant({"sigma": 7})
    assert noisy.args == {"sigma": 7.0, "channels": "each"} and type(noisy.args["sigma"]) is float and noisy.modality == "image"
    assert noisy.module == "qualm.runners.plugins.perturbations.gaussian_noise"


def test_an_item_is_what_the_benchmark_itself_will_make(folder):
    made = Bench(dataset(folder, "text"), subject(), 7)
    plain, question = made.item(0, None)
    assert plain.tobytes() == picture(0, 16).tobytes() and question == "What color is the cube ?"
    variant = subject().variant({"sigma": 5.0})
    item = made.dataset.item(0)
    assert made.item(0, {"sigma": 5.0})[0].tobytes() == variant.apply(7, item, item.image())[0].tobytes() != plain.tobytes()
    assert made.item(3, {"sigma": 5.0}) is None and made.item(3, None) == (None, "What is a cone ?")


def test_shares_are_of_answers_that_changed_and_leave_out_what_has_none(folder):
    said = Said(lacking=("b",))
    made = Bench(dataset(folder), subject(), 7, said)
    readings = made.measure(share_goal(0.5), "sigma", [10.0, 20.0, 50.0])
    assert readings == [share_reading(10.0, [False, False], 1), share_reading(20.0, [True, False], 1), share_reading(50.0, [True, True], 1)]
    assert said.asked == [(["clean", *(f"gaussian_noise@{s}-each" for s in (10.0, 20.0, 50.0))], ["a", "b", "c"])]
    with pytest.raises(StageError, match="a share of answers needs a model to answer"):
        Bench(dataset(folder), subject(), 7).measure(share_goal(0.5), "sigma", [1.0])


def test_distances_are_means_over_samples_with_both_pictures(folder):
    made = Bench(dataset(folder, "text"), subject(), 7)
    for name in ("psnr", "1-ssim"):
        (reading,) = made.measure(distance_goal(name, 0.5), "sigma", [30.0])
        values = [DISTANCES[name](made.item(i, None)[0], made.item(i, {"sigma": 30.0})[0]) for i in range(3)]
        assert reading == mean_reading(30.0, values, 1) and reading.value > 0
    (reading,) = Bench(dataset(folder, "text").only([3]), subject(), 7).measure(distance_goal("psnr", 20), "sigma", [30.0])
    assert math.isnan(reading.value) and (reading.n, reading.left_out) == (0, 1)


def test_answers_are_asked_once_for_each_strength_and_sample(folder):
    said = Said()
    made = Bench(dataset(folder), subject(), 7, said)
    assert made.cached_answers(None) == {} and set(made.answers(None, [0])) == {"a"}
    assert set(made.answers(None, [0, 2])) == {"a", "c"} and set(made.answers({"sigma": 9.0}, [1])) == {"b"}
    made.answers(None, [0, 2])
    assert said.asked == [(["clean"], ["a"]), (["clean"], ["c"]), (["gaussian_noise@9.0-each"], ["b"])]
    assert set(made.cached_answers({"sigma": 9.0})) == {"b"} and made.cached_answers({"sigma": 8.0}) == {}
    assert Bench(dataset(folder), subject(), 7).answers(None, [0]) == {}


def test_where_to_search_begins_where_nothing_is_done(folder):
    made = Bench(dataset(folder), subject(), 7)
    (knob,) = numeric_knobs(made.subject.plugin, GRAY)
    found = made.range_of(knob, None, "auto")
    assert (found.weak, found.strong) == (0.0, knob.high)
    assert made._difference(range(3), {"sigma": 0.0}) == 0 < made._difference(range(3), {"sigma": 1.0})
    both = sum(DISTANCES["psnr"](made.item(i, None)[0], made.item(i, {"sigma": 5.0})[0]) for i in (0, 1))
    assert made._difference(range(2), {"sigma": 5.0}) == pytest.approx(both)
    words = Bench(dataset(folder, "text"), subject("typos", {"p": 0.5}), 7)
    assert words._difference(range(4), {"p": 1.0}) == 4.0 and words._difference(range(4), {"p": 0.0}) == 0.0


def test_a_parameter_without_a_value_of_nothing_is_searched_from_its_gentler_end(folder):
    made = Bench(dataset(folder), subject("jpeg", {"quality": 30}), 7)
    found = made.range_of(numeric_knobs(made.subject.plugin, {"quality": 30})[0], None, "auto")
    assert (found.weak, found.strong) == (100, 1)


def test_two_dozen_samples_are_enough_to_see_that_nothing_happens(tmp_path, monkeypatch):
    rows = [sample(f"s{i:02}", None, "What is it?") for i in range(30)]
    made = Bench(open_dataset("d", write_samples(tmp_path / "d", rows, {}), None, "text", 99, 7), subject("typos", {"p": 0.5}), 7)
    seen = []
    monkeypatch.setattr(made, "_difference", lambda some, values: seen.append(len(some)) or values["p"])
    (knob,) = numeric_knobs(made.subject.plugin, {"p": 0.5})
    found = made.range_of(knob, None, "auto")
    assert set(seen) == {24} and len(seen) == 2 and (found.weak, found.strong) == (0.0, 1.0)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model"))


def respondent(model, estimator=None):
    ref = {"label": "tiny", "plugin": "hf_vlm", "args": {"artifact": str(model)}, "dtype": "float32"}
    return Respondent(bare_stage(), ref, model, estimator or PERPLEXITY)


def test_a_model_answers_with_how_unsure_it_is(folder, model):
    asked = respondent(model)
    answers = asked.ask(dataset(folder, "text"), [module.Variant("clean"), subject().variant({"sigma": 50.0})])
    clean, noisy = answers["clean"], answers["gaussian_noise@50.0-each"]
    assert list(clean) == ["a", "b", "c", "d"] and list(noisy) == ["a", "b", "c"]
    assert clean["a"].key == module.normalise(clean["a"].text) and clean["a"].uncertainty > 0
    assert clean["c"].text in OPTIONS and clean["c"].key == f"option {OPTIONS.index(clean['c'].text)}"


def test_uncertainty_is_the_estimators_own_and_nan_where_it_has_nothing_to_read(model):
    import pyarrow as pa

    logprobs = [[-1.0, -3.0], None, [-0.5]]
    table = pa.table({"token_logprobs": pa.array(logprobs, pa.list_(pa.float32()))})
    first, second, third = respondent(model)._uncertainties(table)
    assert first > third and math.isnan(second)
    assert all(math.isnan(v) for v in respondent(model)._uncertainties(table.slice(1, 1)))


def test_an_answer_is_its_option_or_its_normalised_text():
    assert module._answer({"option_logits": [0.0, 2.0, 1.0], "text": "A"}, OPTIONS, 0.5) == Answer("blue", "option 1", 0.5)
    assert module._answer({"option_logits": None, "text": "The RED cube."}, OPTIONS, 0.5).key == module.normalise("The RED cube.")
    assert module._answer({"option_logits": [1.0], "text": None}, (), 0.5) == Answer("", "", 0.5)
    assert np.isnan(module._answer({"option_logits": None, "text": "x"}, (), math.nan).uncertainty)


def test_models_that_cannot_be_asked_are_refused(folder, model, tmp_path):
    stage = bare_stage()
    recorded = {"label": "log", "plugin": "recorded", "args": {"source": "elsewhere"}}
    with pytest.raises(StageError, match=r"^model 'log' is a recording, which cannot answer perturbed questions; name another"):
        Respondent(stage, recorded, tmp_path, PERPLEXITY)
    with pytest.raises(StageError, match=r"model 'm': .*expected config.json"):
        Respondent(stage, {"label": "m", "plugin": "hf_vlm", "args": {"artifact": str(tmp_path)}}, tmp_path, PERPLEXITY)
    served = {"label": "gpt", "plugin": "openai", "args": {"model": "x", "base_url": "http://127.0.0.1:9/v1"}}
    with pytest.raises(StageError, match=r"^model 'gpt' gives no option_logits, which multiple-choice questions of d are scored by"):
        Respondent(stage, served, None, PERPLEXITY).ask(dataset(folder), [module.Variant("clean")])
