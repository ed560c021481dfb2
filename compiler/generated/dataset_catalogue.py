"""docs/reference/datasets.md: a table of all dataset cards."""

from qualm.compiler.generated.tables import table
from qualm.registry.entries import card as cards
from qualm.registry.entries.card import Card, Split

_HEAD = """\
# Datasets

*Written by `make docs-reference` from registry/cards/.*

Every dataset that a spec can name (`card: NAME`). `qualm data show NAME` prints more, such as file formats.
[Bring your data](../how-to/data.md) explains how to add the files, [exchange](../how-to/exchange.md) lists the cards of other tools' logs.

- **verified**: layout and counts were checked against the released files. *no*: the card follows a description, and a file that differs
  ends the run with file, record and key.
- **splits**: expected numbers of records.
- **scoring**: the official rule, if there is one; in `code` the metrics and judges that compute it.
"""


def catalogue() -> str:
    rows = [card for card in cards.load_all_cards() if card.kind == "dataset" and card.adapter != "recorded_samples"]
    head = ("card", "dataset", "verified", "splits", "scoring", "licence")
    return f"{_HEAD}\n{table(head, [_row(card) for card in rows])}"


def _row(card: Card) -> tuple[str, ...]:
    title = card.title if card.source == "generated" else f"[{card.title}]({card.source})"
    reads = "" if card.adapter else f" (no reader yet: {card.missing.strip()})"
    count = "any number" if card.source == "generated" else "?"
    splits = "; ".join(f"{name} {_records(split) or count}" for name, split in card.splits.items())
    verified = "yes" if card.verified else "no"
    return card.name, title + reads, verified, splits, card.scoring, card.licence


def _records(split: Split) -> str:
    return "" if split.records is None else f"{split.records:,}"
