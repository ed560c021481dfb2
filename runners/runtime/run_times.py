"""Times of a spec's stages and costs of its servers, shown beside a report and not part of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from html import escape
from pathlib import Path

from qualm.registry.system import atomic
from qualm.runners.runtime.settings import FILE, read_settings
from qualm.runners.runtime.spending import Spent, read_spent
from qualm.runners.runtime.stage import LOCAL, read_record
from qualm.runners.runtime.stamp import WIDTH, named_lines, text_svg

PICTURE = "times.svg"
SLOWEST = 8
"""Number of stages named in the image."""
_LINE, _MAX_WIDTH = 19, 40


@dataclass(frozen=True)
class StageTime:
    """Seconds, end and processor of a stage's last run in this checkout."""

    seconds: float
    ended: str = ""
    processor: str = ""


@dataclass(frozen=True)
class RunTimes:
    """Run time of each stage of a spec in this checkout, and the spec's spending on servers."""

    stages: Mapping[str, StageTime] = field(default_factory=dict)
    """Stage -> its last run, longest first; stages that never ran here are missing."""
    spent: Spent = field(default_factory=Spent)

    @property
    def seconds(self) -> float:
        return sum(time.seconds for time in self.stages.values())


def run_times(spec: str, root: Path = Path()) -> RunTimes:
    """Return a spec's recorded stage times, longest first, and what it spent on servers."""
    times: dict[str, StageTime] = {}
    for path in sorted((root / "specs" / spec / "stages").glob("*.json")):
        record = read_record(root, spec, path.stem)
        if isinstance(seconds := record.get("seconds"), int | float):
            times[path.stem] = StageTime(seconds, str(record.get("ended", "")), str(record.get("processor", "")))
    ordered = sorted(times.items(), key=lambda item: -item[1].seconds)
    return RunTimes(dict(ordered), read_spent(root, read_settings(root / FILE).store, spec))


def write_times(spec: str, root: Path = Path()) -> None:
    """Write a spec's times as an SVG image, which the report shows."""
    atomic.write_text(root / LOCAL / "runs" / spec / PICTURE, times_svg(run_times(spec, root)))


def times_in_words(times: RunTimes) -> list[tuple[str, str]]:
    """Return (name, text) rows: total time, money spent, then the time of every stage."""
    n = len(times.stages)
    sums = (
        f"{format_duration(times.seconds)} in {n} {'stage' if n == 1 else 'stages'}, each as it last ran here"
        if n
        else "not known: nothing ran here"
    )
    lost = f", {format_dollars(times.spent.open)} of it reserved for requests that have not ended" if times.spent.open else ""
    cost = f"{format_dollars(times.spent.all)}{lost}" if times.spent.all else "nothing"
    return [("Time", sums), ("Spent on servers", cost), *((name, format_duration(time.seconds)) for name, time in times.stages.items())]


def times_svg(times: RunTimes) -> str:
    """Return an SVG of text with the totals and the slowest stages."""
    rows = times_in_words(times)
    slowest = rows[: 2 + SLOWEST]
    if rest := list(times.stages.values())[SLOWEST:]:
        slowest.append((f"{len(rest)} more", format_duration(sum(time.seconds for time in rest))))
    lines: list[str] = []
    y = 14
    for number, (key, value) in enumerate(slowest):
        if number < 2:  # the sums
            text, y = named_lines(key, value, y)
            lines.append(text)
            continue
        name = key if len(key) <= _MAX_WIDTH else f"{key[: _MAX_WIDTH - 1]}…"
        lines.append(
            f'<text class="k" x="0" y="{y}">{escape(name)}</text><text x="{WIDTH}" y="{y}" text-anchor="end">{escape(value)}</text>'
        )
        y += _LINE
    return text_svg(lines, y)


def format_duration(seconds: float) -> str:
    """Format seconds with at most two units: `3 h 20 min`.

    >>> format_duration(0.5), format_duration(58.3), format_duration(200), format_duration(12_000), format_duration(180_000)
    ('0.5 s', '58 s', '3 min', '3 h 20 min', '2 d 2 h')
    """
    if seconds < 60:
        return f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def format_dollars(amount: float) -> str:
    """Format dollars with cents from $0.10 on, else with two significant digits.

    >>> format_dollars(1234.5), format_dollars(0.01234), format_dollars(0.0000123)
    ('$1,234.50', '$0.012', '$0.000012')
    """
    return f"${amount:,.2f}" if amount >= 0.1 else f"${Decimal(f'{amount:.2g}'):f}"
