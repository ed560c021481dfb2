"""How every section of a spec is read: plugins by name, sweeps expanded, defaults filled in, mistakes put down where they stand.

A section that read its plugins in a way of its own would be one in which a sweep, a default of params.yaml or a nested
plugin means something else.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from qualm.compiler.resolve.failures import Failures
from qualm.compiler.resolve.tuned import Elsewhere
from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import Problem, quoted
from qualm.compiler.spec.language import RunWide, Spec
from qualm.compiler.spec.plugin_ref import OWN, Ref, located
from qualm.compiler.spec.references_in import names_in
from qualm.compiler.spec.yaml_positions import Document, Path_
from qualm.registry.plugins import foreign_names
from qualm.registry.plugins.rule import Artifact, Plugin, PluginError


class SpecReader:
    """A checked spec, where each of its values stands, and what was found wrong so far."""

    def __init__(
        self, document: Document, spec: Spec, run_wide: RunWide, problems: list[Problem], elsewhere: Elsewhere, failures: Failures
    ) -> None:
        self.document, self.spec, self.run_wide, self.problems, self.elsewhere = document, spec, run_wide, problems, elsewhere
        self.failures = failures
        self._plugins: dict[tuple[str, str], Plugin] = {}

    def names(self, section: str) -> list[str]:
        """What a section names, also what was left out for its mistakes."""
        return self.failures.names(section)

    def lacks(self, section: str) -> bool:
        """Whether the spec has nothing in a section, and means to have nothing."""
        return not getattr(self.spec, section) and not self.failures.of(section)

    def unknown(self, name: str, candidates: Collection[str], *sections: str) -> bool:
        """Whether a name is unknown: neither one of those nor one that a section gives to an entry which has errors of its own."""
        return name not in candidates and not any(self.failures.of(section, name) for section in sections)

    def problem(self, path: Path_, message: str, hint: str = "", key: bool = False) -> None:
        """Puts down a mistake at a value; at its key if `key`."""
        self.problems.append(self.document.problem(path, message, hint, key))

    def plugin(self, kind: str, name: str, path: Path_) -> Plugin | None:
        """A plugin by its name; None, and a problem, where there is none."""
        if (kind, name) not in self._plugins:
            try:
                self._plugins[kind, name] = foreign_names.get(kind, name)
            except PluginError as error:
                self.problem(path, str(error), key=True)
                return None
        return self._plugins[kind, name]

    def single(self, item: Any, kind: str, path: Path_, named: bool = True) -> tuple[Plugin, dict[str, Any], Path_] | None:
        """`{plugin: {parameters}}` with exactly one plugin: it, its parameters as given, and where they stand."""
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
        """Every combination of swept values, as `check.combinations` gives them; none where anything is wrong."""
        before = len(self.problems)
        fallbacks = {"dtype": self.run_wide.dtype}
        combined = validate.combinations(plugin.parameters, parameters, self.document, path, self.problems, plugin.name, fallbacks)
        for name in dict.fromkeys(a for _, args in combined for a in names_in(plugin, args, Artifact) if len(self.problems) == before):
            message, hint = self.elsewhere.fault(name)
            if message:
                self.problem(path, message, hint)
        return combined if len(self.problems) == before else []

    def points(self, item: Any, kind: str, path: Path_) -> Iterator[tuple[Plugin, Path_, dict[str, Any], dict[str, Any]]]:
        """Every point of the sweep of `{plugin: {parameters}}`: the plugin, where its parameters stand, what is swept, all values."""
        one = self.single(item, kind, path)
        if one is not None:
            plugin, parameters, at = one
            for swept, args in self.combinations(plugin, parameters, at):
                yield plugin, at, swept, args

    def refs(self, kind: str, items: Sequence[Any], at: Path_ = (), always_label: bool = False, in_order: bool = False) -> tuple[Ref, ...]:
        """A list of plugins, sorted by label unless their order means something (`in_order`).

        Args:
            at: where it stands, if not in the section of the plugins' kind.
            always_label: whether labels tell every parameter that is given, not only those that are swept.
        """
        at = at or (kind,)
        by_label: dict[str, Ref] = {}
        for i, item in enumerate(items):
            one = self.single({item: None} if isinstance(item, str) else item, kind, (*at, i), named=not isinstance(item, str))
            if one is None:
                continue
            plugin, params, path = one
            extended = replace(plugin, parameters=(*plugin.parameters, *OWN.get(kind, ())))
            for swept, given_args in self.combinations(extended, params, path):
                own = {p.name: given_args[p.name] for p in OWN.get(kind, ())}
                args = {k: v for k, v in given_args.items() if k not in own}
                named_args = {k: v for k, v in params.items() if isinstance(v, Mapping)}  # nested plugins, as the spec names them
                values = {**args, **named_args, **swept} if always_label else swept
                shown_args = {k: v for k, v in values.items() if k in params and k not in own}
                label = validate.label(plugin.name, shown_args)
                if label in by_label:
                    self.problem((*at, i), f"'{label}' is named twice", "name each once")
                by_label[label] = Ref(label, plugin, located(plugin, args), **own)
        return tuple(by_label.values() if in_order else sorted(by_label.values(), key=lambda r: r.label))
