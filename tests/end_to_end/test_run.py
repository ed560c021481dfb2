"""`qualm run`: what it shows on a terminal and elsewhere, how it is stopped, and what it does about damage. With real stages."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import psutil
import pytest
import zc.lockfile

from qualm.compiler.run.run import hold_run_lock
from qualm.registry.system.dvc_files import read_lock
from qualm.registry.system.dvc_objects import file_md5, listing, object_path
from tests.end_to_end.clone import Clone, make_clone
from tests.support.processes.pseudo_terminal import Terminal

pytestmark = pytest.mark.slow

SPEC = """\
qualm: 1
name: mini
datasets:
  scenes: {card: synthetic_scenes, level: easy, format: open, test: 6}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
inference: {max_new_tokens: 4}
judges: [rules]
metrics: [accuracy]
compare: {interval: {bootstrap: 20}}
"""
STAGES = ["data-scenes", "infer-base-scenes", "judge", "score", "report"]
LAST = "report: results/mini/report.html"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    clone = make_clone(tmp_path_factory.mktemp("run") / "clone", text=SPEC, forked=True)
    first = clone.qualm("run").stdout.splitlines()
    assert [re.sub(r":.*", "", line) for line in first[1:-2]] == [f"[{n}/5] {stage}" for n, stage in enumerate(STAGES, 1)]
    assert first[-1] == LAST
    clone.commit("finished")
    return clone


@pytest.fixture
def clone(finished: Clone, tmp_path: Path) -> Clone:
    return finished.copy(tmp_path / "clone")


def plain(screen: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
def test_a_fresh_clone_on_a_terminal_asks_nothing_and_shows_a_line_per_stage(finished: Clone, tmp_path: Path, term: str) -> None:
    fresh = finished.clone(tmp_path / "fresh")
    fresh = Clone(fresh.root)  # whose processes are no forks: what those print passes through others' hands
    terminal = Terminal([fresh.python, "-m", "qualm", "run"], fresh.root, {**fresh.environment(), "TERM": term})
    screen = terminal.rest()
    assert terminal.process.returncode == 0
    assert not re.search(r"\[y/n\]|Missing cache|Unable to pull|WARNING", screen)
    lines = [line for line in plain(screen).replace("\r", "\n").splitlines() if line.strip()]
    assert [s for s in STAGES if len([x for x in lines if re.search(rf"\] {s}: .* \(\d+\.\d s\)$", x)]) == 1] == STAGES
    assert [line for line in lines if "scene-vlm-base: fetched" in line]
    assert lines[-1] == LAST
    if term == "dumb":
        assert "\x1b" not in screen and len(lines) == len(STAGES) + 4 and len(screen) < 12_000  # a moving line grows with the time


def test_a_run_with_nothing_to_do(clone: Clone) -> None:
    before = (clone.root / "dvc.lock").read_bytes()
    done = clone.qualm("run").stdout.splitlines()
    assert done[0] == "mini: 5 stages, 0 to run, 0 perhaps, 0 to restore, 5 up to date" and done[-1] == LAST and len(done) == 3
    assert clone.dvc("status").stdout.strip() == "Data and pipelines are up to date." and (clone.root / "dvc.lock").read_bytes() == before
    (clone.root / "results/mini/report.html").unlink()
    assert "report: restored" in clone.qualm("run").stdout


def test_make_repro_does_nothing_after_the_run() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert re.search(r"^repro: setup\n\t\$\(BIN\)/qualm run --no-pull\n\n", makefile, re.MULTILINE)


def test_a_stage_that_fails_says_so_in_its_own_words(clone: Clone) -> None:
    with (clone.root / "runners/plugins/metrics/accuracy.py").open("a") as code:
        code.write("\nraise RuntimeError('the metric is ill')\n")
    done = clone.qualm("run", check=False)
    assert done.returncode == 1
    assert "RuntimeError: the metric is ill; traceback in .qualm/logs/mini.score-" in done.stdout
    assert "[4/5] score: failed" in done.stdout
    assert done.stdout.splitlines()[-1] == "stopped; what was done is kept: run it again to go on (-v shows what DVC says)"


def test_verbose_is_what_dvc_says(clone: Clone) -> None:
    (clone.root / "results/mini/report.html").unlink()
    done = clone.qualm("run", "-v", "--force")
    assert "Running stage 'judge':\n> python3 specs/run.py mini/judge" in done.stdout
    assert "[3/5]" not in done.stdout and done.stdout.splitlines()[-1] == LAST


def test_it_asks_nothing_and_says_who_does(clone: Clone) -> None:
    done = clone.qualm("run", "--interactive", check=False)
    assert done.returncode == 2 and "`dvc repro --interactive` asks before every stage" in done.stderr


def test_two_runs_at_once(clone: Clone) -> None:
    with hold_run_lock(clone.root) as other:
        assert other is None
        done = clone.qualm("run", check=False)
    line = rf"another run is at work in this project \(process {os.getpid()}, since [\d:]+: .*\); wait until it has ended, or stop it, .*\n"
    assert done.returncode == 1 and re.fullmatch(line, done.stdout)
    (clone.root / "results/mini/report.html").unlink()
    lock = zc.lockfile.LockFile(str(clone.root / ".dvc/tmp/lock"))
    try:
        done = clone.qualm("run", check=False)
    finally:
        lock.close()
    line = (
        f"another DVC command is at work in this project (process {os.getpid()}); wait until it has ended, or stop it, and run this again"
    )
    assert done.returncode == 1 and done.stdout.splitlines()[1:] == [line]
    assert clone.qualm("run").stdout.splitlines()[-1] == LAST


LIVELY = {"QUALM_PROGRESS": "true", "TERM": "xterm-256color"}


def long(clone: Clone) -> Clone:
    clone.spec.write_text(SPEC.replace("test: 6", "test: 20000"))
    return Clone(clone.root)  # whose processes are no forks, since those would not get a terminal's Ctrl-C


def runners_of(clone: Clone) -> list[int]:
    processes = psutil.process_iter(["cmdline", "cwd"])
    mine = [p for p in processes if p.info["cwd"] == str(clone.root)]
    return [p.pid for p in mine if "qualm.runners" in (line := p.info["cmdline"] or []) and line[-1] == "mini/data-scenes"]


def test_ctrl_c_ends_the_stage_in_order(clone: Clone) -> None:
    clone = long(clone)
    terminal = Terminal([clone.python, "-m", "qualm", "run"], clone.root, {**clone.environment(), **LIVELY})
    terminal.until("scenes: samples 1")  # the living line counts
    terminal.press("\x03")
    screen = plain(terminal.rest())
    assert terminal.process.returncode == 130
    assert "qualm: stage mini/data-scenes: interrupted; what was done is kept" in screen
    assert "interrupted; what was done is kept: run it again to go on" in screen.splitlines()[-1]
    assert not runners_of(clone)
    assert clone.forecast()["data-scenes"] == "run"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_what_ends_the_run_ends_its_stage(clone: Clone, name: str) -> None:
    clone = long(clone)
    terminal = Terminal([clone.python, "-m", "qualm", "run"], clone.root, {**clone.environment(), **LIVELY})
    terminal.until("scenes: samples 1")
    (runner,) = [psutil.Process(pid) for pid in runners_of(clone)]
    terminal.process.send_signal(signal.Signals[name])
    assert terminal.process.wait(60) == {"SIGTERM": 130, "SIGKILL": -signal.SIGKILL}[name]
    runner.wait(60)
    assert clone.forecast()["data-scenes"] == "run"


# Damage. Each case: how it comes about, and the stages that have to be made anew before `score` can run with another parameter.

EDITED = SPEC.replace("bootstrap: 20", "bootstrap: 30")


@pytest.fixture(scope="module")
def truth(finished: Clone, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    clone = finished.copy(tmp_path_factory.mktemp("truth") / "clone")
    clone.spec.write_text(EDITED)
    clone.qualm("run")
    return (clone.root / "results/mini/metrics.json").read_bytes()


def overwrite(file: Path) -> None:
    """Turn a byte over; size, mode and times stay."""
    before, content = file.stat(), bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.chmod(0o644)
    with file.open("r+b") as handle:
        handle.write(content)
    file.chmod(before.st_mode)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def cached(clone: Clone, path: str) -> Path:
    outs = {o["path"]: o["md5"] for entry in read_lock(clone.root / "dvc.lock").values() for o in entry["outs"]}
    return object_path(clone.root / ".dvc/cache", outs[path])


def the_object(clone: Clone) -> None:
    overwrite(cached(clone, "results/mini/judgements.parquet"))
    (clone.root / "results/mini/judgements.parquet").unlink()


def the_file(clone: Clone) -> None:
    clone.dvc("status")  # DVC remembers it by size, time and inode from here on
    overwrite(clone.root / "results/mini/judgements.parquet")


def both(clone: Clone) -> None:
    overwrite(cached(clone, "results/mini/judgements.parquet"))
    overwrite(clone.root / "results/mini/judgements.parquet")


def a_link(clone: Clone) -> None:
    clone.dvc("config", "--local", "cache.type", "symlink")
    clone.dvc("checkout", "--relink")
    assert (clone.root / "results/mini/judgements.parquet").is_symlink()
    overwrite(cached(clone, "results/mini/judgements.parquet"))


def a_hard_link(clone: Clone) -> None:
    clone.dvc("config", "--local", "cache.type", "hardlink")
    clone.dvc("checkout", "--relink")
    overwrite(clone.root / "results/mini/judgements.parquet")


def a_member_of_a_folder(clone: Clone) -> None:
    listed = cached(clone, "results/mini/data/scenes")
    files = listing(clone.root / ".dvc/cache", listed.parent.name + listed.name)
    assert files is not None
    overwrite(object_path(clone.root / ".dvc/cache", files["samples.parquet"]))
    (clone.root / "results/mini/data/scenes/samples.parquet").unlink()


def the_listing_of_a_folder(clone: Clone) -> None:
    listed = cached(clone, "results/mini/data/scenes")
    content = listed.read_text()
    listed.chmod(0o644)
    listed.write_text(content.replace("samples.parquet", "simples.parquet"))
    listed.chmod(0o444)
    (clone.root / "results/mini/data/scenes/samples.parquet").unlink()


DAMAGE = {
    the_object: "judge: 6 judgements",
    the_file: "judge: restored",
    both: "judge: 6 judgements",
    a_link: "judge: 6 judgements",
    a_hard_link: "judge: 6 judgements",
    a_member_of_a_folder: "data-scenes: 6 samples",
    the_listing_of_a_folder: "data-scenes: 6 samples",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda d: d.__name__)
def test_damage_changes_no_score(clone: Clone, truth: bytes, damage) -> None:
    damage(clone)
    clone.spec.write_text(EDITED)
    done = clone.qualm("run")
    assert DAMAGE[damage] in done.stdout and "damaged" in done.stdout
    assert (clone.root / "results/mini/metrics.json").read_bytes() == truth
    assert any((clone.root / ".qualm/damaged").iterdir())
    assert clone.qualm("data", "verify").returncode == 0
    assert set(clone.forecast().values()) == {"unchanged"}


@pytest.mark.parametrize("damage", [the_object, the_file, a_link], ids=lambda d: d.__name__)
def test_damage_stops_a_dvc_repro_typed_by_hand_and_the_next_one_mends_it(clone: Clone, truth: bytes, damage) -> None:
    damage(clone)
    clone.spec.write_text(EDITED)
    clone.qualm("compile")
    first = clone.dvc("repro", check=False)
    assert first.returncode != 0
    assert "damaged input: results/mini/judgements.parquet" in first.stderr and "made again when this is run again" in first.stderr
    clone.dvc("repro")
    assert (clone.root / "results/mini/metrics.json").read_bytes() == truth


def test_a_run_of_earlier_is_not_restored_from_damaged_objects(clone: Clone) -> None:
    metrics, scores = clone.root / "results/mini/metrics.json", clone.root / "results/mini/scores.parquet"
    before, object_of_before = (metrics.read_bytes(), file_md5(scores)), cached(clone, "results/mini/scores.parquet")
    clone.spec.write_text(EDITED)
    clone.qualm("run")
    overwrite(object_of_before)
    clone.spec.write_text(SPEC)
    done = clone.qualm("run")
    assert "results/mini/scores.parquet: damaged" in done.stdout and "[4/5] score: 1" in done.stdout
    assert (metrics.read_bytes(), file_md5(scores)) == before


def test_what_a_person_changed_is_no_damage(clone: Clone) -> None:
    judgements = clone.root / "results/mini/judgements.parquet"
    judgements.chmod(0o644)
    content = judgements.read_bytes()
    judgements.write_bytes(content.replace(b"parquet-cpp-arrow", b"parquet-cpp-ARROW"))
    assert judgements.read_bytes() != content
    clone.dvc("repro", "--single-item", "score")
    assert not (clone.root / ".qualm/damaged").exists()
