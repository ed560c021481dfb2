"""Scores that are kept: whole or not at all, within a bound; digests of what they are made of."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from qualm.runners.runtime.stage import StageError
from qualm.runners.store.scores import RECENT, ScoreStore, content_digest

ROWS = pa.table({"value": [0.1 + 0.2, None], "metric": ["a", "b"]})
DRAWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_what_was_put_is_found_to_the_last_bit(tmp_path: Path) -> None:
    ScoreStore("code", root=tmp_path).put("k" * 64, ROWS, DRAWS)
    kept = ScoreStore("code", root=tmp_path).get("k" * 64)
    assert kept is not None and kept.rows.equals(ROWS) and np.array_equal(kept.draws(3), DRAWS)
    assert ScoreStore("code", root=tmp_path).get("m" * 64) is None


def test_other_code_has_other_keys(tmp_path: Path) -> None:
    one, other = (ScoreStore(code, root=tmp_path) for code in ("code", "later code"))
    assert one.key("m", [1]) != other.key("m", [1]) != other.key("m", [2])
    assert one.key("m", [1]) == ScoreStore("code", root=tmp_path).key("m", [1])


def test_half_of_it_is_nothing(tmp_path: Path) -> None:
    store = ScoreStore("code", root=tmp_path)
    kept = store.put("k" * 64, ROWS, DRAWS)
    (draws,) = tmp_path.glob("scores/*/*-draws")
    draws.write_bytes(b"damaged")
    with pytest.raises(StageError, match="gone or damaged; run the stage again"):
        kept.draws(3)
    draws.unlink()
    assert store.get("k" * 64) is None


def test_a_damaged_file_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ScoreStore("code", root=tmp_path)
    store.put("k" * 64, ROWS, DRAWS)
    store.put_table("t" * 64, ROWS)
    for path in tmp_path.glob("scores/*/*"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert store.get("k" * 64) is None and store.get_table("t" * 64) is None
    assert "fails its checksum" in capsys.readouterr().err


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    store = ScoreStore("code", root=tmp_path)
    for age, name in ((3, "a"), (2, "b"), (1, "c")):
        store.put_table(name * 64, ROWS)
        (path,) = tmp_path.glob(f"scores/{name * 2}/*")
        os.utime(path, times=(0, time.time() - age * 2 * RECENT))
    size = path.stat().st_size
    assert store.get_table("a" * 64) is not None  # used now, so no longer the oldest
    assert store.trim(3 * size) == 0 and store.trim(2 * size) == 1
    assert store.get_table("b" * 64) is None and store.get_table("c" * 64) is not None
    assert store.trim(0) == 0  # both were used a moment ago


def test_the_larger_go_first_where_they_were_used_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ScoreStore("code", root=tmp_path)
    monkeypatch.setattr(time, "time", lambda: 1e9 + RECENT)
    for name, rank in {"a": 3, "b": 0, "c": 2, "d": 1}.items():
        store.put_table(name * 64, pa.table({"value": np.random.default_rng(0).random(1000 * (4 - rank))}))
        (path,) = tmp_path.glob(f"scores/{name * 2}/*")
        os.utime(path, (0, 1e9 - 3 + rank))
    gone = []
    while left := {path.name[0]: path.stat().st_size for path in tmp_path.glob("scores/*/*")}:
        assert store.trim(sum(left.values())) == 0 and store.trim(sum(left.values()) - 1) == 1
        gone += sorted(left.keys() - {path.name[0] for path in tmp_path.glob("scores/*/*")})
    assert gone == ["b", "d", "c", "a"], "the last was used so long ago that nobody can be about to read it"


def test_scores_wait_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    monkeypatch.setattr(os, "fsync", waits.append)
    store = ScoreStore("code", root=tmp_path)
    store.put("k" * 64, ROWS, DRAWS)
    store.put_table("t" * 64, ROWS)
    assert not waits and store.has("k" * 64)


@dataclass
class Holder:
    name: str
    values: Any
    _made: int = 0
    other: int = field(default=1)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (0.1 + 0.2, 0.3),
        (1, 1.0),
        (True, 1),
        (None, "None"),
        (np.zeros(2), np.zeros((1, 2))),
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        (np.array([0.0]), np.array([np.nextafter(0.0, 1.0)])),
        (["ab", "c"], ["a", "bc"]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Holder("a", [1]), Holder("a", [2])),
        (np.array(["a", None], dtype=object), np.array(["a", "None"], dtype=object)),
    ],
)
def test_different_content_has_another_digest(a: Any, b: Any) -> None:
    assert content_digest(a) != content_digest(b)


def test_equal_content_has_the_same_and_the_unknown_none() -> None:
    assert content_digest(Holder("a", np.ones((3, 2)), 1)) == content_digest(Holder("a", np.asfortranarray(np.ones((3, 2))), 2))
    assert content_digest(Holder("a", 1), frozenset({"values"})) == content_digest(Holder("a", 2), frozenset({"values"}))
    with pytest.raises(TypeError, match="no digest of a set"):
        content_digest({"a": {1}})
