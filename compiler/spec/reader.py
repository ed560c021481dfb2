"""Read plugins in every section of a spec: expand sweeps, fill in defaults, record problems but not their consequences."""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from qualm.compiler.spec import validate
from qualm.compiler.spec.elsewhere import OtherSpecModels
from qualm.compiler.spec.errors import Problem, quoted
from qualm.compiler.spec.language import RunWide, Spec
from qualm.compiler.spec.plugin_ref import OWN, Ref, located
from qualm.compiler.spec.prompts import PromptReader
from qualm.compiler.spec.references_in import names_in
from qualm.compiler.spec.yaml_positions import Document, Path_
from qualm.registry.plugins import foreign_names
from qualm.registry.plugins.declarations import declares_by_argument
from qualm.registry.plugins.registry import Artifact, Plugin, PluginError


class Failures:
    """Lookup of sections and entries with errors, so that consequences are not reported.

    Args:
        problems: problems found so far; the list may grow.
    """

    def __init__(self, document: Document, problems: Sequence[Problem]) -> None:
        self._document, self._problems = document, problems
        data = document.data if isinstance(document.data, dict) else {}
        strange = [key for key in data if key not in Spec.model_fields]
        self._misspelt = {near for key in strange for near in difflib.get_close_matches(key, Spec.model_fields, 1, 0.6)}

    @property
    def incomplete(self) -> bool:
        """Return whether the spec extends a file that cannot be read."""
        return self._document.open

    def names(self, section: str) -> list[str]:
        """Return a section's keys as written, with or without errors; [] if no mapping."""
        entries = self._document.data.get(section)
        return list(entries) if isinstance(entries, dict) else []

    def has_errors(self, section: str, name: str = "") -> bool:
        """Return whether a section or its entry `name` has errors; True for incomplete specs."""
        if self._document.open or section in self._misspelt:
            return True
        places = [problem.at for problem in self._problems if problem.at[:1] == (section,)]
        if not name or (section,) in places:
            return bool(places)
        plain = name.split("@")[0]
        return any(plain in self._names(section, place[1]) for place in places)

    def _names(self, section: str, key: str | int) -> Iterator[str]:
        """Yield the names that a problem's place stands for: its key, or a list item's plugins."""
        if isinstance(key, str):
            yield key
            return
        entries = self._document.data.get(section)
        entry = entries[key] if isinstance(entries, list) and key < len(entries) else None
        yield from [entry] if isinstance(entry, str) else entry if isinstance(entry, dict) else ()


class SpecReader:
    """A valid spec with its document; finds plugins and records problems."""

    def __init__(
        self, document: Document, spec: Spec, run_wide: RunWide, problems: list[Problem], elsewhere: OtherSpecModels, failures: Failures
    ) -> None:
        self.document, self.spec, self.run_wide, self.problems, self.elsewhere = document, spec, run_wide, problems, elsewhere
        self.failures = failures
        self.prompts = PromptReader(document, problems, elsewhere.specs.parent)
        self._plugins: dict[tuple[str, str], Plugin] = {}

    def names(self, section: str) -> list[str]:
        """Return a section's keys as written, with or without errors."""
        return self.failures.names(section)

    def lacks(self, section: str) -> bool:
        """Return whether a section is empty and has no errors."""
        return not getattr(self.spec, section) and not self.failures.has_errors(section)

    def unknown(self, name: str, candidates: Collection[str], *sections: str) -> bool:
        """Return whether a name is neither a candidate nor an entry of `sections` with errors."""
        return name not in candidates and not any(self.failures.has_errors(section, name) for section in sections)

    def problem(self, path: Path_, message: str, hint: str = "", key: bool = False) -> None:
        """Record a problem at the value at `path`, or at its key if `key`."""
        self.problems.append(self.document.problem(path, message, hint, key))

    def plugin(self, kind: str, name: str, path: Path_) -> Plugin | None:
        """Return the plugin of this name; None and a recorded problem if there is none."""
        if (kind, name) not in self._plugins:
            try:
                self._plugins[kind, name] = foreign_names.get(kind, name)
            except PluginError as error:
                self.problem(path, str(error), key=True)
                return None
        return self._plugins[kind, name]

    def single(self, item: Any, kind: str, path: Path_, named: bool = True) -> tuple[Plugin, dict[str, Any], Path_] | None:
        """Return (plugin, parameters, their path) of an item; or record a problem, return None.

        Args:
            named: the path of the parameters ends with the plugin's name.
        """
        if not isinstance(item, dict) or len(item) != 1:
            got = f"{len(item)} names: {', '.join(map(str, item))}" if isinstance(item, dict) and item else quoted(item)
            self.problem(path, f"expected one plugin of {kind}, as `name` or `name: {{parameters}}`, got {got}")
            return None
        name, params = next(iter(item.items()))
        place = (*path, name) if named else path
        if params is not None and not isinstance(params, dict):
            self.problem(place, f"expected the parameters of {name} as a mapping, got {quoted(params)}")
            return None
        plugin = self.plugin(kind, str(name), place)
        return (plugin, params or {}, place) if plugin else None

    def combinations(self, plugin: Plugin, parameters: Mapping[str, Any], path: Path_) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return (swept values, all arguments) per point of a sweep; record mistakes, then []."""
        before = len(self.problems)
        fallbacks = {"dtype": self.run_wide.dtype}
        combined = validate.combinations(plugin.parameters, parameters, self.document, path, self.problems, plugin.name, fallbacks)
        for name in dict.fromkeys(a for _, args in combined for a in names_in(plugin, args, Artifact) if len(self.problems) == before):
            message, hint = self.elsewhere.fault(name)
            if message:
                self.problem(path, message, hint)
        return combined if len(self.problems) == before else []

    def points(self, item: Any, kind: str, path: Path_) -> Iterator[tuple[Plugin, Path_, dict[str, Any], dict[str, Any]]]:
        """Yield (plugin, path, swept values, all arguments) per point of a sweep; none if wrong."""
        found = self.single(item, kind, path)
        if found is not None:
            plugin, parameters, at = found
            for swept, args in self.combinations(plugin, parameters, at):
                yield plugin, at, swept, args

    def refs(
        self, kind: str, items: Sequence[Any], at: Path_ = (), label_all_given: bool = False, in_order: bool = False
    ) -> tuple[Ref, ...]:
        """Return a `Ref` per point of the sweeps in `items`, by label; record the faulty ones.

        Args:
            at: path of the list, if it is not the section of the plugins' kind.
            in_order: keep the order of `items` instead of sorting by label.
            label_all_given: labels have every given parameter, not only swept ones; as of a plugin that is another one by its arguments.
        """
        at = at or (kind,)
        by_label: dict[str, Ref] = {}
        for i, item in enumerate(items):
            found = self.single({item: None} if isinstance(item, str) else item, kind, (*at, i), named=not isinstance(item, str))
            if found is None:
                continue
            plugin, params, path = found
            extended = replace(plugin, parameters=(*plugin.parameters, *OWN.get(kind, ())))
            for swept, given_args in self.combinations(extended, params, path):
                common = {p.name: given_args[p.name] for p in OWN.get(kind, ())}
                args = {k: v for k, v in given_args.items() if k not in common}
                named_args = {k: v for k, v in params.items() if isinstance(v, Mapping)}  # nested plugins, as the spec names them
                values = {**args, **named_args, **swept} if label_all_given or declares_by_argument(plugin) else swept
                shown_args = {k: v for k, v in values.items() if k in params and k not in common}
                label = validate.label(plugin.name, shown_args)
                ref = Ref(label, plugin, located(plugin, args), **common)
                if label in by_label:
                    sweep = f"write {plugin.name} once, with a list of values for each parameter that differs"
                    self.problem((*at, i), f"'{label}' is named twice", "name each once" if by_label[label] == ref else sweep)
                by_label[label] = ref
        return tuple(by_label.values() if in_order else sorted(by_label.values(), key=lambda r: r.label))
