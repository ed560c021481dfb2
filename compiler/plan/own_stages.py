"""The stages that a spec names itself, of kinds that are not built in (`runners.contracts.stages`)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qualm.compiler.plan.layout import Layout, read_by, splits
from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.spec.errors import Position, Problem, SpecError, nearest
from qualm.compiler.spec.plugin_ref import Ref, slug
from qualm.runners.contracts.stages import stage_kind


def planned(layout: Layout, before: Sequence[PlannedStage]) -> Iterator[PlannedStage]:
    """One stage for each; it reads what stages `before` it write, and what others of them write, by the name of the stage.

    Raises:
        SpecError: a stage reads what nothing in the spec writes.
    """
    written: dict[str, dict[str, str]] = {}
    for ref in layout.resolved.stages:
        for key, path in layout.places(ref.plugin.name, stage_kind(ref.plugin.name).writes, stage=ref.label).items():
            written.setdefault(key, {})[ref.label] = path
    tables = {**layout.tables(before), **written}
    for ref in layout.resolved.stages:
        yield _stage(layout, ref, tables)


def _stage(layout: Layout, ref: Ref, tables: Mapping[str, Any]) -> PlannedStage:
    kind = stage_kind(ref.plugin.name)
    for key in kind.reads:
        if key not in tables:
            message = f"stage '{ref.label}' reads '{key}', which nothing in this spec writes"
            raise SpecError([Problem(Position(str(layout.resolved.files[0])), "stages", message, nearest(key, tables))])
    params = {**ref.as_json(), **(splits(layout.evaluated) if "datasets" in kind.reads else {})}
    outputs = layout.places(kind.name, kind.writes, stage=ref.label)
    return layout.stage(kind.name, params, read_by(kind.name, tables), outputs, [ref], name=slug(ref.label), stage=ref.label)
