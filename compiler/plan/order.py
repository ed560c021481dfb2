"""All stages together: no two write one path or have one name, and each stands after what it reads."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.resolve.resolved import Resolved
from qualm.compiler.spec.errors import Position, Problem, SpecError
from qualm.registry.formats.file_names import problem_on_windows

T = TypeVar("T")


def check_outputs(stages: Sequence[PlannedStage], resolved: Resolved) -> None:
    """Raise SpecError where two stages share a name or path, or Windows cannot hold a file."""
    problems, owner = [], dict[str, str]()
    names: dict[str, str] = {}
    count = Counter(stage.name for stage in stages)
    for stage in stages:
        # Case is ignored, since some file systems would put two such stages into one file.
        if names.setdefault(stage.name.lower(), stage.name) != stage.name or count[stage.name] > 1:
            problems.append(clash(resolved, f"two stages would be called '{stage.name}'"))
        for out in stage.outs:
            other = owner.setdefault(out.lower(), stage.name)
            if other != stage.name:
                problems.append(clash(resolved, f"stages '{other}' and '{stage.name}' would both write {out}"))
    files = [out for stage in stages for out in (f"specs/{resolved.spec.name}/stages/{stage.name}.json", *stage.outs)]
    reasons = dict.fromkeys(reason for file in files for part in file.split("/") if (reason := problem_on_windows(part)))
    problems += [clash(resolved, f"Windows could not hold the files of this spec: {reason}") for reason in reasons]
    if problems:
        raise SpecError(problems)


def clash(resolved: Resolved, message: str) -> Problem:
    """What another name in the spec would put right."""
    return Problem(Position(str(resolved.files[0])), "", message, "rename a dataset or model")


def reads_from(stages: Sequence[PlannedStage]) -> dict[str, frozenset[str]]:
    """Stage -> those of these stages whose outputs it reads."""
    owner = {out: s.name for s in stages for out in s.outs}
    return {s.name: frozenset(owner[d] for d in s.deps if d in owner) for s in stages}


def longest_chain_first(stages: Sequence[T], before: Mapping[T, AbstractSet[T]]) -> list[T]:
    """Stages by how many others have to follow one after the other, the most first; of equals in the order given.

    T. C. Hu, "Parallel Sequencing and Assembly Line Problems", Operations Research, 1961: so no core is idle at the end for want of a stage
    that could have begun before.
    """
    after = dict.fromkeys(stages, 0)
    # Backwards through an order in which each stands behind what it reads: one pass finds the longest chains.
    for stage in reversed(stages):
        for earlier in before[stage]:
            if earlier in after:
                after[earlier] = max(after[earlier], after[stage] + 1)
    return sorted(stages, key=lambda stage: -after[stage])


def ordered(stages: Sequence[PlannedStage], resolved: Resolved) -> list[PlannedStage]:
    """Order stages after what they read; raise SpecError where they wait for each other."""
    waiting = reads_from(stages)
    done: list[PlannedStage] = []
    left = list(stages)
    while left:
        names_done = {d.name for d in done}
        # Whole layers at once, each in its given order: the result depends on nothing but the plan, and diffs of dvc.yaml stay small.
        ready = [s for s in left if waiting[s.name] <= names_done]
        if not ready:
            names = ", ".join(s.name for s in left)
            message, hint = f"stages wait for each other in a circle: {names}", "take one out of what another of them reads"
            raise SpecError([Problem(Position(str(resolved.files[0])), "", message, hint)])
        done += ready
        names_ready = {s.name for s in ready}
        left = [s for s in left if s.name not in names_ready]
    return done
