import json
from collections import Counter

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import runners.data as data
from registry.adapters import AdapterError
from registry.sample import IMAGES, SAMPLES, Image, Sample
from runners.records import read_provenance, read_table
from runners.settings import Settings
from runners.stage import Stage, StageError

ARGS = {"level": "easy", "format": "open", "train": 0, "val": 0, "test": 60, "questions": 3, "kinds": None}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def stage(limit=None, workers=1, **arguments):
    params = {"dataset": "scenes", "card": "synthetic_scenes", "adapter": "synthetic_scenes", "args": {**ARGS, **arguments}, "limit": limit}
    outputs = {"dataset": "results/s/data/scenes"}
    return Stage("s/data", "s", "data", "data", params, {}, outputs, 7, Settings(workers=workers, progress=False))


def folder_bytes(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_folder_holds_samples_images_and_scenes(tmp_path):
    one = stage()
    data.run(one)
    root = tmp_path / "results/s/data/scenes"
    samples, images = read_table(root / "samples.parquet", SAMPLES), read_table(root / "images", IMAGES)
    assert samples.num_rows == one.counters["samples"] == 60
    assert images.num_rows == one.counters["images"] == 20
    assert set(samples["image_id"].to_pylist()) == set(images["image_id"].to_pylist())
    assert dict(samples["meta"][0].as_py())["level"] == "easy"
    assert len(json.loads((root / "scenes/CLEVR_test_scenes.json").read_text())["scenes"]) == 20
    assert read_provenance(root / "samples.parquet")["stage"] == "s/data"
    assert b"huggingface" in pq.read_schema(root / "images/00000.parquet").metadata


def test_workers_and_reruns_give_the_same_bytes(tmp_path):
    root = tmp_path / "results/s/data/scenes"
    seen = []
    for workers in (1, 2, 1):
        data.run(stage(workers=workers, test=400))
        seen.append(folder_bytes(root))
    assert seen[0] == seen[1] == seen[2]


def test_limit_is_stratified_and_only_adds(tmp_path):
    kept = []
    for limit in (14, 28):
        one = stage(limit=limit)
        data.run(one)
        table = read_table(tmp_path / "results/s/data/scenes/samples.parquet", SAMPLES)
        kept.append(table["sample_id"].to_pylist())
        assert one.counters["samples"] == limit and one.counters["left_out"] == 60 - limit
        images = read_table(tmp_path / "results/s/data/scenes/images", IMAGES)
        assert set(images["image_id"].to_pylist()) == set(table["image_id"].to_pylist())
    assert set(kept[0]) < set(kept[1])
    assert kept[1] == sorted(kept[1])  # the source's order


@given(st.lists(st.sampled_from("aaab"), min_size=1, max_size=60), st.integers(0, 60), st.integers(0, 5))
def test_choose_is_nested_and_proportional(categories, limit, seed):
    samples = [(f"s{i}", c) for i, c in enumerate(categories)]
    chosen = data.choose(samples, limit, seed)
    assert len(chosen) == min(limit, len(samples))
    assert chosen <= data.choose(samples, limit + 1, seed)
    sizes, taken = Counter(categories), Counter(c for s, c in samples if s in chosen)
    for category, n in sizes.items():
        assert abs(taken[category] - len(chosen) * n / len(samples)) <= 1


def give(monkeypatch, items):
    def adapter(context, **_):
        yield from items

    monkeypatch.setattr(data, "load", lambda kind, name: adapter)


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([Sample("a", "q?"), Sample("a", "q?")], "sample 'a' comes twice"),
        ([Image("i", b""), Image("i", b"")], "image 'i' comes twice"),
        ([Sample("a", "q?", image_id="i")], "its image 'i' has not come before"),
        ([Sample("a", "q?", choices=("x",), answer_index=1)], "answer_index 1 is not one of its 1 choices"),
        ([], "gave no samples"),
    ],
)
def test_bad_adapters_are_found_out(monkeypatch, tmp_path, items, says):
    give(monkeypatch, items)
    with pytest.raises(StageError, match=says):
        data.run(stage())
    assert not (tmp_path / "results").exists()


def test_adapter_error_becomes_the_stage_s(monkeypatch):
    def adapter(context, **_):
        raise AdapterError("x.json: missing")
        yield

    monkeypatch.setattr(data, "load", lambda kind, name: adapter)
    with pytest.raises(StageError, match=r"x\.json: missing"):
        data.run(stage())
