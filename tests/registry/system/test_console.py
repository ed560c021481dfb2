import io
import sys

import pytest
from rich.progress import Progress, TextColumn
from rich.text import Text

from qualm.registry.system.console import Console
from qualm.registry.system.guard import Guarded


def test_nothing_in_a_text_steers_the_terminal():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, color_system="standard")
    console.print(Text("a\x1b[31mred\x1b]0;title\x07\u202ereversed", style="bold"))
    shown = out.getvalue()
    assert "\x1b[31m" not in shown and "\x07" not in shown and "\u202e" not in shown
    assert "\x1b[1m" in shown and "red" in shown, "its own style stays"


def test_numbers_and_names_have_no_colour_unless_it_is_asked_for():
    def shown(**settings):
        out = io.StringIO()
        Console(file=out, force_terminal=True, width=60, color_system="standard", **settings).print("3 of 'four'")
        return out.getvalue()

    assert shown() == "3 of 'four'\n" and "\x1b[" in shown(highlight=True)


def test_a_living_line_steers_the_terminal_itself_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it lives Rich puts a stream of its own before the guarded one."""
    out = io.StringIO()
    monkeypatch.setenv("TERM", "xterm")  # "dumb" has no line that can be written anew
    monkeypatch.setattr(sys, "stdout", Guarded(out))
    monkeypatch.setattr(sys, "stderr", Guarded(io.StringIO()))
    console = Console(force_terminal=True, width=60, color_system="standard")
    with Progress(TextColumn("{task.description}"), console=console, transient=True, auto_refresh=False) as line:
        line.add_task("at\x1b[31m work", total=None)
        line.refresh()
        print("said\x1b[2Jmeanwhile")
        line.refresh()
    shown = out.getvalue()
    assert "\r\x1b[2K" in shown and "\\r" not in shown and "\\x1b[2K" not in shown
    assert "at\\x1b[31m" in shown and "said" in shown and "\x1b[2J" not in shown and "\x1b[31m" not in shown
