import json

import pytest
import typer

from qualm.registry.entries.adding import AddError
from qualm.registry.entries.card import CardError
from qualm.registry.entries.errors import known_errors, refuse


@pytest.mark.parametrize(
    ("error", "status", "message"), [(CardError("no such card"), 2, "no such card"), (KeyboardInterrupt(), 130, "interrupted")]
)
def test_known_errors_are_lines(error, status, message, capsys):
    with pytest.raises(typer.Exit) as end, known_errors():
        raise error
    assert end.value.exit_code == status and message in capsys.readouterr().err


def test_what_was_refused_is_listed_with_what_to_do(capsys):
    with pytest.raises(typer.Exit):
        refuse("a", "b c", AddError("one", "two", excusable=1), False)
    said = capsys.readouterr().err
    assert "nothing was added: 2 problems" in said and "--skip-bad lets other counts and single bad files pass (1 of these 2)" in said
    with pytest.raises(typer.Exit):
        refuse("a", "b c", AddError("one"), True)
    assert json.loads(capsys.readouterr().out) == {"outcome": "failed", "name": "a", "problems": ["one"], "excusable": 0, "recounts": {}}
