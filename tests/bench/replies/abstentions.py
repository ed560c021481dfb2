"""How often the detector of abstentions agrees with people: on real replies, and on replies written for this purpose."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from qualm.runners.plugins.judges._refusals import read_abstention
from tests.bench.replies.figures import REPLIES, Figure

DATA = Path(__file__).parents[2] / "data"
ABSTAINS_OF_FLAGGED = {37}
"""Places in flagged_as_refusal.json, read by hand: the others answer."""
COMMITS_THOUGH_UNREAD = {48, 101, 370, 382, 402, 480}
"""Places in blink_long_replies.json whose letter the authors did not read, and which answer: all images, none of them, a list."""
ABSTAINS_OF_MMMU = {3}
APOLOGIES = ("sorry, i can't help", "i can't process this file")
"""How Bard abstains in mathvista.json; minigpt4 does so in the places below."""
ABSTAINS_OF_MATHVISTA = {197, 242}

Labelled = tuple[str, str, bool]
"""Question, reply, whether it abstains."""


def figures() -> Iterator[Figure]:
    """Yield precision on answers and recall of abstentions for each set of replies."""
    flagged = [("", row["reply"], place in ABSTAINS_OF_FLAGGED) for place, row in enumerate(_read("flagged_as_refusal"))]
    yield Figure("flagged_as_refusal.json: flagged", sum(_abstains(row) for row in flagged) / len(flagged), len(flagged), at_most=2 / 46)
    blink = [
        ("", row["reply"], row["read_by_authors"] == "Z" and place not in COMMITS_THOUGH_UNREAD)
        for place, row in enumerate(_read("blink_long_replies"))
    ]
    mathvista = [
        ("", row["reply"], place in ABSTAINS_OF_MATHVISTA or row["reply"].casefold().startswith(APOLOGIES))
        for place, row in enumerate(_read("mathvista"))
    ]
    mmmu = [(row["question"], row["reply"], place in ABSTAINS_OF_MMMU) for place, row in enumerate(_read("mmmu_pro_gpt4o"))]
    yield from _both_ways("blink_long_replies.json", blink, 0.98)
    yield from _both_ways("mathvista.json", mathvista, 0.98)
    yield from _both_ways("mmmu_pro_gpt4o.json", mmmu, 0.98)
    yield from _both_ways(
        "abstentions.csv", [(row["question"], row["reply"], row["abstains"] == "1") for row in _table("abstentions")], 0.98
    )
    older = [(row["question"], row["prediction"], row["is_refusal"] == "1") for row in _table("refusals")]
    yield from _both_ways("refusals.csv", older, 0.98)
    answers = [row for row in _table("abstentions") if row["abstains"] == "0" and row["hedges"]]
    right = [read_abstention(row["reply"], row["question"]).hedges == (row["hedges"] == "1") for row in answers]
    yield Figure("abstentions.csv: answers whose caveat, or its absence, is seen", sum(right) / len(right), len(right))


def _both_ways(name: str, rows: Iterable[Labelled], bar: float) -> Iterator[Figure]:
    read = [(label, _abstains((question, reply, label))) for question, reply, label in rows]
    found = [label for label, abstains in read if abstains]
    missed = [abstains for label, abstains in read if label]
    kept = [not abstains for label, abstains in read if not label]
    yield Figure(f"{name}: answers read as answers", sum(kept) / len(kept), len(kept), at_least=bar)
    yield Figure(f"{name}: abstentions found (recall)", sum(missed) / len(missed), len(missed))
    yield Figure(f"{name}: of those found, abstentions (precision)", sum(found) / len(found), len(found))


def _abstains(row: Labelled) -> bool:
    return read_abstention(row[1], row[0]).abstains


def _read(name: str) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads((REPLIES / f"{name}.json").read_text(encoding="utf-8"))
    return rows


def _table(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / f"{name}.csv").open(encoding="utf-8")))
