import math

import pytest

from qualm.runners.training.tuner import Course


def course(schedule="constant", warmup=0.0):
    return Course(1e-3, schedule, warmup, 0.0, 0.95, 7)


def test_the_rate_rises_in_equal_steps_to_its_highest():
    assert [course(warmup=0.4).share_at(step, 10) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert course().share_at(0, 10) == 1.0 and course(warmup=0.01).share_at(0, 10) == 1.0


@pytest.mark.parametrize(
    "schedule, half_way, at_the_end",
    [("constant", 1.0, 1.0), ("linear", 0.5, 0.0), ("cosine", 0.5, 0.0)],
)
def test_then_it_falls_by_its_schedule(schedule, half_way, at_the_end):
    falling = course(schedule, warmup=0.2)
    assert falling.share_at(2, 10) == 1.0
    assert falling.share_at(6, 10) == pytest.approx(half_way) and falling.share_at(10, 10) == pytest.approx(at_the_end, abs=1e-12)
    quarter = {"constant": 1.0, "linear": 0.75, "cosine": 0.5 * (1 + math.cos(math.pi / 4))}[schedule]
    assert falling.share_at(4, 10) == pytest.approx(quarter)


def test_a_training_that_only_rises():
    assert course("linear", warmup=1.0).share_at(3, 4) == 1.0 and course("linear", warmup=1.0).share_at(4, 4) == 1.0
