"""Cutout: how much is covered, and where."""

import numpy as np
import pytest

from qualm.runners.plugins.perturbations.cutout import cutout
from tests.support.checks.perturbation_checks import one, picture


def covered(image, sample="a", **args):
    """Rows and columns of the covered rectangle."""
    made, fill = one(cutout, image, sample, **args), args.get("fill", 128)
    hit = (made == fill).all(axis=2) & (np.asarray(image) != fill).any(axis=2)
    rows, columns = np.flatnonzero(hit.any(axis=1)), np.flatnonzero(hit.any(axis=0))
    assert np.array_equal(np.asarray(image)[~hit], made[~hit])
    assert hit[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
    return rows, columns


def test_side_and_area_are_what_they_say():
    image = picture(size=(200, 100))
    rows, columns = covered(image)
    assert (len(rows), len(columns)) == (20, 20)  # a fifth of the shorter side
    rows, columns = covered(image, of="area")
    assert (len(rows), len(columns)) == (63, 63)  # the root of a fifth of 20,000
    rows, columns = covered(image, of="area", ratio=0.9)
    assert (len(rows), len(columns)) == (100, 134)  # no higher than the picture


def test_every_place_within_the_picture_is_as_likely_as_any():
    image = picture(size=(12, 10))
    places = [tuple(int(found[0]) for found in covered(image, str(i), ratio=0.8)) for i in range(600)]
    assert {top for top, _ in places} == {0, 1, 2} and {left for _, left in places} == {0, 1, 2, 3, 4}
    counts = np.bincount([top * 5 + left for top, left in places], minlength=15)
    assert counts.min() > 18 and counts.max() < 68  # 40 expected


def test_all_of_it():
    assert (one(cutout, picture(size=(30, 30)), ratio=1.0, fill=7) == 7).all()
    assert (one(cutout, picture(size=(30, 20)), ratio=1.0, of="area", fill=7) == 7).mean() == pytest.approx(24 / 30, abs=0.02)
