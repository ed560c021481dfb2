import pyarrow as pa
import pyarrow.parquet as pq

from qualm.runners.scoring.measuring.by_cell import ByCell, split


def test_parts_come_in_the_order_of_their_first_row_and_keep_the_order_of_rows():
    table = pa.table({"model": ["b", "a", "b", "a"], "variant": ["x", "x", "x", "y"], "row": [0, 1, 2, 3]})
    parts = [(key, part["row"].to_pylist()) for key, part in split(table, ["model", "variant"])]
    assert parts == [(("b", "x"), [0, 2]), (("a", "x"), [1]), (("a", "y"), [3])]


def test_dictionaries_of_another_order_or_of_more_texts_make_the_same_parts():
    plain = pa.table({"setting": ["b", "a", "a", "b", "d"], "row": range(5)})
    for words in (["a", "b", "c", "d"], ["d", "c", "b", "a"]):
        codes = pa.array([words.index(text) for text in plain["setting"].to_pylist()], pa.int32())
        coded = pa.table({"setting": pa.DictionaryArray.from_arrays(codes, pa.array(words)), "row": plain["row"]})
        parts = [(key, part["row"].to_pylist()) for key, part in split(coded, ["setting"])]
        assert parts == [(("b",), [0, 3]), (("a",), [1, 2]), (("d",), [4])]
        assert parts == [(key, part["row"].to_pylist()) for key, part in split(plain, ["setting"])]


def test_an_empty_table_has_no_parts():
    assert list(split(pa.table({"model": pa.array([], pa.string())}), ["model"])) == []


def test_a_cell_has_its_rows_in_their_order_whatever_row_groups_they_lie_in(tmp_path):
    rows = [("m", "d", "clean"), ("n", "d", "clean"), ("m", "d", "blur")] * 7
    table = pa.table({name: [row[k] for row in rows] for k, name in enumerate(("model", "dataset", "variant"))})
    table = table.append_column("sample_id", pa.array([str(i) for i in range(21)])).append_column("value", pa.array(range(21)))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=4)
    cells = ByCell(tmp_path / "t.parquet", table.schema, ["value"], numbered=True)
    assert list(cells) == rows[:3] and cells.get(("n", "e", "clean")) is None
    for k, key in enumerate(cells):
        for _ in range(2):
            cell = cells.get(key)
            assert cell["value"].to_pylist() == cell["row"].to_pylist() == list(range(k, 21, 3))
            assert set(zip(*(cell[name].to_pylist() for name in ("model", "dataset", "variant")), strict=True)) == {key}
