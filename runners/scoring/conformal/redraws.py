"""How the scores of a setting are calibrated anew, worked out when it is asked for.

Scores that are in the store need nothing of it but a name for what it would be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from qualm.registry.plugins import rule
from qualm.runners.contracts.conformal import UNIFORM
from qualm.runners.runtime.code_digest import engine_digest
from qualm.runners.scoring.conformal.draws import Redraw


@dataclass
class Redraws(Mapping[str, Redraw]):
    """Score -> how to calibrate it anew."""

    _made_by: dict[str, Callable[[], Redraw]] = field(default_factory=dict)
    _content: dict[str, Any] = field(default_factory=dict)

    def add(self, score: str, make: Callable[[], Redraw], content: Any) -> None:
        """
        Args:
            score: its label.
            make: works it out; called when it is asked for, and to be called again without cost.
            content: all that it depends on, where that is known without working it out; else None.
        """
        self._made_by[score], self._content[score] = make, content

    @property
    def content(self) -> list[Any]:
        """All that they depend on."""
        return [[score, self[score] if of is None else of] for score, of in self._content.items()]

    def __getitem__(self, score: str) -> Redraw:
        return self._made_by[score]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._made_by)

    def __len__(self) -> int:
        return len(self._made_by)


def content_of(setting: Mapping[str, Any], ref: Mapping[str, Any], numbers: str) -> list[str] | None:
    """What a redraw depends on beside the rows that calibrate; None where it reads of samples what is not in `numbers`.

    Args:
        setting: of the stage's parameters.
        ref: one of its scores.
        numbers: digest of the probabilities and right options that it is made of.
    """
    # These read the samples themselves; what is worked out then has its own digest.
    if setting.get("per") is not None or _reads_noise(ref["plugin"]):
        return None
    how = {name: value for name, value in setting.items() if name not in ("label", "scores")}
    return [json.dumps([how, ref], sort_keys=True), _code(ref["plugin"]), numbers]


@cache
def _reads_noise(plugin: str) -> bool:
    return UNIFORM in rule.get("conformal", plugin).reads


@cache
def _code(plugin: str) -> str:
    return engine_digest(rule.load("conformal", plugin).__module__)
