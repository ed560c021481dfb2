import pyarrow as pa

from qualm.registry.sample import SAMPLES, UNCERTAINTIES
from qualm.runners.data.aligned import Samples
from qualm.runners.runtime.records import write_table
from qualm.runners.scoring.measuring.by_cell import ByCell
from qualm.runners.scoring.measuring.tables import CellRows


def test_a_cell_has_the_rows_of_all_tables_without_samples_that_are_not_wanted(tmp_path):
    def table(name, *rows):
        same = {"model": "m", "dataset": "d", "variant": "clean", "estimator": name, "value": 0.5}
        write_table(tmp_path / f"{name}.parquet", [same | row for row in rows], UNCERTAINTIES)
        return ByCell(tmp_path / f"{name}.parquet", UNCERTAINTIES, ["estimator", "value"])

    tables = [table("luq", {"sample_id": "a"}, {"sample_id": "b"}), table("probe", {"sample_id": "a"}, {"sample_id": "a", "model": "n"})]
    only_a = Samples("d", pa.Table.from_pylist([{"sample_id": "a"}], schema=SAMPLES), pa.array(["b"]))

    def read(key, datasets):
        part = CellRows(tables, datasets).get(key)
        return None if part is None else list(zip(part["estimator"].to_pylist(), part["sample_id"].to_pylist(), strict=True))

    assert read(("m", "d", "clean"), {}) == [("luq", "a"), ("luq", "b"), ("probe", "a")]
    assert read(("m", "d", "clean"), {"d": only_a}) == [("luq", "a"), ("probe", "a")]
    assert read(("n", "d", "clean"), {"d": only_a}) == [("probe", "a")]
    assert read(("m", "d", "blur"), {}) is None and CellRows([], {}).get(("m", "d", "clean")) is None
