import math

import numpy as np
import pytest
import torch
from torchmetrics.functional.image import structural_similarity_index_measure

from qualm.registry.scenes.removal import remove_objects, silhouette
from qualm.registry.scenes.render import render
from qualm.runners.contracts.masks import dilated
from qualm.runners.data.removal_quality import Removal, measure_removal, ssim, summarize_removals
from tests.support.data.targets import scene_and_picture


def pictures(index=1):
    scene, picture = scene_and_picture("easy", index)
    original, truth = np.asarray(picture), render(remove_objects(scene, [0]))
    shown = silhouette(scene, [0])
    return original, truth, dilated(shown, 5), shown


@pytest.mark.parametrize("size", [(40, 52), (64, 64)])
def test_ssim_equals_torchmetrics(size):
    rng = np.random.default_rng(0)
    first = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    second = np.clip(first + rng.normal(0, 30, first.shape), 0, 255).astype(np.uint8)
    a, b = (torch.from_numpy(x.astype(np.float64)).permute(2, 0, 1)[None] for x in (first, second))
    _, full = structural_similarity_index_measure(a, b, data_range=255.0, return_full_image=True)
    np.testing.assert_allclose(ssim(first, second), full[0].permute(1, 2, 0).numpy(), atol=1e-9)
    assert ssim(first, first).min() == pytest.approx(1.0)


def test_psnr_is_that_of_all_pixels_together():
    original, truth, mask, shown = pictures()
    off = truth.astype(int)
    off[mask] = np.where(off[mask] < 128, off[mask] + 10, off[mask] - 10)
    found = summarize_removals([measure_removal(off.astype(np.uint8), original, truth, mask, shown)] * 3)
    assert found["psnr_inside"] == round(20 * math.log10(255 / 10), 3) == 28.131
    assert found["psnr_outside"] is None and found["ssim_outside"] < 1  # its window reaches over the edge
    assert found["pictures"] == 3


def test_the_truth_is_perfect_and_the_original_shows_the_thing():
    for index in range(5):
        original, truth, mask, shown = pictures(index)
        gone = measure_removal(truth, original, truth, mask, shown)
        assert gone.remaining_share == 0 and gone.error_inside == gone.error_outside == 0 and gone.ssim_inside == pytest.approx(1)
        still = measure_removal(original, original, truth, mask, shown)
        assert still.remaining_share == pytest.approx(1)
        half = ((original.astype(int) + truth) // 2).astype(np.uint8)
        assert measure_removal(half, original, truth, mask, shown).remaining_share == pytest.approx(0.5, abs=0.05)
    assert summarize_removals([gone, still])["detected"] == 0.5


def test_what_is_undefined_stays_undefined():
    original, truth, mask, shown = pictures()
    nothing = measure_removal(truth, truth, truth, np.zeros_like(mask), shown)
    assert math.isnan(nothing.remaining_share) and math.isnan(nothing.ssim_inside)
    found = summarize_removals([nothing])
    assert found["left"] is found["detected"] is found["ssim_inside"] is found["psnr_inside"] is None
    assert summarize_removals([nothing, measure_removal(original, original, truth, mask, shown)])["detected"] == 1.0
    one = np.zeros((1, 1, 3), np.uint8)
    assert measure_removal(one, one + 9, one, np.ones((1, 1), bool), np.ones((1, 1), bool)).remaining_share == 0


def test_figures_of_many_pictures_are_of_all_their_pixels_or_means_over_them():
    third = Removal(0.0, 0.0, 0, 0, math.nan, 0.25, 0.0)
    found = summarize_removals([Removal(100.0, 50.0, 4, 8, 0.5, 0.25, 0.5), Removal(300.0, 0.0, 12, 8, 1.0, 1.0, 0.5001), third])
    assert (found["psnr_inside"], found["psnr_outside"]) == (34.151, 43.182), "10 log10(255^2 * 16 / 400), the same over 50"
    assert (found["ssim_inside"], found["ssim_outside"], found["left"], found["detected"]) == (0.75, 0.5, 0.3334, 0.3333)
    assert found["pictures"] == 3
