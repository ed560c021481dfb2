"""Makes every Python process, as our own modules see it, one of another system (QUALM_TEST_SYSTEM: `darwin` or `win32`).

Other libraries see Linux as it is: they support both systems, and would break without the calls that they use here.
"""

import builtins
import importlib
import os
import pathlib
import sys
import types

from absent import MODULES_NOT_ON_WINDOWS, absent_names  # beside this file

SYSTEM = os.environ["QUALM_TEST_SYSTEM"]
OURS = "qualm"


class ForeignModule:
    """A module without what it lacks on the other system; all else, and what is set, is the real module's."""

    def __init__(self, module, absent, **replaced):
        object.__setattr__(self, "of", (module, absent, replaced))

    def __getattr__(self, name):
        module, absent, replaced = self.of
        if name in absent:
            raise AttributeError(f"module '{module.__name__}' has no attribute '{name}' on {SYSTEM}")
        return replaced[name] if name in replaced else getattr(module, name)

    def __setattr__(self, name, value):
        setattr(self.of[0], name, value)


def c_library(name, *more, **options):
    if name is None:
        raise TypeError(f"no C library without a name on {SYSTEM}")
    return importlib.import_module("ctypes").CDLL(name, *more, **options)


FOREIGN = {name: ForeignModule(importlib.import_module(name), absent) for name, absent in absent_names(SYSTEM).items()}
FOREIGN["sys"] = ForeignModule(sys, set(), platform=SYSTEM)
FOREIGN["ctypes"] = ForeignModule(importlib.import_module("ctypes"), set(), CDLL=c_library)
real_import = builtins.__import__


def foreign_import(name, globals=None, locals=None, fromlist=(), level=0):
    asking = (globals or {}).get("__package__") or (globals or {}).get("__name__") or ""
    if level == 0 and asking.partition(".")[0] == OURS:
        if SYSTEM == "win32" and name.partition(".")[0] in MODULES_NOT_ON_WINDOWS:
            raise ModuleNotFoundError(f"No module named {name!r} on {SYSTEM}", name=name)
        if name in FOREIGN:
            return FOREIGN[name]
    return real_import(name, globals, locals, fromlist, level)


builtins.__import__ = foreign_import

if SYSTEM == "win32":

    def symlink_to(path, target, target_is_directory=False):
        raise OSError(1314, "A required privilege is not held by the client", os.fspath(path))

    pathlib.Path.symlink_to = symlink_to
    import psutil

    memory_info = psutil.Process.memory_info

    def windows_memory_info(process):
        used = memory_info(process)._asdict()
        return types.SimpleNamespace(**used, peak_wset=used["rss"])

    psutil.Process.memory_info = windows_memory_info
