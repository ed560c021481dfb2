"""The first stage of every pipeline, `spec`: compile the spec before DVC looks at any other stage.

DVC reads a stage's parameters when its turn comes, so edited values take effect in the same `dvc repro`. It has read dvc.yaml by then:
if that changes, the run stops.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

from qualm.compiler.plan.compiled_files import owner
from qualm.compiler.plan.emit import MARKER, compiled_texts, pipeline, pipeline_path, write
from qualm.compiler.plan.missing_inputs import missing_inputs
from qualm.compiler.plan.plan import Plan
from qualm.compiler.project.checkout import Project
from qualm.compiler.spec import sentences as say
from qualm.registry import SPEC_STAGE
from qualm.registry.system import atomic, textfiles


def run_spec_stage(project: Project, spec: str) -> int:
    """Compile a spec within its running pipeline; return 0, or 1 if the run must stop."""
    plan, default = project.plan(spec), project.run_wide.default
    path = pipeline_path(plan.spec, default)
    compiled = project.root / path
    before = textfiles.read_text(compiled) if compiled.is_file() else ""
    if before != compiled_texts(plan, default)[path]:
        # The default's pipeline lies in the root: where another spec becomes the default, both move.
        moves = owner(project.root / "dvc.yaml") != default and default in project.specs()
        project.compile([default, plan.spec] if moves and default != plan.spec else [plan.spec])
        todo = _what_to_type(project.root, plan.spec)
        print(say.PIPELINE_CHANGED.format(path=path, changes=_difference(before, plan), todo=todo))
        return 1
    if missing := list(missing_inputs(plan, project.root, _parent_command_words())):
        print("\n".join(f"qualm: {line}" for line in missing))
        return 1
    for written in write(project.root, [plan], default, locks=False).written:
        print(say.FILE_FROM_SPEC.format(path=written, spec=plan.spec))
    atomic.write_text(project.root / plan.marker, MARKER)
    return 0


def _difference(before: str, plan: Plan) -> str:
    old: dict[str, Any] = (yaml.safe_load(before) or {}).get("stages", {})
    up = "../../" if any("wdir" in stage for stage in old.values()) else ""
    new = pipeline(plan, up)["stages"]
    sides = {
        "new": new.keys() - old.keys(),
        "gone": old.keys() - new.keys(),
        "changed": {name for name in new.keys() & old.keys() - {SPEC_STAGE} if new[name] != old[name]},
    }
    listed = {word: say.list_some(sorted(names), 3) + " stages" * (len(names) > 3) for word, names in sides.items() if names}
    return "; ".join(f"{word}: {stages}" for word, stages in listed.items()) or say.SPEC_CONTENT


def _what_to_type(root: Path, spec: str) -> str:
    # DVC's queue runs experiments in temporary folders.
    if ".dvc/tmp/exps" in root.as_posix():
        return say.REPEAT_IN_WORKSPACE.format(spec=spec)
    return say.REPEAT_COMMAND


def _parent_command_words() -> list[str]:
    """Return the words of the command lines of all parent processes that may be read."""
    words: list[str] = []
    for process in psutil.Process().parents():
        with suppress(psutil.Error):  # another user's, or one that has just ended
            words += process.cmdline()
    return words
