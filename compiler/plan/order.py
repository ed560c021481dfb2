"""Check and order stages: no two share an output or name, each comes after what it reads."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.spec.errors import Position, Problem, SpecError
from qualm.compiler.spec.resolved import Resolved
from qualm.registry.system.file_names import problem_on_windows

T = TypeVar("T")


def check_outputs(stages: Sequence[PlannedStage], resolved: Resolved) -> None:
    """Raise SpecError if stages share a name or output, or a name fails on Windows."""
    problems, owner = [], dict[str, str]()
    names: dict[str, str] = {}
    count = Counter(stage.name for stage in stages)
    for stage in stages:
        # Case is ignored, since on some file systems such stages would share a file.
        if names.setdefault(stage.name.lower(), stage.name) != stage.name or count[stage.name] > 1:
            problems.append(clash(resolved, f"another stage has the name '{stage.name}', in upper or lower case"))
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
    """Return a problem with `message` that advises to rename a dataset or model."""
    return Problem(Position(str(resolved.files[0])), "", message, "rename a dataset or model")


def reads_from(stages: Sequence[PlannedStage]) -> dict[str, frozenset[str]]:
    """Return {stage: names of the stages whose outputs it reads directly}."""
    owner = {out: s.name for s in stages for out in s.outs}
    return {s.name: frozenset(owner[d] for d in s.deps if d in owner) for s in stages}


def longest_chain_first(stages: Sequence[T], before: Mapping[T, AbstractSet[T]]) -> list[T]:
    """Return the stages by the length of the chain of stages after them, longest first.

    `before` is {stage: stages that it reads}; `stages` come after those that they read.

    With parallel jobs this keeps cores from idling at the end (T. C. Hu, "Parallel Sequencing and Assembly Line Problems", Operations
    Research, 1961).
    """
    after = dict.fromkeys(stages, 0)
    # Backwards through the given order, in which each comes after what it reads.
    for stage in reversed(stages):
        for earlier in before[stage]:
            if earlier in after:
                after[earlier] = max(after[earlier], after[stage] + 1)
    return sorted(stages, key=lambda stage: -after[stage])


def ordered(stages: Sequence[PlannedStage], resolved: Resolved) -> list[PlannedStage]:
    """Return the stages, each after those it reads; SpecError if they form a circle."""
    waiting = reads_from(stages)
    done: list[PlannedStage] = []
    remaining = list(stages)
    while remaining:
        names_done = {d.name for d in done}
        # Whole layers, each in its given order, keep diffs of dvc.yaml small.
        ready = [s for s in remaining if waiting[s.name] <= names_done]
        if not ready:
            names = ", ".join(s.name for s in remaining)
            message, hint = f"stages wait for each other in a circle: {names}", "take one out of what another of them reads"
            raise SpecError([Problem(Position(str(resolved.files[0])), "", message, hint)])
        done += ready
        names_ready = {s.name for s in ready}
        remaining = [s for s in remaining if s.name not in names_ready]
    return done
