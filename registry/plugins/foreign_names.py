"""Names that methods have in papers and in other libraries, for whoever names a plugin: each leads to ours, or says why there is none.

Stages know plugins by our names alone and import nothing of this, so that a longer list runs no stage again.
"""

import difflib
from dataclasses import dataclass
from functools import cache

from qualm.registry.formats import textfiles
from qualm.registry.plugins import rule
from qualm.registry.plugins.rule import KINDS, ROOT, Plugin, PluginError, UnknownPlugin

NAMES = "registry/published/names.yaml"


@dataclass(frozen=True)
class ForeignName:
    """What one method is called in papers and in other libraries."""

    kind: str
    names: str
    """Separated by spaces."""
    here: str = ""
    """As a spec has it, `plugin` or `plugin: {parameters}`; empty of what is no plugin."""
    instead: str = ""
    """Of what is no plugin: what to do, or why it was left out."""

    @property
    def plugin(self) -> str:
        """The name of the plugin alone."""
        return self.here.partition(":")[0]

    def folded(self) -> list[str]:
        """The names without regard to large letters and signs."""
        return [folded(name) for name in self.names.split()]


@cache
def names_elsewhere() -> tuple[ForeignName, ...]:
    """All of `registry/published/names.yaml`."""
    import yaml

    entries_by_kind = yaml.safe_load(textfiles.read_text(ROOT / NAMES))
    return tuple(ForeignName(kind, **entry) for kind, entries in entries_by_kind.items() for entry in entries)


def get(kind: str, name: str) -> Plugin:
    """Return `rule.get` of a name that a person wrote.

    Raises:
        UnknownPlugin: there is no such plugin, with what has the name here or elsewhere.
        PluginError: its file breaks the rule.
    """
    try:
        return rule.get(kind, name)
    except UnknownPlugin:
        raise UnknownPlugin.of(kind, name, _instead(kind, name)) from None


def called(name: str) -> list[tuple[str, str]]:
    """Kind and name, as a spec has it, of every plugin that is called so: here, in its own file or in `names_elsewhere`.

    Small and large letters, "-" and "_" are alike. What is called so here goes before what is so elsewhere.
    """
    own = [(kind, each) for kind in KINDS for each in sorted(rule.files(kind)) if folded(each) == folded(name)]
    return list(dict.fromkeys([*own, *((kind, each) for kind in KINDS for each in _known_as(kind, name))]))


def left_out(name: str) -> str:
    """What to do instead of a method that is called so and is no plugin; empty if none is known."""
    return next((e.instead for e in names_elsewhere() if e.instead and folded(name) in e.folded()), "")


def nearest(name: str) -> list[tuple[str, str]]:
    """The plugins, at most three, whose names or other names are spelt most like it."""
    spelt = {folded(other): (kind, each) for kind in KINDS for each in rule.files(kind) for other in (*_others(kind, each), each)}
    near = difflib.get_close_matches(folded(name), spelt, 3, 0.7)
    return list(dict.fromkeys(spelt[each] for each in near))


def folded(name: str) -> str:
    """A name without regard to large letters and signs.

    >>> folded("Eigen-Score")
    'eigenscore'
    """
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _instead(kind: str, name: str) -> str:
    """What someone may mean who names a plugin that there is not."""
    files = rule.files(kind)
    same = [each for each in files if folded(each) == folded(name)] or _known_as(kind, name)
    if same:
        return f"did you mean '{same[0]}'?"
    if reason := left_out(name):
        return reason
    if others := called(name):
        return " and ".join(f"'{each}' is one of {other}" for other, each in others)
    spelt = {other: each for each in files for other in (*_others(kind, each), each)}
    near = difflib.get_close_matches(name, spelt, 1, 0.5)
    return f"did you mean '{spelt[near[0]]}'?" if near else f"there are: {', '.join(sorted(files)) or 'none'}"


def _known_as(kind: str, name: str) -> list[str]:
    """The plugins that are called so elsewhere, as a spec has them; small and large letters, "-" and "_" are alike."""
    files, sought = rule.files(kind), folded(name)
    declared = [own for own in sorted(files) if sought in map(folded, _others(kind, own))]
    return declared or [e.here for e in names_elsewhere() if e.kind == kind and e.plugin in files and sought in e.folded()]


def _others(kind: str, name: str) -> list[str]:
    """The other names that a plugin declares."""
    try:
        others = rule.constants_of(rule.files(kind)[name][0])[0].get("ALSO_KNOWN_AS", ())
    except PluginError:
        return []
    return [str(other) for other in others] if isinstance(others, list) else []
