"""`qualm verify --page`: review on a page that only this machine can open, members of a pair side by side.

The server holds the state, so a reload shows the current question, and a click for another one (a second tab, a double press) decides
nothing.
"""

from pathlib import Path
from typing import Any

from qualm.runners.reporting.text import visible
from qualm.runners.review import pages
from qualm.runners.review.journal import JournalError
from qualm.runners.review.pages import QUIET, ServedPage
from qualm.runners.review.pool import PoolError, ReviewQuestion
from qualm.runners.review.session import ReviewSession

HERE = Path(__file__).parent / "assets" / "review"
BUTTONS = (
    ("valid", "Valid (V)", "primary"),
    ("invalid", "Invalid (I)", "stop"),
    ("misplaced", "Wrong subset (W)", "stop"),
    ("skip", "Skip (S)", "secondary"),
)
MISSED = "That question was decided already, in another tab or by a second press; nothing was changed."
Drawn = tuple[str, str, str]
"""HTML of the page, the token of its question, and the text of the note."""


def serve(session: ReviewSession, title: str, port: int | None = None) -> ServedPage:
    """Serve a review session's page on loopback until `close`; raise as `pages.serve`."""
    return pages.serve(lambda gradio: _blocks(gradio, session, title), HERE, port)


def _blocks(gradio: Any, session: ReviewSession, title: str) -> Any:
    buttons = [b for b in BUTTONS if b[0] in session.pool.choices]
    with gradio.Blocks(title=visible(title, 100), analytics_enabled=False, fill_width=True) as blocks:
        token_state = gradio.State("")
        view = gradio.HTML(elem_id="view")
        note = gradio.Textbox(label="Note (optional)", max_lines=3, elem_id="note")
        with gradio.Row(elem_id="keys"):
            widgets = [gradio.Button(text, variant=kind, elem_id=name, min_width=90) for name, text, kind in buttons]
            undo = gradio.Button("Undo (U)", elem_id="undo", min_width=90)
        outputs = [view, token_state, note]

        for button, (name, _, _) in zip(widgets, buttons, strict=True):
            button.click(lambda token, text, name=name: decide(session, title, name, token, text), [token_state, note], outputs, **QUIET)
        undo.click(lambda: undo_decision(session, title), None, outputs, **QUIET)
        blocks.load(lambda: page_outputs(session, title), None, outputs, **QUIET)
    return blocks


def decide(session: ReviewSession, title: str, decision: str, token: str, note: str) -> Drawn:
    """Record a decision, unless `token` is of an earlier question; return the next page.

    The page is (HTML, question token, empty note).
    """
    try:
        if not token or token != _token(session.current):
            return page_outputs(session, title, MISSED)
        session.decide(decision, note[:500])
    except (JournalError, PoolError) as error:
        return page_outputs(session, title, str(error))
    return page_outputs(session, title)


def undo_decision(session: ReviewSession, title: str) -> Drawn:
    """Withdraw the previous decision; return its page (HTML, question token, empty note)."""
    try:
        return page_outputs(session, title, "" if session.undo() else "There is nothing to undo.")
    except (JournalError, PoolError) as error:
        return page_outputs(session, title, str(error))


def page_outputs(session: ReviewSession, title: str, message: str = "") -> Drawn:
    """Return (page HTML, question token, empty note); no token if it cannot be shown."""
    try:
        return render(session, title, message), _token(session.current), ""
    except PoolError as error:
        return pages.trouble(error), "", ""


def _token(question: ReviewQuestion | None) -> str:
    return f"{question.content}:{question.sample_id}" if question else ""


def render(session: ReviewSession, title: str, message: str = "") -> str:
    """Return the HTML of the current page, with escaped text."""
    now = session.current
    members = session.pool.pairs[now.pair_id] if now else []
    return pages.html(
        HERE,
        title=title,
        reviewer=session.journal.reviewer,
        pool=session.pool,
        counts=session.counts,
        total=len(session),
        now=now,
        members=[{"q": q, "image": pages.picture(q.picture), "current": q is now} for q in members],
        message=message,
    )
