import io

from rich.text import Text

from qualm.registry.terminal.console import Console


def test_nothing_in_a_text_steers_the_terminal():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, color_system="standard")
    console.print(Text("a\x1b[31mred\x1b]0;title\x07\u202ereversed", style="bold"))
    shown = out.getvalue()
    assert "\x1b[31m" not in shown and "\x07" not in shown and "\u202e" not in shown
    assert "\x1b[1m" in shown and "red" in shown, "its own style stays"
