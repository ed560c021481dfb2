import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.contracts.masks import box_of, dilated, dilation_reach, fill_boxes


@pytest.mark.parametrize("kernel", [0, 1, 2, 3, 20, 21])
def test_a_mask_grows_by_its_reach(kernel):
    mask = np.zeros((61, 71), bool)
    mask[30, 40] = True
    far = dilation_reach(kernel)
    left, top, width, height = box_of(dilated(mask, kernel))
    assert (40 - left, 30 - top) == (far["left"], far["up"])
    assert (left + width - 1 - 40, top + height - 1 - 30) == (far["right"], far["down"])
    assert far["left"] + far["right"] + 1 == max(kernel, 1)


def test_a_mask_that_does_not_grow_is_another_array():
    mask = np.ones((2, 2), bool)
    assert dilated(mask, 1) is not mask and dilated(mask, 3).dtype == bool


@given(st.lists(st.tuples(*[st.floats(-5, 15)] * 2, *[st.floats(-2, 9)] * 2), max_size=3))
def test_boxes_fill_every_pixel_that_they_touch(boxes):
    expected = np.zeros((8, 10), bool)
    for x, y, w, h in boxes:
        for row in range(8):
            for column in range(10):
                if w > 0 and h > 0 and np.floor(x) <= column < np.ceil(x + w) and np.floor(y) <= row < np.ceil(y + h):
                    expected[row, column] = True
    assert (fill_boxes(boxes, 8, 10) == expected).all()


def test_a_box_without_extent_touches_nothing():
    assert (
        not fill_boxes([(1.5, 1.5, 0.0, 3.0), (1.5, 1.5, 3.0, 0.0)], 8, 10).any() and fill_boxes([(1.5, 1.5, 0.1, 0.1)], 8, 10).sum() == 1
    )


def test_the_box_of_a_mask_is_the_smallest_around_it():
    mask = np.zeros((9, 9), bool)
    mask[2:4, 5] = mask[6, 1] = True
    assert box_of(mask) == (1.0, 2.0, 5.0, 5.0)
