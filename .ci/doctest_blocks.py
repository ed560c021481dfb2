"""For the site: doctests that stand in a docstring's text become code blocks, which Markdown would take for quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^>>> .*\n?)(?:^(?!\s*$).*\n?)*", re.MULTILINE)


class DoctestBlocks(griffe.Extension):
    """Fences every doctest of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = _DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value)
