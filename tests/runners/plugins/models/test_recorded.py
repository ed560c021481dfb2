import pickle

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.models import ModelContext, ModelError, Recording
from qualm.runners.plugins.models.recorded import recorded


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "output" / "run" / "oodcv.pkl"
    path.parent.mkdir(parents=True)
    options = {"A": "one", "B": "two", "C": "three", "D": "four"}
    rows = [{"id": i, "question": "?", "answer": "B", "logits": np.arange(6.0) + i, **options} for i in range(3)]
    path.write_bytes(pickle.dumps(rows, 4))
    return recorded(ModelContext("m", folder=tmp_path), source="elsewhere", run="run")


def samples(*ids, source="vlm_uncertainty_bench/oodcv", answer=1, first="one"):
    choices = [first, "two", "three", "four", "I don’t know", "None of the above"]
    rows = [{"sample_id": i, "source": source, "answer_index": answer, "choices": choices} for i in ids]
    return pa.Table.from_pylist(rows, schema=SAMPLES)


def test_looks_up_by_id(recording):
    assert isinstance(recording, Recording)
    found = recording.lookup("any_name", samples("2", "0")).to_pylist()
    assert [(r["sample_id"], r["variant"], r["draw"]) for r in found] == [("2", "clean", 0), ("0", "clean", 0)]
    assert found[0]["option_logits"] == [2, 3, 4, 5, 6, 7]
    assert found[0]["text"] is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (samples("9"), "has no question 9"),
        (samples("1", answer=0), "right answer is B there and option 0"),
        (samples("1", first="other"), "options differ"),
        (samples("1", source="synthetic_scenes"), "dataset 'd' comes from synthetic_scenes"),
        (samples("1", source="vlm_uncertainty_bench/ai2d"), "ai2d.pkl: not found; datasets of this run: oodcv"),
        (samples(), "comes from no samples"),
    ],
)
def test_other_rows(recording, table, message):
    with pytest.raises(ModelError, match=message):
        recording.lookup("d", table)


def test_no_such_run(tmp_path, recording):
    with pytest.raises(ModelError, match="no such run; there are: run"):
        recorded(ModelContext("m", folder=tmp_path), source="x", run="gone").lookup("d", samples("1"))
