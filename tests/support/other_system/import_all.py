"""Imports every module of the checkout whose root is the argument; prints those that the system lacks something for."""

import importlib
import os
import sys
from pathlib import Path

from qualm.registry import machine

root = Path(sys.argv[1])
names = sorted(
    f"qualm.{path.relative_to(root).with_suffix('').as_posix().replace('/', '.').removesuffix('.__init__')}"
    for folder in ("compiler", "registry", "runners")
    for path in (root / folder).rglob("*.py")
    if path.name != "__main__.py"
)
assert len(names) > 500 and machine.sys.platform == os.environ["QUALM_TEST_SYSTEM"]
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if " on win32" in str(error) or (error.name or "qualm").startswith("qualm"):
            print(f"{name}: {error}")  # else a library of an extra that is not installed
    except Exception as error:  # noqa: BLE001 - all are printed
        print(f"{name}: {error!r}")
