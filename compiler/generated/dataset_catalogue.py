"""docs/reference/datasets.md: a table of all dataset cards."""

from qualm.compiler.generated.tables import table
from qualm.registry.entries import card as cards
from qualm.registry.entries.card import Card, Split

_HEAD = """\
# Data sets

*Written by `make docs-reference` from registry/cards/; CI holds it in step.*

One row for every data set that a spec can name (`card: NAME`); `qualm data show NAME` says more.
See also [how to bring data in](../how-to/data.md).

- **verified**: layout and counts were checked against the released files. *no*: they follow a description; the reader holds every record
  to what is known, and what differs ends the run with file, record and key. Nothing is guessed.
- **splits**: records that the card expects of each, which `qualm data add` checks where the number stands for a file of its own.
- **scoring**: the official rule, and in `code` the metrics and judges that compute it here.
"""


def catalogue() -> str:
    rows = [card for card in cards.every_card() if card.kind == "dataset"]
    head = ("card", "data set", "format", "verified", "splits", "scoring", "licence")
    return f"{_HEAD}\n{table(head, [_row(card) for card in rows])}"


def _row(card: Card) -> tuple[str, ...]:
    title = card.title if card.source == "generated" else f"[{card.title}]({card.source})"
    reads = "" if card.adapter else f" (no reader yet: {card.missing.strip()})"
    count = "any number" if card.source == "generated" else "?"
    splits = "; ".join(f"{name} {_records(split) or count}" for name, split in card.splits.items())
    verified = "yes" if card.verified else "no"
    return card.name, title + reads, card.formats, verified, splits, card.scoring or "no official rule", card.licence


def _records(split: Split) -> str:
    return "" if split.records is None else f"{split.records:,}"
