"""The store: what it is given comes back, to its own key only, from any process, and damage is never believed."""

import hashlib
import math
import multiprocessing
import time
from dataclasses import asdict

import numpy as np
import PIL.Image
import pyarrow as pa
import pytest

from qualm.runners.contracts.models import Part
from qualm.runners.data.answers import (
    OPTIONAL,
    SCHEMA,
    LostError,
    Store,
    base_key,
    decoding_bytes,
    part_key,
    pixel_digest,
    undefine_invalid,
)
from qualm.runners.data.maintenance import collect
from qualm.runners.data.segments import HEAD, MAGIC, Segments

BASE = {"model": "m", "engine": "e", "prompt": "p", "pixels": "x", "question": "q"}
GREEDY = {"method": "greedy", "max_new_tokens": 4}


def key(part="answer", decoding=GREEDY, stream=0, **changed):
    return part_key(base_key(**{**BASE, **changed}), decoding_bytes(part, decoding), stream)


def test_a_key_holds_everything_a_part_depends_on():
    others = [
        {"model": "n"}, {"engine": "f"}, {"prompt": "p "}, {"pixels": "y"}, {"pixels": None}, {"part": "draw 1"}, {"part": "p_yes"},
        {"decoding": {**GREEDY, "max_new_tokens": 5}}, {"decoding": {"method": "choice", "options": 4}},
        {"prompt": "p\u0301"}, {"question": "r"}, {"stream": 1},
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


def parts(n, seed=0):
    rng = np.random.default_rng(seed)
    made = [Part(f"text {i}", [i], (-rng.exponential(size=i % 5)).astype("f4").tolist(), numbers=[float(i), 0.5]) for i in range(n)]
    return [rng.bytes(32) for _ in range(n)], ["answer"] * n, made


def test_what_is_put_is_found_now_and_later(tmp_path):
    keys, names, made = parts(10)
    store = Store(tmp_path, "m", "e")
    store.put(keys[:6], names[:6], made[:6])
    store.put(keys[6:], names[6:], made[6:])
    back = keys[::-1]
    for opened in (store, Store(tmp_path, "m", "e")):
        assert opened.has([*back, bytes(32)]).tolist() == [True] * 10 + [False]
        assert opened.parts(back) == made[::-1]
        assert opened.take([keys[3], keys[3]])["text"].to_pylist() == ["text 3"] * 2
        assert opened.take([]).num_rows == 0 and len(opened) == 10
        with pytest.raises(LostError, match="1 of 2 answers are not stored"):
            opened.take([keys[0], bytes(32)])


def test_forgotten_parts_are_gone_from_every_folder_and_the_others_stay(tmp_path):
    keys, names, made = parts(6)
    elsewhere = Store(tmp_path, "m", "e", libraries={"torch": "2.5.0"})
    elsewhere.put(keys[:4], names[:4], made[:4])
    store = Store(tmp_path, "m", "e", libraries={"torch": "2.5.1"})
    store.put(keys[2:], names[2:], made[2:])
    assert store.forget([keys[3], keys[5], bytes(32)]) == 2 and store.forget([]) == 0
    for opened in (store, Store(tmp_path, "m", "e", libraries={"torch": "2.5.0"})):
        opened.refresh()
        assert opened.has(keys).tolist() == [True, True, True, False, True, False]
        assert opened.parts([keys[4], keys[0]]) == [made[4], made[0]]
    store.put([keys[3]], ["answer"], [made[0]])
    assert Store(tmp_path, "m", "e", libraries={"torch": "2.5.0"}).parts([keys[3]]) == [made[0]]


def test_nothing_is_found_under_another_model_or_engine(tmp_path):
    keys, names, made = parts(3)
    Store(tmp_path, "m", "e").put(keys, names, made)
    assert Store(tmp_path, "m", "e").has(keys).all()
    assert not Store(tmp_path, "m", "f").has(keys).any()
    assert not Store(tmp_path, "n", "e").has(keys).any()


def test_keys_that_begin_alike_are_distinguished(tmp_path):
    """The index looks at the first eight bytes first."""
    keys = [bytes(8) + bytes([i]) * 24 for i in range(1, 40)]
    store = Store(tmp_path, "m", "e")
    store.put(keys[:20], ["answer"] * 20, [Part(str(i)) for i in range(20)])
    opened = Store(tmp_path, "m", "e")
    assert opened.has(keys).tolist() == [True] * 20 + [False] * 19
    assert opened.take(keys[19::-1])["text"].to_pylist() == [str(i) for i in range(19, -1, -1)]
    assert not opened.has([bytes(32), b"\xff" * 32]).any()


def test_of_two_answers_under_one_key_the_first_counts(tmp_path):
    store, other = Store(tmp_path, "m", "e"), Store(tmp_path, "m", "e")
    store.put([key()], ["answer"], [Part("first")])
    other.put([key()], ["answer"], [Part("second")])
    assert other.take([key()])["text"].to_pylist() == ["second"]  # it has not looked
    other.refresh()
    for opened in (store, other, Store(tmp_path, "m", "e")):
        assert opened.take([key()])["text"].to_pylist() == ["first"] and len(opened) == 1


def test_every_single_damaged_byte_is_noticed(tmp_path, capfd):
    keys, names, made = parts(2)
    Store(tmp_path, "m", "e").put(keys, names, made)
    (path,) = tmp_path.rglob("*.segment")
    raw = path.read_bytes()
    places = [*range(0, 130, 7), *range(130, len(raw), 61), len(raw) - 1]
    for place in places:
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :])
        store = Store(tmp_path, "m", "e")
        assert len(store) == 0 and store.damaged == 1
        assert not path.exists() and path.with_suffix(".damaged").exists()
    for cut in (0, 5, 50, 127, len(raw) // 2, len(raw) - 1):
        path.write_bytes(raw[:cut])
        assert len(Store(tmp_path, "m", "e")) == 0
    path.write_bytes(raw + b"\0")
    assert len(Store(tmp_path, "m", "e")) == 0
    assert f"store: {path}: fails its checksum" in capfd.readouterr().err
    path.write_bytes(raw)
    assert len(Store(tmp_path, "m", "e")) == 2


def test_a_segment_that_is_damaged_while_the_store_is_open_is_not_believed(tmp_path):
    keys, names, made = parts(4)
    store = Store(tmp_path, "m", "e")
    store.put(keys[:2], names[:2], made[:2])
    store.put(keys[2:], names[2:], made[2:])
    path = sorted(tmp_path.rglob("*.segment"))[0]
    raw = bytearray(path.read_bytes())
    raw[-20] ^= 1
    path.write_bytes(raw)
    with pytest.raises(LostError, match="2 of 4 answers"):
        store.take(keys)
    assert store.parts(keys[2:]) == made[2:]


def test_remains_of_killed_writers_are_not_read(tmp_path):
    keys, names, made = parts(2)
    store = Store(tmp_path, "m", "e")
    store.put(keys, names, made)
    (path,) = tmp_path.rglob("*.segment")
    (path.parent / ".x.partial").write_bytes(path.read_bytes()[:40])
    assert len(Store(tmp_path, "m", "e")) == 2


def write_texts(root, writer):
    store = Store(root, "m", "e")
    for i in range(20):
        store.put([base_key("m", "e", f"{writer} {i}", None, "")], ["answer"], [Part(f"{writer} {i}")])


def test_processes_may_write_and_merge_at_once(tmp_path):
    running = [multiprocessing.get_context("fork").Process(target=write_texts, args=(tmp_path, w)) for w in range(3)]
    for process in running:
        process.start()
    reader = Store(tmp_path, "m", "e")
    while any(p.is_alive() for p in running):
        collect(tmp_path, grace=0)
        reader.refresh()
        assert reader.damaged == 0
        time.sleep(0.005)
    assert [p.exitcode for p in running] == [0] * 3
    reader.refresh()
    said = [f"{w} {i}" for w in range(3) for i in range(20)]
    for opened in (reader, Store(tmp_path, "m", "e")):
        assert opened.take([base_key("m", "e", text, None, "") for text in said])["text"].to_pylist() == said


def test_answers_are_mapped_and_not_held_in_memory(tmp_path):
    """Open 12 MB of answers for the memory of a few keys."""
    store = Store(tmp_path, "m", "e")
    for s in range(4):
        store.put([bytes([s, i]) * 16 for i in range(100)], ["answer"] * 100, [Part("x" * 30_000)] * 100)
    usual, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counted)
    try:
        text = Store(tmp_path, "m", "e", workers=1).take([bytes([2, 7]) * 16])["text"][0].as_py()
    finally:
        pa.set_memory_pool(usual)
    assert len(text) == 30_000 and 0 < counted.max_memory() < 1e6, "a segment has 3 MB"


def written(root, names, values):
    """A segment with these parts, whatever they hold, by somebody who has read how that is done."""
    store = Store(root, "m", "e")
    keys = [bytes([number]) * 32 for number in range(len(names))]
    rows = [{"key": k, "part": n, **asdict(v)} for k, n, v in zip(keys, names, values, strict=True)]
    Segments(store.folder, SCHEMA).write(pa.Table.from_pylist(rows, schema=SCHEMA))
    return keys


IMPOSSIBLE = [
    ("answer", Part("x", logprobs=[-0.1, 5.0])), ("answer", Part("x", logprobs=[math.inf])), ("answer", Part("x", logprobs=[math.nan])),
    ("answer", Part("x", logprobs=[-9999.0])), ("without_image", Part(logprobs=[-math.inf])), ("image_divergence", Part(logprobs=[-0.5])),
    ("draw 3", Part("x", logprobs=[-0.1], entropies=[-1.0])), ("answer", Part("x", logprobs=[-0.1], entropies=[-2226.0])),
    ("answer", Part("x", logprobs=[-0.1], entropies=[0.1, 0.2])), ("answer", Part("x", entropies=[1e30])),
    ("p_true", Part(numbers=[148.0])), ("p_yes", Part(numbers=[-0.1])), ("p_true_sampling", Part(numbers=[math.nan])),
    ("options", Part(numbers=[0.5, math.inf])),
]  # fmt: skip
POSSIBLE = [
    ("answer", Part("x", logprobs=[-0.1, 0.0, 1e-6], entropies=[0.0, 3.0, 1.0])), ("answer", Part("", logprobs=[])), ("answer", Part(None)),
    ("image_divergence", Part(logprobs=[12.5])), ("p_true", Part(numbers=[])), ("p_true", Part(numbers=[1.0])),
    ("options", Part("A", logprobs=[-0.5], numbers=[-17.5, 30.25])),
]  # fmt: skip


def test_an_impossible_answer_of_whatever_origin_counts_as_never_computed(tmp_path, capfd):
    names, values = zip(*POSSIBLE, *IMPOSSIBLE, strict=True)
    keys = written(tmp_path, names, values)
    store = Store(tmp_path, "m", "e")
    assert store.has(keys).tolist() == [True] * len(POSSIBLE) + [False] * len(IMPOSSIBLE)
    assert capfd.readouterr().err.count(f"{len(IMPOSSIBLE)} answers hold impossible numbers; they count as never computed") == 1
    assert [p.text for p in store.parts(keys[: len(POSSIBLE)])] == [p.text for _, p in POSSIBLE]
    better = [Part("again", logprobs=[-1.0])] * len(IMPOSSIBLE)
    store.put(keys[len(POSSIBLE) :], ["answer"] * len(better), better)
    collect(tmp_path, grace=0.0)  # what was impossible is not what counts first, nor after merging
    assert [p.text for p in Store(tmp_path, "m", "e").parts(keys)[len(POSSIBLE) :]] == ["again"] * len(better)


def test_what_is_impossible_is_stored_as_undefined(tmp_path):
    store = Store(tmp_path, "m", "e")
    names, values = zip(*IMPOSSIBLE, *POSSIBLE, strict=True)
    keys = [bytes([number]) * 32 for number in range(len(names))]
    store.put(keys, names, values)
    again = Store(tmp_path, "m", "e").parts(keys)
    for (name, part), row in zip(IMPOSSIBLE, again, strict=False):
        assert row.text == part.text and None in (row.logprobs, row.entropies, row.numbers)
        clean, reason = undefine_invalid(name, part)
        assert reason.startswith("impossible ") and (clean.logprobs, clean.entropies, clean.numbers).count(None) > [
            part.logprobs, part.entropies, part.numbers
        ].count(None)  # fmt: skip
    assert [(r.text, r.numbers) for r in again[len(IMPOSSIBLE) :]] == [(p.text, p.numbers) for _, p in POSSIBLE]
    assert all(undefine_invalid(name, part) == (part, "") for name, part in POSSIBLE)


def test_text_that_is_none_sets_a_segment_aside(tmp_path, capfd):
    (key_,) = written(tmp_path, ["answer"], [Part("abcdefgh")])
    (path,) = tmp_path.rglob("*.segment")
    raw = path.read_bytes()[HEAD:].replace(b"abcdefgh", b"\xff\xfe\xfd\xfcefgh")
    path.write_bytes((MAGIC + hashlib.sha256(raw).hexdigest().encode() + b"\n").ljust(HEAD) + raw)
    assert not Store(tmp_path, "m", "e").has([key_])[0]
    assert "is no table" in capfd.readouterr().err and not path.exists()


def test_hidden_states_lie_in_segments_of_their_own(tmp_path):
    """So that a release from before there were any reads all others, and sets none aside."""
    store = Store(tmp_path, "m", "e")
    states = np.array([1.5, -65504.0], np.float16)
    signal = "hidden_states/0.5/answer_last"
    keys = [key(), key(signal), key("p_yes")]
    store.put(keys, ["answer", signal, "p_yes"], [Part("red", [1], [-0.5], [0.25]), Part(states=states), Part(numbers=[0.5])])
    again = Store(tmp_path, "m", "e")
    assert len(again) == 3 and len(list(store.folder.glob("*.segment"))) == 2
    assert again.take(keys)["states"].to_pylist() == [None, [1.5, -65504.0], None]
    assert again.parts(keys[:1]) == [Part("red", [1], [-0.5], [0.25])]
    before = Segments(store.folder, pa.schema([field for field in SCHEMA if field.name not in OPTIONAL]))
    assert sorted(before.read(name).num_rows for name in before.names() if b"states" not in (store.folder / name).read_bytes()) == [2]
    collect(tmp_path, grace=0)
    assert Store(tmp_path, "m", "e").take(keys)["states"].to_pylist() == [None, [1.5, -65504.0], None]


def test_a_server_s_thinking_is_stored_with_its_answer(tmp_path):
    store, keys = Store(tmp_path, "m", "e"), [key(), key("draw 1")]
    store.put(keys, ["answer", "draw 1"], [Part("red", thinking="Is it red?"), Part("blue")])
    again = Store(tmp_path, "m", "e")
    assert again.parts(keys) == [Part("red", thinking="Is it red?"), Part("blue")] and not again.damaged
