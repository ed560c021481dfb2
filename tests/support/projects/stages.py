"""Stages as a compiled spec tells them, for tests that run one in the current folder."""

from __future__ import annotations

from typing import Any

from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage


def ref(plugin: str, label: str | None = None, **args: Any) -> dict[str, Any]:
    """A plugin with its arguments."""
    return {"label": label or plugin, "plugin": plugin, "args": args}


def stage(kind: str, params: dict[str, Any], inputs: dict[str, Any], outputs: list[str]) -> Stage:
    """A stage of a kind that writes into `results/`."""
    return Stage(f"s/{kind}", "s", kind, kind, params, inputs, {o: f"results/{o}" for o in outputs}, 7, Settings())
