"""Stages that do not depend on each other, at work at the same time within one `dvc repro`.

What runs side by side is the stages' commands. DVC's own work (comparing, restoring, hashing, writing locks) stays one at a time, as it
is made for: each stage has a thread, which takes the turn for it and gives it back, with DVC's lock, while its command runs. So DVC checks,
runs and records every stage as it always does, and the lock is that of a run one by one.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qualm.compiler.plan.order import longest_chain_first
from qualm.registry.machine import nvidia_cards
from qualm.runners.runtime import status

WORDS = "words"
"""Event of a stage whose own words go to a file of their own, which it names."""


class ParallelStages:
    """Stands in the place of the loop of `dvc repro` over its stages."""

    def __init__(self, jobs: int, cards: Sequence[str] = (), words: Path | None = None) -> None:
        """
        Args:
            jobs: stages at work at the same time.
            cards: GPUs of which each stage is given one, as CUDA_VISIBLE_DEVICES names them; none where each is to see all.
            words: folder for what stages print; None leaves it where it goes.
        """
        self._jobs, self._words = jobs, words
        self._users = dict.fromkeys(cards, 0)
        self._turn, self._own = threading.Lock(), threading.local()
        self._ending = False

    def install(self) -> None:
        """Have DVC run stages so. Call it in the main thread of a process that does nothing else."""
        import signal

        import dvc.repo.reproduce
        import dvc.rwlock
        import dvc.stage.run

        module, prepare, lock = dvc.stage.run, dvc.stage.run.prepare_kwargs, dvc.rwlock.rwlock

        def prepared(stage: Any, run_env: Any = None) -> dict[str, Any]:
            """What a command is started with."""
            options: dict[str, Any] = prepare(stage, run_env)
            options["env"].update(self._own.environment)
            # Thread-local: `_surroundings` of this very thread has set them just before.
            return {**options, **self._own.streams}

        def path_locks(folder: Any, fs: Any, command: str, *more: Any) -> Any:
            """DVC takes those of one process and command for those of one stage."""
            # Without the stage's name in it, two stages of one process would pass for one and not keep each other out.
            return lock(folder, fs, f"{command} ({status.TELLER.get()})", *more)

        dvc.repo.reproduce._reproduce = self.reproduce
        dvc.rwlock.rwlock = path_locks
        module.prepare_kwargs, module.unlocked_repo = prepared, self._beside
        # A script that started this in the background has Ctrl-C ignored, and it stays so.
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._end)

    def _end(self, *_: object) -> None:
        """Begin nothing more; commands at work have had their own Ctrl-C."""
        self._ending = True

    def reproduce(
        self,
        stages: list[Any],
        graph: Any = None,
        force_downstream: bool = False,
        on_error: str = "fail",
        force: bool = False,
        repro_fn: Callable[..., Any] | None = None,
        **options: Any,
    ) -> list[Any]:
        """`dvc.repo.reproduce._reproduce`: the stages that ran, in the order of `stages`.

        Raises:
            ReproductionError: some failed; those at work beside them have come to their end.
            KeyboardInterrupt: it was to end before all had begun.
        """
        from dvc.lock import LockError
        from dvc.repo.reproduce import _raise_error, handle_error

        if not stages:
            return []
        work, repo = ReadyStages(stages, graph or stages[0].repo.index.graph), stages[0].repo
        forced = dict.fromkeys(stages, force)
        results: dict[Any, Any] = {}
        failures: list[tuple[Any, BaseException]] = []
        running: dict[Future[Any], Any] = {}

        def begin(stage: Any) -> Any:
            neighbours = list(graph.successors(stage)) if graph else []
            # From here on this thread has the turn; DVC's structures are not made for two.
            with self._at_work(repo):
                return (repro_fn or _plain())(stage, upstream=neighbours, force=forced[stage], **options)

        with _apart(repo), ThreadPoolExecutor(self._jobs) as pool:
            while True:
                if not self._ending:
                    running |= {pool.submit(begin, stage): stage for stage in work.begin(self._jobs - len(running))}
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    stage, error = running.pop(future), future.exception()
                    # With nothing else at work the lock is a stranger's, and waiting for it would be for ever.
                    if isinstance(error, LockError) and running:  # by what another of ours is making anew
                        work.put_back(stage)
                        continue
                    work.end(stage)
                    if error is None:
                        results[stage] = future.result()
                        if force_downstream and (results[stage] or forced[stage]) and graph:
                            forced.update(dict.fromkeys(graph.predecessors(stage), True))
                        continue
                    failures.append((stage, error))
                    if on_error == "fail" or not isinstance(error, Exception):
                        self._ending = True
                    else:
                        work.drop(handle_error(graph, on_error, error, stage))
        # These end the run as they are; DVC's own error would wrap them, and hide that a lock or Ctrl-C was the reason.
        for _, error in failures:
            if isinstance(error, LockError) or not isinstance(error, Exception):
                raise error
        if failures and on_error != "ignore":
            _raise_error(failures[0][1] if on_error == "fail" else None, *(stage for stage, _ in failures))
        if work.waiting:
            raise KeyboardInterrupt
        return [results[stage] for stage in stages if results.get(stage)]

    @contextmanager
    def _at_work(self, repo: Any) -> Iterator[None]:
        """Within it this thread has the turn, but for the time of commands."""
        self._turn.acquire()
        try:
            repo.lock.lock()
            yield
        finally:
            if repo.lock.is_locked:
                repo.lock.unlock()
            self._turn.release()

    def _beside(self, command: Callable[..., Any]) -> Callable[..., Any]:
        """`dvc.stage.decorators.unlocked_repo`: a command, with the turn given to others while it runs."""

        def run(stage: Any, *arguments: Any, **options: Any) -> Any:
            if self._ending:
                raise KeyboardInterrupt
            stage.repo.lock.unlock()
            # While others run, locks and outputs change: DVC must not go on with what it had read before.
            stage.repo._reset()
            with self._surroundings(stage.addressing):
                self._turn.release()
                try:
                    return command(stage, *arguments, **options)
                finally:
                    self._turn.acquire()
                    stage.repo.lock.lock()

        return run

    @contextmanager
    def _surroundings(self, stage: str) -> Iterator[None]:
        """What a command has of its own: a card, and a file for its words. Entered and left by whoever has the turn."""
        own = self._own
        own.environment, own.streams = {}, {}
        # The card with the fewest users: there may be more jobs than cards.
        card = min(self._users, key=lambda name: self._users[name], default=None)
        if card is not None:
            self._users[card] += 1
            own.environment = {"CUDA_VISIBLE_DEVICES": card}
        file = None
        if self._words is not None:
            self._words.mkdir(parents=True, exist_ok=True)
            file = (self._words / f"{re.sub(r'[^A-Za-z0-9_-]', '_', stage)}.log").open("wb")
            own.streams = {"stdout": file, "stderr": file}
            status.tell(WORDS, stage=stage, path=file.name)
        try:
            yield
        finally:
            if card is not None:
                self._users[card] -= 1
            if file is not None:
                file.close()


class ReadyStages:
    """Which stages may begin: those before them in the graph have ended. No stage twice."""

    def __init__(self, stages: Sequence[Any], graph: Any) -> None:
        """`graph`: edges from a stage to those that it depends on, as DVC has it."""
        # Only those of this run: what it does not build is taken to be there.
        self._before = {stage: set(graph.successors(stage)) & {*stages} if stage in graph else set() for stage in stages}
        self.waiting = longest_chain_first(stages, self._before)
        self._open = set(stages)
        self._put_back: set[Any] = set()

    def begin(self, most: int) -> list[Any]:
        """The next stages to begin, at most so many: first those after which most stages come, one after the other."""
        # All that wait for nothing, and not those alone that the ended stage set free: a stage may have been put back.
        ready = [s for s in self.waiting if s not in self._put_back and not self._before[s] & self._open][: max(0, most)]
        self.waiting = [s for s in self.waiting if s not in ready]
        return ready

    def end(self, stage: Any) -> None:
        """It has ended, well or not."""
        self._open.discard(stage)
        # Whatever it waited for may have been this one.
        self._put_back.clear()

    def put_back(self, stage: Any) -> None:
        """It could not begin; try again when another has ended."""
        self.waiting.insert(0, stage)
        self._put_back.add(stage)

    def drop(self, stages: Iterable[Any]) -> None:
        """They are not to begin at all."""
        dropped = {*stages}
        self.waiting = [s for s in self.waiting if s not in dropped]
        self._open -= dropped


@contextmanager
def _apart(repo: Any) -> Iterator[None]:
    """Leave DVC's lock to the threads."""
    repo.lock.unlock()
    try:
        yield
    finally:
        repo.lock.lock()


def _plain() -> Callable[..., Any]:
    from dvc.repo.reproduce import _reproduce_stage

    return _reproduce_stage  # type: ignore[no-any-return]


def cards_here() -> list[str]:
    """The NVIDIA cards that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip()]
    return [str(number) for number in range(nvidia_cards())]
