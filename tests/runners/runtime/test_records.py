"""Tables: the declared schema and no other, the same bytes for the same rows, whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qualm.registry.sample import AS_GIVEN, IMAGES, SCORES, WHERE_USED
from qualm.runners.runtime.records import (
    RecordError,
    RowGroups,
    ShardWriter,
    iterate_rows,
    read_provenance,
    read_schema,
    read_table,
    write_parts,
    write_table,
)

ROW = {"model": "m", "dataset": "d", "variant": "clean", "slice": "all", "metric": "accuracy", "value": 0.5, "n": 10, "n_unscored": 0}


def test_there_and_back_with_missing_keys_as_null(tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", [ROW], SCORES, {"stage": "s"})
    assert read_table(tmp_path / "t.parquet", SCORES).to_pylist() == [dict.fromkeys(SCORES.names) | ROW]
    assert read_provenance(tmp_path / "t.parquet") == {"stage": "s"}


def test_pandas_is_not_loaded_to_read_a_table(tmp_path: Path) -> None:
    """It takes longer to load than most tables."""
    write_table(tmp_path / "t.parquet", [ROW], SCORES)
    reads = f"from pathlib import Path; read_table(Path({str(tmp_path / 't.parquet')!r}), SCORES)"
    imports = "import sys; from qualm.registry.sample import SCORES; from qualm.runners.runtime.records import read_table"
    subprocess.run([sys.executable, "-c", f"{imports}; {reads}; assert 'pandas' not in sys.modules"], check=True)


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    for name, provenance in (("a", {"x": 1, "y": 2}), ("b", {"y": 2, "x": 1})):
        write_table(tmp_path / name, [ROW] * 1000, SCORES, provenance)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_columns_that_are_missing_or_unknown_are_named(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([ROW], schema=SCORES)
    with pytest.raises(RecordError, match="missing value"):
        write_table(tmp_path / "t", table.drop_columns(["value"]), SCORES)
    with pytest.raises(RecordError, match="columns that the schema does not know: colour"):
        write_table(tmp_path / "t", table.append_column("colour", pa.array(["red"])), SCORES)
    assert list(tmp_path.iterdir()) == []


def test_a_value_of_the_wrong_type_leaves_the_old_table(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_table(path, [ROW], SCORES)
    before = path.read_bytes()
    wrong = pa.table({**{n: [ROW.get(n)] for n in SCORES.names}, "n": ["many"]})
    with pytest.raises(RecordError, match="does not fit its schema"):
        write_table(path, wrong, SCORES)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_not_there_or_no_table(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="expected a Parquet table, found nothing"):
        read_table(tmp_path / "none.parquet", SCORES)
    for folder in ("empty", "half"):
        (tmp_path / folder).mkdir()
    write_table(tmp_path / "half" / "a.parquet", [ROW], SCORES)
    (tmp_path / "half" / "b.parquet").mkdir()
    for folder in ("empty", "half"):
        with pytest.raises(RecordError, match="expected a Parquet table, found nothing"):
            read_table(tmp_path / folder, SCORES)
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(RecordError, match="not a readable Parquet table"):
        read_table(tmp_path / "cut.parquet", SCORES)
    with pytest.raises(RecordError, match=r"cut\.parquet: not a readable Parquet table: .*; `qualm run SPEC` re-creates it"):
        read_provenance(tmp_path / "cut.parquet")


def test_rows_of_a_damaged_table_are_an_error_with_a_remedy(tmp_path: Path) -> None:
    file, schema = tmp_path / "t.parquet", pa.schema([("data", pa.binary())])
    pq.write_table(pa.table({"data": [bytes(range(256)) * 40]}, schema), file, compression="zstd", use_dictionary=False)
    data = bytearray(file.read_bytes())
    middle = pq.read_metadata(file).row_group(0).column(0).data_page_offset + 40
    data[middle : middle + 60] = bytes(60)
    file.write_bytes(data)
    for damaged in (bytes(data), bytes(data[:100])):
        file.write_bytes(damaged)
        with pytest.raises(RecordError, match=r"t\.parquet: not a readable Parquet table: .*; `qualm run SPEC` re-creates it"):
            list(iterate_rows(file, schema))
    with pytest.raises(RecordError, match="expected a Parquet table, found nothing"):
        list(iterate_rows(tmp_path / "gone.parquet", schema))


def test_shards_stay_small_and_read_as_one(tmp_path: Path) -> None:
    schema = pa.schema([("i", pa.int64()), ("data", pa.binary())])
    with ShardWriter(tmp_path / "s", schema, shard_bytes=100_000, row_group=10) as writer:
        writer.extend({"i": i, "data": bytes(5000)} for i in range(100))
    files = sorted((tmp_path / "s").iterdir())
    assert len(files) > 3
    assert [f.name for f in files][:2] == ["00000.parquet", "00001.parquet"]
    assert max(pq.read_metadata(f).num_rows for f in files) <= 30
    assert [r["i"] for r in iterate_rows(tmp_path / "s", schema)] == list(range(100))
    assert read_table(tmp_path / "s", schema).num_rows == 100


def rows_of_groups(folder: Path) -> list[list[int]]:
    """Of every shard, the rows of its row groups."""
    shards = [pq.read_metadata(file) for file in sorted(folder.iterdir())]
    return [[shard.row_group(k).num_rows for k in range(shard.num_row_groups)] for shard in shards]


@pytest.mark.parametrize(
    ("shard_bytes", "rows", "groups"),
    [(160, 35, [[10, 10], [10, 5]]), (161, 70, [[10, 10, 10], [10, 10, 10], [10]]), (160, 40, [[10, 10], [10, 10]]), (160, 0, [[0]])],
)
def test_a_shard_ends_with_the_row_group_that_fills_it(tmp_path: Path, shard_bytes: int, rows: int, groups: list[list[int]]) -> None:
    """Ten whole numbers take 80 bytes."""
    with ShardWriter(tmp_path / "s", pa.schema([("i", pa.int64())]), shard_bytes, row_group=10) as writer:
        writer.extend({"i": i} for i in range(rows))
    assert rows_of_groups(tmp_path / "s") == (groups if rows else [[]]) and writer.rows == rows


@pytest.mark.parametrize(("size", "groups"), [(33, [[4, 4, 2]]), (50, [[2, 2, 2, 2, 2]]), (99, [[2, 2, 2, 2, 2]]), (100, [[1] * 10])])
def test_a_row_group_ends_with_the_picture_that_fills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, groups: list[list[int]]
) -> None:
    monkeypatch.setattr(ShardWriter, "GROUP_BYTES", 100)
    with ShardWriter(tmp_path / "s", IMAGES) as writer:
        writer.extend({"image_id": str(i), "image": {"bytes": bytes(size), "path": ""}} for i in range(10))
    assert rows_of_groups(tmp_path / "s") == groups


def test_doubles_are_rounded_but_where_the_schema_keeps_them_as_they_are(tmp_path: Path) -> None:
    given = [1 / 3, -0.0, None]
    schema = pa.schema([("rounded", pa.float64()), pa.field("given", pa.float64(), metadata=AS_GIVEN), ("single", pa.float32())])
    write_table(tmp_path / "t.parquet", pa.table({name: pa.array(given, schema.field(name).type) for name in schema.names}), schema)
    found = {
        name: column.to_pylist() for name, column in zip(schema.names, read_table(tmp_path / "t.parquet", schema).columns, strict=True)
    }
    assert found == {"rounded": [0.333333333, 0.0, None], "given": given, "single": [float(np.float32(1 / 3)), -0.0, None]}
    assert [str(values[1]) for values in found.values()] == ["0.0", "-0.0", "-0.0"]


def test_columns_are_chosen(tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", [ROW], SCORES)
    assert read_table(tmp_path / "t.parquet", SCORES, ["value", "model"]).to_pylist() == [{"value": 0.5, "model": "m"}]
    pq.write_table(pa.table({"i": [1]}), tmp_path / "plain.parquet")
    assert read_schema(tmp_path / "plain.parquet").names == ["i"] and read_provenance(tmp_path / "plain.parquet") == {}


def test_an_empty_table_is_a_table(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s", SCORES):
        pass
    assert read_table(tmp_path / "s", SCORES).num_rows == 0


def test_shards_of_pictures_have_their_size_whatever_the_pictures_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 MiB in the writer's own units, here scaled down: a shard ends with the row group that fills it."""
    monkeypatch.setattr(ShardWriter, "GROUP_BYTES", 160_000)
    rng = np.random.default_rng(0)
    sizes = rng.integers(1_000, 40_000, 300)
    most = 0
    for folder in ("a", "b"):
        rng = np.random.default_rng(1)
        with ShardWriter(tmp_path / folder, IMAGES, shard_bytes=640_000) as writer:
            for i, size in enumerate(sizes):
                writer.write({"image_id": str(i), "image": {"bytes": rng.bytes(int(size)), "path": ""}})
                most = max(most, writer._pending_bytes)
    shards = sorted((tmp_path / "a").iterdir())
    assert len(shards) > 5 and most < 160_000
    assert all(640_000 <= s.stat().st_size < 640_000 + 200_000 + 20_000 for s in shards[:-1])
    assert [s.read_bytes() for s in shards] == [s.read_bytes() for s in sorted((tmp_path / "b").iterdir())]
    assert read_table(tmp_path / "a", IMAGES)["image_id"].to_pylist() == [str(i) for i in range(300)]


@pytest.mark.parametrize("n", [0, 1, 65_536, 150_001])
def test_a_table_that_comes_in_parts_has_the_bytes_of_the_whole(tmp_path, n):
    schema = pa.schema([("name", pa.string()), ("value", pa.float64()), ("marks", pa.map_(pa.string(), pa.float64()))])
    names = [None if i % 7 == 0 else f"n{i % 1000}" for i in range(n)]
    marks = [None if i % 3 else [("a", float(i))] for i in range(n)]
    table = pa.table({"name": names, "value": np.arange(n) / 3, "marks": pa.array(marks, schema.field("marks").type)}, schema=schema)
    write_table(tmp_path / "whole.parquet", table, schema, {"seed": 1})
    write_parts(tmp_path / "parts.parquet", [table.slice(0, 70_000), table.slice(70_000, 11), table.slice(70_011)], schema, {"seed": 1})
    assert (tmp_path / "whole.parquet").read_bytes() == (tmp_path / "parts.parquet").read_bytes()


def test_row_groups_are_read_one_at_a_time_and_checked(tmp_path):
    schema = pa.schema([("name", pa.string()), pa.field("late", pa.string(), metadata=WHERE_USED)])
    pq.write_table(pa.table({"name": list("abcde")}), tmp_path / "t.parquet", row_group_size=2)
    groups = RowGroups(tmp_path / "t.parquet", schema, ["name", "late"])
    assert [group["name"].to_pylist() for group in groups] == [["a", "b"], ["c", "d"], ["e"]] and len(groups) == 3
    assert groups.read(1, ["name"]).column_names == ["name"] and groups.read(2)["late"].to_pylist() == [None]
    coded = RowGroups(tmp_path / "t.parquet", schema, ["name", "late"], words=["name"]).read(1)["name"]
    assert pa.types.is_dictionary(coded.type) and coded.to_pylist() == ["c", "d"]
    with pytest.raises(RecordError, match="missing value"):
        RowGroups(tmp_path / "t.parquet", pa.schema([("value", pa.int64())]), ["value"]).read(0)
    with pytest.raises(RecordError, match="found nothing"):
        RowGroups(tmp_path / "none.parquet", schema, ["name"])
