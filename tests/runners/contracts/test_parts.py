"""Parts of answers: their names, kinds and columns."""

import subprocess
import sys

from qualm.registry.sample import GENERATIONS
from qualm.runners.contracts.parts import ANSWER, COLUMNS, OPTIONS, PARTS, draw_of, draw_part, family_of, is_signal, kind_of


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


def test_whoever_forecasts_loads_neither_numpy_nor_arrow():
    code = "import sys, qualm.compiler.forecast.kept_answers; sys.exit(bool({'numpy', 'pyarrow', 'torch', 'PIL'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
