"""Precision: what is kept is rounded once, to digits that the machine's own noise does not reach."""

import math

import numpy as np
import pyarrow.parquet as pq
import pytest

from qualm.registry.sample import CORRELATIONS, GENERATIONS, SCORES
from qualm.runners.contracts.models import Part, round_part
from qualm.runners.runtime.precision import FINEST, round_result, significant, stored_share, stored_value
from qualm.runners.runtime.records import read_table, write_csv, write_table

NOISE = 1e-13
"""Relative; of a network in double precision it is a tenth of that."""
MANY = 20_000


@pytest.mark.parametrize("how", [stored_value, stored_share, significant, round_result])
@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.3, 0.9])
def test_noise_hardly_ever_reaches_what_is_kept(how, size):
    rng = np.random.default_rng(0)
    values = size * rng.uniform(0.5, 1.0, MANY)
    others = values * (1 + NOISE * rng.uniform(-1, 1, MANY))
    assert (values != others).mean() > 0.9
    assert sum(how(a) != how(b) for a, b in zip(values.tolist(), others.tolist(), strict=True)) <= 3


@pytest.mark.parametrize("value", [1e-30, 1e-7, 0.1, 0.5, 0.9, 1 - 1e-7, 1.0, 3.3, 20.123456789, -17.3, -1e-7])
def test_what_is_kept_is_near_and_kept_as_it_is(value):
    hows = [stored_value, significant, round_result, *([stored_share] if 0 <= value <= 1 else [])]
    for how in hows:
        assert how(how(value)) == how(value)
        assert how(value) == pytest.approx(value, rel=5e-6, abs=10.0**-FINEST)


def test_a_sure_answer_stays_apart_from_a_surer_one():
    """Six decimals would make both certain, and every ranking of them a tie."""
    assert stored_value(-1e-8) < stored_value(-1e-9) < 0
    assert stored_share(1 - 1e-8) < stored_share(1 - 1e-9) < 1
    assert 0 < stored_share(1e-30) < stored_share(1e-29)


def test_no_zero_is_negative_and_what_is_no_number_stays_so():
    for how in (stored_value, round_result):
        assert math.copysign(1, how(-1e-17)) == 1
    for how in (stored_value, round_result, significant):
        assert how(math.inf) == math.inf
        assert how(-math.inf) == -math.inf
        assert math.isnan(how(math.nan))


def test_parts_are_rounded_by_what_they_are():
    part = Part("a", [1], [-0.12345678], [1.23456789], [0.99999998765])
    assert round_part("answer", part) == Part("a", [1], [-0.123457], [1.234568], [1.0])
    assert round_part("p_true", part).numbers == [pytest.approx(0.999999988, abs=1e-15)]
    assert round_part("options", Part(numbers=[12.3456789])) == Part(numbers=[12.345679])


def test_tables_and_plots_round_results_alike(tmp_path):
    value = 0.1 + 0.2
    write_table(tmp_path / "t", [{"metric": "m", "value": value, "low": -1e-17, "n": 3}], SCORES)
    row = read_table(tmp_path / "t", SCORES).to_pylist()[0]
    assert (row["value"], row["low"], row["high"], row["n"]) == (0.3, 0.0, None, 3)
    write_csv(tmp_path / "c", ["a", "b", "c"], [{"a": value, "b": 3, "c": "x"}])
    assert (tmp_path / "c").read_text() == "a,b,c\n0.3,3,x\n"
    with pytest.raises(ValueError, match="expected fields a, b, got also c"):
        write_csv(tmp_path / "c", ["a", "b"], [{"a": value, "c": 3}])


def test_numbers_that_may_be_tiny_are_written_as_they_are(tmp_path):
    write_table(tmp_path / "g", [{"sample_id": "s", "p_true": 1.5e-20, "p_yes": 2.5e-20, "option_logits": [0.12345678901]}], GENERATIONS)
    row = pq.read_table(tmp_path / "g").to_pylist()[0]
    assert (row["p_true"], row["p_yes"], row["option_logits"]) == (1.5e-20, 2.5e-20, [0.12345678901])
    write_table(tmp_path / "c", [{"pearson": 1 / 3, "pearson_p": 1e-12}], CORRELATIONS)
    row = pq.read_table(tmp_path / "c").to_pylist()[0]
    assert (row["pearson"], row["pearson_p"]) == (0.333333333, 1e-12)
