"""`qualm verify` in a terminal: one question at a time, one key per decision.

The image is drawn in half blocks if the terminal has colours, and named as a file. Text of datasets is sanitised, so that no escape
sequence reaches the terminal.
"""

import os
import select
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import PIL.Image
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.control import Control
from rich.segment import ControlType
from rich.style import Style
from rich.text import Text

from qualm.registry.formats import pictures
from qualm.registry.system.console import Console
from qualm.runners.reporting.text import visible
from qualm.runners.reporting.thumbnails import decoded
from qualm.runners.review.pool import Pool, ReviewQuestion
from qualm.runners.review.session import ReviewSession

DECIDES = {"v": "valid", "i": "invalid", "w": "misplaced", "s": "skip"}
WORDS = {"v": "[v]alid", "i": "[i]nvalid", "w": "[w]rong subset", "s": "[s]kip"}
WIDEST = 72
"""Maximum width of a drawn image, in characters."""
BESIDES = 12
"""Lines for the question and the keys."""


class NoTerminalError(Exception):
    """Standard input or output is not a terminal, so keys cannot be read."""


def run(session: ReviewSession, read_key: Callable[[], str] | None = None, out: Console | None = None) -> None:
    """Ask for decisions key by key until all is decided or the reviewer quits."""
    out = out or Console()
    with tempfile.TemporaryDirectory(prefix="qualm-verify-") as folder, _keys() if read_key is None else _scripted(read_key) as key:
        note, drawn = "", None
        decides = {k: d for k, d in DECIDES.items() if d in session.pool.choices}
        others = ("[p]roof  [o]ther member",) if session.pool.paired else ()
        keys = "  ".join((*(WORDS[k] for k in decides), "[u]ndo  [n]ote", *others, "[q]uit"))
        while (question := session.current) is not None:
            if question is not drawn:
                title = f"Question {len(session) - session.counts['left'] + 1} of {len(session)}"
                out.print(_member(question, out, Path(folder), title, session.pool))
                drawn = question
            out.print(Text(keys, style="bold"))
            pressed = key()
            if pressed in decides:
                session.decide(decides[pressed], note)
                note = ""
            elif pressed == "u":
                drawn = None
                if session.undo() is None:
                    out.print(Text("nothing to undo", style="red"))
                    drawn = question
            elif pressed == "n":
                note = _read_note(out, key)
            elif pressed == "p":
                out.print(Group(*_proof(question)))
            elif pressed == "o" and session.partner is not None:
                out.print(_member(session.partner, out, Path(folder), "The other member", session.pool))
            elif pressed in ("q", "\x03", "\x04", ""):
                break
            else:
                out.print(Text(f"no such key: {visible(pressed, 20)}", style="red"))
        counts = session.counts
        out.print(Text(", ".join(f"{counts[choice]} {word}" for choice, word in session.pool.words.items())))


def _proof(q: ReviewQuestion) -> list[Text]:
    return [Text(f"  {visible(k, 40)}: {visible(v)}", style="dim") for k, v in q.notes.items()] or [Text("  no proof on record")]


def _member(q: ReviewQuestion, out: Console, folder: Path, title: str, pool: Pool) -> RenderableType:
    file = _save(q, folder)
    head = " · ".join(filter(None, (title, visible(q.category, 80), visible(q.sample_id, 80))))
    parts: list[RenderableType] = [Text(f"\n{head}", style="dim")]
    if file is not None:
        if out.color_system in ("256", "truecolor"):
            parts.append(draw(file, min(WIDEST, out.width), max(8, out.height - BESIDES)))
        parts.append(Text(f"image: {file}", style="dim"))
    else:
        parts.append(Text("no image" if q.picture is None else "image not readable", style="dim"))
    parts.append(Text.assemble(("Q  ", "bold"), visible(q.row["question"] or "")))
    parts += [Text(f"   {'*' if i == q.row['answer_index'] else ' '} {visible(c, 200)}") for i, c in enumerate(q.row["choices"] or ())]
    answers = " / ".join(visible(a, 200) for a in q.answers)
    if answers or not q.row["choices"]:
        parts.append(Text.assemble(("A  ", "bold"), answers or "-"))
    if not pool.paired and q.notes:
        parts.append(Text("   " + " · ".join(f"{visible(k, 40)} {visible(v, 80)}" for k, v in q.notes.items()), style="dim"))
    parts += [Text(f"   {claim}", style="cyan") for claim in pool.claimed(q)]
    parts.append(Text(pool.asks(q)))
    return Group(*parts)


def draw(file: Path, width: int, height: int) -> Text:
    """Return an image in half-block characters, at most `width` x `height` of them."""
    picture = pictures.decoded(file.read_bytes())
    columns = max(2, min(width, picture.width, 2 * height * picture.width // picture.height))
    rows = max(2, min(2 * height, round(picture.height * columns / picture.width / 2) * 2))
    pixels = picture.resize((columns, rows), PIL.Image.Resampling.LANCZOS).load()
    text = Text(no_wrap=True, end="\n")
    for y in range(0, rows, 2):
        for x in range(columns):
            ink, ground = ("rgb({},{},{})".format(*pixels[x, y + d]) for d in (0, 1))  # type: ignore[index, misc]
            text.append("▀", Style.parse(f"{ink} on {ground}"))
        text.append("\n" if y + 2 < rows else "")
    return text


def _save(q: ReviewQuestion, folder: Path) -> Path | None:
    """Save a question's image as PNG and return its path; None if missing or unreadable."""
    drawn, _ = decoded(q.picture)
    if drawn is None:
        return None
    file = folder / ("question.png" if q.answerable else "question-u.png")
    drawn.save(file, "PNG")
    return file


def _read_note(out: Console, key: Callable[[], str]) -> str:
    """Return a note that is read key by key; "" if Escape drops it."""
    text = ""
    out.print(Text("note (Enter keeps it, Escape drops it): "), end="")
    while True:
        pressed = key()
        if pressed in ("\r", "\n"):
            break
        if pressed in ("\x1b", "\x03", ""):
            text = ""
            break
        if pressed in ("\x7f", "\b"):
            text, erased = text[:-1], cell_len(visible(text[-1:]))
            if erased:
                out.control(Control((ControlType.CURSOR_BACKWARD, erased), (ControlType.ERASE_IN_LINE, 0)))
        elif pressed.isprintable() and len(text) < 500:
            text += pressed
            out.print(Text(visible(pressed)), end="")
    out.print()
    return text


@contextmanager
def _scripted(read_key: Callable[[], str]) -> Iterator[Callable[[], str]]:
    yield read_key


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Yield a key reader, then restore the terminal; NoTerminalError without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise NoTerminalError("keys cannot be read here: this needs a terminal; --page opens a browser page instead")
    if sys.platform == "win32":
        import msvcrt

        def read_windows() -> str:
            pressed = msvcrt.getwch()
            return "escape sequence" if pressed in ("\0", "\xe0") and msvcrt.getwch() else pressed

        yield read_windows
        return
    import termios
    import tty

    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)

    def read() -> str:
        data = os.read(handle, 1)
        if data == b"\x1b":  # an arrow or function key is one key, not Escape and letters
            while select.select([handle], [], [], 0.02)[0]:
                data += os.read(handle, 1)
            return "\x1b" if len(data) == 1 else "escape sequence"
        while data and data[0] >= 0xC0 and len(data) < 4:
            try:
                data.decode("utf-8")
                break
            except UnicodeDecodeError:
                data += os.read(handle, 1)
        return data.decode("utf-8", "replace")

    try:
        tty.setcbreak(handle)
        mode = termios.tcgetattr(handle)
        mode[3] &= ~termios.ISIG
        termios.tcsetattr(handle, termios.TCSADRAIN, mode)
        yield read
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
