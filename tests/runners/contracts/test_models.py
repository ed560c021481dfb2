import pytest

from qualm.registry.sample import GENERATIONS
from qualm.runners.contracts.models import ANSWER, COLUMNS, OPTIONS, PARTS, Part, draw_of, draw_part, is_signal, round_part
from qualm.runners.runtime.precision import stored_share, stored_value


def test_every_part_fills_columns_that_generations_have():
    assert set(COLUMNS) <= set(GENERATIONS.names) and len(COLUMNS) == len(set(COLUMNS))


def test_the_number_of_a_draw():
    assert draw_part(3) == "draw 3" and draw_of("draw 12") == 12 and draw_of("p_yes") == 0


def test_signals_are_about_the_greedy_answer():
    assert [part for part in (*PARTS, draw_part(1)) if not is_signal(part)] == [ANSWER, OPTIONS, "draw 1"]


THIRD = 1e-7 / 3
"""A number that the two precisions keep differently."""


@pytest.mark.parametrize(
    "name, how", [("answer", stored_value), ("options", stored_value), *((n, stored_share) for n in ("p_true", "p_true_sampling", "p_yes"))]
)
def test_numbers_are_kept_to_the_precision_of_their_kind(name, how):
    part = round_part(name, Part("t", [1], [-THIRD], [THIRD], [THIRD]))
    assert part == Part("t", [1], [stored_value(-THIRD)], [stored_value(THIRD)], [how(THIRD)])
    assert part.numbers != [THIRD] and stored_value(THIRD) != stored_share(THIRD)


def test_what_does_not_exist_stays_so():
    assert round_part("p_yes", Part()) == Part() and round_part("p_yes", Part(numbers=[])) == Part(numbers=[])
