"""The terminal, in a real pseudo-terminal: keys in, decisions on disk, nothing of a hostile question reaches the terminal raw."""

from __future__ import annotations

import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path

import PIL.Image
import pytest
from rich.console import Console

from qualm.runners.review import terminal
from qualm.runners.review.journal import ReviewJournal
from qualm.runners.review.pool import Pool, read_pool
from qualm.runners.review.session import ReviewSession
from tests.support.data.tiny_pairs import write_pairs
from tests.support.processes.pseudo_terminal import Terminal
from tests.support.processes.waiting import TIMEOUT

HOSTILE = "[red]What[/] \x1b]0;evil\x07\x1b[2J \u202eis it?"
CODE = """
import sys
from pathlib import Path
from qualm.runners.review import terminal
from qualm.runners.review.journal import ReviewJournal
from qualm.runners.review.pool import read_pool
from qualm.runners.review.session import ReviewSession
root = Path(sys.argv[1])
pool = read_pool([root / "results/s/pairs/ours/inpainted"], [root / "results/s/data/scenes"])
terminal.run(ReviewSession(pool, ReviewJournal(root, "reviews", "ann")))
"""


@pytest.mark.slow
def test_keys_decide_and_quit(tmp_path: Path, pool: Pool) -> None:
    order = pool.order("ann")
    reviewer = Terminal([sys.executable, "-c", CODE, str(tmp_path)])
    first = reviewer.until("[q]uit")
    assert "Question 1 of 12" in first and order[0] in first and "▀" in first and "image: " in first
    reviewer.press("v")
    reviewer.until("Question 2 of 12")
    reviewer.until("[q]uit")
    reviewer.press("n")
    reviewer.until("Escape drops it")
    reviewer.press("\x7fx宽\x7f\x7fbläh, hm\r")
    assert "x宽\x1b[2D\x1b[0K\x1b[1D\x1b[0Kbläh, hm" in reviewer.until("hm"), "erased on the screen as well"
    reviewer.press("i")
    reviewer.until("Question 3 of 12")
    reviewer.press("p")
    assert "proof: the ball of" in reviewer.until("was taken out")
    reviewer.press("o")
    reviewer.until("The other member")
    reviewer.press("\x1b[A")  # an arrow key is not Escape, `[` and `A`
    reviewer.until("no such key")
    reviewer.press("su")
    reviewer.until("Question 4 of 12")
    reviewer.until("Question 3 of 12")
    reviewer.press("q")
    reviewer.until("1 valid, 1 invalid, 0 skipped, 10 left")
    assert reviewer.process.wait(TIMEOUT) == 0
    kept = ReviewJournal(tmp_path, "reviews", "ann")
    found = [kept.get(s, pool.questions[s].content) for s in order[:3]]
    assert [d and (d.decision, d.note) for d in found] == [("valid", ""), ("invalid", "bläh, hm"), None]


@pytest.mark.slow
def test_a_killed_session_goes_on(tmp_path: Path, pool: Pool) -> None:
    reviewer = Terminal([sys.executable, "-c", CODE, str(tmp_path)])
    reviewer.until("[q]uit")
    reviewer.press("vvv")
    reviewer.until("Question 4 of 12")
    os.kill(reviewer.process.pid, signal.SIGKILL)
    reviewer.process.wait()
    again = Terminal([sys.executable, "-c", CODE, str(tmp_path)])
    again.until("Question 4 of 12")
    again.press("\x03")
    again.until("3 valid, 0 invalid")
    assert again.process.wait(TIMEOUT) == 0


def test_hostile_text_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    recipe, source = write_pairs(tmp_path, 1, HOSTILE)
    keys = iter("q")
    out = Console(width=100, force_terminal=True, color_system="truecolor", record=True, file=(tmp_path / "out").open("w"))
    terminal.run(ReviewSession(read_pool([recipe], [source]), ReviewJournal(tmp_path, "reviews", "ann")), lambda: next(keys), out)
    text = out.export_text(styles=True)
    assert "[red]What[/] ⟨U+001B⟩]0;evil⟨U+0007⟩⟨U+001B⟩[2J ⟨U+202E⟩is it?" in re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert not re.search(r"\x1b(?!\[[0-9;]*m)", text) and "\u202e" not in text


def test_without_colours_the_file_is_named_and_nothing_drawn(tmp_path: Path, pool: Pool) -> None:
    keys = iter("q")
    out = Console(width=100, color_system=None, record=True, file=(tmp_path / "out").open("w"))
    terminal.run(ReviewSession(pool, ReviewJournal(tmp_path, "reviews", "ann")), lambda: next(keys), out)
    text = out.export_text()
    assert "▀" not in text and re.search(r"image: \S+question(-u)?\.png", text.replace("\n", ""))


def test_a_picture_keeps_its_proportions(tmp_path: Path, pool: Pool) -> None:
    question = next(iter(pool.questions.values()))
    assert question.picture
    (tmp_path / "p.png").write_bytes(question.picture)
    lines = terminal.draw(tmp_path / "p.png", 48, 50).plain.split("\n")
    assert (len(lines), {len(line) for line in lines}) == (16, {48})
    low = terminal.draw(tmp_path / "p.png", 48, 10).plain.split("\n")
    assert (len(low), {len(line) for line in low}) == (10, {30})
    for size, lines in (((20, 2000), 20), ((2000, 20), 1)):
        PIL.Image.new("RGB", size).save(tmp_path / "p.png")
        assert len(terminal.draw(tmp_path / "p.png", 80, 20).plain.split("\n")) == lines, "a narrow image fits too"


def test_the_upper_pixel_is_the_ink_and_the_lower_one_the_ground(tmp_path: Path) -> None:
    picture = PIL.Image.new("RGB", (2, 2), "red")
    picture.paste("blue", (0, 1, 2, 2))
    picture.save(tmp_path / "p.png")
    assert {str(span.style) for span in terminal.draw(tmp_path / "p.png", 48, 50).spans} == {"rgb(255,0,0) on rgb(0,0,255)"}


def test_no_terminal_is_an_error_with_a_way_out(tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", (tmp_path / "in").open("w+"))
    with pytest.raises(terminal.NoTerminalError, match="--page opens a browser page"):
        terminal.run(ReviewSession(pool, ReviewJournal(tmp_path, "reviews", "ann")))


def test_what_a_question_has_not_is_not_shown_empty(pool: Pool, tmp_path: Path) -> None:
    question = pool.questions[pool.order("ann")[0]]
    row = {**question.row, "choices": ["red", "blue"], "answer_index": 1, "references": [], "category": ""}
    out = Console(width=100, record=True)
    out.print(terminal._member(replace(question, row=row), out, tmp_path, "Question 1 of 1", pool))
    shown = out.export_text()
    assert f"Question 1 of 1 · {question.sample_id}" in shown and "* blue" in shown and "A  " not in shown


@pytest.mark.parametrize("data", [b"\x89PNG broken", b"GIF89a"])
def test_a_picture_that_cannot_be_read_is_said_to_be_so(pool: Pool, tmp_path: Path, data: bytes) -> None:
    question = replace(pool.questions[pool.order("ann")[0]], read=lambda: [data])
    out = Console(width=80, record=True)
    out.print(terminal._member(question, out, tmp_path, "Question 1 of 1", pool))
    assert "image not readable" in out.export_text() and list(tmp_path.glob("*.png")) == []
