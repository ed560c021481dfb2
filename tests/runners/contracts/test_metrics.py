import numpy as np
import pytest
import torch

from qualm.runners.contracts.metrics import explain_one_class, mean, ratio, torchmetric, whole_groups


def test_a_share_of_nothing_is_undefined():
    shares = ratio(np.array([1.0, 0, 3]), np.array([2.0, 0, 4]))
    assert shares.tolist()[::2] == [0.5, 0.75] and np.isnan(shares[1])
    assert ratio(np.array([[1.0], [2.0]]), np.array([4.0])).tolist() == [[0.25], [0.5]]


def test_the_mean_is_over_chosen_rows_and_weighted():
    weights = np.array([[1.0, 1, 1], [3.0, 1, 9], [0.0, 0, 1]])
    means = mean(np.array([1.0, 0, 5]), np.array([1.0, 1, 0]), weights)
    assert means.tolist()[:2] == [0.5, 0.75] and np.isnan(means[2])


def test_a_group_is_right_where_all_of_it_is():
    right, size = whole_groups(np.array([1.0, 0.5, 1, 1, 1]), np.array([4.0, 4, 2, 9, 2]))
    assert right.tolist() == [0, 0, 1, 1, 1] and size.tolist() == [2, 2, 2, 1, 2]


def test_why_nothing_can_be_distinguished():
    assert (
        explain_one_class(np.zeros(2)) == "no scored question is uncertain"
        and explain_one_class(np.ones(2)) == "every scored question is uncertain"
    )


def test_a_plugin_as_a_torchmetrics_class_takes_batches():
    metric = torchmetric("accuracy")()
    metric.update(correct=torch.tensor([1.0, 0.0]), is_calibration=torch.zeros(2))
    metric.update(correct=torch.tensor([1.0]), is_calibration=torch.zeros(1))
    assert float(metric.compute()) == pytest.approx(2 / 3)
    assert type(metric).__name__ == "Accuracy" and metric.higher_is_better is True


def test_columns_by_name_and_a_missing_one():
    metric = torchmetric("ece")(bins=5, rows="all")
    metric.update(torch.tensor([0.9, 0.8]), is_calibration=torch.zeros(2), correct=torch.tensor([1, 0]))
    assert float(metric.compute()) == pytest.approx(0.35)
    with pytest.raises(TypeError, match=r"ece.update: expected columns .*is_calibration.*; got confidence"):
        metric.update(confidence=torch.tensor([0.9]))


def test_a_row_of_options_lacks_a_value_where_any_is_missing():
    from qualm.runners.contracts.metrics import missing_rows

    assert missing_rows(np.array([1.0, np.nan])).tolist() == [False, True]
    assert missing_rows(np.array([[1.0, np.nan], [1.0, 2.0]])).tolist() == [True, False]
    assert missing_rows(np.empty(0)).shape == missing_rows(np.empty((0, 3))).shape == (0,)
