"""Start a part of a compiled pipeline in the project's Python environment. `qualm compile` writes this file; do not edit it.

    python3 specs/run.py SPEC          compile the spec: the first stage of its pipeline
    python3 specs/run.py SPEC/STAGE    run a stage

The environment is $QUALM_PYTHON, else that of this very Python if Qualm is installed there, else the project's `.venv`.
This file runs under Python 3.8 and newer.
"""

from __future__ import annotations

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib may be shadowed until the path is clean
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != FOLDER]  # noqa: PTH100


def find_python(root: str) -> str:
    """Return Python from QUALM_PYTHON, else this one if it has Qualm, else .venv's; else exit."""
    import shutil
    from importlib.util import find_spec
    from pathlib import Path

    if named := os.environ.get("QUALM_PYTHON"):
        return shutil.which(named) or sys.exit(f"qualm: QUALM_PYTHON names '{named}', and there is no such program")
    ours = find_spec("qualm") if sys.version_info >= (3, 11) else None
    if ours is not None and ours.origin is not None and find_spec("pyarrow") is not None:
        return sys.executable
    for python in (Path(root, ".venv", "bin", "python"), Path(root, ".venv", "Scripts", "python.exe")):
        if python.exists():
            return str(python)
    return sys.exit(
        f"qualm: {sys.executable} has no Qualm and there is no .venv in {root}; "
        "activate the environment that has it, or set QUALM_PYTHON (in a checkout of Qualm: `make setup`)"
    )


def main(arguments: list[str]) -> int:
    """Run stage "SPEC/STAGE", or compile "SPEC", in place of this process; return the status."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    root = os.path.dirname(FOLDER)  # noqa: PTH120
    os.chdir(root)
    if os.path.isfile(os.path.join(root, "registry", "places.py")):  # noqa: PTH113, PTH118
        # A checkout of Qualm, perhaps one that DVC made for an experiment: its stages run its own code.
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    module = "qualm.runners" if "/" in arguments[0] else "qualm.compiler"
    # -P: a `queue.py` or a folder `qualm` in the project is no library.
    command = [find_python(root), "-P", "-m", module, arguments[0]]
    if os.name == "nt":  # where `execv` returns to whoever waits before the new program has ended
        import subprocess

        return subprocess.call(command)
    return os.execv(command[0], command)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
