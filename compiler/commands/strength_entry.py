"""Find the perturbation whose strength is chosen: the point of its sweep, and its adjustable parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.compiler.commands import edit_yaml
from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import Problem, ProjectError, nearest
from qualm.compiler.spec.plugin_ref import located
from qualm.compiler.spec.resolved import Resolved
from qualm.compiler.spec.yaml_positions import load
from qualm.registry.plugins.registry import Plugin, get

if TYPE_CHECKING:
    from qualm.runners.review.knobs import Knob


@dataclass(frozen=True)
class PerturbationEntry:
    """One item of `perturbations:` at one point of its sweep."""

    index: int
    plugin: Plugin
    label: str
    args: Mapping[str, Any]
    named: frozenset[str]
    """Parameters that the spec names."""
    pointed: bool
    """True if a single point of a sweep was chosen."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of `named` parameters as in labels: names, not paths."""

    def name(self, main: str, args: Mapping[str, Any]) -> str:
        """Return the variant's label under `args`, with `main`, set and changed parameters."""
        named = {k: v for k, v in args.items() if k in self.named or k == main or v != self.args[k]}
        return validate.label(self.plugin.name, {k: self.values.get(k, v) if v == self.args[k] else v for k, v in named.items()})


def find_entry(path: Path, root: Path, resolved: Resolved, choice: str | None) -> PerturbationEntry:
    """Return the perturbation called `choice`, or the only one if None; else ProjectError.

    Raises:
        ProjectError: the spec has none, several, or another one.
    """
    document = load(path, root)
    problems: list[Problem] = []
    entries: list[PerturbationEntry] = []
    for index, item in enumerate(document.data.get(edit_yaml.SECTION) or []):
        name, parameters = (item, {}) if isinstance(item, str) else next(iter(item.items()))
        plugin = get("perturbations", name)
        own = {k: v for k, v in (parameters or {}).items() if k in {p.name for p in plugin.parameters}}
        at = (edit_yaml.SECTION, index) if isinstance(item, str) else (edit_yaml.SECTION, index, name)
        nested = {k: v for k, v in own.items() if isinstance(v, Mapping)}
        for swept, args in validate.combinations(plugin.parameters, own, document, at, problems, name):
            values = {k: v for k, v in {**args, **nested, **swept}.items() if k in own}
            label = validate.label(name, values)
            entries.append(PerturbationEntry(index, plugin, label, located(plugin, args), frozenset(own), choice == label != name, values))
    if not entries:
        raise ProjectError(f"{resolved.spec.name} has no perturbations; add one under `perturbations:`")
    matching = entries if choice is None else [e for e in entries if choice in (e.label, e.plugin.name)]
    names = sorted({e.plugin.name for e in entries}) + sorted({e.label for e in entries} - {e.plugin.name for e in entries})
    if not matching:
        raise ProjectError(f"{resolved.spec.name} has no perturbation '{choice}'; {nearest(str(choice), names)}")
    if len({e.index for e in matching}) > 1:
        several = sorted({e.plugin.name if choice is None else e.label for e in matching})
        raise ProjectError(f"{resolved.spec.name} has several perturbations; say which with --perturbation: {', '.join(several)}")
    return matching[0]


def knobs_of(spec: str, entry: PerturbationEntry, parameter: str | None, auto: bool) -> list[Knob]:
    """Return a perturbation's Knobs, `parameter` first; ProjectError if it lacks a needed one.

    Without `auto` and `parameter`, a perturbation without numeric parameters gives [].

    Raises:
        ProjectError: a strength is named or needed for a search, and there is none.
    """
    from qualm.runners.review.knobs import numeric_knobs

    name, knobs = entry.plugin.name, numeric_knobs(entry.plugin, entry.args)
    names = [k.name for k in knobs]
    if not knobs and (auto or parameter is not None):
        ways = [p.name for p in entry.plugin.parameters if p.name in ("generator", "prompt", "temperature")]
        raise ProjectError(
            f"{name} has no strength to search for: none of its parameters is one"
            + (f" (what it makes depends on {', '.join(f'`{w}:`' for w in ways)} of the spec)" if ways else "")
            + f". Without --auto, `qualm strength {spec} -p {name}` shows what it makes, to be voted on"
        )
    if parameter is not None and parameter not in names:
        raise ProjectError(f"{entry.plugin.name} has no numeric parameter '{parameter}'; there are: {', '.join(names)}")
    return sorted(knobs, key=lambda k: k.name != parameter)
