"""Best uncertainty estimators and those tied with them: lines below the scores of `qualm show`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from qualm.compiler.results.scores import Row
from qualm.compiler.spec import sentences as say
from qualm.registry.system.console import Console
from qualm.runners.scoring.families import describe_correction
from qualm.runners.scoring.measuring.labels import add_estimator


def show_best_estimators(rankings: Sequence[Row], scores: Sequence[Row], family: str, console: Console) -> None:
    """Print a line on the best estimators per model, dataset and metric, and one on the test.

    Nothing is printed if `scores` has no ranked metric.

    Args:
        family: label of the multiple-testing family in the last line.
    """
    lines = list(best_estimators(rankings, scores))
    for line in lines:
        console.print(Text(line))
    if lines:
        how = describe_correction({"correction": "max_t", "family": family})
        console.print(Text(say.MAY_BE_BEST.format(correction=how), style="dim"))


def best_estimators(rankings: Sequence[Row], scores: Sequence[Row]) -> Iterator[str]:
    """Yield a text on the best estimators per model, dataset and metric that `scores` has."""
    from qualm.runners.reporting.chance import none_beats_chance
    from qualm.runners.reporting.text import number
    from qualm.runners.scoring.scored_share import describe_unequal_shares

    score_keys = {(*_place(row), row["metric"]) for row in scores}
    of_estimators = [row for row in rankings if row["among"] == "estimators"]
    for (*place, metric), column in groupby(of_estimators, key=lambda row: (*_place(row), row["metric"])):
        best, *others = column
        if (*place, add_estimator(metric, best["candidate"])) not in score_keys:
            continue
        model, dataset, *where = place
        aside = "".join(f" · {name}" for name, usual in zip(where, ("clean", "all"), strict=True) if name != usual)
        place_in_words = f"{dataset}{aside}, {model}, {metric}"
        if best["not_comparable"]:
            why = describe_unequal_shares({row["candidate"]: row["scored_share"] for row in (best, *others)})
            yield say.ESTIMATORS_NOT_RANKED.format(place=place_in_words, why=why)
        elif no_better := none_beats_chance(best):
            yield f"{place_in_words}: {no_better} ({best['candidate']} {number(best['value'])})"
        else:
            yield say.BEST_ESTIMATOR.format(place=place_in_words, estimator=best["candidate"], others=_separation(best, others))


def _separation(best: Row, others: Sequence[Row]) -> str:
    """Return in words whether other estimators may be as good as the best."""
    if best["is_best"]:
        return say.BETTER_THAN_ALL.format(n=len(others)) if len(others) > 1 else say.BETTER_THAN_OTHER
    close = [row["candidate"] for row in others if row["may_be_best"]]
    return say.MAY_BE_BEST_TOO.format(estimators=", ".join(close)) if close else say.OTHERS_ARE_WORSE


def _place(row: Row) -> tuple[str, str, str, str]:
    return row["model"], row["dataset"], row["variant"], row["slice"]
