"""`qualm verify --page`: the same questions on a page that only this machine can open, both members of a pair side by side.

Gradio carries the events; what is shown is HTML of ours with every text of the data set escaped. The server holds the state, so a
reload shows the question that is due; a click that was meant for another question (a second tab, a double press) decides nothing.
"""

from __future__ import annotations

import base64
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import PIL.Image

from runners.reporting.text import visible
from runners.verifying.pool import Question
from runners.verifying.session import Session

HERE = Path(__file__).parent
LOOPBACK = "127.0.0.1"
LONGEST_SIDE = 1000
MOST_PIXELS = 64_000_000
BUTTONS = (("valid", "Valid (V)", "primary"), ("invalid", "Invalid (I)", "stop"), ("skip", "Skip (S)", "secondary"))
MISSED = "That question was decided already, in another tab or by a second press; nothing was changed."


class PageError(Exception):
    """The page cannot be served: why, and what to do."""


@dataclass
class Running:
    """A page that is being served."""

    url: str
    blocks: Any

    def close(self) -> None:
        self.blocks.close(verbose=False)


def serve(session: Session, title: str, port: int | None = None, browse: bool = False) -> Running:
    """Serve the page on loopback until `close`.

    Args:
        session: whose decisions these are.
        title: what is reviewed.
        port: a port of loopback; any free one if None.
        browse: open the reviewer's browser.

    Raises:
        PageError: Gradio is not installed, or the port is taken.
    """
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # nothing leaves this machine
    try:
        import gradio
    except ImportError as error:
        raise PageError("the page needs Gradio: `pip install 'qualm[pages]'`, or review in the terminal without --page") from error
    blocks = _blocks(gradio, session, title)
    try:
        _, url, _ = blocks.launch(
            server_name=LOOPBACK,
            server_port=port,
            share=False,
            inbrowser=browse,
            prevent_thread_lock=True,
            quiet=True,
            footer_links=[],
            ssr_mode=False,
            theme=gradio.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]),
            css=(HERE / "page.css").read_text(encoding="utf-8"),
            head=f"<script>{(HERE / 'page.js').read_text(encoding='utf-8')}</script>",
        )
    except OSError as error:
        raise PageError(f"port {port or 'of loopback'}: {error}; give another with --port") from error
    return Running(url, blocks)


def _blocks(gradio: Any, session: Session, title: str) -> Any:
    with gradio.Blocks(title=visible(title, 100), analytics_enabled=False, fill_width=True) as blocks:
        shown = gradio.State("")
        view = gradio.HTML(elem_id="view")
        note = gradio.Textbox(label="Note (optional)", max_lines=3, elem_id="note")
        with gradio.Row(elem_id="keys"):
            made = [gradio.Button(text, variant=kind, elem_id=name, min_width=90) for name, text, kind in BUTTONS]
            undo = gradio.Button("Undo (U)", elem_id="undo", min_width=90)
        outputs = [view, shown, note]

        def state(told: str = "") -> tuple[str, str, str]:
            return render(session, title, told), _token(session.current), ""

        def decide(decision: str, seen: str, text: str) -> tuple[str, str, str]:
            if not seen or seen != _token(session.current):
                return state(MISSED)
            session.decide(decision, text[:500])
            return state()

        def back() -> tuple[str, str, str]:
            return state("" if session.undo() else "There is nothing to undo.")

        quiet = {"show_progress": "hidden", "concurrency_id": "one", "concurrency_limit": 1, "api_visibility": "private"}
        for button, (name, _, _) in zip(made, BUTTONS, strict=True):
            button.click(lambda seen, text, name=name: decide(name, seen, text), [shown, note], outputs, **quiet)
        undo.click(back, None, outputs, **quiet)
        blocks.load(state, None, outputs, **quiet)
    return blocks


def _token(question: Question | None) -> str:
    return f"{question.content}:{question.sample_id}" if question else ""


def render(session: Session, title: str, told: str = "") -> str:
    """What is shown now, as HTML in which every text of the data set is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["visible"] = visible
    now = session.current
    members = session.pool.pairs[now.pair_id] if now else []
    return environment.get_template("page.html").render(
        title=title,
        reviewer=session.journal.reviewer,
        counts=session.counts,
        total=len(session),
        now=now,
        members=[{"q": q, "image": picture(q), "current": q is now} for q in members],
        told=told,
    )


def picture(question: Question) -> str:
    """A picture as a data URI, decoded and drawn anew, never passed through; empty where there is none."""
    if question.picture is None:
        return ""
    try:
        with PIL.Image.open(io.BytesIO(question.picture)) as opened:
            if opened.width * opened.height > MOST_PIXELS:
                return ""
            drawn = opened.convert("RGB")
    except (OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError):
        return ""
    drawn.thumbnail((LONGEST_SIDE, LONGEST_SIDE), PIL.Image.Resampling.LANCZOS)
    data = io.BytesIO()
    drawn.save(data, "PNG") if max(drawn.size) <= 320 else drawn.save(data, "JPEG", quality=92)
    kind = "png" if max(drawn.size) <= 320 else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"
