"""At which stages of a checkout that have not changed DVC would find nothing to do: `qualm run` does not have it look at them.

DVC also makes anew what its cache does not hold, and looks at `.dvc` files and at who else is at work. Where any of this is not plainly
in order the answer is no, and DVC's to give.
"""

import json
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from qualm.compiler.plan.emit import pipeline_path
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.registry.dvc.state import Checkout, listing, object_path, read_lock, read_pointer
from qualm.registry.formats import textfiles

_WHOLE = 0o444
"""The mode of what DVC's cache holds and takes for whole without reading it."""


def settled(plans: Sequence[Plan], unchanged: Collection[tuple[str, str]], checkout: Checkout, default: str) -> frozenset[str]:
    """The stages, as DVC names them, of which the cache holds all that they wrote, whose `.dvc` files and data agree, and which read only
    of such stages; none while another DVC is at one.

    Args:
        plans: of a spec and those that it reads, each after what it reads itself.
        unchanged: spec and name of the stages that are as the lock has them.
        checkout: where they are.
        default: name of the default spec.
    """
    return frozenset() if at_work(checkout.root) else frozenset(_settled(plans, unchanged, checkout, default))


def _settled(plans: Sequence[Plan], unchanged: Collection[tuple[str, str]], checkout: Checkout, default: str) -> Iterator[str]:
    agrees = cache(partial(_data_in_order, checkout=checkout))  # many stages read the same data and code
    others = set[str]()  # what other stages write, which may come out otherwise
    for plan in plans:
        place = pipeline_path(plan.spec, default)
        lock = read_lock((checkout.root / place).with_suffix(".lock"))
        written = {path for stage in plan.stages for path in stage.outs}
        for stage in plan.stages:
            in_order = (plan.spec, stage.name) in unchanged and others.isdisjoint(stage.deps)
            if in_order and _is_in_order(stage, lock[stage.name], checkout) and all(map(agrees, sorted({*stage.deps} - written))):
                yield stage.name if place == "dvc.yaml" else f"{place}:{stage.name}"
            else:
                others.update(stage.outs)


def at_work(root: Path) -> bool:
    """Whether a DVC command is at a stage of a checkout, as far as its own note tells; also where that cannot be read."""
    try:
        held = json.loads(textfiles.read_bytes(root / ".dvc" / "tmp" / "rwlock"))
    except textfiles.NoFileError:
        return False
    except (textfiles.TextFileError, ValueError, RecursionError):
        return True
    return not isinstance(held, dict) or any(held.values())  # who reads and who writes which path


def _is_in_order(stage: PlannedStage, entry: Mapping[str, Any], checkout: Checkout) -> bool:
    outs = entry.get("outs", [])
    if any(item.get("hash") != "md5" for item in (*entry.get("deps", []), *outs)):
        return False  # of a DVC before 3.0, which read line ends otherwise
    # What lies in git is in no cache; its bytes were compared with the lock already.
    in_git = {stage.outputs[key] for key in stage.kept_in_git}
    return all(_is_cached(checkout.cache, out["md5"]) for out in outs if out["path"] not in in_git)


def _data_in_order(path: str, checkout: Checkout) -> bool:
    """Whether data that is read agrees with its `.dvc` file, of the plain kind that `qualm data add` writes, if it has one."""
    tracker = checkout.tracker(path)
    if tracker is None:
        return True
    place, md5 = tracker
    pointer = read_pointer(checkout.root / place)
    out, data = pointer["outs"][0], Path(place).with_suffix("")
    plain = pointer.keys() <= {"outs", "desc", "meta"} and len(pointer["outs"]) == 1
    named = (out["path"], out.get("hash")) == (data.name, "md5")
    return plain and named and md5 is not None and checkout.path_md5(data) == md5 and _is_cached(checkout.cache, md5)


def _is_cached(cache: Path, md5: str) -> bool:
    """Whether a file, or a folder with all that it lists, is there and read-only."""
    if not md5.endswith(".dir"):
        return _is_whole(object_path(cache, md5))
    files = listing(cache, md5)
    return files is not None and all(map(_is_whole, map(partial(object_path, cache), (md5, *files.values()))))


def _is_whole(path: Path) -> bool:
    try:
        state = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(state.st_mode) and stat.S_IMODE(state.st_mode) == _WHOLE
