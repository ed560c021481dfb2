"""Parts of answers: their names, kinds and columns."""

import subprocess
import sys

from qualm.registry.sample import GENERATIONS
from qualm.runners.contracts.parts import (
    ANSWER,
    COLUMNS,
    OPTIONS,
    PARTS,
    draw_of,
    draw_part,
    family_of,
    internal_of,
    internal_parts,
    is_signal,
    kind_of,
    subjects_of,
)


def test_every_column_is_one_of_generations():
    assert set(COLUMNS) <= set(GENERATIONS.names) and len(COLUMNS) == len(set(COLUMNS))


def test_draws_are_numbered():
    assert [draw_of(draw_part(n)) for n in (1, 12)] == [1, 12] and draw_of(ANSWER) == 0
    assert kind_of("draw 12") == "draw" and kind_of("p_true") == "p_true"


def test_a_part_is_an_answer_a_draw_or_a_signal():
    families = {name: family_of(name) for name in (*PARTS, "draw")}
    assert {name for name, family in families.items() if family == "answers"} == {ANSWER, OPTIONS}
    assert (
        all(is_signal(name) == (family == "signals") for name, family in families.items() if name != "draw") and families["draw"] == "draws"
    )


def test_hidden_states_are_about_the_answer_they_are_of():
    need = "draw_hidden_states/0.5/answer_mean"
    parts = internal_parts(need, 2)
    assert parts == ["hidden_states/0.5/answer_mean 1", "hidden_states/0.5/answer_mean 2"]
    assert internal_parts("hidden_states/0.5/answer_mean", 2) == ["hidden_states/0.5/answer_mean"]
    for number, part in enumerate(parts, 1):
        what, draw = internal_of(part)
        assert (what.layer, what.place, draw) == ("0.5", "answer_mean", number) and subjects_of(part, 2) == (f"draw {number}",)
        assert kind_of(part) == "hidden_states/0.5/answer_mean" and family_of(kind_of(part)) == "signals" and not draw_of(part)
    assert subjects_of("hidden_states/-1/answer_last") == subjects_of("p_yes") == (ANSWER,) and internal_of("p_yes") is None
    assert subjects_of("hidden_states/-1/prompt_last") == subjects_of(ANSWER) == subjects_of("draw 2") == ()
    assert subjects_of("p_true_sampling", 2) == (ANSWER, "draw 1", "draw 2")


def test_whoever_forecasts_loads_neither_numpy_nor_arrow():
    code = "import sys, qualm.compiler.project.kept_answers; sys.exit(bool({'numpy', 'pyarrow', 'torch', 'PIL'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
