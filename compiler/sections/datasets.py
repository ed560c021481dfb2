"""The `datasets:` section, spelled out: which card, read by which adapter, with which parameters, and what is kept of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from compiler import check
from compiler.load import Path_
from compiler.refs import PREPARE, Ref, artifact_path, located
from compiler.sections import subsets
from compiler.sections.reader import Reader
from compiler.spec import Dataset
from registry import cards, plugins
from registry.plugins import Plugin


@dataclass(frozen=True)
class DatasetUse:
    """One data set of the spec (one point of its sweep)."""

    label: str
    card: str
    adapter: Plugin | None
    """None where nothing reads the card's data yet."""
    args: dict[str, Any]
    limit: int | None
    source: str | None
    evaluate: bool
    splits: tuple[str, ...] | None
    missing: str = ""
    """What will read it, where nothing does yet."""
    select: Mapping[str, Any] = field(default_factory=dict)
    """`where`, `uncertain`, `disjoint`, `ask` and `skip_bad` as the data stage is told, where the spec has them."""
    reviews: str | None = None
    """Path of people's decisions."""
    unreviewed: str = "drop"
    subsets: Mapping[str, str] = field(default_factory=dict)
    """The card's subsets as expressions, by name."""
    prepare: Ref | None = None
    """What is made of its samples."""
    judges: tuple[str, ...] | None = None
    """Names of those of the spec's judges that judge its answers; None = all."""


def resolve(reader: Reader, trained_on: Collection[str]) -> tuple[DatasetUse, ...]:
    """Every data set.

    Args:
        reader: of the spec.
        trained_on: names of those that models are made of, which are evaluated only if the spec says so.
    """
    spec = reader.spec
    read = {name: one for name, entry in spec.datasets.items() if (one := _card(reader, entry.card, ("datasets", name, "card")))}
    selected = {name: subsets.expressions(reader, name, card, adapter) for name, (card, adapter) in read.items()}
    found: list[DatasetUse] = []
    for name, (card, adapter) in read.items():
        entry = spec.datasets[name]
        select: dict[str, Any] = dict(selected[name])
        if apart := subsets.disjoint(reader, name, selected):
            select["disjoint"] = apart
        select |= subsets.asked(reader, name)
        if entry.skip_bad:
            select["skip_bad"] = True
        evaluate = entry.evaluate if entry.evaluate is not None else name not in trained_on
        found += _points(reader, name, card, adapter, select, evaluate)
    return tuple(sorted(found, key=lambda d: d.label))


def _points(
    reader: Reader, name: str, card: cards.Card, adapter: Plugin | None, select: Mapping[str, Any], evaluate: bool
) -> Iterator[DatasetUse]:
    """A data set at every point of its sweep."""
    entry, path = reader.spec.datasets[name], ("datasets", name)
    given = {**{k: v for k, v in card.args.items() if k not in (entry.model_extra or {})}, **(entry.model_extra or {})}
    if adapter is None:
        _no_parameters(reader, given, path)
    for swept, args, prepare in _prepared(reader, adapter, given, entry, path) if adapter else [({}, {}, None)]:
        yield DatasetUse(
            label=check.label(name, swept),
            card=card.name,
            adapter=adapter,
            args=args,
            limit=entry.limit if entry.limit is not None else reader.run_wide.limit,
            source=entry.source or (card.name if card.layout else None),
            evaluate=evaluate,
            splits=tuple(sorted(set(entry.splits))) if entry.splits is not None else None,
            missing=card.missing,
            select=select,
            reviews=artifact_path(entry.curated) if entry.curated else None,
            unreviewed=entry.unreviewed,
            subsets=subsets.named(card, adapter),
            prepare=prepare,
            judges=None if entry.judges is None else tuple(entry.judges),
        )


def _prepared(
    reader: Reader, adapter: Plugin, given: Mapping[str, Any], entry: Dataset, path: Path_
) -> Iterator[tuple[dict[str, Any], dict[str, Any], Ref | None]]:
    """Every combination of an adapter's parameters and of what is made of its samples."""
    known = replace(adapter, parameters=(*adapter.parameters, PREPARE))
    for swept, whole in reader.combinations(known, {**given, PREPARE.name: entry.prepare}, path):
        one, args = whole[PREPARE.name], {name: value for name, value in whole.items() if name != PREPARE.name}
        plugin = plugins.get("preparations", one["plugin"]) if one else None
        yield swept, located(adapter, args), Ref(plugin.name, plugin, located(plugin, one["args"])) if plugin else None


def _card(reader: Reader, name: str, path: Path_) -> tuple[cards.Card, Plugin | None] | None:
    """The card of a data set and its adapter, where something reads it."""
    try:
        card = cards.load_card(name)
    except cards.CardError as error:
        reader.problem(path, str(error))
        return None
    if card.kind != "dataset":
        reader.problem(path, f"expected the card of a data set, got '{name}', which is a {card.kind}")
        return None
    adapter = reader.plugin("datasets", card.adapter, path) if card.adapter else None
    return (card, adapter) if adapter or not card.adapter else None


def _no_parameters(reader: Reader, given: Mapping[str, Any], path: Path_) -> None:
    for name in given:
        reader.problem((*path, name), f"unknown key '{name}'", "nothing reads this card's data yet, so it has no parameters", key=True)
