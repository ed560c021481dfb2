"""From stored parts to a table: rows of one variant together, in groups of bounded size, with what was asked for and nothing else."""

from contextlib import chdir

import numpy as np
import pyarrow.parquet as pq
import pytest

from qualm.runners.contracts.models import Part
from qualm.runners.contracts.parts import internal_of
from qualm.runners.data.answers import LostError, Store
from qualm.runners.inference import inside
from qualm.runners.inference.keys import stored_keys
from tests.support.projects.asking import asker_of, sample, write_samples

LAST, PROMPT = "hidden_states/-1/answer_last", "hidden_states/0/prompt_last"
GRADIENT, TINY = "gradient/all/-1", 1.23456e-12


@pytest.fixture
def asker(tmp_path):
    samples = [sample(name, None, f"What is {name}?") for name in "abc"]
    folder = write_samples(tmp_path / "d", [*samples, sample("z", None, "Which ?", ["x", "y"])], {})
    with chdir(tmp_path):
        yield asker_of({"d": folder}, needs=["draws", "text", f"draw_{LAST}", PROMPT, GRADIENT], draws=2)


def filled(tmp_path, asker, cells):
    store = Store(tmp_path / "store", "m", "e")
    for number, cell in enumerate(cells):
        wanted = asker.parts(cell.options)
        texts = {part: Part(f"{part} {number}", [number]) for part in wanted if not internal_of(part)}
        store.put([asker.key(cell.place, part) for part in texts], list(texts), list(texts.values()))
        states = {part: Part(states=np.array([number, len(part)], np.float16)) for part in wanted if internal_of(part) and part != GRADIENT}
        states |= {part: Part(numbers=[TINY + number]) for part in wanted if part == GRADIENT}
        store.put(stored_keys(asker, store, [(cell.place, part) for part in states]), list(states), list(states.values()))
    return store


def test_a_table_holds_what_was_asked_for(tmp_path, asker, monkeypatch):
    monkeypatch.setattr(inside, "_MIN_ANSWERS", 1)
    cells = asker.survey()[0]
    assert [asker.parts(cell.options) for cell in cells[-2:]] == [
        ("answer", "draw 1", "draw 2", f"{LAST} 1", f"{LAST} 2", GRADIENT, PROMPT), ("options", PROMPT)
    ]  # fmt: skip
    path = tmp_path / "t.parquet"
    assert inside.write_internals_table(asker, 0, cells, filled(tmp_path, asker, cells), path, {}) == 3 * 3 + 1
    rows = pq.read_table(path).to_pylist()
    assert [(row["sample_id"], row["draw"]) for row in rows if row["sample_id"] in "az"] == [("a", 1), ("a", 2), ("a", 0), ("z", 0)]
    for row in rows:
        number = "abcz".index(row["sample_id"])
        assert row[LAST] == ([number, len(LAST) + 2] if row["draw"] else None)
        assert row[GRADIENT] == ([TINY + number] if row["draw"] == 0 and row["sample_id"] != "z" else None)
        assert row[PROMPT] == (None if row["draw"] else [number, len(PROMPT)])
    assert pq.ParquetFile(path).num_row_groups > 1


def test_row_groups_come_to_about_as_many_bytes_as_are_to_be_in_memory(tmp_path, asker, monkeypatch):
    """After the first few, whose size nobody knows yet."""
    monkeypatch.setattr(inside, "_MIN_ANSWERS", 2)
    cells = asker.survey()[0]
    store, path, sizes = filled(tmp_path, asker, cells), tmp_path / "t.parquet", []
    for most in (1, 1 << 30):
        monkeypatch.setattr(inside, "GROUP_BYTES", most)
        inside.write_internals_table(asker, 0, cells, store, path, {})
        groups = pq.ParquetFile(path)
        sizes.append([len(set(groups.read_row_group(i)["sample_id"].to_pylist())) for i in range(groups.num_row_groups)])
    assert sizes == [[2, 1, 1], [2, 2]]


def test_what_is_lost_is_said(tmp_path, asker):
    with pytest.raises(LostError):
        inside.write_internals_table(asker, 0, asker.survey()[0], Store(tmp_path / "empty", "m", "e"), tmp_path / "t.parquet", {})
