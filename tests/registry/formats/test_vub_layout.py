import pickle

import numpy as np
import pytest

from qualm.registry.formats.vub_layout import (
    LayoutError,
    answer_index,
    is_vub,
    list_all_runs,
    list_runs,
    logits,
    output_folder,
    read_records,
)

RECORD = {"id": 1, "question": "Q?", "answer": "C", "logits": [1, 2, 3, 4, 5, 6], "A": "a", "B": "b", "C": "c", "D": "d"}


def write(root, *records, run="llava", dataset="ai2d"):
    path = root / "output" / run / f"{dataset}.pkl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(list(records)))
    return root


def test_runs_by_data_set_from_the_repository_or_its_output(tmp_path):
    write(write(write(tmp_path, RECORD), RECORD, run="cogvlm"), RECORD, run="bare", dataset="seed")
    for source in (tmp_path, tmp_path / "output"):
        assert list_runs(source, "ai2d") == ["cogvlm", "llava"] and list_all_runs(source) == ["bare", "cogvlm", "llava"]
        assert is_vub(source) and output_folder(source) == tmp_path / "output"
    assert not is_vub(tmp_path / "output" / "llava")


def test_records_in_official_order(tmp_path):
    records = read_records(write(tmp_path, {**RECORD, "id": 2}, RECORD), "llava", "ai2d")
    assert [r["id"] for r in records] == [2, 1] and answer_index(records[0]) == 2
    assert logits(records[0]).dtype == np.float64 and logits(records[0]).tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"answer": "E"}, "record 0: answer: expected one of A, B, C, D, got 'E'"),
        ({"answer": ["A"]}, "answer: expected one of"),
        ({"logits": [1, 2, 3]}, r"logits: expected six numbers, one for each of A, B, C, D, E, F, got shape \(3,\)"),
        ({"logits": [1, 2, 3, 4, 5, float("nan")]}, "logits: expected finite numbers"),
        ({"logits": "many"}, "logits: expected six numbers, got str"),
        ({"question": 7}, "question: expected text, got 7"),
        ({"id": 1.5}, "id: expected a number or text, got 1.5"),
        ({"A": "\ud800"}, "text that is not Unicode"),
    ],
)
def test_records_that_are_not_as_the_repository_writes_them(tmp_path, changes, message):
    with pytest.raises(LayoutError, match=message):
        read_records(write(tmp_path, {**RECORD, **changes}), "llava", "ai2d")


@pytest.mark.parametrize(
    "records, message",
    [
        ([], "expected a list of records, got list of length 0"),
        (["x"], "record 0: expected a dict, got str"),
        ([RECORD, RECORD], "id 1 occurs twice"),
        ([{k: v for k, v in RECORD.items() if k not in ("D", "id")}], "missing id, D"),
    ],
)
def test_files_that_are_not(tmp_path, records, message):
    with pytest.raises(LayoutError, match=message):
        read_records(write(tmp_path, *records), "llava", "ai2d")


@pytest.mark.parametrize(
    "run, dataset, message",
    [
        ("../x", "ai2d", "expected a plain name"),
        ("llava", "a/b", "expected a plain name"),
        ("other", "ai2d", "no such run; there are: llava"),
        ("llava", "seed", "not found; datasets of this run: ai2d"),
    ],
)
def test_names_of_what_is_not_there(tmp_path, run, dataset, message):
    with pytest.raises(LayoutError, match=message):
        read_records(write(tmp_path, RECORD), run, dataset)
    with pytest.raises(LayoutError, match="not a folder; expected the official layout"):
        read_records(tmp_path / "gone", "llava", "ai2d")
