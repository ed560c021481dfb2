"""The store: what it is given comes back, to its own key only, from any process, and damage is never believed."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow as pa

from runners.models import Part
from runners.store import PART, Store, part_key, pixel_digest

ROOT = Path(__file__).resolve().parents[2]
BASE = {"model": "m", "engine": "e", "prompt": "p", "pixels": "x", "decoding": {"method": "greedy", "max_new_tokens": 4}, "part": "answer"}


def key(**changed):
    return part_key(**{**BASE, **changed})


def test_a_key_holds_everything_an_answer_depends_on():
    others = [
        {"model": "n"}, {"engine": "f"}, {"prompt": "p "}, {"pixels": "y"}, {"pixels": None}, {"part": "draw 1"},
        {"decoding": {"method": "greedy", "max_new_tokens": 5}}, {"decoding": {"method": "choice", "options": 4}}, {"prompt": "p\u0301"},
    ]  # fmt: skip
    keys = [key(), *(key(**o) for o in others)]
    assert len(set(keys)) == len(keys)
    assert key(model="ab", engine="c") != key(model="a", engine="bc")
    assert key() == key(decoding={"max_new_tokens": 4, "method": "greedy"})


def test_pixels_size_and_mode_are_all_in_the_pixel_digest():
    grey = PIL.Image.new("RGB", (4, 6), (9, 9, 9))
    one_off = grey.copy()
    one_off.putpixel((3, 5), (9, 9, 10))
    others = [
        grey,
        one_off,
        PIL.Image.new("RGB", (6, 4), (9, 9, 9)),
        PIL.Image.new("L", (12, 6), 9),
        PIL.Image.new("RGB", (24, 1), (9, 9, 9)),
    ]
    assert len({pixel_digest(i) for i in others}) == len(others)
    assert pixel_digest(grey) == pixel_digest(grey.copy())


def answers(n, seed=0):
    rng = np.random.default_rng(seed)
    keys = [rng.bytes(32) for _ in range(n)]
    made = [Part(f"text {i}", [i], rng.normal(size=i % 5).astype("f4").tolist(), numbers=[float(i), 0.5]) for i in range(n)]
    return keys, made


def test_what_is_put_is_found_now_and_later(tmp_path):
    keys, made = answers(10)
    store = Store(tmp_path, "m", "e")
    store.put(keys[:6], made[:6])
    store.put(keys[6:], made[6:])
    for opened in (store, Store(tmp_path, "m", "e")):
        rows = [opened.find(k) for k in reversed(keys)]
        table = opened.take(rows)
        assert table.column_names == PART
        assert table.column("text").to_pylist() == [a.text for a in reversed(made)]
        assert table.column("logprobs").to_pylist() == [a.logprobs for a in reversed(made)]
        assert table.column("numbers").to_pylist() == [a.numbers for a in reversed(made)]
        assert table.column("entropies").null_count == 10
        assert len(opened) == 10


def test_nothing_is_found_under_another_key_model_or_engine(tmp_path):
    keys, made = answers(3)
    Store(tmp_path, "m", "e").put(keys, made)
    store = Store(tmp_path, "m", "e")
    assert store.find(keys[0]) is not None
    assert store.find(bytes(32)) is None
    assert Store(tmp_path, "m", "f").find(keys[0]) is None
    assert Store(tmp_path, "n", "e").find(keys[0]) is None
    assert Store(tmp_path, "n", "e").take([]).num_rows == 0


def test_the_first_of_equals_stays(tmp_path):
    store = Store(tmp_path, "m", "e")
    store.put([key()], [Part("first")])
    store.put([key()], [Part("again")])
    for opened in (store, Store(tmp_path, "m", "e")):
        assert opened.take([opened.find(key())]).column("text").to_pylist() == ["first"]


def test_every_single_damaged_byte_is_noticed(tmp_path, capfd):
    keys, made = answers(2)
    Store(tmp_path, "m", "e").put(keys, made)
    (path,) = tmp_path.rglob("*.segment")
    raw = path.read_bytes()
    places = [*range(0, 90, 7), *range(90, len(raw), 61), len(raw) - 1]
    for place in places:
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :])
        store = Store(tmp_path, "m", "e")
        assert len(store) == 0 and store.damaged == 1
        assert not path.exists() and path.with_suffix(".damaged").exists()
    for cut in (0, 5, 50, 85, len(raw) // 2, len(raw) - 1):
        path.write_bytes(raw[:cut])
        assert len(Store(tmp_path, "m", "e")) == 0
    path.write_bytes(raw + b"\0")
    assert len(Store(tmp_path, "m", "e")) == 0
    assert f"store: {path}: fails its checksum" in capfd.readouterr().err
    path.write_bytes(raw)
    assert len(Store(tmp_path, "m", "e")) == 2


def test_remains_of_killed_writers_are_not_read(tmp_path):
    keys, made = answers(2)
    store = Store(tmp_path, "m", "e")
    store.put(keys, made)
    (path,) = tmp_path.rglob("*.segment")
    (path.parent / ".x.partial").write_bytes(path.read_bytes()[:40])
    assert len(Store(tmp_path, "m", "e")) == 2
    assert (path.parent / ".x.partial").exists()  # young: its writer may be alive


WRITER = """
import sys
from pathlib import Path
from runners.models import Part
from runners.store import Store, part_key
store = Store(Path(sys.argv[1]), "m", "e")
for i in range(20):
    store.put([part_key("m", "e", f"{sys.argv[2]} {i}", None, {}, "answer")], [Part(f"{sys.argv[2]} {i}")])
"""


def test_processes_may_write_at_once(tmp_path):
    running = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(w)], cwd=ROOT) for w in range(4)]
    while any(p.poll() is None for p in running):
        assert Store(tmp_path, "m", "e").damaged == 0  # a reader in between sees whole segments only
        time.sleep(0.05)
    assert [p.returncode for p in running] == [0] * 4
    store = Store(tmp_path, "m", "e")
    for w in range(4):
        for i in range(20):
            row = store.find(part_key("m", "e", f"{w} {i}", None, {}, "answer"))
            assert store.take([row]).column("text").to_pylist() == [f"{w} {i}"]


def test_many_small_segments_are_read_in_reasonable_time(tmp_path):
    store = Store(tmp_path, "m", "e")
    start = time.perf_counter()
    for seed in range(100):
        store.put(*answers(32, seed))
    written = time.perf_counter()
    assert len(Store(tmp_path, "m", "e")) == 3200
    print(f"written {written - start:.2f} s, read {time.perf_counter() - written:.2f} s")


def test_segment_has_a_column_for_every_field_of_a_part():
    from dataclasses import fields

    from runners.store import SEGMENT

    assert [f.name for f in fields(Part)] == PART
    assert SEGMENT.field("key").type == pa.binary(32)
