import math

import pyarrow as pa
import pytest

from qualm.runners.data.answers import MAX_ENTROPY, MIN_LOGPROB, SCHEMA, drop_invalid, find_invalid, nullify_invalid


def parts(*rows):
    plain = {"key": bytes(32), "part": "answer", "text": "t", "tokens": [1], "logprobs": None, "entropies": None, "numbers": None}
    return pa.Table.from_pylist([{**plain, **row} for row in rows], SCHEMA)


@pytest.mark.parametrize(
    "column, values, is_sound, part",
    [
        ("logprobs", [-1.0, 0.0], True, "answer"),
        ("logprobs", [0.1], False, "answer"),
        ("logprobs", [MIN_LOGPROB + 1], True, "answer"),
        ("logprobs", [-9999.0], False, "answer"),
        ("logprobs", [-1.0, math.nan], False, "draw 1"),
        ("logprobs", [5.0], True, "image_divergence"),
        ("logprobs", [-0.1], False, "image_divergence"),
        ("logprobs", [math.inf], False, "image_divergence"),
        ("logprobs", [5.0], True, "uniform_divergence"),
        ("logprobs", [-0.1], False, "uniform_divergence"),
        ("logprobs", [], True, "answer"),
        ("entropies", [0.0, 3.0], True, "answer"),
        ("entropies", [-0.1], False, "answer"),
        ("entropies", [math.log(1e12)], True, "answer"),
        ("entropies", [MAX_ENTROPY + 1], False, "answer"),
        ("entropies", [math.log(1e16)], False, "answer"),
        ("numbers", [-1e6, 1e6], True, "options"),
        ("numbers", [math.inf], False, "options"),
        ("numbers", [1.0], True, "p_yes"),
        ("numbers", [1.1], False, "p_yes"),
        ("numbers", [-0.1], False, "p_true"),
        ("numbers", [1.1], False, "p_true_sampling"),
    ],
)
def test_what_can_be_and_what_cannot(column, values, is_sound, part):
    table = parts({"part": part}, {"part": part, column: values})
    assert {name: mask.tolist() for name, mask in find_invalid(table).items()} == {
        name: [False, name == column and not is_sound] for name in ("logprobs", "entropies", "numbers")
    }
    assert drop_invalid(table).num_rows == 1 + is_sound
    undefined = nullify_invalid(table)
    assert undefined[column].to_pylist()[1] == (pytest.approx(values) if is_sound else None) and undefined.schema == SCHEMA


def test_tokens_and_entropies_are_as_many():
    table = parts({"logprobs": [-1.0], "entropies": [1.0, 2.0]}, {"logprobs": [-1.0], "entropies": [1.0]}, {"entropies": [1.0]})
    assert find_invalid(table)["entropies"].tolist() == [True, False, False]
    assert nullify_invalid(table)["logprobs"].to_pylist() == [[-1.0], [-1.0], None], "only the column at fault"


def test_nothing_at_all():
    assert drop_invalid(parts()).num_rows == 0 and nullify_invalid(parts()).num_rows == 0
