"""Chat templates whose output depends on the conversation alone.

A template may write the current date with `strftime_now`. Prompts, and the keys of stored answers, would then change every day. A macro of
the same name replaces it and writes a fixed date.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

DEFAULT_DATE = "2026-01-01"
"""Date for templates that ask for today's, unless the spec sets `date`."""
CLOCK = "strftime_now"
"""Function of transformers by which a template asks for the time."""
_BEGIN, _END = "{%- macro strftime_now(format) -%}", "{%- endmacro %}{{ '' }}"
_PERCENT = "\ue000"
"""Placeholder of a literal percent sign while directives are replaced: a private code point."""
_MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def parse_date(text: str) -> datetime.date:
    """Parse an ISO 8601 date such as `2026-01-01`; raise ValueError for other texts."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"expected a date such as {DEFAULT_DATE}, got {text!r}") from None


def reads_clock(template: object) -> bool:
    """Return whether a chat template (or one of several) writes the current date or time."""
    texts = template.values() if isinstance(template, Mapping) else [template]
    return any(CLOCK in str(text) for text in texts)


def fix_date(template: Any, date: datetime.date) -> Any:
    """Return a chat template that writes midnight of `date` instead of the current time.

    A template that does not read the clock is unchanged; one that was fixed before gets the new date; several by name are all fixed.
    """
    if isinstance(template, Mapping):
        return {name: fix_date(text, date) for name, text in template.items()}
    if not reads_clock(template):
        return template
    text = str(template)
    if text.startswith(_BEGIN):
        text = text.partition(_END)[2]
    if not reads_clock(text):
        return text
    values = {"%%": _PERCENT, **_directives(date), _PERCENT: "%"}
    replaced = "".join(f" | replace('{directive}', '{value}')" for directive, value in values.items())
    return f"{_BEGIN}{{{{ format{replaced} }}}}{_END}{text}"


def _directives(date: datetime.date) -> dict[str, str]:
    """Return the text at midnight of a date, in English and UTC, by `strftime` directive."""
    month, weekday = _MONTHS[date.month - 1], _DAYS[date.weekday()]
    day, year = f"{date.day:02}", f"{date.year:04}"
    numbers = {"%d": day, "%m": f"{date.month:02}", "%H": "00", "%I": "12", "%M": "00", "%S": "00", "%j": f"{date.timetuple().tm_yday:03}"}
    unpadded = {f"%-{name[1]}": str(int(value)) for name, value in numbers.items()}
    names = {"%B": month, "%b": month[:3], "%h": month[:3], "%A": weekday, "%a": weekday[:3], "%p": "AM", "%Z": "UTC", "%z": "+0000"}
    composed = {
        "%c": f"{weekday[:3]} {month[:3]} {date.day:2} 00:00:00 {year}",
        "%x": f"{numbers['%m']}/{day}/{year[2:]}",
        "%D": f"{numbers['%m']}/{day}/{year[2:]}",
        "%F": date.isoformat(),
        "%X": "00:00:00",
        "%T": "00:00:00",
        "%R": "00:00",
    }
    more = {"%Y": year, "%y": year[2:], "%e": f"{date.day:2}", "%f": "000000", "%u": str(date.isoweekday()), "%w": date.strftime("%w")}
    return {**unpadded, **numbers, **names, **composed, **more}


def as_text(turns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a conversation with each turn's content as one string; ValueError for images."""
    texts = []
    for turn in turns:
        parts = turn["content"]
        if not isinstance(parts, str):
            if any(part["type"] != "text" for part in parts):
                raise ValueError("a text-only model cannot be shown an image")
            parts = "".join(part["text"] for part in parts)
        texts.append({**turn, "content": parts})
    return texts
