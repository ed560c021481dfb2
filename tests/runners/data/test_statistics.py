import polars as pl

from qualm.runners.data.statistics import ALL, COLUMNS, statistics


def samples(*rows):
    return pl.DataFrame(rows, schema={c: pl.Boolean if c == "answerable" else pl.String for c in COLUMNS}, orient="row")


ROWS = samples(
    ("1", "i", "x", True, "test", "g", "p"),
    ("2", "j", "x", False, "test", "g", "p"),
    ("3", "i", "y", True, "train", "g", None),
    ("4", None, "y", None, "extra", "g", "q"),
    ("5", "i", None, True, None, "g", "q"),
)


def test_pictures_are_counted_once_in_each_cell():
    counted = statistics(ROWS, {"j"})
    assert counted["splits"] == ["train", "test", "", "extra"] and counted["categories"] == ["", "x", "y"]
    cells = counted["cells"]
    assert cells["test"]["x"] == {"perturbed": 1, "clean": 1, "idk": 1, "answerable": 1, "pairs": 1}
    assert cells[ALL]["y"] == {"perturbed": 0, "clean": 1, "idk": 0, "answerable": 2, "pairs": 1}
    assert cells[ALL][ALL] == {"perturbed": 1, "clean": 1, "idk": 1, "answerable": 4, "pairs": 2}
    assert cells["train"]["x"] == {"perturbed": 0, "clean": 0, "idk": 0, "answerable": 0, "pairs": 0}


def test_no_samples():
    assert statistics(samples()) == {
        "splits": [], "categories": [], "cells": {ALL: {ALL: {"perturbed": 0, "clean": 0, "idk": 0, "answerable": 0, "pairs": 0}}},
    }  # fmt: skip


def test_a_category_called_all_is_not_all_of_them():
    counted = statistics(samples(("1", "i", "all", True, "test", "g", None), ("2", "j", "x", False, "test", "g", None)))
    assert counted["categories"] == ["x", "“all”"]
    assert [counted["cells"]["test"][c]["answerable"] for c in ("“all”", "x", ALL)] == [1, 0, 1]
    assert [counted["cells"]["test"][c]["idk"] for c in ("“all”", "x", ALL)] == [0, 1, 1]
