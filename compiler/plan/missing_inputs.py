"""Find inputs that no stage makes and the workspace lacks, with the command that brings each."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from qualm.compiler.plan.order import reads_from
from qualm.compiler.plan.plan import Plan, PlannedStage, hub_models
from qualm.registry.entries.model_folders import revision_fault
from qualm.registry.system.dvc_files import cache_folder, find_dvc_file
from qualm.registry.system.dvc_objects import holds


def missing_inputs(plan: Plan, root: Path, words: Collection[str] = ()) -> Iterator[str]:
    """Yield advice per unpinned hub model and per absent input that is not made or pulled.

    Args:
        words: words of the DVC command that runs: names of stages, and `--pull`, by which DVC fetches tracked data.
    """
    stages = _asked_for(plan, words)
    for name, revision in hub_models(stages):
        if revision_fault(name, revision):
            yield f"{name}: `qualm fetch {plan.spec}` looks up its commit, pins it and downloads it"
    made = {path for stage in plan.stages for path in stage.outs}
    reviews = {stage.inputs.get("reviews") for stage in stages}
    for path in sorted({path for stage in stages for path in stage.deps} - made):
        # Models of other specs: their own pipelines make them.
        if (root / path).exists() or (path.startswith("results/") and path.split("/")[1] in plan.reads):
            continue
        tracked = find_dvc_file(root, path)
        if tracked is None:
            yield how_to_get(path, path in reviews, plan.spec)
        elif "--pull" not in words:
            file, md5 = tracked
            command = "checkout" if md5 and holds(cache_folder(root), md5) else "pull"
            yield f"{path}: not in the workspace; `dvc {command} {file}`"


def _asked_for(plan: Plan, words: Collection[str]) -> list[PlannedStage]:
    """Return the stages named in `words` and those that they read; all if none is named."""
    before = reads_from(plan.stages)
    wanted = {name for word in words if (name := word.rpartition(":")[2]) in before}
    for stage in reversed(plan.stages):  # a stage comes after what it reads
        if stage.name in wanted:
            wanted |= before[stage.name]
    return [stage for stage in plan.stages if stage.name in wanted or not wanted]


def how_to_get(path: str, is_review: bool, spec: str) -> str:
    """Return a line that names a missing untracked input and, if known, how to get it.

    Args:
        is_review: the input is people's decisions.
    """
    parts = Path(path).parts
    if is_review:
        return f"{path}: people's decisions on the test split; `qualm verify {spec} SET` makes it"
    if path.startswith("registry/data/") and len(parts) > 2:
        return f"registry/data/{parts[2]}: not here; `qualm fetch {spec}` brings it, or says how you get it"
    return f"{path}: not found"
