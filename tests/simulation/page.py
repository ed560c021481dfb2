"""The tables of tests/simulation/tables.md: every entry with its Monte Carlo error, and a mark where it misses its aim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.simulation.tallies import Aim, Question, Row, Tallied, Tallies, Tally

FEW = 0.5
"""Share of samples below which those with an interval are a selection."""


def share(value: float, digits: int = 2) -> str:
    """Return a number without the 0 before its point."""
    return f"{value:.{digits}f}".replace("0.", ".", 1)


def verdict(of: Tally, aim: Aim) -> str:
    """Return how an entry misses its aim beyond two standard errors: `fails`, `conservative`, or empty."""
    if of.mean + 2 * of.error < aim.low:
        return aim.too_low
    return aim.too_high if of.mean - 2 * of.error > aim.high else ""


def selected(of: Tally, samples: int, aim: Aim) -> bool:
    """Return whether few samples have an interval, of which no more of all samples miss than may: those are unusual ones."""
    return aim.too_low == "fails" and of.defined < FEW * samples and (1 - of.mean) * of.defined / samples <= 1 - aim.low


def entry(of: Tally | None, samples: int, aim: Aim) -> str:
    """Return a cell of a table: bold if it fails, c if it is conservative, s if it is `selected`; then the share of samples without one."""
    if of is None:
        return ""
    if not of.defined:
        return "none"
    text = f"{share(of.mean, 3 if aim.high < 0.5 else 2)}±{share(of.error, 3 if aim.high < 0.5 else 2)}"
    missed = verdict(of, aim)
    if missed == "fails":
        text = f"{text}s" if selected(of, samples, aim) else f"**{text}**"
    return text + "c" * (missed == "conservative") + (f"({share(1 - of.defined / samples)})" if of.defined < samples else "")


def label(value: str | int | float) -> str:
    """Return a label of a row."""
    return f"{value:,}" if isinstance(value, int) else share(value) if isinstance(value, float) and value < 1 else str(value)


def table(question: Question, tallies: Tallies) -> str:
    """Return a table, its count of samples first."""
    columns = list(question.aims)
    lines = [f"|{'|'.join([*question.heads, *(column.replace('_', ' ') for column in columns)])}|"]
    lines.append("|---" * (len(question.heads) + len(columns)) + "|")
    counts = []
    for row in question.rows:
        tallied = tallies.get((question.name, row), Tallied())
        counts.append(tallied.samples)
        for name in dict.fromkeys(name for name, _ in question.entries(row)):
            cells = [entry(tallied.entries.get((name, column)), tallied.samples, question.aims[column]) for column in columns]
            if any(cells):
                lines.append(f"|{'|'.join([*map(label, row), *([name] if name else []), *cells])}|")
    aims = "; ".join(dict.fromkeys(str(aim) for aim in question.aims.values()))
    samples = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
    return "\n".join([f"{samples} samples a row. Aim: {aims}.", "", *lines])


def insert_tables(text: str, questions: Mapping[str, Question], tallies: Tallies) -> str:
    """Return the page with each table between its marks as it is now."""
    for name, question in questions.items():
        start, end = f"<!-- table: {name} -->", f"<!-- end: {name} -->"
        head, _, rest = text.partition(start)
        text = f"{head}{start}\n{table(question, tallies)}\n{end}{rest.partition(end)[2]}"
    return text


def failures(questions: Mapping[str, Question], tallies: Tallies) -> Iterator[tuple[str, Row, str, str, Tally, int]]:
    """Yield the entries that miss their aim on the wrong side: question, row, metric, column, tally, samples."""
    for name, question in questions.items():
        for row in question.rows:
            tallied = tallies.get((name, row), Tallied())
            for (metric, column), of in tallied.entries.items():
                aim = question.aims[column]
                if of.defined and verdict(of, aim) == "fails" and not selected(of, tallied.samples, aim):
                    yield name, row, metric, column, of, tallied.samples
