"""Plugins as functions: the same numbers as elsewhere, and calls that cannot be right are refused in words."""

from __future__ import annotations

import inspect
import subprocess
import sys
from math import log

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

import qualm
from qualm.compiler.results.array_columns import ArgumentError
from qualm.compiler.results.array_functions import checked, reference
from qualm.registry.plugins import registry

RNG = np.random.default_rng(3)


def test_every_plugin_is_a_function_with_its_help_and_signature() -> None:
    for module, kind in ((qualm.estimators, "estimators"), (qualm.metrics, "metrics"), (qualm.conformal, "conformal")):
        for name in registry.names(kind):
            function = getattr(module, name)
            assert name in dir(module) and function.__name__ == name
            assert function.__doc__ == registry.get(kind, name).doc
            assert {p.name for p in registry.get(kind, name).parameters} <= set(inspect.signature(function).parameters)


@pytest.mark.parametrize("given", [{"correct": [1, 0, 2]}, {"confidence": [0.5, 0.5, -0.5]}])
def test_shares_lie_between_0_and_1(given: dict[str, list[float]]) -> None:
    columns = {"confidence": [0.9, 0.2, 1.0], "correct": [1, 0, np.nan]} | given
    (name, values), *_ = given.items()
    with pytest.raises(ArgumentError, match=f"{name}: row 2: expected a number between 0 and 1, got {values[2]:g}"):
        qualm.metrics.ece(**columns)


def test_metrics_equal_scikit_learn() -> None:
    uncertainty, correct, confidence = RNG.random(200), RNG.integers(0, 2, 200), RNG.random(200)
    assert qualm.metrics.auroc(uncertainty, correct) == pytest.approx(roc_auc_score(1 - correct, uncertainty))
    assert (
        qualm.metrics.brier(confidence=confidence, correct=correct)
        == qualm.metrics.brier(confidence, correct)
        == pytest.approx(brier_score_loss(correct, confidence))
    )


def test_rows_that_lack_a_column_are_left_out_and_nothing_to_measure_is_undefined() -> None:
    assert qualm.metrics.accuracy([1, 0, None, 1]) == pytest.approx(2 / 3)
    assert np.isnan(qualm.metrics.auroc(uncertainty=[0.1, 0.2], correct=[1, 1]))
    assert np.isnan(qualm.metrics.accuracy([None, None]))


def test_estimators_by_hand() -> None:
    np.testing.assert_allclose(qualm.estimators.mean_token_entropy([[0.5, 1.5], None, []]), [1.0, np.nan, np.nan])
    texts = [["a cat", "a cat", "a dog", "a dog"], ["red", "red", "red", "red"]]
    entropy = qualm.estimators.semantic_entropy(draw_texts=texts, version="frequency", nli="lexical")
    np.testing.assert_allclose(entropy, [log(2), 0.0], atol=1e-6)  # kept to six digits, as in a run


def test_a_column_that_a_setting_does_not_read_may_be_left_out() -> None:
    logprobs = [[[-0.1], [-0.2]]]
    with pytest.raises(ArgumentError, match="semantic_entropy reads draw_logprobs, which the call does not have; pass a column for each"):
        qualm.estimators.semantic_entropy([["a", "b"]], version="sum")
    assert qualm.estimators.semantic_entropy([["a", "b"]], logprobs, version="sum").shape == (1,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qualm.metrics.ece([0.5], [1], bin=3), "neither a column nor a parameter 'bin'; did you mean 'bins'"),
        (lambda: qualm.metrics.ece([0.5], [1], bins=0), "bins: expected"),
        (lambda: qualm.metrics.ece([0.5], [1], bins=[5, 10]), "one value for each parameter"),
        (lambda: qualm.metrics.ece([0.5], confidence=[1]), "got confidence twice"),
        (lambda: qualm.metrics.ece([0.5]), "reads correct, which the call does not have"),
        (lambda: qualm.metrics.ece([0.5, 0.6], [1]), "as many rows in every column"),
        (
            lambda: qualm.metrics.accuracy([1], [1], [1]),
            "accuracy reads correct, is_calibration, and takes parameters by name; got 3 columns",
        ),
        (lambda: qualm.conformal.lac(), "reads probs"),
        (lambda: reference("metrics", {"ece": {}, "mce": {}}), "got 2 names"),
        (lambda: reference("metrics", "eceee"), "no metrics plugin named 'eceee'"),
    ],
)
def test_a_call_that_cannot_be_right_says_what_was_expected(call, message) -> None:
    with pytest.raises(ArgumentError, match=message.replace("(", r"\(")):
        call()


@pytest.mark.parametrize("frame", [np.array, pl.DataFrame, pd.DataFrame, np.ndarray.tolist])
def test_options_are_read_by_row_from_every_kind_of_table(frame) -> None:
    probabilities = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
    assert qualm.conformal.lac(frame(probabilities)).tolist() == (1 - probabilities).tolist()


def test_an_unknown_name_is_an_attribute_error_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="did you mean 'auroc'"):
        _ = qualm.metrics.auroc_
    with pytest.raises(AttributeError, match="no attribute 'scores'"):
        _ = qualm.scores


def test_labels_name_what_was_given() -> None:
    assert checked(registry.get("metrics", "ece"), {"bins": 7}).label == "ece@bins=7"


@pytest.mark.slow
def test_importing_is_light() -> None:
    light = "import sys, qualm; assert not {'torch', 'numpy', 'polars'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", f"{light}; qualm.metrics.auroc([1, 2], [0, 1]); assert 'torch' not in sys.modules"], check=True)
