import numpy as np
import pytest
from PIL import Image
from scipy.stats import norm

from qualm.runners.plugins.perturbations._levels import noise_table, normal_quantiles, raw_numbers, to_pixels

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8))


def test_lengths_are_pixels_or_percent_of_the_shorter_side():
    assert to_pixels(3.5, PICTURE, False) == 3.5 and to_pixels(50, PICTURE, True) == 4.5


@pytest.mark.parametrize("dtype, bits", [("<u2", 16), ("<u4", 32)])
def test_raw_numbers_are_the_generators_bits_in_order(dtype, bits):
    words = np.random.Generator(np.random.Philox(key=1)).bit_generator.random_raw(3)
    expected = [int(word) >> shift & (2**bits - 1) for word in words for shift in range(0, 64, bits)]
    n = 2 * 64 // bits + 1
    assert raw_numbers(np.random.Generator(np.random.Philox(key=1)), n, dtype).tolist() == expected[:n]


def test_quantiles_are_those_of_a_normal_number_and_symmetric():
    z = normal_quantiles()
    assert len(z) == 65536 and (z == -z[::-1]).all()
    np.testing.assert_allclose(z, norm.ppf((np.arange(65536) + 0.5) / 65536), atol=1e-9)


def test_noise_is_rounded_and_bounded():
    assert noise_table(0.0).any() == False and noise_table(10.0).dtype == np.int16  # noqa: E712
    assert (noise_table(1e9)[0], noise_table(1e9)[-1]) == (-255, 255)
    np.testing.assert_array_equal(noise_table(7.0), np.rint(norm.ppf((np.arange(65536) + 0.5) / 65536) * 7))
