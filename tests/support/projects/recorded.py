"""A dvc.lock of the results that lie in a project, as DVC would have written it when they were made."""

from __future__ import annotations

from pathlib import Path

import yaml

from qualm.compiler.plan.emit import pipeline
from qualm.compiler.project.checkout import Project
from qualm.registry.system.dvc_objects import hash_path


def record_results(project: Project, spec: str, lock: str = "dvc.lock") -> Path:
    """Write the lock, in a DVC repository; outputs and dependencies that are not there are left out."""
    plan, stages = project.plan(spec), {}
    compiled = pipeline(plan)["stages"]
    for stage in plan.stages:
        made, read = ({path: md5 for path in paths if (md5 := hash_path(project.root, path))} for paths in (stage.outs, stage.deps))
        stages[stage.name] = {
            "cmd": compiled[stage.name]["cmd"],
            "deps": [{"path": path, "hash": "md5", "md5": md5} for path, md5 in read.items()],
            "params": {f"specs/{spec}/stages/{stage.name}.json": stage.tracked},
            "outs": [{"path": path, "hash": "md5", "md5": md5} for path, md5 in made.items()],
        }
    config = project.root / ".dvc" / "config"
    config.parent.mkdir(exist_ok=True)
    if not config.exists():
        config.write_text("[core]\n    no_scm = true\n")
    (project.root / lock).parent.mkdir(parents=True, exist_ok=True)
    (project.root / lock).write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}, sort_keys=False))
    return project.root / lock
