"""Models of this spec's fine-tunes or of another spec (`SPEC:MODEL`), and the base models of adapters."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.compiler.resolve.resolved import FinetuneUse, ModelUse
from qualm.compiler.spec.errors import SpecError, nearest
from qualm.compiler.spec.plugin_ref import DATA, Ref, slug
from qualm.registry.entries.card import card_names
from qualm.registry.plugins import rule
from qualm.registry.plugins.rule import Plugin
from qualm.runners.servers.presets import not_shown

if TYPE_CHECKING:
    from qualm.compiler.resolve.resolved import Resolved


Loader = Callable[[FinetuneUse], tuple[Plugin, dict[str, Any]] | None]


def tuned_models(spec: str, finetunes: Iterable[FinetuneUse], models: Iterable[ModelUse], loader: Loader) -> list[ModelUse]:
    """Return the models that a spec's fine-tunes make.

    Args:
        loader: returns the plugin that loads a fine-tuned model, and its parameters.
    """
    by_label = {m.ref.label: m for m in models}
    uses: list[ModelUse] = []
    waiting = list(finetunes)
    while waiting:
        unmade = {f.ref.label for f in waiting}
        ready = [f for f in waiting if not unmade & set(f.models)] or waiting  # circles are reported when stages are ordered
        for tuned in ready:
            loaded = loader(tuned)
            if loaded is not None:
                by_label[tuned.ref.label] = _tuned(spec, tuned, by_label, *loaded)
                uses.append(by_label[tuned.ref.label])
        waiting = [f for f in waiting if f not in ready]
    return uses


def _tuned(spec: str, tuned: FinetuneUse, by_label: Mapping[str, ModelUse], plugin: Plugin, args: dict[str, Any]) -> ModelUse:
    """Create a fine-tuned model: it keeps its base's dtype, and an adapter needs its base."""
    place = f"results/{spec}/models/{slug(tuned.ref.label)}"
    bases = [by_label[name] for name in tuned.models if name in by_label]
    dtype = {name: base.ref.args[name] for base in bases if base.ref.plugin == plugin for name in ("dtype",) if name in args}
    adapter = any(p.declares.get("ADAPTER") for p in tuned.ref.plugins)
    beneath = dict.fromkeys(path for base in bases if adapter for path in (base.source, *base.beneath) if path)
    args = {**args, **dtype, "artifact": place}
    return ModelUse(Ref(tuned.ref.label, plugin, args), place, rule.gives(plugin, args), beneath=tuple(beneath))


def way_out(model: ModelUse, missing: Iterable[str]) -> str:
    """Return which parameters would make a model give what is missing; empty if none."""
    parameters = rule.would_give(model.ref.plugin, model.ref.args, missing)
    if why := not_shown(model.preset, parameters or ()):
        return why
    return f"set {' and '.join(f'`{name}`' for name in parameters)} of {model.ref.plugin.name}" if parameters else ""


def swept_bases(finetunes: Sequence[FinetuneUse], models: Sequence[ModelUse]) -> Iterator[tuple[str, str]]:
    """Yield fine-tunes and the base names that stand for several models."""
    labels = {m.ref.label for m in models}
    for tuned in finetunes:
        for name in tuned.models:
            if name not in labels and any(label.startswith(f"{name}@") for label in labels):
                yield tuned.ref.label.split("@")[0], name


class Elsewhere:
    """Models that other specs make, named `SPEC:MODEL`."""

    def __init__(self, specs: Path, within: tuple[str, ...], resolve: Callable[[Path], Resolved]) -> None:
        """
        Args:
            within: names of the specs being resolved, each read by the one before.
        """
        self.specs, self.within, self._resolve = specs, within, resolve
        self._resolved: dict[str, Resolved] = {}
        self._entries: list[str] = []

    def fault(self, name: str) -> tuple[str, str]:
        """Return an error message and hint for an artifact's name; empty if it may be right."""
        spec, _, model = name.partition(":")
        if not model:
            return self._misspelt(name)
        if spec in self.within:
            return f"'{name}': {' and '.join(self.within)} would read models of each other, in a circle", "name a model of another spec"
        path = self.specs / f"{spec}.yaml"
        if not path.is_file():
            return f"'{name}': there is no specs/{spec}.yaml", nearest(spec, [p.stem for p in self.specs.glob("*.yaml")])
        try:
            labels = [f.ref.label for f in self._spec(spec).finetunes]
        except SpecError as error:
            return f"'{name}': specs/{spec}.yaml has errors of its own: {error.problems[0]}", f"`qualm validate {spec}`"
        return ("", "") if model in labels else (f"'{name}': specs/{spec}.yaml makes no model '{model}'", nearest(model, labels))

    def _misspelt(self, name: str) -> tuple[str, str]:
        """Return an error message and hint if an unknown entry nearly has the name of a known one."""
        if not self._entries:
            self._entries = sorted({f.stem for f in (self.specs.parent / DATA).glob("*.dvc")} | set(card_names()))
        near = difflib.get_close_matches(name, self._entries, 1, 0.8)
        if name in self._entries or (self.specs.parent / DATA / name).exists() or not near or _digits(near[0]) != _digits(name):
            return "", ""
        return f"no such artifact: there is no {DATA}/{name}.dvc", f"did you mean '{near[0]}'?"

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files of the other specs that were read."""
        return tuple(path for resolved in self._resolved.values() for path in resolved.files)

    def beneath(self, name: str) -> tuple[str, ...]:
        """Return the base models of another spec's model, if that is an adapter."""
        spec, _, model = name.partition(":")
        if not model or self.fault(name)[0]:
            return ()
        return next((m.beneath for m in self._spec(spec).models if m.ref.label == model), ())

    def _spec(self, name: str) -> Resolved:
        if name not in self._resolved:
            self._resolved[name] = self._resolve(self.specs / f"{name}.yaml")
        return self._resolved[name]


def _digits(name: str) -> list[str]:
    """Return the numbers in a name: 7b is no misspelling of 13b."""
    return re.findall(r"[0-9]+", name)
