"""The report as one HTML page: its template, filters, content security policy and size limit.

Dataset text is hostile: Jinja2 escapes all of it, and the policy allows no script but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.text import visible

if TYPE_CHECKING:
    from jinja2 import Environment

ASSETS = [
    "templates/report.html",
    "templates/sheet.html",
    "templates/data.html",
    "templates/idk.html",
    "templates/filters.html",
    "templates/pairs.html",
    "templates/heat.html",
    "templates/examples.html",
    "templates/style.css",
    "templates/browse.js",
]
"""Files beside the Python modules: the compiler reads this list, and the stage depends on them."""

TEMPLATES = Path(__file__).parent / "templates"
MAX_BYTES = 5 * 2**20
"""A larger page shows fewer examples. Images and panels are bounded well below it; tables grow with the number of models."""
PICKED = ("examples", "pairs")
"""Parts of the page that show a selection of questions."""
MIN_PICKED = 4
"""Questions that each of them keeps, however large the page is."""


def html_page(content: Mapping[str, Any]) -> bytes:
    """Return the page as HTML; with fewer questions, which it says, if it is over MAX_BYTES.

    Equal content gives equal bytes. `content` is what `templates/report.html` reads, except for style, script and policy.
    """
    style, script = ((TEMPLATES / f).read_text(encoding="utf-8") for f in ("style.css", "browse.js"))
    template = _environment().get_template("report.html")
    content = {"style": style, "script": script, "policy": security_policy(script), "fewer": "", **content}
    total = sum(len(content[part]) for part in PICKED)
    while True:
        page = template.render(content).encode("utf-8")
        if len(page) <= MAX_BYTES or all(len(content[part]) <= MIN_PICKED for part in PICKED):
            return page
        # Every second example: those of a dataset are neighbours, and each dataset keeps some.
        content |= {part: content[part][::2] if len(content[part]) > MIN_PICKED else content[part] for part in PICKED}
        n = sum(len(content[part]) for part in PICKED)
        content["fewer"] = say.EXAMPLES_SHOWN.format(shown=n, n=total, mebibytes=MAX_BYTES / 2**20)


@cache
def _environment() -> Environment:
    """Return the environment of the templates, which keeps them compiled."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"visible": visible, "described": add_description, "with_code": code_to_html}
    environment.filters |= {"rich": sentence_to_html, "bdi": isolate_direction}
    environment.globals["say"] = say
    return environment


def add_description(svg: str, text: str) -> str:
    """Return an SVG drawing with `text` as its `aria-label`, for screen readers."""
    return svg.replace('role="img"', f'role="img" aria-label="{escape(text.strip())}"', 1)


def code_to_html(text: str) -> str:
    """Return a text as HTML in which text between backticks is marked up as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def sentence_to_html(text: str, **fields: object) -> Markup:
    """Return a sentence with `code`, **strong** and *emphasis* as HTML; fields are escaped."""
    html = re.sub(r"\*\*([^\s*][^*]*)\*\*", r'<b class="best">\1</b>', code_to_html(text))
    html = re.sub(r"\*([^\s*][^*]*)\*", r"<i>\1</i>", html)
    return Markup(html).format(**fields) if fields else Markup(html)  # noqa: S704 - escaped above


def isolate_direction(text: object) -> Markup:
    """Return a text as HTML whose writing direction does not affect its surroundings."""
    return Markup("<bdi>{}</bdi>").format(text)


def security_policy(script: str) -> str:
    """Return the page's content security policy: no frames, other sites, or other scripts."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; img-src data: 'self' file:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
