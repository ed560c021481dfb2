import numpy as np
import pytest

from qualm.runners.plugins.metrics.e_aurc import e_aurc, minimum_standard_error


def by_hand(u, correct):
    def area(order):
        return (1 - np.cumsum(correct[order]) / np.arange(1, len(u) + 1)).mean()

    return area(np.argsort(u, kind="stable")) - area(np.argsort(-correct, kind="stable"))


def test_against_sorting_in_every_resample():
    rng = np.random.default_rng(0)
    u, correct = rng.permutation(40) / 40, rng.integers(0, 3, 40) / 2
    weights = rng.multinomial(40, np.ones(40) / 40, 5) * 1.0
    for found, row in zip(e_aurc(u, correct, weights), weights.astype(int), strict=True):
        drawn = np.repeat(np.arange(40), row)
        orders = [by_hand(u[drawn] + 1e-9 * rng.permutation(40), correct[drawn]) for _ in range(3)]  # equal rows are alike
        assert found == pytest.approx(np.mean(orders))
    assert e_aurc(-u, correct, np.ones((1, 40)), by="confidence")[0] == pytest.approx(by_hand(u, correct))


def test_many_answers_come_to_the_papers_perfect_area():
    r = 0.25
    correct, u = (np.arange(20_000) >= 20_000 * r) * 1.0, np.arange(20_000.0)
    area = (1 - np.cumsum(correct) / np.arange(1, 20_001)).mean()
    assert e_aurc(u, correct, np.ones((1, 20_000)))[0] == pytest.approx(area - (r + (1 - r) * np.log(1 - r)), abs=1e-4)


def test_perfect_orders():
    assert e_aurc(np.array([1.0, 2, 3]), np.array([1.0, 1, 0]), np.ones((1, 3)))[0] == 0
    assert e_aurc(np.array([1.0, 2, 3]), np.ones(3), np.ones((1, 3)))[0] == 0


@pytest.mark.parametrize("accuracy", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("separation", [0, 1, 4])
def test_the_smallest_standard_error_is_hardly_above_that_of_independent_answers(accuracy, separation):
    rng = np.random.default_rng(0)
    values, limits = [], []
    for _ in range(100):
        correct = (rng.random(200) < accuracy) * 1.0
        values.append(e_aurc(rng.normal(size=200) - separation * correct, correct, np.ones((1, 200)))[0])
        limits.append(minimum_standard_error(correct, correct, values[-1]))
    assert np.mean(limits) < 1.15 * np.std(values)
    assert separation or np.mean(limits) > 0.75 * np.std(values), "beside random rankings it is the error itself"
