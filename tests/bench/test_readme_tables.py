import polars as pl

from tests.bench.readme_tables import COLUMNS, ROWS, printed, stale


def scores(value: float) -> pl.DataFrame:
    one = {"slice": "all", "value": value, "low": value - 0.01, "high": value + 0.01}
    return pl.DataFrame([{"model": m, "dataset": d, "metric": k, **one} for m in ROWS.values() for d, k in COLUMNS])


def test_numbers_as_the_readme_prints_them() -> None:
    assert [printed(v) for v in (-0.1829, 0.5, 1.0, -0.0001)] == ["−.183", ".500", "1.000", ".000"]


def test_a_stale_cell_and_a_missing_row_are_named() -> None:
    rows = [f"| {name} | .500 (.490 to .510) |" + " .500 |" * 7 for name in ROWS]
    assert stale("\n".join(rows), scores(0.5)) == ([], 8 * len(ROWS))
    lines, right = stale("\n".join([rows[0].replace(".500 |", ".501 |", 1), *rows[2:]]), scores(0.5))
    second = list(ROWS)[1]
    assert lines == ["base, ece_idk of ours: README has .501, the run .500", f"{second}: no such row"] and right == 8 * len(ROWS) - 9
