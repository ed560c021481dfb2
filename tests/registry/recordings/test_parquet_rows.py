import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qualm.registry.formats import columnar
from qualm.registry.recordings.record import RecordingError
from qualm.registry.recordings.tables import columnar_columns, columnar_rows


def test_rows_have_the_columns_and_fields_that_are_there(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"doc": [{"a": 1, "b": 2}, {"a": 3, "b": 4}], "other": ["x", "y"]}), path)
    assert columnar_columns(path) == ["doc", "other"]
    assert list(columnar_rows(path, ["doc.b", "doc.gone"])) == [
        ("a.parquet: row 0", {"doc": {"b": 2}}),
        ("a.parquet: row 1", {"doc": {"b": 4}}),
    ]


def test_what_is_no_parquet_and_what_claims_too_much(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 not whole")
    assert columnar_columns(path) == [] == columnar_columns(tmp_path / "gone")
    with pytest.raises(RecordingError, match=r"a\.parquet: row 0: truncated or corrupt Parquet"):
        list(columnar_rows(path, ["doc"]))
    pq.write_table(pa.table({"doc": ["x" * 100]}), path)
    monkeypatch.setattr(columnar, "SPAN", 10)
    with pytest.raises(RecordingError, match=r"a row group of .* bytes; rewrite it"):
        list(columnar_rows(path, ["doc"]))
