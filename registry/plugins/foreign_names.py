"""Names of methods in papers and other libraries, with the plugin here or the reason why there is none.

Stages import nothing of this module, so that a longer list reruns no stage.
"""

import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from qualm.registry.plugins import registry
from qualm.registry.plugins.registry import KINDS, ROOT, Plugin, PluginError, UnknownPluginError
from qualm.registry.system import textfiles

NAMES = "registry/entries/names.yaml"


@dataclass(frozen=True)
class ForeignName:
    """Names of a method in other tools, with its plugin in Qualm or advice if it has none."""

    kind: str
    names: str
    """Separated by spaces."""
    here: str = ""
    """Plugin as a spec names it, `plugin` or `plugin: {parameters}`; "" if there is none."""
    instead: str = ""
    """Advice or reason if there is no plugin."""

    @property
    def plugin(self) -> str:
        return self.here.partition(":")[0]

    def folded(self) -> list[str]:
        return [folded(name) for name in self.names.split()]


@cache
def names_elsewhere() -> tuple[ForeignName, ...]:
    """Return all entries of `registry/entries/names.yaml`, cached."""
    import yaml

    entries_by_kind = yaml.safe_load(textfiles.read_text(ROOT / NAMES))
    return tuple(ForeignName(kind, **entry) for kind, entries in entries_by_kind.items() for entry in entries)


def get(kind: str, name: str) -> Plugin:
    """Return the plugin of this name; UnknownPluginError with a suggestion if none."""
    try:
        return registry.get(kind, name)
    except UnknownPluginError:
        raise UnknownPluginError.with_advice(kind, name, _suggestion(kind, name)) from None


def find_by_name(name: str) -> list[tuple[str, str]]:
    """Return (kind, spec value) of plugins with this name in Qualm or other tools, or [].

    Case, "-" and "_" are ignored. Names here come before foreign names.
    """
    own = [(kind, each) for kind in KINDS for each in sorted(registry.files(kind)) if folded(each) == folded(name)]
    return list(dict.fromkeys([*own, *((kind, each) for kind in KINDS for each in _plugins_known_as(kind, name))]))


def missing_advice(name: str) -> str:
    """Return the advice for a known method without a plugin; "" for any other name."""
    return next((e.instead for e in names_elsewhere() if e.instead and folded(name) in e.folded()), "")


def nearest(name: str) -> list[tuple[str, str]]:
    """Return (kind, name) of up to three plugins with similar names, nearest first."""
    spelt = {
        folded(other): (kind, each)
        for kind in KINDS
        for each, (file, _) in registry.files(kind).items()
        for other in (*_also_known_as(file), each)
    }
    near = difflib.get_close_matches(folded(name), spelt, 3, 0.7)
    return list(dict.fromkeys(spelt[each] for each in near))


def folded(name: str) -> str:
    """Return a name in lower case with only its letters and digits.

    >>> folded("Eigen-Score")
    'eigenscore'
    """
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _suggestion(kind: str, name: str) -> str:
    files = registry.files(kind)
    same = [each for each in files if folded(each) == folded(name)] or _plugins_known_as(kind, name)
    if same:
        return f"did you mean '{same[0]}'?"
    if reason := missing_advice(name):
        return reason
    if others := find_by_name(name):
        return " and ".join(f"'{each}' is one of {other}" for other, each in others)
    spelt = {other: each for each, (file, _) in files.items() for other in (*_also_known_as(file), each)}
    near = difflib.get_close_matches(name, spelt, 1, 0.5)
    return f"did you mean '{spelt[near[0]]}'?" if near else f"there are: {', '.join(sorted(files)) or 'none'}"


def _plugins_known_as(kind: str, name: str) -> list[str]:
    files, sought = registry.files(kind), folded(name)
    declared = [own for own, (file, _) in sorted(files.items()) if sought in map(folded, _also_known_as(file))]
    return declared or [e.here for e in names_elsewhere() if e.kind == kind and e.plugin in files and sought in e.folded()]


def _also_known_as(file: Path) -> tuple[str, ...]:
    """Return ALSO_KNOWN_AS of a plugin's file, without import; () if unreadable."""
    try:
        state = file.stat()
    except OSError:
        return ()
    # The stamp is part of the cache's key: a long-lived process (tests, `qualm view`) sees edits.
    return _declared_names(file, state.st_mtime_ns, state.st_size)


@cache
def _declared_names(file: Path, *_stamp: int) -> tuple[str, ...]:
    """Return ALSO_KNOWN_AS of a plugin's file, cached by its stamp; () if unreadable."""
    try:
        others = registry.constants_of(file)[0].get("ALSO_KNOWN_AS", ())
    except PluginError:
        return ()
    return tuple(map(str, others)) if isinstance(others, list) else ()
