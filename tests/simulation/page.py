"""The table of docs/explanation/statistics.md: a fold per metric, every share that is off marked, and why it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tests.simulation.intervals import DIFFERENCE, GROUPS, KINDS, LEVEL, OF_PAIRS, RESAMPLES, SIZES, VALUES, Held, cells

WANTED, OF_TESTS = (0.93, 0.97), (0.035, 0.065)
Cells = dict[tuple[str, int, int, float], Held]
NEAR = "~"


@dataclass(frozen=True)
class Reason:
    """Why intervals or tests of some cells are off."""

    letter: str
    text: str
    holds: Callable[[Held, bool], bool]
    """Of a cell, and whether its share is too high."""


RANKINGS = (
    *("auroc", "auarc", "aurc", "e_aurc", "augrc", "prediction_rejection_ratio", "selective_accuracy"),
    *("average_precision", "fpr_at_tpr"),
)
SHARES = ("accuracy", "uncertainty_reflection_rate", "confidence_weighted_accuracy")


def of(*metrics: str, paired: bool | None = None, high: bool | None = None, careful: bool = False) -> Callable[[Held, bool], bool]:
    """Cells of these metrics; only those of differences, or of single models; only those too high, or too low. `careful`: too high, or of
    differences, whose tests that find too little are too low."""

    def holds(one: Held, too_high: bool) -> bool:
        base, is_paired = one.metric.removesuffix(DIFFERENCE), one.metric.endswith(DIFFERENCE)
        return base in metrics and paired in (None, is_paired) and high in (None, too_high) and (too_high or is_paired or not careful)

    return holds


REASONS = (
    Reason("a", "two models that are right nearly everywhere differ on a handful of questions: p takes few values, and t is careful "
           "(at .5: chance of the simulation)", of(*SHARES, paired=True)),
    Reason("b", "few groups whose means are skewed, as those of rare errors are: samples without the worst groups look too good",
           of(*SHARES, high=False)),
    Reason("c", "few wrong answers are expected, and Wilson's interval of few is careful", of(*SHARES, high=True)),
    Reason("d", "near 1 few answers carry the spread of a ranking: the least standard error is careful, and so is t for differences",
           of(*RANKINGS, careful=True)),
    Reason("f", "the bias of the chosen threshold is taken off and counted as error too: careful", of("best_f1", careful=True)),
    Reason("e", "few groups, of which one or two hold most of what is ranked wrongly: samples without them look too good",
           of(*RANKINGS, "best_f1", high=False)),
    Reason("g", "the low end is 0 where calibration is not refuted, the high end not below that of mean confidence: careful",
           of("ece", "ece_smooth", "ece_adaptive", paired=False, high=True)),
    Reason("h", "errors of calibrated models are mostly chance, which resamples double: too wide",
           of("ece", "ece_smooth", "ece_adaptive", paired=True)),
    Reason("i", "few groups, and bins of few answers", of("ece", "ece_smooth", "ece_adaptive", paired=False, high=False)),
    Reason("m", "single answers that are sure and wrong carry much of the spread", of("brier", "nll")),
    Reason("j", "a correlation near its bound of 1 is skewed", of("hallucination_change_correlation")),
    Reason("k", "nearly all sets have one option, or few groups lie on a side of the split, and the smaller side counts: careful",
           of("coverage", "set_size", "uncertainty_aware_accuracy", high=True)),
    Reason("n", "two models nearly all of whose sets have one option differ on a handful of questions: p takes few values, most often 1",
           of("coverage", "set_size", "uncertainty_aware_accuracy", paired=True, high=False)),
    Reason("l", "nearly all sets have one option: few draws of the calibration questions show that more are possible",
           of("coverage", "set_size", "uncertainty_aware_accuracy", high=False)),
)  # fmt: skip


def off(held: int, of: int, wanted: tuple[float, float]) -> int:
    """1 where a share of samples is too high, -1 too low, 0 where it is as wanted or may be: two standard errors are allowed for."""
    share, smooth = held / of, (held + 1) / (of + 2)
    slack = 2 * math.sqrt(smooth * (1 - smooth) / of)
    return 1 if share - slack > wanted[1] else -1 if share + slack < wanted[0] else 0


def of_interval(one: Held | None) -> str:
    """How often the interval held the truth; bold with the letter of the reason where that is off."""
    if one is None:
        return ""
    if not one.printed:
        return "none"
    few = f" ({one.printed / one.samples:.0%})" if one.printed < one.samples else ""
    return marked(one, one.held, one.printed, WANTED) + few


def of_test(one: Held | None) -> str:
    """How often the test of no difference found one."""
    return "" if one is None else marked(one, one.rejected, one.tested, OF_TESTS, 3) if one.tested else "none"


def marked(one: Held, held: int, of: int, wanted: tuple[float, float], digits: int = 2) -> str:
    """A share; bold with its reason's letter where it is off; with NEAR where it is outside and the simulation's error explains it."""
    share, side = f"{held / of:.{digits}f}", off(held, of, wanted)
    short = share.removeprefix("0")
    if not side:
        return short if wanted[0] <= float(share) <= wanted[1] else f"{short}{NEAR}"
    letter = next(reason.letter for reason in REASONS if reason.holds(one, side > 0))
    return f"**{short}** {letter}"


def sections(known: Cells) -> Iterator[str]:
    """A fold for each metric."""
    heads = [f"{value:g}" for value in VALUES]
    columns = [*heads, *(f"b − a, {head}" for head in heads), *(f"p ≤ .05, {head}" for head in heads)]
    for metric in (name for names in KINDS.values() for name in names):
        rows = []
        for n, groups in sorted({key[1:3] for key in known if key[0] == metric}):
            single = [known.get((metric, n, groups, value)) for value in VALUES]
            pair = [known.get((metric + DIFFERENCE, n, groups, value)) for value in VALUES]
            entries = [*map(of_interval, single), *map(of_interval, pair), *map(of_test, pair)]
            rows.append(f"| {n:,} | {groups} | {' | '.join(entries)} |")
        marks = sum(row.count("**") // 2 for row in rows)
        entries_of, near = sum(row.count("|") - 3 for row in rows), sum(row.count(NEAR) for row in rows)
        summary = f"<code>{metric}</code>: {marks} of {entries_of} off, {near} more outside within two standard errors"
        yield "\n".join(
            [
                f'<details markdown="1"><summary>{summary}</summary>',
                "",
                f"| questions | groups | {' | '.join(columns)} |",
                "|---" * (2 + len(columns)) + "|",
                *rows,
                "",
                "</details>",
            ]
        )


def legend(text: str) -> Iterator[str]:
    """The reasons that the text names."""
    if NEAR in text:
        yield f"- **{NEAR}**: outside by at most two standard errors of the simulation, which may be chance."
    for reason in REASONS:
        if f"** {reason.letter} " in text:
            yield f"- **{reason.letter}**: {reason.text}."


def _sides(shares: Iterable[tuple[int, int, tuple[float, float]]]) -> tuple[int, int, int]:
    """How many shares are too high, how many too low, and of how many."""
    sides = [off(held, of, wanted) for held, of, wanted in shares if of]
    return sides.count(1), sides.count(-1), len(sides)


def _with_gaps(known: Cells) -> Iterator[str]:
    """Metrics of which some cell was never drawn."""
    for kind, n, groups, value, paired in cells():
        if (n, groups, value, paired) == (SIZES[0], GROUPS[0], VALUES[0], False):
            yield from (
                name
                for name in KINDS[kind]
                if any((name + DIFFERENCE * pair, *of) not in known for other, *of, pair in cells() if other == kind)
            )


def table(held: Iterable[Held]) -> str:
    """All that is known."""
    known: Cells = {(h.metric, h.n, h.groups, h.value): h for h in held}
    counts = [h.samples for h in known.values()]
    fewest, most = min(counts, default=1), max(counts, default=1)
    errors = " to ".join(f"{math.sqrt(LEVEL * (1 - LEVEL) / of):.3f}" for of in (fewest, most))
    facts = (
        f"{fewest:,} to {most:,} samples a cell (standard error of .95: {errors}), {RESAMPLES} resamples, "
        f"of differences {OF_PAIRS} and as many exchanges less one. A percentage in brackets: samples with an interval."
    )
    wide, narrow, of = _sides((h.held, h.printed, WANTED) for h in known.values())
    much, little, tests = _sides((h.rejected, h.tested, OF_TESTS) for h in known.values())
    facts += f" Off are of {of} intervals {wide} that are too wide and {narrow} too narrow, of {tests} tests {little} that find too little"
    facts += f" and {much} too much."
    folds = "\n\n".join(sections(known))
    if empty := ", ".join(f"`{name}`" for name in _with_gaps(known)):
        facts += f" An empty cell was not drawn: of {empty} (differences; not among the metrics whose holding is aimed at)."
    return "\n\n".join([facts, "\n".join(legend(folds)) or "No cell is off.", folds])
