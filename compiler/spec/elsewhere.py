"""Models that other specs make, named `SPEC:MODEL`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from qualm.compiler.spec.errors import SpecError, nearest
from qualm.compiler.spec.plugin_ref import DATA
from qualm.registry.entries.card import card_names

if TYPE_CHECKING:
    from qualm.compiler.spec.resolved import Resolved


class OtherSpecModels:
    """Lookup of models that other specs make, named `SPEC:MODEL`; reads their specs.

    Args:
        within: names of the specs being resolved, each read by the one before.
    """

    def __init__(self, specs: Path, within: tuple[str, ...], resolve: Callable[[Path], Resolved]) -> None:
        self.specs, self.within, self._resolve = specs, within, resolve
        self._resolved: dict[str, Resolved] = {}
        self._entries: list[str] = []

    def fault(self, name: str) -> tuple[str, str]:
        """Return (message, hint) if no spec makes the model or the name is misspelt; or ("", "")."""
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
        """Return (message, hint) if an unknown name seems a misspelt entry; else ("", "").

        Names whose numbers differ, such as `llava-7b` and `llava-13b`, are not taken for each other.
        """
        if not self._entries:
            self._entries = sorted({f.stem for f in (self.specs.parent / DATA).glob("*.dvc")} | set(card_names()))
        near = difflib.get_close_matches(name, self._entries, 1, 0.8)
        if name in self._entries or (self.specs.parent / DATA / name).exists() or not near or _digits(near[0]) != _digits(name):
            return "", ""
        return f"no such artifact: there is no {DATA}/{name}.dvc", f"did you mean '{near[0]}'?"

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the paths of the other specs' files read so far."""
        return tuple(path for resolved in self._resolved.values() for path in resolved.files)

    def beneath(self, name: str) -> tuple[str, ...]:
        """Return paths of the base models under the adapter `SPEC:MODEL`; () if none."""
        spec, _, model = name.partition(":")
        if not model or self.fault(name)[0]:
            return ()
        return next((m.beneath for m in self._spec(spec).models if m.ref.label == model), ())

    def _spec(self, name: str) -> Resolved:
        if name not in self._resolved:
            self._resolved[name] = self._resolve(self.specs / f"{name}.yaml")
        return self._resolved[name]


def _digits(name: str) -> list[str]:
    """Return the numbers in a name as texts: "llava-7b" -> ["7"]."""
    return re.findall(r"[0-9]+", name)
