"""lmms-eval: its own baseline loader where it is installed, the schema of its lines always, and the way back to the last bit."""

import json

import numpy as np
import pytest

from qualm.runners.plugins.exports.lmms_eval import lmms_eval
from tests.support.projects.exported import bits, context, generations, ran, read_back, same_bytes, write

__all__ = ["ran"]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def out(ran, tmp_path):
    made = context(ran, tmp_path)
    lmms_eval(made)
    assert made.lost == {"images": 15, "options, categories and other fields of samples": 16}
    return tmp_path / "m"


def test_lines_are_as_it_writes_them(out):
    open_rows, choices = lines(out / "20260301_101112_samples_d.jsonl"), lines(out / "20260301_101112_samples_d_choices.jsonl")
    assert open_rows[0]["resps"] == ["a red cube", "draw 1", "draw 2", "draw 3"] and open_rows[0]["filtered_resps"] == "a red cube"
    assert open_rows[0]["input"] == "What is in part 0?" and open_rows[0]["sample_id"] == "id/000 x"
    assert set(open_rows[0]["token_counts"][0]) == {"output_tokens"}
    for row in choices:
        losses = [float(v) for v, _ in row["filtered_resps"]]
        assert [[pair] for pair in row["filtered_resps"]] == row["resps"] and all(v >= 0 for v in losses)
        assert row["acc"] == float(int(np.argmin(losses)) == int(row["target"]))  # its own rule: the smallest is the prediction
    assert "doc" not in open_rows[0] and "arguments" not in open_rows[0]


def test_resps_are_dropped_where_they_say_nothing_new(tmp_path):
    source = write(tmp_path / "s", n_choice=0, draws=0)
    lmms_eval(context(source, tmp_path / "out"))
    (path,) = (tmp_path / "out").rglob("*.jsonl")
    assert all("resps" not in row for row in lines(path))
    assert bits(read_back(tmp_path / "out", source)) == bits(generations(source))


@pytest.mark.parametrize(("n_open", "n_choice"), [(10, 0), (0, 6)])
def test_the_way_back_is_exact(tmp_path, n_open, n_choice):
    source = write(tmp_path / "s", n_open=n_open, n_choice=n_choice)
    lmms_eval(context(source, tmp_path / "out"))
    assert bits(read_back(tmp_path / "out", source)) == bits(generations(source))


def test_equal_inputs_equal_bytes(ran, tmp_path):
    same_bytes(lmms_eval, ran, tmp_path)


def test_its_own_code_reads_them(out):
    loader = pytest.importorskip("lmms_eval.baselines.loader", reason="lmms-eval is not installed; pip install --no-deps lmms-eval")
    path = out / "20260301_101112_samples_d.jsonl"
    scores, results = loader.load_baseline(str(path), "d")
    said = {row["doc_id"]: row["filtered_resps"] == row["target"] for row in lines(path) if row["filtered_resps"]}
    assert scores == {doc: float(right) for doc, right in said.items()}
    assert results["results"]["d_choices"]["accuracy[ours],none"] == 0.625


def test_datasets_reads_them(out):
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed; pip install datasets")
    for path in out.glob("*.jsonl"):
        found = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=str(out / "cache"))
        assert found["sample_id"] == [row["sample_id"] for row in lines(path)]
