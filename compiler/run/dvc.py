"""The boundary to DVC while a pipeline runs: its command line, its messages, and what a killed DVC leaves behind.

`python -P -m qualm.compiler.run.dvc LOG ARGUMENTS` is `dvc ARGUMENTS`, except that it ends with the process that started it. DVC's own
messages go to LOG, so that standard output and error are those of the stages.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import platformdirs
import psutil
import yaml

from qualm.registry.system import atomic, textfiles
from qualm.registry.system.dvc_files import read_config
from qualm.runners.runtime.die_with_parent import die_with_parent, is_running

CONFIG = Path(".qualm/dvc")
"""Folder of a DVC configuration that holds for runs only, from the project's root."""
CLOCK_TOLERANCE = 2.0
"""Seconds by which the clocks of files and of processes may differ."""
BUSY = re.compile(r"Unable to acquire lock|is busy, it is being blocked by")
STAGE_COMMAND = r"python3 specs/run\.py [^ ,]+"
"""The command of every compiled stage, which prints its own errors."""
_MESSAGES = {
    "ran": re.compile(r"Running stage '(.+)':"),
    "unchanged": re.compile(r"(?:Stage )?'(.+)' didn't change, skipping"),
    "restored": re.compile(r"Stage '(.+)' is cached - skipping run, checking out outputs"),
    "fetched": re.compile(r"Pulling data for stage: '(.+)'"),
}
_FAILED = re.compile(r"(?:ERROR: failed to reproduce '.+'|WARNING: failed to run): .*")
_REPORTED = re.compile(rf"ERROR: failed to reproduce (?:'.+': failed to run: {STAGE_COMMAND}, exited with (?:1|130|-2)|stages: .*)")


def start(
    root: Path, arguments: Sequence[str], environment: Mapping[str, str], log: Path, output: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    """Start `dvc ARGUMENTS` in the project's root and return the process; it writes to `log`.

    Args:
        output: file for what stages print; None leaves it on the streams of this process.
    """
    command = [sys.executable, "-P", "-m", "qualm.compiler.run.dvc", str(log), *arguments]
    errors = None if output is None else subprocess.STDOUT
    return subprocess.Popen(command, cwd=root, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=errors)


class LogReader:
    """Parser of DVC's log: `read` yields the events that a line stands for."""

    def __init__(self) -> None:
        self._stage, self._outcome = "", ""
        self.is_locked = False
        """True if DVC gave up because another DVC is at work."""
        self.has_failed_command = False
        """True if the command of a stage failed, and not DVC itself."""

    def read(self, line: str) -> Iterator[dict[str, str]]:
        line = re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()
        for outcome, pattern in _MESSAGES.items():
            if match := pattern.fullmatch(line):
                yield from self._move(match[1], outcome)
                return
        if line.startswith("Unable to pull data for stage"):
            self._outcome = ""
        if _FAILED.fullmatch(line) and self._stage:
            yield {"event": "interrupted" if line.endswith(("exited with 130", "exited with -2")) else "failed", "stage": self._stage}
            self._stage = ""
            self.has_failed_command |= "failed to run: " in line
        if line.startswith("ERROR: ") and not _REPORTED.fullmatch(line):
            self.is_locked |= BUSY.search(line) is not None
            if not self.is_locked:
                yield {"event": "error", "error": line.removeprefix("ERROR: ")}

    def end_stage(self, code: int) -> Iterator[dict[str, str]]:
        if self._stage and not self.is_locked:
            yield {"event": "end", "stage": self._stage, "how": self._outcome} if code == 0 else {"event": "failed", "stage": self._stage}

    def _move(self, stage: str, outcome: str) -> Iterator[dict[str, str]]:
        if stage != self._stage:
            yield from self.end_stage(0)
            yield {"event": "begin", "stage": stage}
        elif self._outcome in ("restored", "fetched") and outcome == "unchanged":
            return  # DVC has fetched what was missing and finds nothing else to do
        self._stage, self._outcome = stage, outcome


def environment(root: Path, base: Mapping[str, str]) -> dict[str, str]:
    """Write a DVC configuration that verifies downloads; return `base` set to use it.

    It is set at the level of the system's configuration, so that the user's own files stay as they are.
    """
    remotes = list(read_config(root)["remote"])
    folder = Path(base.get("DVC_SYSTEM_CONFIG_DIR") or platformdirs.site_config_dir("dvc", "iterative"))
    try:
        text = textfiles.read_text(folder / "config")
    except textfiles.NoFileError:
        text = ""
    sections = [f"['remote \"{name}\"']\n    verify = true\n" for name in remotes if f'remote "{name}"' not in text]
    atomic.write_text(root / CONFIG / "config", "\n".join([text, *sections]))
    return {**base, "DVC_SYSTEM_CONFIG_DIR": str(root / CONFIG)}


def remove_stale_locks(root: Path) -> None:
    """Delete DVC's `rwlock` if it is cut short or all its processes have ended.

    DVC refuses a list that a kill cut short, and takes a zombie, or another process of the same number, for the one in the list.
    """
    path = root / ".dvc" / "tmp" / "rwlock"
    try:
        holders = json.loads(textfiles.read_bytes(path))
        pids = {holder["pid"] for holder in holders.get("write", {}).values()}
        pids |= {holder["pid"] for readers in holders.get("read", {}).values() for holder in readers}
    except textfiles.NoFileError:
        return
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError):
        pids = set()
    written = path.stat().st_mtime
    if not any(_may_hold(pid, written) for pid in pids):
        path.unlink(missing_ok=True)


def _may_hold(pid: int, written_at: float) -> bool:
    """Return whether process `pid` runs and began before `written_at` (s) or when is unknown."""
    try:
        return is_running(pid) and bool(psutil.Process(pid).create_time() <= written_at + CLOCK_TOLERANCE)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def mend_lock(path: Path) -> bool:
    """Drop the last, cut entry of a `dvc.lock` after a kill; return whether it changed.

    DVC restores the stage of the dropped entry from its run cache. A lock that is damaged in another way is left as it is.
    """
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if not text or _is_lock(text) or "<<<<<<<" in text:
        return False
    head = "schema: '2.0'\nstages:\n"
    starts = [match.start() for match in re.finditer(r"^  \S[^\n]*:$", text, re.MULTILINE)]
    kept = text[: starts[-1]] if starts else head
    is_cut_head = head.startswith(text) or (text.startswith(head) and "\n" not in text.removeprefix(head))
    if not (kept.startswith(head) and _is_lock(kept) if starts else is_cut_head):
        return False
    atomic.write_text(path, kept if kept != head else "schema: '2.0'\n")
    return True


def _is_lock(text: str) -> bool:
    try:
        content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
        return all("cmd" in entry for entry in (content.get("stages") or {}).values())
    except (yaml.YAMLError, AttributeError, TypeError):
        return False


def main(arguments: list[str]) -> int:
    """Run `dvc ARGUMENTS[1:]` with its output in file ARGUMENTS[0]; return its exit status."""
    die_with_parent()
    # Python's names only: stages inherit the file descriptors, and what they print goes elsewhere.
    sys.stdout = sys.stderr = log = Path(arguments[0]).open("w", encoding="utf-8", newline="\n", buffering=1)  # noqa: SIM115 - until the end
    for name in ("dvc", "dvc_objects", "dvc_data"):  # set up already where DVC was imported before
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(log)
    from dvc.cli import main as dvc

    code: int = dvc(arguments[1:])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
