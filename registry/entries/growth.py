"""Growth of a user's data: outdated counts of a card, and the updated card."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from qualm.registry.entries.card import Card
from qualm.registry.entries.layout import inspect, matches
from qualm.registry.system import textfiles

MARK = "# Written by `qualm data new`"
"""The first words of a card of one's own; the counts of other cards are those of a release."""


@dataclass(frozen=True)
class Recount:
    """A count on a card (files, or records of a split), before and now."""

    what: str
    """The pattern of `layout`, or the name of a split."""
    before: int
    now: int
    split: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.before:,} {'records' if self.split else 'files'} before, {self.now:,} now"


def recounts(folder: Path, card: Card, path: Path) -> list[Recount]:
    """Return the changed counts of a user's card; [] if anything else differs too."""
    if not textfiles.is_file(path) or not textfiles.read_text(path).startswith(MARK):
        return []
    layout = tuple(rule.model_copy(update={"count": None}) for rule in card.layout)
    splits = {name: split.model_copy(update={"records": None}) for name, split in card.splits.items()}
    there = inspect(folder, card.model_copy(update={"layout": layout, "splits": splits}))
    if there.problems:
        return []
    files = ((rule, sum(matches(rule.files, name) for name in there.files)) for rule in card.layout)
    changes = [Recount(rule.files, rule.count, n) for rule, n in files if rule.count not in (None, n)]
    for name, split in card.splits.items():
        records = set(there.splits.get(name, []))
        if split.records is None or records <= {split.records}:
            continue
        if len(records) > 1:  # no count fits each file of the split
            return []
        changes.append(Recount(name, split.records, records.pop(), split=True))
    return changes


def rewrite_counts(text: str, changes: list[Recount]) -> str | None:
    """Return a card's text with the new counts; None if they cannot be replaced."""
    expected = _counted(yaml.safe_load(text), changes)
    for change in changes:
        key, name = ("records", change.what) if change.split else ("count", change.what)
        opening = rf"^  {_yaml_pattern(name)}: \{{" if change.split else rf"^  - \{{files: {_yaml_pattern(name)},"
        text = re.sub(rf"({opening}.*\b{key}: ){change.before}\b", rf"\g<1>{change.now}", text, count=1, flags=re.MULTILINE)
    return text if yaml.safe_load(text) == expected else None


def parse_card(text: str) -> Card:
    return Card.model_validate(yaml.safe_load(text))


def _yaml_pattern(name: str) -> str:
    """Return a regular expression for `name` in YAML, quoted or bare."""
    return f"(?:{re.escape(json.dumps(name, ensure_ascii=False))}|{re.escape(name)})"


def _counted(card: dict[str, Any], changes: list[Recount]) -> dict[str, Any]:
    for change in changes:
        if change.split:
            card["splits"][change.what]["records"] = change.now
        else:
            next(rule for rule in card["layout"] if rule["files"] == change.what)["count"] = change.now
    return card
