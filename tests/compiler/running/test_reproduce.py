"""`dvc repro` as `qualm run` has it: what it tells, what it verifies, what it does about damage. Small stages of a shell, DVC itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
import zc.lockfile

from qualm.compiler.running import reproduce as module
from qualm.compiler.running.reproduce import FORECAST, LOCKED, LOG, _causes, _state, _states, _unlinked, _words, main
from qualm.registry.dvc.state import object_path, read_lock
from qualm.runners.runtime import status

STARTED = """echo '{"event": "started", "by": "'$DVC_STAGE'"}' >> "$QUALM_STATUS_FILE\""""
STAGES = {
    "one": {"cmd": f"cp in.txt one.txt && {STARTED}", "deps": ["in.txt"], "outs": ["one.txt"]},
    "many": {
        "cmd": f"mkdir -p many && cp one.txt many/a && cp one.txt many/b && echo x >> many/b && {STARTED}",
        "deps": ["one.txt"],
        "outs": ["many"],
    },
}


def repro(root: Path, *arguments: str, **environment: str) -> tuple[int, list[dict[str, Any]]]:
    """Its exit status and what it told. In a fork: it changes DVC for good."""
    import dvc.cli
    import dvc.commands.repro  # noqa: F401 - once, before the forks

    (root / "events").write_bytes(b"")
    child = os.fork()
    if child == 0:
        try:
            os.chdir(root)
            os.environ.update({status.FILE: str(root / "events"), LOG: str(root / "dvc.log"), "DVC_NO_ANALYTICS": "true", **environment})
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - until the fork ends
            code = main(list(arguments))
        except BaseException:  # noqa: BLE001 - a fork must not run on as a second pytest
            code = 99
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, [json.loads(line) for line in (root / "events").read_text().splitlines()]


def told(events: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Events without those of the stages themselves."""
    return [tuple(str(e[k]) for k in ("event", "stage", "how", "path") if k in e) for e in events if e["event"] != "started"]


def ran(stage: str, how: str) -> list[tuple[str, ...]]:
    return [("begin", stage), ("end", stage, how)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repro")
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("[core]\n    analytics = false\n")
    (root / ".dvcignore").write_text(".qualm/\n")
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": STAGES}))
    (root / "in.txt").write_text("in\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    code, events = repro(root)
    assert (code, told(events)) == (0, ran("one", "ran") + ran("many", "ran"))
    return root


@pytest.fixture
def root(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def cached(root: Path, stage: str) -> Path:
    return object_path(root / ".dvc/cache", read_lock(root / "dvc.lock")[stage]["outs"][0]["md5"])


def spoil(file: Path) -> None:
    """Other bytes, read-only as DVC trusts them."""
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.chmod(0o644)
    file.write_bytes(data)
    file.chmod(0o444)


def test_nothing_is_done_twice(root: Path) -> None:
    before = (root / "dvc.lock").read_bytes()
    assert repro(root)[0] == 0
    assert told(repro(root)[1]) == ran("one", "unchanged") + ran("many", "unchanged")
    assert (root / "dvc.lock").read_bytes() == before and list((root / ".dvc/tmp").glob("dvc.lock.*")) == []
    assert "Data and pipelines are up to date" in (root / "dvc.log").read_text()


def known(root: Path, *settled: str) -> dict[str, str]:
    (root / "forecast.json").write_text(json.dumps({"settled": settled, "ahead": []}))
    return {FORECAST: str(root / "forecast.json")}


def test_dvc_is_not_asked_about_settled_stages(root: Path) -> None:
    (root / "in.txt").write_text("other\n")
    assert told(repro(root, **known(root, "one", "many"))[1]) == ran("one", "unchanged") + ran("many", "unchanged")
    (root / "in.txt").write_text("in\n")
    spoil(root / "many/a")
    code, events = repro(root, **known(root, "one"))
    assert (code, told(events)) == (0, ran("one", "unchanged") + ran("many", "restored"))


def test_a_settled_stage_whose_output_is_set_aside_is_made_anew(root: Path) -> None:
    """As where a later stage reads its input and finds that it is damaged."""
    damaged = STARTED.replace('"started"', '"damaged", "path": "one.txt", "aside": "a"')
    find = f"test -e seen || {{ touch seen; rm one.txt; {damaged}; false; }}"
    stages = STAGES | {"many": {**STAGES["many"], "cmd": f"{find} && {STAGES['many']['cmd']}"}}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    code, events = repro(root, **known(root, "one"))
    again = [("begin", "many"), ("damaged", "one.txt"), *ran("one", "restored"), ("end", "many", "ran")]
    assert (code, told(events)) == (0, ran("one", "unchanged") + again)


def test_what_is_in_the_cache_is_restored(root: Path) -> None:
    (root / "one.txt").unlink()
    shutil.rmtree(root / "many")
    code, events = repro(root)
    assert (code, told(events)) == (0, ran("one", "restored") + ran("many", "restored"))
    assert (root / "many/b").read_text() == "in\nx\n"


def test_a_stage_whose_input_changed_runs(root: Path) -> None:
    (root / "in.txt").write_text("other\n")
    code, events = repro(root)
    assert (code, told(events)) == (0, ran("one", "ran") + ran("many", "ran")) and (root / "many/a").read_text() == "other\n"


def test_a_damaged_object_is_set_aside_and_made_anew(root: Path) -> None:
    spoil(cached(root, "one"))
    (root / "one.txt").unlink()
    code, events = repro(root)
    assert code == 0
    assert told(events) == [("begin", "one"), ("damaged", "one.txt"), ("end", "one", "ran"), *ran("many", "unchanged")]
    assert next(e["aside"] for e in events if e["event"] == "damaged") == ".qualm/damaged/one.txt"
    assert (root / "one.txt").read_text() == "in\n" == cached(root, "one").read_text()
    assert (root / ".qualm/damaged/one.txt/one.txt").is_file()


def test_what_the_run_cache_names_and_no_cache_holds_is_made(root: Path) -> None:
    """As a disk that was full when outputs went into the cache, or `dvc gc`, leaves it; there is no remote to fetch them from."""
    cached(root, "one").unlink()
    (root / "one.txt").unlink()
    lock = yaml.safe_load((root / "dvc.lock").read_text())
    del lock["stages"]["one"]
    (root / "dvc.lock").write_text(yaml.safe_dump(lock))
    code, events = repro(root, "--pull")
    assert (code, told(events)) == (0, ran("one", "ran") + ran("many", "unchanged")) and cached(root, "one").is_file()
    (root / "one.txt").unlink()
    cached(root, "one").unlink()
    assert (repro(root, "--pull")[0], (root / "one.txt").read_text()) == (0, "in\n")


def test_a_damaged_list_of_a_folder_restores_nothing(root: Path) -> None:
    spoil(cached(root, "many"))
    shutil.rmtree(root / "many")
    code, events = repro(root)
    assert code == 0 and told(events)[-1] == ("end", "many", "ran")
    assert [e["event"] for e in events].count("damaged") == 1 and (root / "many/b").read_text() == "in\nx\n"


def test_a_damaged_file_of_a_folder_is_met(root: Path) -> None:
    import hashlib

    spoil(object_path(root / ".dvc/cache", hashlib.md5(b"in\nx\n", usedforsecurity=False).hexdigest()))
    shutil.rmtree(root / "many")
    code, events = repro(root)
    assert code == 0 and ("damaged", "many") in told(events) and told(events)[-1] == ("end", "many", "ran")


def test_a_stage_that_fails_is_told_with_its_causes(root: Path) -> None:
    stages = {**STAGES, "one": {**STAGES["one"], "cmd": "echo no; false"}}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    code, events = repro(root)
    assert code not in (0, 99, LOCKED) and told(events) == [("begin", "one"), ("failed", "one"), ("error",)]
    assert "failed to reproduce 'one'" in events[-1]["error"] and "failed to run: echo no; false" in events[-1]["error"]


def test_another_dvc_at_work(root: Path) -> None:
    (root / "in.txt").write_text("other\n")
    lock = zc.lockfile.LockFile(str(root / ".dvc/tmp/lock"))
    try:
        code, events = repro(root)
    finally:
        lock.close()
    assert code == LOCKED == 75 and [e["event"] for e in events] == ["locked"] and events[0]["error"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def hold(root: Path, pid: int) -> Path:
    """A path lock of that process on the output of the first stage."""
    (root / "in.txt").write_text("other\n")
    file = root / ".dvc/tmp/rwlock"
    file.write_text(json.dumps({"write": {str(root / "one.txt"): {"pid": pid, "cmd": "dvc repro"}}}))
    return file


def test_a_path_that_another_dvc_is_at(root: Path, sleeper: subprocess.Popen[bytes]) -> None:
    file = hold(root, sleeper.pid)
    held = file.read_text()
    code, events = repro(root)
    assert code == LOCKED and events[-1]["event"] == "locked" and f"(PID {sleeper.pid}): dvc repro" in events[-1]["error"]
    assert json.loads(file.read_text())["write"] == json.loads(held)["write"]


def test_a_killed_dvc_that_its_parent_has_not_asked_after(root: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """In a container nobody may: its first process need not be an init."""
    file = hold(root, sleeper.pid)
    sleeper.kill()
    code, events = repro(root)
    assert code == 0 and told(events)[:2] == ran("one", "ran") and json.loads(file.read_text()) == {}


def test_a_number_that_another_process_has_by_now(root: Path, sleeper: subprocess.Popen[bytes]) -> None:
    os.utime(hold(root, sleeper.pid), (1e9, 1e9))
    assert repro(root)[0] == 0


@pytest.mark.parametrize("half", ["", '{"write": {"/tm', "[]", '{"write": {"a": 1}}'])
def test_half_a_file_of_path_locks(root: Path, half: str) -> None:
    (root / "in.txt").write_text("other\n")
    (root / ".dvc/tmp/rwlock").write_text(half)
    assert repro(root)[0] == 0 and json.loads((root / ".dvc/tmp/rwlock").read_text()) == {}


def test_words_of_causes() -> None:
    assert _words(ValueError("See <\x1b[36mhttps://dvc.org\x1b[39m>")) == "See <https://dvc.org>"
    assert _words(OSError(28, "No space left on device", "a")).startswith("a: the disk is full; make room")


def test_an_error_and_its_causes() -> None:
    inner, outer = ValueError("in"), RuntimeError("out")
    outer.__cause__ = inner
    assert list(_causes(outer)) == [outer, inner] and list(_causes(None)) == []


def stage(*paths: Path) -> Any:
    return SimpleNamespace(outs=[SimpleNamespace(fs_path=str(path)) for path in paths])


def test_links_to_nothing_are_taken_away(tmp_path: Path) -> None:
    (tmp_path / "folder/deep").mkdir(parents=True)
    (tmp_path / "whole").write_text("")
    (tmp_path / "folder/whole").symlink_to(tmp_path / "whole")
    assert not _unlinked(stage(tmp_path / "folder", tmp_path / "whole", tmp_path / "none"))
    (tmp_path / "folder/deep/gone").symlink_to(tmp_path / "gone")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    assert _unlinked(stage(tmp_path / "folder", tmp_path / "link"))
    assert (
        not (tmp_path / "link").is_symlink() and not (tmp_path / "folder/deep/gone").is_symlink() and (tmp_path / "folder/whole").exists()
    )


def test_what_is_another_when_an_output_is_written_anew(tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    for path in (file, folder / "deep/a", folder / "b"):
        path.write_text("1")
    before = _states(stage(file, folder, tmp_path / "none"))
    assert list(before) == [str(file), str(folder), str(tmp_path / "none")] and before[str(tmp_path / "none")] is None
    assert (
        list(before[str(folder)]) == [str(folder / "b"), str(folder / "deep/a")]
        and _states(stage(file, folder))[str(folder)] == before[str(folder)]
    )
    (folder / "deep/a").write_text("22")
    assert (
        _state(SimpleNamespace(fs_path=str(folder))) != before[str(folder)]
        and _state(SimpleNamespace(fs_path=str(file))) == before[str(file)]
    )


@pytest.mark.parametrize(("there", "made"), [((True, True), []), ((True, False), ["maker"]), ((False, False), ["maker"])])
def test_a_maker_that_lacks_any_of_its_outputs_runs_before_the_stage_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, there: tuple[bool, bool], made: list[str]
) -> None:
    import dvc.repo.reproduce
    from dvc.config import NoRemoteError

    maker = SimpleNamespace(outs=[SimpleNamespace(exists=is_there) for is_there in there], addressing="maker")
    user = SimpleNamespace(outs=[], cmd="true", addressing="user")
    tries: list[bool] = []
    runs: list[str] = []

    def once_without_a_remote(stage: Any, **options: Any) -> str:
        tries.append(options["pull"])
        if len(tries) == 1:
            raise NoRemoteError("no remote specified")
        return "done"

    monkeypatch.setattr(dvc.repo.reproduce, "_reproduce_stage", once_without_a_remote)
    monkeypatch.setattr(module, "_reloaded", lambda stage: stage)
    monkeypatch.setattr(module, "_upstream", lambda stage: [maker] if stage is user else [])
    monkeypatch.setattr(module, "reproduce", lambda stage, **options: runs.append(stage.addressing))
    assert module._until_whole(user, {"pull": True}) == ("done", "unchanged")
    assert runs == made and tries == [True, False]
