import hashlib
import itertools
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.data.aligned import Samples, option_probabilities
from qualm.runners.plugins.conformal.aps import aps, ascending


def test_ties_together_get_the_larger_sum():
    np.testing.assert_allclose(aps(np.array([[0.26, 0.25, 0.25, 0.24]])), [[0.26, 0.76, 0.76, 1.0]])


def test_ties_sorted_get_different_sums():
    found = aps(np.array([[0.26, 0.25, 0.25, 0.24]]), ties="sorted")
    assert sorted(found[0].round(9)) == [0.26, 0.51, 0.76, 1.0]


def test_both_agree_with_a_loop_without_ties():
    probs = np.random.default_rng(0).dirichlet(np.ones(6), size=200)
    expected = np.array([[sum(p for p in row if p >= own) for own in row] for row in probs])
    np.testing.assert_allclose(aps(probs), expected, atol=1e-12)
    np.testing.assert_allclose(aps(probs, ties="sorted"), expected, atol=1e-12)


def test_never_above_one():
    probs = np.random.default_rng(1).dirichlet(np.ones(50), size=500)
    assert aps(probs).max() <= 1.0


def test_sorts():
    for k in (1, 2, 3, 6, 8, 9, 17, 64):
        values = np.random.default_rng(k).integers(0, 9, (100, k)).astype(float)
        order = ascending(values)
        np.testing.assert_array_equal(np.take_along_axis(values, order, axis=1), np.sort(values, axis=1))
        np.testing.assert_array_equal(np.sort(order, axis=1), np.tile(np.arange(k), (100, 1)))


def test_ties_fall_as_numpys_argsort_leaves_them_on_a_processor_with_avx():
    orders = {"000000": "012345", "110000": "325401", "111000": "345021", "111110": "502134", "010101": "024135"}
    for row, order in orders.items():
        assert ascending(np.array([list(row)], dtype=np.float32)).tolist() == [list(map(int, order))], row


def test_every_six_numbers_as_by_numpy_with_vector_instructions():
    from numpy._core._multiarray_umath import __cpu_features__

    if not (__cpu_features__.get("AVX2") or __cpu_features__.get("AVX512_SKX")):
        pytest.skip("this processor's argsort is another")
    rows = np.array(list(itertools.product(range(6), repeat=6)), dtype=np.float32)
    np.testing.assert_array_equal(ascending(rows), np.argsort(rows, axis=1))


def hash_of_scores():
    """Return the hash of all scores of six options with three logits, in single precision."""
    logits = np.array(list(itertools.product([0.0, 0.5, 1.25], repeat=6)))
    ids = [str(i) for i in range(len(logits))]
    samples = pa.Table.from_pylist([{"sample_id": i, "choices": list("ABCDEF"), "answer_index": 0} for i in ids], schema=SAMPLES)
    rows = [{"sample_id": i, "option_logits": list(x)} for i, x in zip(ids, logits, strict=True)]
    probs = option_probabilities(Samples("d", samples), pa.Table.from_pylist(rows, schema=GENERATIONS), "g", "single")
    assert probs.dtype == np.float32
    return hashlib.sha256(aps(probs, ties="sorted").tobytes()).hexdigest()


@pytest.mark.slow
def test_scores_in_single_precision_are_those_of_a_processor_without_vector_instructions():
    plain = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3 AVX512_SPR AVX512_ICL AVX512_CNL AVX512_CLX AVX512_SKX AVX512F AVX2 FMA3"}
    code = f"from {__name__} import hash_of_scores; print(hash_of_scores())"
    env = {**os.environ, **plain, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert found.strip() == hash_of_scores()
