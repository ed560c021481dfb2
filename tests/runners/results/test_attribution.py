"""Attribution on samples whose modality is known: by hand, against scikit-learn, and with saturation as it was measured on scenes."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score

from qualm.registry import MODALITIES
from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.results import attribution
from qualm.runners.results.attribution import (
    agreement,
    attribution_features,
    beats_the_floor,
    cross_fitted,
    fit_modalities,
    has_enough_groups,
    known_modalities,
    modality_probabilities,
    most_probable_modality,
)
from qualm.runners.scoring.bootstrap import Bootstrap

MODALITY = {"blur": "image", "noise": "image", "typos": "text", "words": "text"}
SCENES = 200


def saturated(seed=0, removal=1.0):
    """600 samples: of each scene the clean one, its picture spoilt, its question spoilt. (estimator, variant) -> values, truth and scenes.

    What is spoilt is uncertain already, so perturbing it adds less: typos .129 on clean questions and .030 on spoilt ones, as measured.
    """
    rng = np.random.default_rng(seed)
    truth, scene = np.tile(["clean", "image", "text"], SCENES), np.repeat(np.arange(SCENES), 3)
    spoilt = {m: truth == m for m in ("image", "text")}
    level = np.where(spoilt["image"], 0.5, np.where(spoilt["text"], 0.25, 0.06))
    values = {}
    for estimator in ("entropy", "perplexity"):
        hard = rng.normal(0, 0.05, SCENES)[scene]
        values[estimator, "clean"] = level + hard + rng.normal(0, 0.15, len(truth))
        for variant, modality in MODALITY.items():
            values[estimator, variant] = np.where(spoilt[modality], 0.03, 0.129) + rng.normal(0, 0.15, len(truth))
    values["without_image", "clean"] = removal * (spoilt["image"] * 0.6 - spoilt["text"] * 0.6) + rng.normal(0, 0.8, len(truth))
    return values, truth.tolist(), [f"scene{i}" for i in scene]


def matrix(values, n):
    return np.stack(list(attribution_features(values, MODALITY, n).values()), axis=1)


def test_what_rises_most_is_not_to_blame_and_what_was_learnt_finds_it():
    values, truth, scenes = saturated()
    rises = attribution_features(values, MODALITY, len(truth))
    naive = ["image" if i > t else "text" for i, t in zip(rises["entropy", "image"], rises["entropy", "text"], strict=True)]
    known = [i for i, t in enumerate(truth) if t != "clean"]
    assert np.mean([naive[i] == truth[i] for i in known]) < 0.45  # a rule of before: worse than always naming the same
    told = cross_fitted(matrix(values, len(truth)), truth, scenes)
    found = agreement(truth, told, scenes, 300, 0.95, 7)
    assert (found["n"], found["floor"]) == (2 * SCENES, 0.5)
    assert found["accuracy_low"] > 0.65 and found["auroc_low"] > 0.7 and beats_the_floor(found)
    assert np.isnan(told[[i for i, t in enumerate(truth) if t == "clean"]]).all()


def test_labels_without_a_signal_do_not_beat_the_floor():
    """Truth dealt anew within scenes, for ten draws: an interval may miss by chance once."""
    values, truth, scenes = saturated()
    beaten = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        dealt = [t for k in range(SCENES) for t in rng.permutation(truth[3 * k : 3 * k + 3]).tolist()]
        beaten += beats_the_floor(agreement(dealt, cross_fitted(matrix(values, len(truth)), dealt, scenes), scenes, 200, 0.95, 7))
    assert beaten <= 1


def test_a_group_is_told_by_what_never_saw_it():
    """Two like samples per group and many columns of noise: whoever has seen one of a group knows the other."""
    rng = np.random.default_rng(0)
    truth, groups = [("image", "text")[i // 2 % 2] for i in range(160)], [f"g{i // 2}" for i in range(160)]
    read = np.repeat(rng.normal(size=(80, 120)), 2, axis=0)
    seen = most_probable_modality(learn_all(read, truth))
    assert np.mean([a == b for a, b in zip(seen, truth, strict=True)]) == 1.0
    unseen = most_probable_modality(cross_fitted(read, truth, groups))
    assert 0.3 < np.mean([a == b for a, b in zip(unseen, truth, strict=True)]) < 0.7


def learn_all(read, truth):
    told = np.full((len(truth), 3), np.nan)
    learnt = fit_modalities(read, truth, np.ones(len(truth), dtype=bool))
    told[:, [MODALITIES.index(m) for m in learnt.modalities]] = learnt.probabilities(read)
    return told


def test_a_kind_of_damage_is_told_by_what_never_saw_it():
    """Each kind has a column of its own: all is told with it, nothing without."""
    rng = np.random.default_rng(0)
    truth = [("image", "text")[i % 2] for i in range(240)]
    kinds = [f"{t}{i // 2 % 3}" for i, t in enumerate(truth)]
    names = sorted(set(kinds))
    read = np.array([[k == n for n in names] for k in kinds]) * 4.0 + rng.normal(size=(240, 6))
    groups = [f"g{i}" for i in range(240)]
    by_group, by_kind = (agreement(truth, cross_fitted(read, truth, groups, k), groups, 100, 0.95, 7) for k in (None, kinds))
    assert by_group["accuracy"] > 0.9 and beats_the_floor(by_group)
    assert by_kind["accuracy"] < 0.6 and not beats_the_floor(by_kind)
    assert np.isnan(cross_fitted(read, truth, groups, truth)).all()  # one kind each: nothing could be held out
    one_of_text = [k if t == "image" else "text" for t, k in zip(truth, kinds, strict=True)]
    assert np.isnan(cross_fitted(read, truth, groups, one_of_text)).all()
    two_each = [k if k[-1] != "2" else f"{k[:-1]}1" for k in kinds]
    assert np.isfinite(cross_fitted(read, truth, groups, two_each)[:, :2]).all()


def test_what_has_no_kind_of_damage_is_neither_told_nor_learnt_from_where_kinds_are_held_out():
    """As of datasets of which only one says how its samples were spoilt: as if the others had no label."""
    rng = np.random.default_rng(1)
    truth = [("image", "text")[i % 2] for i in range(120)]
    read = rng.normal(size=(120, 3)) + np.array([[t == "image"] for t in truth])
    kinds, groups = [f"{t}{i // 2 % 2}" for i, t in enumerate(truth)], [f"g{i}" for i in range(120)]
    unknown = np.arange(120) % 5 == 0
    some = [None if gone else k for k, gone in zip(kinds, unknown, strict=True)]
    told = cross_fitted(read, truth, groups, some)
    assert np.isnan(told[unknown]).all() and np.isfinite(told[~unknown, :2]).all()
    unlabelled = [None if gone else t for t, gone in zip(truth, unknown, strict=True)]
    np.testing.assert_array_equal(told, cross_fitted(read, unlabelled, groups, kinds))


def test_kinds_are_held_out_in_the_order_of_their_names():
    truth = ["image"] * 6 + ["text"] * 3 + [None, "clean"]
    assert attribution._kind_folds(truth, [*"fbecad", "z", "y", None, "a", "b"]).tolist() == [5, 1, 4, 2, 0, 3, 1, 0, -1, -1, -1]


def test_others_are_told_by_all_that_is_labelled():
    values, truth, scenes = saturated()
    read = matrix(values, len(truth))
    told = modality_probabilities(read, truth, scenes)
    labelled = np.array([t != "clean" for t in truth])
    assert np.allclose(told[labelled][:, :2], cross_fitted(read, truth, scenes)[labelled][:, :2]) and np.isnan(told[:, 2]).all()
    assert np.allclose(told[~labelled][:, :2], fit_modalities(read, truth, labelled).probabilities(read[~labelled]), atol=1e-5)


@pytest.mark.parametrize("modalities", [("image", "text"), ("image", "text", "cross")])
def test_the_regression_is_the_minimum_of_its_loss(modalities):
    rng = np.random.default_rng(3)
    truth = [modalities[i % len(modalities)] for i in range(90)]
    read = rng.normal(size=(90, 4)) + np.array([[MODALITIES.index(t), 0, 0, 1] for t in truth])
    read[5, 2] = np.nan
    x = np.nan_to_num(np.clip((read - np.nanmean(read, 0)) / np.nanstd(read, 0), -attribution.CLIP, attribution.CLIP))
    y = np.array([modalities.index(t) for t in truth])
    k = len(modalities)

    def shares(w):
        scores = x @ w[:-k].reshape(4, k) + w[-k:]
        powers = np.exp(scores - scores.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    def loss(w):  # with two, a ridge on both columns of opposite weights is half of that on their difference
        ridge = attribution.RIDGE * (w[:-k] ** 2).sum() / 2 * (2 if k == 2 else 1)
        return -np.log(shares(w)[np.arange(90), y]).sum() + ridge

    best = minimize(loss, np.zeros(5 * k), method="BFGS", options={"gtol": 1e-8, "maxiter": 3000}).x
    assert np.allclose(fit_modalities(read, truth, np.ones(90, dtype=bool)).probabilities(read), shares(best), atol=1e-4)


def test_what_does_not_vary_is_left_as_it_is_and_what_nobody_has_is_nothing():
    """Mean and deviation of 1 and 3, of a 5 alone, and of no number; a sample of another value is told by how far it lies from 5."""
    read = np.array([[1.0, 5.0, np.nan], [3.0, np.nan, np.nan]])
    learnt = fit_modalities(read, ["image", "text"], np.ones(2, dtype=bool))
    assert (learnt.mean.tolist(), learnt.spread.tolist()) == ([2, 5, 0], [1, 1, 1])


def test_limits_are_the_percentiles_over_resamples_of_groups():
    rng = np.random.default_rng(2)
    truth = [("image", "text")[i % 2] for i in range(60)]
    told = np.c_[rng.random((60, 2)).round(2), np.full(60, np.nan)]
    groups = [f"g{i // 3:02}" for i in range(60)]
    found = agreement(truth, told, groups, 300, 0.9, 7, "m", "group")
    right = np.array(most_probable_modality(told)) == np.array(truth)
    (weights,) = Bootstrap(np.arange(60) // 3, 300, 7, "attribution", "m", "group").blocks()
    drawn = np.asarray(weights) @ right / np.asarray(weights).sum(axis=1)
    assert (found["accuracy_low"], found["accuracy_high"]) == pytest.approx(tuple(np.quantile(drawn, [0.05, 0.95])), abs=1e-9)


def test_measures_are_scikit_learns():
    rng = np.random.default_rng(1)
    truth = [("image", "text", "text", "cross", "clean", None)[i % 6] for i in range(300)]
    told = rng.dirichlet((1, 1, 1), 300).round(1)
    found = agreement(truth, told, [f"g{i // 2}" for i in range(300)], 200, 0.9, 7)
    rows = [i for i, t in enumerate(truth) if t in MODALITIES]
    known, says = [truth[i] for i in rows], [most_probable_modality(told)[i] for i in rows]
    assert found["n"] == 200 and found["floor"] == 0.5
    assert found["accuracy"] == pytest.approx(accuracy_score(known, says))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(known, says))
    two = [i for i in rows if truth[i] != "cross"]
    assert found["auroc"] == pytest.approx(roc_auc_score([truth[i] == "image" for i in two], told[two, 0] - told[two, 1]))
    for name in attribution.MEASURES:
        assert found[f"{name}_low"] < found[name] < found[f"{name}_high"]


def test_what_is_not_there_stays_undefined():
    nothing = agreement(["clean", None], np.full((2, 3), 0.3), ["a", "b"], 50, 0.95, 7)
    assert nothing["n"] == 0 and nothing["accuracy"] is None and not beats_the_floor(nothing)
    one = agreement(["image"] * 3, np.tile([0.9, 0.1, np.nan], (3, 1)), ["a", "b", "c"], 50, 0.95, 7)
    assert (one["accuracy"], one["accuracy_low"], one["auroc"], one["floor"]) == (1.0, None, None, 1.0)
    assert one["balanced_accuracy"] == 1.0, "of the modalities that there are"
    assert most_probable_modality(np.array([[np.nan, np.nan, np.nan], [np.nan, 0.2, 0.1]])) == [None, "text"]
    assert fit_modalities(np.ones((4, 2)), ["image"] * 4, np.ones(4, dtype=bool)) is None
    twenty = [f"g{i}" for i in range(20)]
    assert has_enough_groups(["image"] * 20 + ["text"] * 20, twenty * 2) and not has_enough_groups(
        ["image"] * 20 + ["text"] * 19, twenty + twenty[:19]
    )


def test_a_modality_is_read_by_the_mean_change_under_its_perturbations():
    nan = np.nan
    changes = {
        ("a", "clean"): np.array([1.0, 2.0, 3.0]), ("a", "blur"): np.array([0.5, nan, nan]), ("a", "noise"): np.array([1.5, nan, 0.25])
    }  # fmt: skip
    read = attribution_features(changes, MODALITY, 3)
    assert list(read) == [("a", "clean"), ("a", "image")]
    assert read["a", "clean"].tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(read["a", "image"], [1.0, nan, 0.25])


def test_labels_come_from_subsets_the_meta_or_the_category():
    rows = [{"meta": [("modality", "text")]}, {"category": "aleatoric/image"}, {"meta": [("modality", "smell")]}, {"category": "counting"}]
    same = {"question": "?", "references": [], "answerable": True}
    made = [same | {"sample_id": str(i), "category": None, "meta": []} | row for i, row in enumerate(rows)]
    assert known_modalities(Samples("d", pa.Table.from_pylist(made, schema=SAMPLES))) == ["text", "image", None, None]


def test_the_papers_subsets_are_the_truth():
    """Its thresholds on how many of five people named a reason: low quality of the picture, an invalid question, ambiguity."""
    subsets = {
        "clean": "LQI <= 1 and INV <= 2 and AMB <= 2",
        "image": "LQI >= 4 and INV <= 2 and AMB <= 2",
        "text": "LQI <= 1 and INV >= 3 and AMB < 5",
        "cross": "AMB == 5",
        "reviewed": "LQI >= 0",
    }
    votes = [(0, 0, 0), (5, 1, 0), (1, 4, 2), (0, 0, 5), (3, 0, 0), (0, 4, 5)]
    rows = [
        {
            "sample_id": str(i),
            "question": "?",
            "references": [],
            "answerable": True,
            "meta": list(zip(("LQI", "INV", "AMB"), map(str, v), strict=True)),
        }
        for i, v in enumerate(votes)
    ]
    made = Samples("d", pa.Table.from_pylist([r | {"category": None, "choices": []} for r in rows], schema=SAMPLES))
    assert known_modalities(made, subsets) == ["clean", "image", "text", "cross", None, "cross"]
    both = known_modalities(made, subsets | {"text": "INV >= 3"})
    assert both[5] is None  # two hold: no one modality is the truth


@pytest.mark.parametrize("n_groups", [4, 5])
def test_an_interval_needs_five_groups(n_groups):
    truth = ["image", "text"] * 10
    told = np.tile([0.9, 0.1, np.nan], (20, 1))
    found = agreement(truth, told, [f"g{i % n_groups}" for i in range(20)], 50, 0.95, 7)
    assert found["accuracy"] == 0.5 and (found["accuracy_low"] is not None) is (found["accuracy_high"] is not None) is (n_groups == 5)
