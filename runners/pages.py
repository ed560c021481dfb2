"""Pages that only this machine can open: served on loopback, pictures drawn anew, every text escaped by the template.

Gradio carries the events; what is shown is HTML of ours. `qualm verify --page` and `qualm calibrate` are such pages.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import PIL.Image

from runners.reporting.shown import decoded
from runners.reporting.text import visible

HERE = Path(__file__).parent
LOOPBACK = "127.0.0.1"
LONGEST_SIDE = 1000
QUIET = {"show_progress": "hidden", "concurrency_id": "one", "concurrency_limit": 1, "api_visibility": "private"}
"""Of every event: one at a time, nothing drawn over the page, no way in for programs."""


class PageError(Exception):
    """The page cannot be served: why, and what to do."""


@dataclass
class Running:
    """A page that is being served."""

    url: str
    blocks: Any

    def close(self) -> None:
        self.blocks.close(verbose=False)


def serve(build: Callable[[Any], Any], folder: Path, port: int | None = None, browse: bool = False) -> Running:
    """Serve a page on loopback until `close`.

    Args:
        build: is given Gradio and gives its blocks.
        folder: of the page's own page.css and page.js, which come after what all pages share.
        port: a port of loopback; any free one if None.
        browse: open the user's browser.

    Raises:
        PageError: Gradio is not installed, or the port is taken.
    """
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # nothing leaves this machine
    try:
        import gradio
    except ImportError as error:
        raise PageError("the page needs Gradio: `pip install 'qualm[pages]'`") from error
    css, js = ("".join(f.read_text(encoding="utf-8") for f in (HERE / f"pages.{kind}", folder / f"page.{kind}")) for kind in ("css", "js"))
    blocks = build(gradio)
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
            css=css,
            head=f"<script>{js}</script>",
        )
    except OSError as error:
        raise PageError(f"port {port or 'of loopback'}: {error}; give another with --port") from error
    return Running(url, blocks)


def html(folder: Path, **values: Any) -> str:
    """The folder's page.html, filled in; every value is escaped, and `visible` shows what is hidden in a text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["visible"] = visible
    return environment.get_template("page.html").render(**values)


def trouble(why: object) -> str:
    """What stands in the place of a page that cannot be drawn."""
    from markupsafe import escape

    return f'<p class="told" role="status">{escape(visible(why))}</p>'


def picture(data: bytes | None) -> str:
    """An encoded picture as a data URI, drawn anew; empty where there is none that can be shown."""
    drawn, _ = decoded(data)
    return "" if drawn is None else data_uri(drawn)


def data_uri(image: PIL.Image.Image, longest: int = LONGEST_SIDE) -> str:
    """A picture as a data URI: small ones as they are, large ones made smaller and saved as JPEG."""
    drawn = image.copy()
    drawn.thumbnail((longest, longest), PIL.Image.Resampling.LANCZOS)
    data = io.BytesIO()
    kind = "png" if max(drawn.size) <= 320 else "jpeg"
    drawn.save(data, "PNG") if kind == "png" else drawn.save(data, "JPEG", quality=92)
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"
