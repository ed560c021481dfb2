"""The rule of attribution by hand, and on made-up samples whose modality is known."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import zscore

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.studies.attribution import accuracy, attributed, by_modality, labels, standardised

MODALITY = {"blur": "image", "noise": "image", "typos": "text", "clip": "cross"}


def test_standardised_is_scipys_z_over_what_is_finite():
    change = np.array([0.1, 0.5, np.nan, -0.3, 2.0])
    assert standardised(change) == pytest.approx(zscore(change, nan_policy="omit"), nan_ok=True)
    assert np.isnan(standardised(np.array([0.2, 0.2, 0.2]))).all()
    assert np.isnan(standardised(np.array([np.nan, np.nan]))).all()


def test_a_modality_moves_by_the_mean_of_its_perturbations():
    changes = {"blur": np.array([1.0, 3.0]), "noise": np.array([np.nan, np.nan]), "typos": np.array([5.0, 5.0])}
    moved = by_modality(changes, MODALITY)
    assert moved["image"].tolist() == [-1.0, 1.0]  # noise has nothing to say
    assert np.isnan(moved["text"]).all() and np.isnan(moved["cross"]).all()


def test_the_largest_is_to_blame_if_it_leads_by_the_margin():
    nan = np.nan
    moved = {
        "image": np.array([1.0, 0.5, nan, nan, -2.0]),
        "text": np.array([0.0, 0.4, 1.0, nan, -1.0]),
        "cross": np.array([0.5, nan, 0.0, 1.0, nan]),
    }
    assert attributed(moved) == ["image", "undecided", "text", None, "text"]
    assert attributed(moved, margin=0.05)[1] == "image"


def test_planted_modalities_are_found_better_than_the_floor():
    rng = np.random.default_rng(0)
    truth = [("image", "text", "cross")[i % 3] for i in range(300)]
    changes = {v: rng.normal(size=300) * 3 + 7 + 6 * np.array([t == m for t in truth]) for v, m in MODALITY.items()}
    found = attributed(by_modality(changes, MODALITY))
    told = accuracy(truth, found, np.arange(300), 200, 0.95, 7)
    assert told["n"] == 300 and told["floor"] == pytest.approx(1 / 3)
    assert told["accuracy"] == np.mean([t == f for t, f in zip(truth, found, strict=True)])
    assert told["floor"] < told["low"] < told["accuracy"] < told["high"]
    assert told["accuracy_decided"] > told["accuracy"]
    assert told["n_undecided"] == found.count("undecided")


def test_unlabelled_and_clean_samples_are_not_scored():
    told = accuracy([None, "clean", "text", "image"], ["image", "image", "text", None], np.arange(4), 50, 0.95, 7)
    assert (told["n"], told["accuracy"], told["low"]) == (1, 1.0, None)
    assert accuracy([None], ["image"], np.arange(1), 50, 0.95, 7)["accuracy"] is None


def test_labels_come_from_the_subset_the_meta_or_the_category():
    rows = [{"meta": [("modality", "text")]}, {"category": "aleatoric/image"}, {"meta": [("modality", "smell")]}, {"category": "counting"}]
    same = {"question": "?", "references": [], "answerable": True}
    made = [same | {"sample_id": str(i), "category": None, "meta": []} | row for i, row in enumerate(rows)]
    samples = Samples("d", pa.Table.from_pylist(made, schema=SAMPLES))
    assert labels(samples) == ["text", "image", None, None]
    assert labels(samples, "cross") == ["cross"] * 4
