"""Outputs of VLCB, in its release's columns and with questions beside."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.recorded_samples import recorded_samples
from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.parts import find_parts
from qualm.registry.recordings.record import ReadOptions, RecordingError
from qualm.registry.recordings.vlcb import names, read
from tests.support.data.recordings import png


def row(name, model="m/one", response="yes", **more):
    return {"hash_id": name, "model_name": model, "model_response": response, "is_correct": 1, **more}


def table(folder, *rows, name="test-00000-of-00001"):
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / f"{name}.parquet")
    return folder / f"{name}.parquet"


def test_models_are_runs_and_splits_tasks(tmp_path):
    path = table(tmp_path, row("a"), row("a", "m/two"))
    assert names(path) == {("m/one", "test"), ("m/two", "test")}
    assert [part.format for part in find_parts(tmp_path)] == ["vlcb"]
    (one,) = read(path, ReadOptions(run="m/two"))
    assert (one.id, one.draws, one.question) == ("a", [{"text": "yes"}], "")
    with pytest.raises(RecordingError, match="has answers of m/one, m/two; say whose with `run:`"):
        list(read(path, ReadOptions()))


def test_shards_are_one_task(tmp_path):
    first = table(tmp_path, row("a"), name="test-00000-of-00002")
    second = table(tmp_path, row("b", "m/two"), row("c"), name="test-00001-of-00002")
    assert names(second) is None and names(first) == {("m/one", "test"), ("m/two", "test")}
    assert [record.id for record in read(first, ReadOptions(run="m/one"))] == ["a", "c"]
    assert names(table(tmp_path, row("a"), name="test-00001-of-00003")) == {("m/one", "test")}, "the first that is there"


def test_questions_that_stand_beside(tmp_path):
    more = {"question": "Is it red?", "answer": "yes", "category": "attr", "source_dataset": "GQA", "image": {"bytes": png(), "path": None}}
    table(tmp_path, row("a", **more), row("a", "m/two", **more))
    image, sample = recorded_samples(AdapterContext(tmp_path, source=tmp_path), task="test")
    assert (image.data, sample.sample_id, sample.question, sample.references) == (png(), "a", "Is it red?", ("yes",))
    assert sample.category == "attr" and sample.meta == {"source_dataset": "GQA"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"hash_id": None}, "no id"), ({"model_response": None}, "no response"), ({"model_name": None}, "no model's name")],
)
def test_faults(tmp_path, change, reason):
    path = table(tmp_path, row("b"), {**row("a"), **change})
    good, fault = read(path, ReadOptions())
    assert good.id == "b" and isinstance(fault, Fault) and fault.reason == reason
