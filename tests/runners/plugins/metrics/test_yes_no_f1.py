import numpy as np
import pytest
from sklearn.metrics import f1_score

from qualm.runners.plugins.metrics.yes_no_f1 import yes_no_f1
from tests.support.checks.yes_no_answers import METRICS, amber_by_hand, answers, columns


@pytest.mark.parametrize("positive", ["yes", "no"])
def test_against_scikit_learn(positive):
    said, truth = columns(*answers())
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 3, (5, len(said))) * 1.0
    wanted = float(positive == "yes")
    expected = [f1_score(truth == wanted, said == wanted, sample_weight=w) for w in weights]
    np.testing.assert_allclose(yes_no_f1(said, truth, weights, positive=positive), expected)


@pytest.mark.parametrize("seed", range(2))
def test_ambers_rounding(seed):
    text, truth = answers(seed=seed)
    one = np.ones((1, len(text)))
    found = [yes_no_f1(*columns(text, truth), one, positive="no", convention=c)[0] for c in ("amber", "amber_existence")]
    np.testing.assert_allclose(found, [amber_by_hand(text, truth, small)[3] / 100 for small in (0.0001, 0.001)], atol=1e-12)


def test_all_existence_questions_answered_right_are_not_quite_one():
    """1 / (1 + 1 + .001): F1 of all 4,924 existence questions is 99.9 or 100.0 by the two constants."""
    said = truth = np.zeros(4924)
    one = np.ones((1, 4924))
    assert yes_no_f1(said, truth, one, positive="no", convention="amber_existence")[0] == pytest.approx(1.0, abs=6e-4)
    assert yes_no_f1(said, truth, one, positive="no") == 1


def test_the_divisors_of_the_released_file():
    if not METRICS.is_file():
        pytest.skip("no ../shared/fixtures/amber here")
    given = dict(line.split("=") for line in METRICS.read_text().split())
    from qualm.runners.plugins.metrics._yes_no import AMBER_COUNT

    assert {v for k, v in given.items() if k.endswith("_num")} == {str(AMBER_COUNT)}
    assert {v for k, v in given.items() if k.endswith("_score")} == {"0"}


def test_undefined():
    said, truth = np.array([1.0, -1.0]), np.array([1.0, 1.0])
    assert np.isnan(yes_no_f1(said, truth, np.ones((1, 2)), positive="no"))
    assert yes_no_f1(said, truth, np.ones((1, 2)))[0] == pytest.approx(2 / 3)
