import numpy as np
import pytest

from qualm.runners.data.inferences import Inferences


def key(n):
    return bytes([n]) * 16


def test_logits_come_back_by_key_in_any_order_and_from_another_process(tmp_path):
    kept = Inferences(tmp_path, "engine")
    kept.put([key(1), key(2)], [[1, 2, 3], [4, 5, 6]])
    kept.put([key(3)], [[7, 8, 9.5]])
    for opened in (kept, Inferences(tmp_path, "engine")):
        assert len(opened) == 3 and key(2) in opened and key(4) not in opened
        assert opened.take([key(3), key(1), key(3)]).tolist() == [[7, 8, 9.5], [1, 2, 3], [7, 8, 9.5]]
        assert opened.take([]).shape == (0, 3)


def test_the_first_inference_of_a_key_counts(tmp_path):
    kept = Inferences(tmp_path, "engine")
    kept.put([key(1)], [[1, 1, 1]])
    kept.put([key(1), key(2)], [[2, 2, 2], [3, 3, 3]])
    for opened in (kept, Inferences(tmp_path, "engine")):
        assert opened.take([key(1), key(2)]).tolist() == [[1, 1, 1], [3, 3, 3]]


def test_other_engines_have_other_inferences_and_a_nameless_one_reads_none(tmp_path):
    Inferences(tmp_path, "engine").put([key(1)], [[1, 2, 3]])
    assert len(Inferences(tmp_path, "other")) == 0
    Inferences(tmp_path, "").put([key(1)], [[1, 2, 3]])
    assert len(Inferences(tmp_path, "")) == 0


@pytest.mark.parametrize("keys, logits", [([key(1)], [[1, 2, np.inf]]), ([key(1), key(2)], [[1, 2, 3]]), ([b"short"], [[1, 2, 3]])])
def test_a_batch_that_cannot_be_is_as_good_as_absent(tmp_path, keys, logits):
    kept = Inferences(tmp_path, "engine")
    kept.put(keys, logits)
    kept.put([key(9)], [[0, 0, 1]])
    opened = Inferences(tmp_path, "engine")
    assert len(opened) == 1 and key(9) in opened
