import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import JUDGEMENTS, SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.cells import IN_WORDS
from qualm.runners.scoring.measuring.columns import answer_columns


def test_options_and_words_side_by_side():
    rows = [
        {"sample_id": "a", "question": "?", "answerable": True, "choices": ["x", "y", "z"], "answer_index": 1},
        {"sample_id": "b", "question": "?", "answerable": False, "choices": ["x", "y"], "answer_index": None},
        {"sample_id": "c", "question": "?", "answerable": True},
        {"sample_id": "d", "question": "?", "answerable": True},
    ]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    answers = pa.table(
        {
            "sample_id": ["d", "c", "b", "a"],
            "option_logits": pa.array([None, None, [0.0, np.log(3)], [0.0, np.log(2), np.log(2) - 9]], pa.list_(pa.float64())),
            "token_logprobs": pa.array([[], [np.log(0.5), np.log(0.5)], None, None], pa.list_(pa.float64())),
        }
    )
    columns = answer_columns(samples, answers, None, ("rules", None), "here")
    total = 1 + 2 + 2 * np.exp(-9)
    assert columns["confidence"] == pytest.approx([2 / total, 0.75, 0.25, np.nan], nan_ok=True)
    np.testing.assert_array_equal(columns["predicted"], [1, 1, np.nan, np.nan])
    np.testing.assert_array_equal(columns["correct"], [1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(columns["right_option"], [1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(columns["n_options"], [3, 2, np.nan, np.nan])
    assert columns["option_probabilities"][1] == pytest.approx([0.25, 0.75, 0.0])


def test_the_order_of_options_is_no_confidence():
    """A model that is equally sure everywhere ranks nothing, whichever option it names: sums in another order differ in the last bit."""
    logits = [list(np.roll([2.0, 0.1, -0.3, 0.7, 0.2, -1.1], k)) for k in range(6)]
    rows = [{"sample_id": str(k), "question": "?", "answerable": True, "choices": list("abcdef"), "answer_index": 0} for k in range(6)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    answers = pa.table({"sample_id": list("012345"), "option_logits": pa.array(logits, pa.list_(pa.float64()))})
    confidence = answer_columns(samples, answers, None, ("rules", None), "here")["confidence"]
    assert len(set(confidence)) == 1 and confidence[0] == pytest.approx(np.exp(2) / np.exp(logits[0]).sum(), abs=1e-12)


def test_options_in_words_are_those_without_numbers_and_open_answers_are_none_of_them():
    usual = {"question": "?", "answerable": True}
    options = usual | {"choices": ["x", "y"], "answer_index": 0}
    rows = [options | {"sample_id": "a"}, options | {"sample_id": "b"}, usual | {"sample_id": "c", "references": ["x"]}]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    lists = {"option_logits": [[1.0, 0.0], None, None], "token_logprobs": [None] * 3}
    answers = pa.table({"sample_id": list("abc"), **{name: pa.array(of, pa.list_(pa.float64())) for name, of in lists.items()}})
    said = [("b", "option_match", 0.0), ("c", "rules", 0.5)]
    judged = [
        {"model": "m", "dataset": "d", "sample_id": name, "variant": "clean", "draw": 0, "judge": judge, "rating": rating, "parse_ok": True}
        for name, judge, rating in said
    ]
    columns = answer_columns(samples, answers, pa.Table.from_pylist(judged, schema=JUDGEMENTS), ("rules", "option_match"), "here")
    assert columns[IN_WORDS].tolist() == [0, 1, 0] and columns["correct"].tolist() == [1, 0, 0.5]
    np.testing.assert_array_equal(columns["rated_by_rules"], [np.nan, np.nan, 0.5])
