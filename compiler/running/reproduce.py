"""`python -m qualm.compiler.running.reproduce ARGUMENTS`: `dvc repro ARGUMENTS` in a process of `qualm run`'s.

It asks nothing and tells what it does: each stage's beginning and end (`qualm.runners.runtime.status`). What is fetched or restored is
hashed before it is used; damaged objects, and those that a stage finds, are set aside and made anew. Locks are written whole or not at all,
whatever is killed and when. And it ends with its parent.
"""

import io
import json
import logging
import os
import re
import sys
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from qualm.compiler.running import forks, lock_text, path_locks
from qualm.compiler.running.lock_order import LockOrder
from qualm.compiler.running.side_by_side import ParallelStages, cards_here
from qualm.registry.dvc.config import cache_folder
from qualm.registry.dvc.damage import Recorded, content, is_damaged, set_aside
from qualm.registry.dvc.state import file_state, object_path
from qualm.registry.formats import atomic, textfiles
from qualm.registry.formats.disk_errors import explained
from qualm.runners.forks import QuickExit
from qualm.runners.runtime import status
from qualm.runners.runtime.die_with_parent import die_with_parent
from qualm.runners.runtime.settings import read_settings

LOG = "QUALM_DVC_LOG"
"""Names the file for what DVC itself says; without it, that goes where it always goes."""
JOBS, CLUSTER = "QUALM_JOBS", "QUALM_CLUSTER"
"""The settings `jobs` and `cluster`, in the environment."""
FORECAST = "QUALM_FORECAST"
"""Names the file with what is known before DVC looks, as JSON: stages that are `settled`, at which there is nothing to do, as DVC names
them, and `ahead`, keys of stages that run first."""
TRIES = 5
"""Times that one stage is begun; each next one only after something damaged was set aside."""
LOCKED = 75
"""Exit status where another DVC is at work (EX_TEMPFAIL)."""


def main(arguments: list[str]) -> int:
    die_with_parent()
    if log := os.environ.get(LOG):
        _log_to(Path(log))
    forecast = os.environ.get(FORECAST)
    known = json.loads(textfiles.read_text(Path(forecast))) if forecast else {"settled": [], "ahead": []}
    with forks.started(read_settings(), known["ahead"]) as server:  # imports what stages need while this process imports DVC
        return _reproduced(arguments, frozenset(known["settled"]), Path(log) if log else None, server)


def _reproduced(arguments: list[str], settled: frozenset[str], log: Path | None, server: forks.Forks | None) -> int:
    from dvc import prompt
    from dvc.cli import main as dvc_main
    from dvc.commands import repro

    prompt.ask = lambda *_, **__: None  # the answer of a terminal where nobody sits
    # Before the lock order, which wraps whichever loop over stages stands there then.
    if (jobs := int(os.environ.get(JOBS, "1"))) > 1:
        ParallelStages(jobs, _cards(), log.parent / "stages" if log else None).install()
    _write_whole_files(_lock_order())
    _verify_listings()
    path_locks.install()
    repro.CmdRepro = _command(settled)
    with forks.installed(server):
        code: int = dvc_main(["repro", *arguments])
    return code


def _log_to(file: Path) -> None:
    """Send what DVC says to a file; descriptors 1 and 2 stay, for the stages that inherit them."""
    # Python's names only: file descriptors are inherited by stages, whose words go elsewhere.
    sys.stdout = sys.stderr = log = file.open("w", encoding="utf-8", newline="\n", buffering=1)
    for name in ("dvc", "dvc_objects", "dvc_data"):
        for handler in logging.getLogger(name).handlers:  # set up where DVC was imported before
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(log)


def _cards() -> list[str]:
    """GPUs that stages are given one each; none where a stage is to have several."""
    settings = read_settings()
    return cards_here() if settings.devices == settings.nodes == 1 and not settings.launcher and settings.strategy == "auto" else []


def _lock_order() -> LockOrder:
    """Learns the order of a run's stages when it begins."""
    import dvc.repo.reproduce

    order, reproduce_all = LockOrder(), dvc.repo.reproduce._reproduce

    def learning(stages: list[Any], *more: Any, **options: Any) -> Any:
        order.learn(stages)
        return reproduce_all(stages, *more, **options)

    dvc.repo.reproduce._reproduce = learning
    return order


def _write_whole_files(order: LockOrder) -> None:
    """Have DVC replace locks and `.dvc` files in one rename, stages in order: killed while it writes one, it leaves half of it."""
    from dvc.utils.serialize import _common, _yaml

    def dump(path: Any, data: Any, dumper: Any, fs: Any = None, **options: Any) -> None:
        del fs  # always this disk
        order.arrange(Path(path), data)
        text = io.StringIO()
        dumper(data, text, **options)
        replace(Path(path), text.getvalue())

    def replace(path: Path, text: str) -> None:
        whole = Path(".dvc/tmp") / f"{path.name}.{os.getpid()}"  # what a kill leaves is in nobody's way there
        whole.write_text(text, encoding="utf-8", newline="\n")
        atomic.publish(whole, path)

    _common._dump_data = _yaml._dump_data = dump
    lock_text.install(replace, order.arrange)


def _verify_listings() -> None:
    """Have DVC compare the list of a folder's files with its hash: by a damaged one it would restore a folder of another hash."""
    from dvc_data.hashfile import tree
    from dvc_objects.errors import ObjectFormatError

    reader: Any = tree.Tree
    load = reader.load.__func__

    def verified(cls: type[Any], store: Any, hash_info: Any, *more: Any, **options: Any) -> Any:
        place, root = object_path(cache_folder(Path.cwd()), hash_info.value), Path.cwd()
        if store.oid_to_path(hash_info.value) == str(place) and place.is_file() and is_damaged(place, hash_info.value):
            aside = set_aside(root, Recorded(hash_info.value, hash_info.value)).relative_to(root).as_posix()
            status.tell("damaged", path=str(place), aside=aside)
            raise ObjectFormatError(f"{place} is corrupted")
        return load(cls, store, hash_info, *more, **options)

    reader.load = classmethod(verified)


def _command(settled: Collection[str]) -> type[Any]:
    from dvc.commands.repro import CmdRepro
    from dvc.lock import LockError

    class Reproduce(CmdRepro):  # type: ignore[misc]
        def __init__(self, args: Any) -> None:
            super().__init__(args)
            names = self.repo.config["remote"]
            # Put into the private field and not into the files: a run must not edit the user's configuration.
            self.repo._config = {"remote": {name: {"verify": True} for name in names}}  # outlives the reloads during a run
            self.repo._reset()

        @property
        def _repro_kwargs(self) -> dict[str, Any]:
            return {**super()._repro_kwargs, "repro_fn": partial(_reproduce_open, settled)}

        def do_run(self) -> int:
            try:
                path_locks.release_ended(self.repo)
                code: int = super().do_run()
                return code
            except Exception as error:
                causes = list(_causes(error))
                if lock := next((cause for cause in causes if isinstance(cause, LockError)), None):
                    status.tell("locked", error=str(lock))
                    return LOCKED
                if not _is_reported(causes[-1]):
                    status.tell("error", error=": ".join(map(_words, causes)))
                raise

    return Reproduce


def _reproduce_open(settled: Collection[str], stage: Any, **options: Any) -> Any:
    """One stage of `dvc repro`, unless it is settled: DVC would write its note of who is at work four times to find nothing to do."""
    if stage.addressing not in settled:
        return reproduce(stage, **options)
    status.tell("begin", stage=stage.addressing)
    status.tell("end", stage=stage.addressing, how="unchanged")
    return None


def reproduce(stage: Any, **options: Any) -> Any:
    """One stage of `dvc repro`, told and verified; what DVC returns of it."""
    from dvc.lock import LockError

    before = status.TELLER.set(stage.addressing)
    try:
        status.tell("begin", stage=stage.addressing)
        result, how = _until_whole(stage, options)
        status.tell("end", stage=stage.addressing, how=how)
        return result
    except LockError:
        raise
    except Exception:
        status.tell("failed", stage=stage.addressing)
        raise
    finally:
        status.TELLER.reset(before)


def _until_whole(stage: Any, options: dict[str, Any]) -> tuple[Any, str]:
    """Reproduce a stage, and again while something damaged was set aside on the way."""
    from dvc.exceptions import DvcException
    from dvc.repo.reproduce import _reproduce_stage

    failure: Exception | None = None
    # Each round needs a reason of its own to go on; anything else is raised at once.
    for _ in range(TRIES):
        before, offset = _states(stage), status.position()
        try:
            result = _reproduce_stage(stage, **options)
        except Exception as error:
            failure = error
            if _unlinked(stage) or (options.get("pull") and stage.cmd and _lacks_remote(error)):
                options = {**options, "pull": False}
            elif not status.told_since(offset, "damaged"):
                raise
        else:
            if status.told_since(offset, "started"):
                return result, "ran"
            # DVC does not say whether it restored anything; files that changed although no command ran do.
            if not (fresh := [out for out in stage.outs if _state(out) not in (None, before[out.fs_path])]):
                return result, "unchanged"
            if not _set_damaged_aside(stage, fresh):
                return result, "restored" if stage.cmd else "fetched"
        stage = _reloaded(stage)
        # What was set aside may have been an output of an earlier stage, which DVC has already passed.
        for maker in _upstream(stage):
            if not all(out.exists for out in maker.outs):
                reproduce(maker, **{**options, "upstream": _upstream(maker), "force": False})
    again = f"{stage.addressing}: damaged again after {TRIES} attempts; `qualm data verify` says what is damaged where"
    raise DvcException(again) from failure


def _reloaded(stage: Any) -> Any:
    """A stage as its files have it: DVC takes a stage that has failed for one whose lock is in step, and would restore old outputs."""
    stage.repo._reset()
    return next(other for other in stage.repo.index.stages if other == stage)


def _unlinked(stage: Any) -> bool:
    """Take away outputs with links to nothing, which DVC leaves where it pulls what nobody has into a checkout of links."""
    links = [file for out in stage.outs for file in (Path(out.fs_path), *Path(out.fs_path).rglob("*")) if file.is_symlink()]
    dangling = [link for link in links if not link.exists()]
    for link in dangling:
        link.unlink()
    return bool(dangling)


def _lacks_remote(error: Exception) -> bool:
    """Whether DVC wanted to fetch what its cache lacks, and there is nowhere to fetch it from: then it is to be made.

    DVC's run cache may name outputs that never came into its cache (the disk was full) or that left it (`dvc gc`)."""
    from dvc.config import NoRemoteError

    return any(isinstance(cause, NoRemoteError) for cause in _causes(error))


def _upstream(stage: Any) -> list[Any]:
    return list(stage.repo.index.graph.successors(stage))


def _states(stage: Any) -> dict[str, Any]:
    return {out.fs_path: _state(out) for out in stage.outs}


def _state(out: Any) -> Any:
    """What tells one writing of an output from the next; None where there is no output."""
    place = Path(out.fs_path)
    if place.is_dir():
        return {str(file): file_state(file) for file in sorted(place.rglob("*")) if file.is_file()}
    return file_state(place) if place.exists() else None


def _set_damaged_aside(stage: Any, outs: list[Any]) -> bool:
    """Hash restored outputs; whether any was not what DVC took it for."""
    root = Path(stage.repo.root_dir)
    damaged = False
    for out in outs:
        record = Recorded(Path(os.path.relpath(out.fs_path, root)).as_posix(), str(out.hash_info.value))
        if content(root, record.path) != record.md5:
            damaged = True
            status.tell("damaged", path=record.path, aside=set_aside(root, record).relative_to(root).as_posix())
    return damaged


def _words(cause: BaseException) -> str:
    return explained(cause) if isinstance(cause, OSError) else re.sub(r"\x1b\[[0-9;]*m", "", str(cause))  # DVC colours addresses


def _is_reported(cause: BaseException) -> bool:
    """Return True if the command of a compiled stage has ended with status 1: it has printed why, and DVC's message adds nothing."""
    return re.fullmatch(rf"failed to run: {forks.COMMAND.pattern}, exited with 1", str(cause)) is not None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


if __name__ == "__main__":
    QuickExit()(main(sys.argv[1:]))
