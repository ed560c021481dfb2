"""Dilation and boxes, which all masks share, and what every masker promises."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

import qualm.runners.contracts.masks
from qualm.registry.plugins.registry import get, names
from qualm.runners.contracts.masks import box_of, dilated, dilation_reach, fill_boxes


def point(at=30, size=61):
    mask = np.zeros((size, size), bool)
    mask[at, at] = True
    return mask


def span(mask):
    return tuple((int(np.flatnonzero(mask.any(axis=a)).min()), int(np.flatnonzero(mask.any(axis=a)).max())) for a in (0, 1))


def test_examples_in_the_docs_hold():
    assert doctest.testmod(qualm.runners.contracts.masks).failed == 0


@pytest.mark.parametrize(("kernel", "low", "high"), [(20, 21, 40), (21, 20, 40), (2, 30, 31), (3, 29, 31), (1, 30, 30), (0, 30, 30)])
def test_worked_examples_of_dilation(kernel, low, high):
    grown = dilated(point(), kernel)
    assert span(grown) == ((low, high), (low, high))
    assert grown.sum() == (high - low + 1) ** 2
    assert dilation_reach(kernel) == {"left": 30 - low, "up": 30 - low, "right": high - 30, "down": high - 30}


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_dilation_is_what_scipy_makes_of_the_same_square(kernel, seed):
    mask = np.random.default_rng(seed).random((17, 23)) < 0.05
    even = (kernel + 1) % 2  # scipy's even squares lean the other way
    expected = ndimage.binary_dilation(mask, np.ones((kernel, kernel)), origin=(-even, -even)) if kernel > 1 else mask
    assert (dilated(mask, kernel) == expected).all()


def test_a_mask_stays_what_it_was():
    mask = point()
    dilated(mask, 1)[0, 0] = True
    dilated(mask, 9)
    assert mask.sum() == 1


def test_boxes_are_cut_off_at_the_edge_and_empty_ones_are_nothing():
    assert fill_boxes([(-5, -5, 7, 7)], 10, 10).sum() == 4
    assert fill_boxes([(8.5, 8.5, 9, 9)], 10, 10).sum() == 4
    assert fill_boxes([(2.2, 3.9, 0.1, 0.2)], 10, 10).sum() == 2  # rows 3 and 4
    for outside in ((-9, 0, 5, 5), (20, 20, 3, 3), (3, 3, 0, 4), (3, 3, 4, -1)):
        assert not fill_boxes([outside], 10, 10).any()
    union = fill_boxes([(0, 0, 3, 3), (6, 6, 3, 3)], 10, 10)
    assert union.sum() == 18 and box_of(union) == (0, 0, 9, 9)


@pytest.mark.parametrize("name", names("masks"))
def test_every_masker_is_documented_and_says_when_it_makes_none(name):
    plugin = get("masks", name)
    assert plugin.reads == ("context",) and plugin.summary
    assert "No mask:" in plugin.doc
