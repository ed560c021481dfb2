"""Resolve the `datasets:` section: cards, adapters, parameters and selections."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from qualm.compiler.resolve import subsets
from qualm.compiler.resolve.reader import SpecReader
from qualm.compiler.resolve.resolved import DatasetUse
from qualm.compiler.spec import validate
from qualm.compiler.spec.language import Dataset
from qualm.compiler.spec.plugin_ref import ANSWERABLE_BY, PREPARE, Ref, located
from qualm.compiler.spec.yaml_positions import Path_
from qualm.registry.entries import card as cards
from qualm.registry.plugins import rule
from qualm.registry.plugins.rule import Plugin


def resolve(reader: SpecReader, trained_on: Collection[str]) -> tuple[DatasetUse, ...]:
    """Return the use of every dataset.

    Args:
        trained_on: names of datasets that fine-tunes or pairs use, which are evaluated only if the spec says so.
    """
    spec = reader.spec
    read = {name: found for name, entry in spec.datasets.items() if (found := _card(reader, entry.card, ("datasets", name, "card")))}
    selected = {name: subsets.expressions(reader, name, card, adapter) for name, (card, adapter) in read.items()}
    uses: list[DatasetUse] = []
    for name, entry in spec.datasets.items():
        apart, ask = subsets.disjoint(reader, name, selected), subsets.ask_answerable_prompt(reader, name)
        if name not in read:
            continue
        card, adapter = read[name]
        select: dict[str, Any] = {**selected[name], **({"disjoint": apart} if apart else {}), **ask}
        subsets.check_balance(reader, name, card, adapter)
        subsets.check_answerable_by(reader, name, select)
        evaluate = entry.evaluate if entry.evaluate is not None else name not in trained_on
        uses += _points(reader, name, card, adapter, select, evaluate)
    return tuple(sorted(uses, key=lambda d: d.label))


def _points(
    reader: SpecReader, name: str, card: cards.Card, adapter: Plugin | None, select: Mapping[str, Any], evaluate: bool
) -> Iterator[DatasetUse]:
    entry, path = reader.spec.datasets[name], ("datasets", name)
    parameters = {**card.args, **(entry.model_extra or {})}
    if adapter is None:
        _no_parameters(reader, parameters, path)
    card_subsets = subsets.named(reader, (*path, "card"), card, adapter)
    prompt = reader.prompts.read(entry.prompt, (*path, "prompt")).get("", {})
    for swept, args, prepare, answerable_by in _prepared(reader, adapter, parameters, entry, path) if adapter else [({}, {}, None, None)]:
        yield DatasetUse(
            validate.label(name, swept),
            entry,
            evaluate,
            prompt,
            card,
            adapter,
            args,
            reader.run_wide.limit if entry.limit is None else entry.limit if isinstance(entry.limit, int) else _limit(entry.limit),
            select,
            card_subsets,
            prepare,
            answerable_by,
        )


def _limit(limit: Mapping[Any, Any]) -> dict[str, Any]:
    ((unit, numbers),) = limit.items()
    return {"unit": unit, "of": numbers if isinstance(numbers, dict) else {"": numbers}}


def _prepared(
    reader: SpecReader, adapter: Plugin, parameters: Mapping[str, Any], entry: Dataset, path: Path_
) -> Iterator[tuple[dict[str, Any], dict[str, Any], Ref | None, Ref | None]]:
    """Yield the points of a sweep: swept values, arguments of the adapter, preparation, judge of answerability."""
    beside = (PREPARE, ANSWERABLE_BY)
    extended = replace(adapter, parameters=(*adapter.parameters, *beside))
    given = {**parameters, PREPARE.name: entry.prepare, ANSWERABLE_BY.name: entry.answerable_by}
    for swept, values in reader.combinations(extended, given, path):
        args = {name: value for name, value in values.items() if name not in {p.name for p in beside}}
        yield swept, located(adapter, args), _ref("preparations", values[PREPARE.name]), _ref("judges", values[ANSWERABLE_BY.name])


def _ref(kind: str, chosen: Mapping[str, Any] | None) -> Ref | None:
    if not chosen:
        return None
    plugin = rule.get(kind, chosen["plugin"])
    return Ref(plugin.name, plugin, located(plugin, chosen["args"]))


def _card(reader: SpecReader, name: str, path: Path_) -> tuple[cards.Card, Plugin | None] | None:
    """Return a dataset's card and adapter; an adapter of None if nothing reads its data yet."""
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


def _no_parameters(reader: SpecReader, parameters: Mapping[str, Any], path: Path_) -> None:
    for name in parameters:
        reader.problem((*path, name), f"unknown key '{name}'", "nothing reads this card's data yet, so it has no parameters", key=True)
