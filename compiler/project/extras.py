"""Find the extras of the installation that stages need and that are not installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.spec import sentences as say
from qualm.registry.plugins.extras import install_line, is_installed
from qualm.registry.plugins.registry import Plugin


def missing_extras(stages: Iterable[PlannedStage]) -> dict[str, list[str]]:
    """Return {extra not installed: names of the stages that need it}."""
    missing: dict[str, list[str]] = {}
    for stage in stages:
        for extra in sorted(_extras(stage)):
            if not is_installed(extra):
                missing.setdefault(extra, []).append(stage.name)
    return missing


def advice(missing: Mapping[str, list[str]]) -> str:
    """Return a line with the command that installs missing extras; "" if none is."""
    if not missing:
        return ""
    stages = dict.fromkeys(name for names in missing.values() for name in names)
    return say.EXTRAS_MISSING.format(stages=say.list_some(stages, 3), command=install_line(*missing))


def _extras(stage: PlannedStage) -> set[str]:
    return {extra for ref in stage.refs for plugin, args in ref.uses for extra in _plugin_extras(plugin, args)}


def _plugin_extras(plugin: Plugin, args: Mapping[str, Any]) -> Iterator[str]:
    if "EXTRA" in plugin.declares:
        yield plugin.declares["EXTRA"]
    if plugin.declares.get("EXTRA") == "models" and args.get("quantization", "none") != "none":
        yield "quantize"  # vLLM, which has a parameter of this name, brings what it needs
