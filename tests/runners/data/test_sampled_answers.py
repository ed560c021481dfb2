"""Sampled answers as columns beside the greedy ones."""

from pathlib import Path

from qualm.registry.sample import GENERATIONS
from qualm.runners.data.sampled_answers import read_blocks
from qualm.runners.runtime.records import write_table
from tests.support.projects.stages import stage


def test_sampled_answers_come_by_their_numbers_whatever_the_order_of_rows(tmp_path: Path) -> None:
    """Draws beyond those asked for and those of samples without a greedy answer are left out; an incomplete list is null."""
    order = [("b", 3), ("a", 2), ("b", 0), ("b", 1), ("a", 1), ("c", 1), ("b", 4), ("b", 2), ("a", 0)]
    rows = [{"sample_id": name, "variant": "clean", "draw": draw, "text": f"{name}{draw}"} for name, draw in order]
    write_table(tmp_path / "d.parquet", rows, GENERATIONS)
    params, inputs = {"draws": 3}, {"generations": {"m": {"d": str(tmp_path / "d.parquet")}}}
    (block,) = read_blocks(stage("estimate", params, inputs, []), ["text", "draw_texts"])
    assert (block.model, block.dataset, block.variant, block.ids.to_pylist()) == ("m", "d", "clean", ["b", "a"])
    assert block.columns["text"].to_pylist() == ["b0", "a0"]
    assert block.columns["draw_texts"].to_pylist() == [["b1", "b2", "b3"], None]
