"""What the cache holds is counted right, and made smaller without losing an answer: when killed, beside a run, twice at once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qualm.runners.contracts.models import Part
from qualm.runners.data import maintenance
from qualm.runners.data.answers import Store
from qualm.runners.data.maintenance import BUSY_SECONDS, DAY_SECONDS, collect, list_holdings, tidy
from qualm.runners.data.segments import STALE_SECONDS

ROOT = Path(__file__).resolve().parents[3]


def key(i):
    return i.to_bytes(32, "big")


def fill(root, numbers, each=5, model="m", engine="e", stage="s/infer"):
    """Answers as a run leaves them: segments of a batch each."""
    store = Store(root, model, engine, {"label": model, "plugin": "hf_vlm"}, stage)
    for start in range(0, len(numbers), each):
        chosen = numbers[start : start + each]
        store.put([key(i) for i in chosen], ["answer" if i % 2 else f"draw {i}" for i in chosen], [Part(f"text {i}") for i in chosen])
    return store


def holds(root, numbers, model="m", engine="e"):
    return Store(root, model, engine).take([key(i) for i in numbers])["text"].to_pylist() == [f"text {i}" for i in numbers]


def segments(root):
    return sorted(root.rglob("*.segment"))


def age(store, seconds):
    """As if the store had been written and used so long ago."""
    then = time.time() - seconds
    for path in [*(store.folder / "used").iterdir(), *store.folder.iterdir()]:
        os.utime(path, (then, then))
    for path in store.folder.glob("*.segment"):
        path.rename(path.with_name(f"{int(then * 1e9):020d}-{path.name.partition('-')[2]}"))


def _not_now(holding):
    return holding.engine != "now"


def test_what_there_is(tmp_path):
    fill(tmp_path, range(20))
    fill(tmp_path, [3, 4, 100])
    fill(tmp_path, range(7), model="n", engine="f", stage="t/infer")
    later, earlier = list_holdings(tmp_path)
    assert (later.about["label"], later.engine, later.stages) == ("n", "f", ["t/infer"])
    assert (earlier.segments, earlier.repeats, earlier.damaged) == (5, 2, 0)
    assert earlier.parts == {"answer": 10, "draw": 11}
    assert earlier.bytes == sum(p.stat().st_size for p in earlier.folder.glob("*.segment"))
    assert abs(earlier.last_use - time.time()) < 60
    for engine, days in (("f", 3), ("e", 2), ("g", 1)):
        age(fill(tmp_path, range(3), model=engine, engine=engine), days * DAY_SECONDS)
    assert [found.engine for found in list_holdings(tmp_path)] == ["f", "e", "g", "e", "f"], "the last used first"


def test_looking_changes_nothing(tmp_path):
    store = fill(tmp_path, range(20))
    segments(tmp_path)[1].write_bytes(b"damaged")
    before = sorted(p.name for p in store.folder.iterdir())
    (found,) = list_holdings(tmp_path)
    assert (found.damaged, found.segments, found.parts.total()) == (1, 3, 15)
    collect(tmp_path, dry=True)
    assert sorted(p.name for p in store.folder.iterdir()) == before


def test_small_segments_are_merged_and_repeats_dropped(tmp_path):
    fill(tmp_path, range(40))
    store = fill(tmp_path, [1, 2, 77])
    foreseen = collect(tmp_path, dry=True)
    done = collect(tmp_path, grace=0)
    assert (done.merged, done.into, done.repeats) == (foreseen.merged, foreseen.into, foreseen.repeats) == (9, 1, 2)
    assert len(segments(tmp_path)) == 1 and done.freed > 0
    assert holds(tmp_path, [*range(40), 77])
    assert store.take([key(2)])["text"].to_pylist() == ["text 2"]  # of a run that was open all the while
    assert collect(tmp_path, grace=0).into == 0


def test_readers_of_what_was_merged_are_waited_for_once(tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    for model in "mn":
        fill(tmp_path, range(10), model=model)
    collect(tmp_path, dry=True, grace=3)
    assert not waits
    assert collect(tmp_path, grace=3).into == 2 and waits == [3]
    assert collect(tmp_path, grace=3).into == 0 and waits == [3], "nothing was merged"


def test_big_segments_are_left_alone(tmp_path, monkeypatch):
    store = Store(tmp_path, "m", "e")
    for i in range(9):
        store.put([key(i)], ["answer"], [Part(f"{i}" * 50_000)])
    monkeypatch.setattr(maintenance, "MERGED_BYTES", 160_000)
    assert collect(tmp_path, grace=0).into == 3
    kept = segments(tmp_path)
    assert len(kept) == 3
    fill(tmp_path, range(40, 50))
    collect(tmp_path, grace=0)
    assert segments(tmp_path)[:3] == kept and len(segments(tmp_path)) == 4
    assert Store(tmp_path, "m", "e").take([key(8), key(40)])["text"].to_pylist() == ["8" * 50_000, "text 40"]


def test_the_first_of_two_answers_stays_the_one_that_counts(tmp_path, monkeypatch):
    """Merged segments take the place of the earliest they are made of."""
    store = fill(tmp_path, [1], each=1)
    store.put([key(2)] * 1, ["answer"], [Part("big " * 500)])
    store.put([key(1), key(3)], ["answer"] * 2, [Part("later" + "." * 3000), Part("x" * 3000)])
    fill(tmp_path, [4], each=1)
    monkeypatch.setattr(maintenance, "MERGED_BYTES", 6000)
    for _ in range(3):
        collect(tmp_path, grace=0)
        found = Store(tmp_path, "m", "e")
        assert found.take([key(1), key(4)])["text"].to_pylist() == ["text 1", "text 4"] and len(found) == 4


def test_very_many_segments_are_merged_as_a_stage_ends(tmp_path, monkeypatch):
    store = fill(tmp_path, range(40), each=2)
    assert not tidy(store.folder) and len(segments(tmp_path)) == 20
    monkeypatch.setattr(maintenance, "MAX_SEGMENTS", 20)
    assert tidy(store.folder) and len(segments(tmp_path)) == 1
    assert len(list(store.folder.glob("*.retired"))) == 20  # somebody may be reading them
    monkeypatch.setattr(maintenance, "GRACE_SECONDS", 0.0)
    assert not tidy(store.folder) and not list(store.folder.glob("*.retired"))
    assert holds(tmp_path, range(40)) and store.take([key(7)])["text"].to_pylist() == ["text 7"]


def test_damaged_and_stale_files_are_removed_and_young_ones_stay(tmp_path, capfd, monkeypatch):
    store = fill(tmp_path, range(10))
    segments(tmp_path)[0].write_bytes(b"?")
    (store.folder / ".x.partial").write_bytes(b"half")
    done = collect(tmp_path, grace=0)
    assert "it is set aside; a run that needs its answers computes them again" in capfd.readouterr().err
    assert done.leftovers == 1 and (store.folder / ".x.partial").exists() and not list(store.folder.glob("*.damaged"))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + STALE_SECONDS + 60)
    assert collect(tmp_path, grace=0).leftovers == 1
    assert not (store.folder / ".x.partial").exists() and holds(tmp_path, range(5, 10))


def test_what_a_merge_leaves_behind_counts_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(maintenance, "MAX_SEGMENTS", 4)
    store = fill(tmp_path, range(20))
    assert tidy(store.folder)
    left = list(store.folder.glob("*.retired"))
    (holding,) = list_holdings(tmp_path)
    assert left and holding.leftover_bytes == sum(path.stat().st_size for path in left)


def test_answers_go_only_when_asked_and_not_in_use(tmp_path):
    old, current = fill(tmp_path, range(5), engine="old"), fill(tmp_path, range(5), engine="now")
    collect(tmp_path, grace=0)
    assert holds(tmp_path, range(5), engine="old")
    done = collect(tmp_path, unused=_not_now, grace=0)
    assert [h.engine for h in done.busy] == ["old"] and not done.removed and old.folder.exists()
    age(old, BUSY_SECONDS + 60)
    assert [h.engine for h in collect(tmp_path, unused=_not_now, dry=True).removed] == ["old"] and old.folder.exists()
    assert not collect(tmp_path, unused=_not_now, older_than=2, grace=0).removed  # both conditions
    assert [h.engine for h in collect(tmp_path, unused=_not_now, grace=0).removed] == ["old"]
    assert not old.folder.exists() and current.folder.exists()
    age(current, 3 * DAY_SECONDS)
    assert not collect(tmp_path, older_than=4, grace=0).removed
    assert [h.engine for h in collect(tmp_path, older_than=2, grace=0).removed] == ["now"]
    assert list_holdings(tmp_path) == []


def test_a_quarter_of_an_hour_after_its_last_use_a_store_may_go_and_so_many_days_are_over(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    store = fill(tmp_path, range(3))
    for seconds, busy in ((BUSY_SECONDS - 1, True), (BUSY_SECONDS, False)):
        age(store, seconds)
        found = collect(tmp_path, unused=_not_now, dry=True)
        assert (bool(found.busy), bool(found.removed)) == (busy, not busy)
    for seconds, old in ((2 * DAY_SECONDS, False), (2 * DAY_SECONDS + 1, True)):
        age(store, seconds)
        assert bool(collect(tmp_path, older_than=2, dry=True).removed) == old


def test_what_is_freed_is_what_the_disk_has_more_of(tmp_path):
    def bytes_there():
        return sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())

    old = fill(tmp_path, range(40), engine="old")
    fill(tmp_path, range(40), each=1, engine="now")
    age(old, BUSY_SECONDS + 60)
    before = bytes_there()
    foretold = collect(tmp_path, unused=_not_now, dry=True).freed
    assert bytes_there() == before and foretold >= sum(p.stat().st_size for p in old.folder.glob("*.segment")) > 0
    done = collect(tmp_path, unused=_not_now, grace=0)
    assert done.freed == before - bytes_there() > 0


def test_merging_is_no_use(tmp_path):
    store = fill(tmp_path, range(10))
    age(store, 3 * DAY_SECONDS)
    collect(tmp_path, grace=0)
    assert list_holdings(tmp_path)[0].last_use < time.time() - 2.9 * DAY_SECONDS


def test_nothing_there(tmp_path):
    assert list_holdings(tmp_path / "absent") == [] and collect(tmp_path / "absent", grace=0).freed == 0
    assert collect(tmp_path / "absent", dry=True).freed == 0


def test_a_run_goes_on_after_its_store_was_removed(tmp_path):
    import shutil

    store = fill(tmp_path, range(5))
    shutil.rmtree(store.folder)
    store.put([key(9)], ["answer"], [Part("text 9")])
    assert holds(tmp_path, [9])


KILLED = """
import os, sys
from pathlib import Path
from qualm.runners.data import segments, maintenance as upkeep
left = int(sys.argv[2])
def counted(real):
    def step(*arguments, **more):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        return real(*arguments, **more)
    return step
for owner, name in ((Path, "rename"), (Path, "replace"), (Path, "unlink"), (os, "fsync"), (segments, "_header")):
    setattr(owner, name, counted(getattr(owner, name)))
upkeep.collect(Path(sys.argv[1]), grace=0)
print("done")
"""


@pytest.mark.slow
def test_killed_at_every_step(tmp_path):
    """Before each call that changes the folder; what is left is whole, and the next time finishes."""
    pid = os.fork  # the steps run in forks of one process that has everything imported
    steps = 0
    while True:
        root = tmp_path / str(steps)
        fill(root, range(6), each=2)
        fill(root, [2, 3], each=2)
        child = pid()
        if child == 0:
            sys.argv = ["", str(root), str(steps)]
            exec(compile(KILLED, "killed", "exec"), {"__name__": "killed"})
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert holds(root, range(6))
        if os.WIFEXITED(status):
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        collect(root, grace=0)
        assert holds(root, range(6)) and len(segments(root)) == 1
        steps += 1
    assert steps > 10


RUN = """
import sys
from pathlib import Path
from qualm.runners.contracts.models import Part
from qualm.runners.data.answers import Store
store = Store(Path(sys.argv[1]), "m", "e")
for i in range(160):
    store.put([i.to_bytes(32, "big")], ["answer"], [Part(f"text {i}")])
    if i % 40 == 39:
        assert store.take([k.to_bytes(32, "big") for k in range(i + 1)])["text"].to_pylist() == [f"text {k}" for k in range(i + 1)]
"""


@pytest.mark.slow
def test_beside_a_running_writer_and_another_merger_killed_at_random(tmp_path):
    merge = "from pathlib import Path; from qualm.runners.data.maintenance import collect\n"
    merge += f"while True: collect(Path({str(tmp_path)!r}), grace=0.1)"
    run = subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)], cwd=ROOT)
    merger = subprocess.Popen([sys.executable, "-c", merge], cwd=ROOT)
    rng = random.Random(3)
    while run.poll() is None:
        collect(tmp_path, grace=0.1)
        if rng.random() < 0.2:
            merger.kill()
            merger.wait()
            merger = subprocess.Popen([sys.executable, "-c", merge], cwd=ROOT)
    merger.kill()
    merger.wait()
    assert run.returncode == 0
    assert holds(tmp_path, range(160))
    collect(tmp_path, grace=0)
    assert holds(tmp_path, range(160)) and len(segments(tmp_path)) == 1


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_segment_is_not_merged(tmp_path, damage):
    fill(tmp_path, range(15))
    victim = segments(tmp_path)[1]
    raw = bytearray(victim.read_bytes())
    raw[len(raw) // 2] ^= 1
    victim.write_bytes(raw if damage == "flipped" else raw[:-7])
    collect(tmp_path, grace=0)
    store = Store(tmp_path, "m", "e")
    assert store.has([key(i) for i in range(15)]).tolist() == [True] * 5 + [False] * 5 + [True] * 5
