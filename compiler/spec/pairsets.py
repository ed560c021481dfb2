"""Resolve the `pairs:` section: sets of contrastive pairs and their recipes."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import PydanticCustomError

from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import nearest, quoted
from qualm.compiler.spec.language import LIMIT_KEY, NAME_KEY, PAIR_UNITS, PairSet, Spec, limit
from qualm.compiler.spec.plugin_ref import Ref, located
from qualm.compiler.spec.reader import SpecReader
from qualm.compiler.spec.references_in import names_in, names_of
from qualm.compiler.spec.resolved import PairSetUse, RecipeUse
from qualm.compiler.spec.yaml_positions import Path_
from qualm.registry.plugins.registry import NAME_RULE, DatasetName, Plugin

CATEGORY = "category"
"""Parameter of every recipe that names the category of its pairs."""


def categories(spec: Spec) -> dict[str, dict[str, Any]]:
    """Return {"MAIN/NAME": {"definition", "answer", "examples"}} of the taxonomy."""
    return {f"{main}/{name}": c.model_dump() for main, inner in spec.taxonomy.items() for name, c in inner.items()}


def resolve(reader: SpecReader) -> tuple[PairSetUse, ...]:
    return _Resolver(reader).resolve()


class _Resolver:
    def __init__(self, reader: SpecReader) -> None:
        self.reader, self.spec = reader, reader.spec
        self.categories = categories(reader.spec)
        self.complete = True
        """True if every recipe was read: only then can a category be reported to lack one."""

    def resolve(self) -> tuple[PairSetUse, ...]:
        sets = [self._set(name, entry) for name, entry in self.spec.pairs.items()]
        self._check_circles(sets)
        self._check_taxonomy(sets)
        return tuple(sorted(sets, key=lambda s: s.label))

    def _problem(self, path: Path_, message: str, hint: str = "", key: bool = False) -> None:
        self.complete = False
        self.reader.problem(path, message, hint, key)

    def _set(self, name: str, entry: PairSet) -> PairSetUse:
        path = ("pairs", name)
        recipes: dict[str, RecipeUse] = {}
        if not entry.recipes:
            self._problem((*path, "recipes"), "expected at least one recipe, got an empty list")
        for i, item in enumerate(entry.recipes):
            uses = list(self._recipes(item, (*path, "recipes", i)))
            self.complete &= bool(uses)
            for recipe in uses:
                label = recipe.ref.label
                if label in recipes:
                    hint = f"give one of them a name of its own: `{NAME_KEY}: ...` beside the plugin"
                    self._problem((*path, "recipes", i), f"'{label}' is named twice", hint)
                recipes[label] = recipe
        prompt = self.reader.prompts.read(entry.prompt, ("pairs", name, "prompt")).get("", {})
        return PairSetUse(name, entry, entry.evaluate, prompt, tuple(recipes.values()))

    def _recipes(self, item: Any, path: Path_) -> Iterator[RecipeUse]:
        given_name = item.get(NAME_KEY) if isinstance(item, dict) else None
        if given_name is not None and not (isinstance(given_name, str) and validate.is_name(given_name)):
            got = quoted(given_name)
            self._problem((*path, NAME_KEY), f"expected a name of {NAME_RULE}, got {got}")
            return
        try:
            most = _limit(item[LIMIT_KEY]) if isinstance(item, dict) and LIMIT_KEY in item else {}
        except PydanticCustomError as error:
            self._problem((*path, LIMIT_KEY), f"expected {error.message()}, got {quoted(item[LIMIT_KEY])}")
            return
        plain = (
            {k: v for k, v in item.items() if k not in (NAME_KEY, LIMIT_KEY)}
            if isinstance(item, dict)
            else {item: None}
            if isinstance(item, str)
            else item
        )
        found = self.reader.single(plain, "pairs", path)
        if found is None:
            return
        plugin, parameters, at = found
        if not any(p.name == CATEGORY for p in plugin.parameters):
            self._problem(
                at, f"{plugin.name} has no parameter '{CATEGORY}', by which a recipe says what it makes; add one to {plugin.path}"
            )
            return
        for swept, args in self.reader.combinations(plugin, parameters, at):
            datasets, category = names_in(plugin, args, DatasetName), str(args[CATEGORY])
            good = self._check_datasets(plugin, args, at)
            if category not in self.categories and not self.reader.failures.has_errors("taxonomy"):
                where = parameters.get(CATEGORY)
                place = (*at, CATEGORY, where.index(category)) if isinstance(where, list) else (*at, CATEGORY)
                hint = nearest(category, self.categories) if self.categories else "declare its categories under `taxonomy:`"
                self._problem(place, f"expected a category of this spec's taxonomy, got '{category}'", hint)
            elif good and category in self.categories:
                ref = Ref(validate.label(given_name or plugin.name, swept), plugin, located(plugin, args))
                yield RecipeUse(ref, tuple(datasets), category, self.categories[category], most)

    def _check_datasets(self, plugin: Plugin, args: Mapping[str, Any], at: Path_) -> bool:
        candidates = {**self.spec.datasets, **self.spec.pairs}
        read = [(p.name, name) for p in plugin.parameters for name in names_of(p.annotation, args.get(p.name), DatasetName)]
        for parameter, name in read:
            if self.reader.unknown(name, candidates, "datasets", "pairs"):
                self._problem((*at, parameter), f"expected a dataset or pair set of this spec, got '{name}'", nearest(name, candidates))
        if not read:
            self._problem(at, f"{plugin.name} reads no dataset of this spec", "name one where its parameters take a dataset")
        return bool(read) and all(name in candidates for _, name in read)

    def _check_circles(self, sets: list[PairSetUse]) -> None:
        sources = {s.label: [n for n in s.sources if n in self.spec.pairs] for s in sets}
        for name in sources:
            waiting, visited = list(sources[name]), set[str]()
            while waiting:
                other = waiting.pop()
                if other == name:
                    self._problem(("pairs", name), f"the pair set '{name}' is made from itself", "name another dataset", key=True)
                    break
                if other not in visited:
                    visited.add(other)
                    waiting += sources.get(other, [])

    def _check_taxonomy(self, sets: list[PairSetUse]) -> None:
        """Record a problem per category without a recipe, if there are recipes, all readable."""
        produced = {recipe.category for s in sets for recipe in s.recipes}
        for category in self.categories if produced and self.complete and not self.reader.failures.has_errors("pairs") else ():
            if category not in produced:
                main, name = category.split("/")
                hint = f"add a recipe with `category: {category}` under `pairs:`, or take it out of the taxonomy"
                self._problem(
                    ("taxonomy", main, name), f"a category no pair produces: no recipe makes pairs of '{category}'", hint, key=True
                )


def _limit(value: Any) -> dict[str, int]:
    """Return {split, or "" for all: number of pairs}; questions are halved."""
    ((unit, numbers),) = limit(value, PAIR_UNITS).items()
    by_split = numbers if isinstance(numbers, dict) else {"": numbers}
    if unit != "pairs" and 1 in by_split.values():
        raise PydanticCustomError("limit", "at least 2 questions, which are one pair")
    return {split: n if unit == "pairs" else n // 2 for split, n in by_split.items()}
