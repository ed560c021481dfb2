"""Check the inputs of a stage against their recorded hashes.

DVC compares sizes, times and modes, which damage may leave unchanged: a lock would then record a hash that no input had.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qualm.registry.system.dvc_files import find_records
from qualm.registry.system.dvc_objects import hash_path, open_repo, set_aside
from qualm.runners.runtime import status
from qualm.runners.runtime.stage import Stage, StageError


def check_inputs(stage: Stage, root: Path) -> None:
    """In a DVC run, move inputs that changed unnoticed by DVC aside; StageError if any.

    Inputs that somebody edited stay, since DVC notices that and records their hash. Does nothing in a stage that DVC has not started.
    """
    if status.STARTED_BY_DVC not in os.environ:  # runs by hand use what is there
        return
    damaged = []
    for record in find_records(root, input_paths(stage.inputs)):
        actual = hash_path(root, record.path)
        if actual in (None, record.md5):
            continue
        with open_repo(root) as repo:
            if actual == hash_path(root, record.path, repo):
                continue  # edited by hand: DVC knows, and records its hash
        folder = set_aside(root, record).relative_to(root)
        status.tell("damaged")
        damaged.append(f"{record.path} (recorded {record.md5}, read {actual}; now in {folder})")
    if damaged:
        when = "now" if status.is_read() else "when this is run again"
        raise StageError(f"damaged input: {'; '.join(damaged)}. What was moved there is restored, fetched or made again {when}")


def input_paths(inputs: Any) -> Iterator[str]:
    """Yield all paths in a stage's inputs, nested lists and mappings of paths, in order."""
    if isinstance(inputs, Mapping):
        for value in inputs.values():
            yield from input_paths(value)
    elif isinstance(inputs, list):
        for value in inputs:
            yield from input_paths(value)
    else:
        yield str(inputs)
