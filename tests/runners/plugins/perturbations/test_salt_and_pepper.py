"""Salt and pepper: how many pixels, and which colours."""

import numpy as np
import pytest
from PIL import Image

from qualm.runners.plugins.perturbations.salt_and_pepper import salt_and_pepper
from tests.support.checks.perturbation_checks import one


def grey(size=(400, 300)):
    return Image.new("RGB", size, (90, 100, 110))


def test_a_share_of_pixels_is_lost_half_of_them_to_each():
    made = one(salt_and_pepper, grey())
    black, white = (made == 0).all(axis=2), (made == 255).all(axis=2)
    assert black.mean() == pytest.approx(0.1, abs=0.004) and white.mean() == pytest.approx(0.1, abs=0.004)
    assert (made[~(black | white)] == (90, 100, 110)).all()


def test_channels_for_themselves():
    made = one(salt_and_pepper, grey(), channels="each")
    lost = (made == 0) | (made == 255)
    assert lost.mean() == pytest.approx(0.2, abs=0.004)
    assert (lost.sum(axis=2) == 3).mean() == pytest.approx(0.008, abs=0.002)  # independent
    assert np.abs(np.corrcoef(lost.reshape(-1, 3).T) - np.eye(3)).max() < 0.02


def test_no_pixel_knows_its_neighbour():
    lost = one(salt_and_pepper, grey(), p=0.5)[..., 0] != 90
    assert abs(np.corrcoef(lost[:, 1:].ravel(), lost[:, :-1].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(lost[1:].ravel(), lost[:-1].ravel())[0, 1]) < 0.02


def test_all_are_lost_at_1():
    made = one(salt_and_pepper, grey(), p=1.0)
    assert set(np.unique(made)) == {0, 255} and (made == 255).mean() == pytest.approx(0.5, abs=0.01)
