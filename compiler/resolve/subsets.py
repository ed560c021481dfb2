"""Resolve the expressions of a dataset: `where:`, `uncertain:`, `disjoint:`, `balance:` and `ask_answerable:`."""

import re
from collections.abc import Mapping

from qualm.compiler.resolve.reader import SpecReader
from qualm.compiler.spec.errors import Problem, nearest
from qualm.compiler.spec.offsets import mark_within
from qualm.compiler.spec.plugin_ref import prompt_path, prompts_folder
from qualm.compiler.spec.yaml_positions import Path_, dotted
from qualm.registry import UNCERTAIN
from qualm.registry.entries.card import Card
from qualm.registry.plugins.rule import PROMPTS, Plugin, meta_keys
from qualm.registry.where import FIELDS, WhereError, parse
from qualm.runners.prompts.templates import PromptError, fill, read_prompt


def expressions(reader: SpecReader, name: str, card: Card, adapter: Plugin | None) -> dict[str, str]:
    """Return a dataset's parsed expressions by key; record those with mistakes."""
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
    """Report a `balance:` that names an unknown field or stands beside a `limit`, which would undo it."""
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
    """Report keys that read `answerable` before the judge of `answerable_by:` has decided it."""
    if reader.spec.datasets[name].answerable_by is None:
        return
    for key in ("where", UNCERTAIN):
        if re.search(r"\banswerable\b", select.get(key, "")):
            reader.problem(("datasets", name, key), "reads `answerable`, which `answerable_by` decides afterwards", "leave one of them out")
    if reader.spec.datasets[name].ask_answerable is not None:
        message = "expected `ask_answerable` or `answerable_by`, got both"
        reader.problem(("datasets", name, "ask_answerable"), message, "leave one of them out", key=True)


def named(reader: SpecReader, path: Path_, card: Card, adapter: Plugin | None) -> dict[str, str]:
    """Return the card's subsets in canonical form; record those with mistakes."""
    declared = meta_keys(adapter, card.args) if adapter else None
    spelled: dict[str, str] = {}
    for name, text in sorted(card.subsets.items()):
        try:
            spelled[name] = str(parse(text, declared))
        except WhereError as error:
            reader.problem(path, f"subset '{name}' of registry/cards/{card.name}.yaml: {error}")
    return spelled


def ask_answerable_prompt(reader: SpecReader, name: str) -> dict[str, str]:
    """Return the path of the prompt that asks about questions; empty without `ask_answerable:`."""
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
        fill(read_prompt("", str(folder / f"{ask}.md")), {"question": ""}, place)
    except PromptError as error:
        reader.problem(path, str(error))
        return {}
    return {"ask_answerable": place}


def disjoint(reader: SpecReader, name: str, selected: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the selections of datasets that must share no sample with this one, by name.

    Only datasets of one source can be compared, as ids mean nothing elsewhere.
    """
    datasets, apart = reader.spec.datasets, dict[str, str]()
    entry = datasets[name]
    for i, other in enumerate(entry.disjoint or ()):
        path: Path_ = ("datasets", name, "disjoint", i)
        other_dataset = datasets.get(other)
        if other_dataset is None and reader.failures.of("datasets", other):
            continue
        if other_dataset is None or other == name:
            reader.problem(path, f"expected another data set of this spec, got '{other}'", nearest(other, set(datasets) - {name}))
        elif (other_dataset.card, other_dataset.source, other_dataset.model_extra) != (entry.card, entry.source, entry.model_extra):
            reader.problem(
                path,
                f"'{other}' is of another card, source or parameters, so it cannot share samples with this one",
                "name data sets of one source",
            )
        elif other_dataset.where is None:
            reader.problem(path, f"'{other}' has no `where:` and holds every sample of its source", "give it one, or leave it out here")
        elif "where" in selected.get(other, {}):
            apart[other] = selected[other]["where"]
    return apart
