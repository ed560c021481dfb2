import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.scoring.binning import bin_of, members

EDGES = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
CONVENTIONS = ("torchmetrics", "guo", "lm_polygraph", "netcal")


@pytest.mark.parametrize(
    "convention, places",
    [
        ("torchmetrics", [0, 0, 1, 2, 3, 4]),
        ("guo", [-1, 0, 0, 1, 2, 3]),
        ("lm_polygraph", [0, 0, 0, 1, 2, 3]),
        ("netcal", [0, 0, 1, 2, 3, 3]),
    ],
)
def test_edges_fall_where_each_convention_puts_them(convention, places):
    assert bin_of(EDGES, 4, convention).tolist() == places


def test_decimals_that_numpy_puts_a_bit_off_the_edge():
    assert np.linspace(0, 1, 6)[3] > 0.6
    assert [int(bin_of(np.array([0.6]), 5, c)[0]) for c in CONVENTIONS] == [3, 2, 2, 2]


def test_a_decimal_that_is_an_edge_opens_its_bin_where_torchmetrics_may_put_it_one_lower():
    torch = pytest.importorskip("torch")
    decimals = [round(i / 15, 17) for i in range(15)]
    assert bin_of(np.array(decimals), 15, "torchmetrics").tolist() == list(range(15))
    assert bin_of(np.array([0.2, 0.4]), 15, "guo").tolist() == [2, 5]
    edges = torch.linspace(0, 1, 16)
    assert (torch.bucketize(torch.tensor([0.2, 0.4, 0.6]), edges, right=True) - 1).tolist() == [2, 5, 9], "what the docstring says of it"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 20))
def test_inside_of_bins_all_conventions_agree(confidences, bins):
    inside = np.array([c for c in confidences if abs(c * bins - round(c * bins)) > 1e-9])
    for convention in CONVENTIONS:
        assert bin_of(inside, bins, convention).tolist() == [int(c * bins) for c in inside]


def test_members_are_the_bins_that_hold_a_row():
    assert members(np.array([0.1, 0.9, 0.95]), 4, "netcal").tolist() == [[1, 0], [0, 1], [0, 1]]
    assert members(np.array([0.0, 0.9]), 4, "guo").tolist() == [[0], [1]], "what is in no bin is a member of none"


@pytest.mark.parametrize(
    "confidence, bins, convention, message",
    [
        ([0.5], 0, "guo", "bins: expected at least 1, got 0"),
        ([1.5], 5, "guo", r"confidence: expected numbers in \[0, 1\], got 1.5 to 1.5"),
        ([-0.1, 0.5], 5, "guo", r"got -0.1 to 0.5"),
        ([float("nan")], 5, "guo", "confidence"),
        ([0.5], 5, "mine", "convention: expected torchmetrics, guo, lm_polygraph or netcal, got 'mine'"),
    ],
)
def test_what_is_no_confidence_no_number_of_bins_no_convention(confidence, bins, convention, message):
    with pytest.raises(ValueError, match=message):
        bin_of(np.array(confidence), bins, convention)


def test_one_bin_and_no_rows():
    assert bin_of(np.array([0.2]), 1, "netcal").tolist() == [0] and bin_of(np.array([]), 3, "guo").tolist() == []
