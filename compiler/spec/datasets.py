"""Resolve the `datasets:` section: cards, adapters, parameters, selections and the expressions that make them."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import Problem, nearest
from qualm.compiler.spec.language import Dataset
from qualm.compiler.spec.plugin_ref import ANSWERABLE_BY, PREPARE, Ref, located, prompt_path, prompts_folder
from qualm.compiler.spec.reader import SpecReader
from qualm.compiler.spec.resolved import DatasetUse
from qualm.compiler.spec.yaml_positions import Path_, dotted, mark_within
from qualm.registry import UNCERTAIN
from qualm.registry.entries import card as cards
from qualm.registry.entries.card import Card
from qualm.registry.plugins import registry
from qualm.registry.plugins.registry import PROMPTS, Plugin, meta_keys
from qualm.registry.where import FIELDS, WhereError, parse
from qualm.runners.prompts.templates import PromptError, fill_placeholders, read_prompt


def resolve(reader: SpecReader, trained_on: Collection[str]) -> tuple[DatasetUse, ...]:
    """Return all datasets of a spec by label, one per point of a sweep; record mistakes.

    Args:
        trained_on: names of datasets that fine-tunes or pairs use, which are evaluated only if the spec says so.
    """
    spec = reader.spec
    read = {name: found for name, entry in spec.datasets.items() if (found := _card(reader, entry.card, ("datasets", name, "card")))}
    selected = {name: parse_expressions(reader, name, card, adapter) for name, (card, adapter) in read.items()}
    uses: list[DatasetUse] = []
    for name, entry in spec.datasets.items():
        apart, ask = disjoint(reader, name, selected), ask_answerable_prompt(reader, name)
        if name not in read:
            continue
        card, adapter = read[name]
        select: dict[str, Any] = {**selected[name], **({"disjoint": apart} if apart else {}), **ask}
        check_balance(reader, name, card, adapter)
        check_answerable_by(reader, name, select)
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
    card_subsets = named_subsets(reader, (*path, "card"), card, adapter)
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
    """Yield (swept values, adapter's arguments, preparation or None, judge or None) per point."""
    beside = (PREPARE, ANSWERABLE_BY)
    extended = replace(adapter, parameters=(*adapter.parameters, *beside))
    given = {**parameters, PREPARE.name: entry.prepare, ANSWERABLE_BY.name: entry.answerable_by}
    for swept, values in reader.combinations(extended, given, path):
        args = {name: value for name, value in values.items() if name not in {p.name for p in beside}}
        yield swept, located(adapter, args), _ref("preparations", values[PREPARE.name]), _ref("judges", values[ANSWERABLE_BY.name])


def _ref(kind: str, chosen: Mapping[str, Any] | None) -> Ref | None:
    if not chosen:
        return None
    plugin = registry.get(kind, chosen["plugin"])
    return Ref(plugin.name, plugin, located(plugin, chosen["args"]))


def _card(reader: SpecReader, name: str, path: Path_) -> tuple[cards.Card, Plugin | None] | None:
    """Load card `name` with its adapter; None after recording a problem at `path`."""
    try:
        card = cards.load_card(name)
    except cards.CardError as error:
        reader.problem(path, str(error))
        return None
    if card.kind != "dataset":
        reader.problem(path, f"expected the card of a dataset, got '{name}', which is a {card.kind}")
        return None
    adapter = reader.plugin("datasets", card.adapter, path) if card.adapter else None
    return (card, adapter) if adapter or not card.adapter else None


def _no_parameters(reader: SpecReader, parameters: Mapping[str, Any], path: Path_) -> None:
    for name in parameters:
        reader.problem((*path, name), f"unknown key '{name}'", "this card has no adapter yet, so it has no parameters", key=True)


def parse_expressions(reader: SpecReader, name: str, card: Card, adapter: Plugin | None) -> dict[str, str]:
    """Return the valid ones of {"where", "uncertain": canonical expression}; record others."""
    declared = _meta(reader, name, card, adapter)
    by_key: dict[str, str] = {}
    for key in ("where", UNCERTAIN):
        text: str | None = getattr(reader.spec.datasets[name], key)
        if text is None:
            continue
        try:
            by_key[key] = str(parse(text, declared, card.subsets))
        except WhereError as error:
            at: Path_ = ("datasets", name, key)
            mark = mark_within(reader.document, at, error.at)
            reader.problems.append(Problem(mark, dotted(at), error.message, error.hint))
    return by_key


def _meta(reader: SpecReader, name: str, card: Card, adapter: Plugin | None) -> tuple[str, ...] | None:
    """Return the meta keys of a dataset's samples; None if they are unknown."""
    arguments = {**card.args, **(reader.spec.datasets[name].model_extra or {})}
    return meta_keys(adapter, arguments) if adapter else None


def check_balance(reader: SpecReader, name: str, card: Card, adapter: Plugin | None) -> None:
    """Record a problem if `balance:` names an unknown field or stands beside `limit`."""
    entry, path = reader.spec.datasets[name], ("datasets", name, "balance")
    if entry.balance is None:
        return
    if entry.limit is not None:
        reader.problem(
            ("datasets", name, "limit"), "expected `balance` or `limit`, got both", "`take` of `balance` says how many", key=True
        )
    declared = _meta(reader, name, card, adapter)
    fields = {UNCERTAIN, *FIELDS, *(declared or ())}
    if declared is not None and entry.prepare is None and entry.balance.by not in fields:
        reader.problem((*path, "by"), f"samples have no field '{entry.balance.by}'", nearest(entry.balance.by, fields))


def check_answerable_by(reader: SpecReader, name: str, select: Mapping[str, str]) -> None:
    """Record a problem per key in conflict with `answerable_by`, a judge that decides later."""
    if reader.spec.datasets[name].answerable_by is None:
        return
    for key in ("where", UNCERTAIN):
        if re.search(r"\banswerable\b", select.get(key, "")):
            reader.problem(("datasets", name, key), "reads `answerable`, which `answerable_by` decides afterwards", "leave one of them out")
    if reader.spec.datasets[name].ask_answerable is not None:
        message = "expected `ask_answerable` or `answerable_by`, got both"
        reader.problem(("datasets", name, "ask_answerable"), message, "leave one of them out", key=True)


def named_subsets(reader: SpecReader, path: Path_, card: Card, adapter: Plugin | None) -> dict[str, str]:
    """Return {name: canonical expression} of a card's valid subsets; record the others."""
    declared = meta_keys(adapter, card.args) if adapter else None
    spelled: dict[str, str] = {}
    for name, text in sorted(card.subsets.items()):
        try:
            spelled[name] = str(parse(text, declared))
        except WhereError as error:
            reader.problem(path, f"subset '{name}' of registry/cards/{card.name}.yaml: {error}")
    return spelled


def ask_answerable_prompt(reader: SpecReader, name: str) -> dict[str, str]:
    """Return {"ask_answerable": prompt's path}; {} if unset or wrong, which is recorded."""
    ask, path = reader.spec.datasets[name].ask_answerable, ("datasets", name, "ask_answerable")
    if ask is None:
        return {}
    place = prompt_path(ask)
    folder = prompts_folder()
    there = {file.stem for file in folder.glob("*.md")}
    if ask not in there:
        reader.problem(path, f"expected the name of a file {PROMPTS}/NAME.md, got '{ask}'", nearest(ask, there))
        return {}
    try:
        fill_placeholders(read_prompt("", str(folder / f"{ask}.md")), {"question": ""}, place)
    except PromptError as error:
        reader.problem(path, str(error))
        return {}
    return {"ask_answerable": place}


def disjoint(reader: SpecReader, name: str, selected: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return {other dataset: its `where`} for valid names of `disjoint:`; record others.

    Only datasets of one source can be compared, as ids mean nothing elsewhere. `selected` is {dataset: {key: expression}}.
    """
    datasets, apart = reader.spec.datasets, dict[str, str]()
    entry = datasets[name]
    for i, other in enumerate(entry.disjoint or ()):
        path: Path_ = ("datasets", name, "disjoint", i)
        other_dataset = datasets.get(other)
        if other_dataset is None and reader.failures.has_errors("datasets", other):
            continue
        if other_dataset is None or other == name:
            reader.problem(path, f"expected another dataset of this spec, got '{other}'", nearest(other, set(datasets) - {name}))
        elif (other_dataset.card, other_dataset.source, other_dataset.model_extra) != (entry.card, entry.source, entry.model_extra):
            reader.problem(
                path,
                f"'{other}' is of another card, source or parameters, so it cannot share samples with this one",
                "name datasets of one source",
            )
        elif other_dataset.where is None:
            reader.problem(path, f"'{other}' has no `where:` and holds every sample of its source", "give it one, or leave it out here")
        elif "where" in selected.get(other, {}):
            apart[other] = selected[other]["where"]
    return apart
