"""Hugging Face: `load_dataset` where it is installed, the files and the card always."""

import io
import re

import PIL.Image
import pyarrow.parquet as pq
import pytest
import yaml
from markdown_it import MarkdownIt

from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.data.dataset import DatasetFolder, read_variants
from qualm.runners.plugins.exports import DatasetCredits
from qualm.runners.plugins.exports.hf import hf
from qualm.runners.runtime.records import read_table
from tests.support.data.recordings import png
from tests.support.projects.exported import BLUR, bits, context, generations, ran, same_bytes, write

__all__ = ["ran"]


def card(folder):
    text = (folder / "README.md").read_text()
    return yaml.safe_load(text.split("---\n")[1]), text


def test_files_and_card(ran, tmp_path):
    made = context(ran, tmp_path)
    hf(made)
    assert not made.lost
    head, text = card(tmp_path)
    files = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.parquet")}
    assert files == {"data/d-00000-of-00001.parquet", "generations/m_d.parquet", "judgements.parquet", "scores.parquet"}
    assert {f for c in head["configs"] for d in c["data_files"] for f in d["path"]} == files
    assert head["license"] == "mit" and "- d: MIT (https://example.org)" in text and "@misc{d, title={D}}" in text
    assert "name: bench" in text and "`abc123`" in text and "| `data-d` |" in text
    back = pq.read_table(tmp_path / "generations/m_d.parquet")
    assert back.schema.remove_metadata() == GENERATIONS and bits(back.to_pylist()) == bits(generations(ran))
    asked = pq.read_table(tmp_path / "data/d-00000-of-00001.parquet").to_pylist()
    own = read_table(ran / "data/samples.parquet", SAMPLES).to_pylist()
    for row, sample in zip(asked, own, strict=True):
        assert [(m["key"], m["value"]) for m in row["meta"]] == sample["meta"]
        assert {k: row[k] for k in sample if k != "meta"} == {k: v for k, v in sample.items() if k != "meta"}
    assert asked[0]["image"]["bytes"] == png((0, 9, 9), side=48) and asked[1]["image"] is None


def test_shards(ran, tmp_path, monkeypatch):
    monkeypatch.setattr("qualm.runners.plugins.exports.hf.SHARD_BYTES", 1)
    monkeypatch.setattr("qualm.runners.plugins.exports.hf.BLOCK", 5)
    hf(context(ran, tmp_path))
    assert len(list((tmp_path / "data").glob("d-*-of-00004.parquet"))) == 4
    assert card(tmp_path)[1].count("| questions, with images where there are any | 16 |") == 1


def test_licences_that_the_hub_has_no_name_for(ran, tmp_path):
    made = context(ran, tmp_path)
    made.about = {"d": DatasetCredits(licence="for research only")}
    hf(made, images=False)
    head, text = card(tmp_path)
    assert (head["license"], head["license_name"]) == ("other", "for research only")
    assert made.lost == {"images (`-O images=true` keeps them)": 15}
    assert "image" not in pq.read_schema(tmp_path / "data/d-00000-of-00001.parquet").names
    assert "## Citation\n\n\n## Recipe" in text


def test_a_variant_is_as_the_model_saw_it(tmp_path):
    source = write(tmp_path / "s", variants=("clean", BLUR["variant"]))
    hf(context(source, tmp_path / "out", BLUR))
    asked = pq.read_table(tmp_path / "out/data/d@blur@radius=2.0-00000-of-00001.parquet").to_pylist()
    shown = PIL.Image.open(io.BytesIO(asked[0]["image"]["bytes"]))
    images = DatasetFolder("d", source / "data")
    wanted, question = read_variants([BLUR])[0].apply(7, images.item(0), images.image(0))
    assert shown.tobytes() == wanted.tobytes() and asked[0]["question"] == question and asked[1]["image"] is None
    rows = pq.read_table(tmp_path / "out/generations/m_d@blur@radius=2.0.parquet")
    assert set(rows["variant"].to_pylist()) == {"blur@radius=2.0"}


def test_equal_inputs_equal_bytes(ran, tmp_path):
    same_bytes(hf, ran, tmp_path)


def test_load_dataset_opens_it(ran, tmp_path):
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed; pip install datasets")
    hf(context(ran, tmp_path / "out"))
    names = datasets.get_dataset_config_names(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert set(names) == {"data-d", "generations-m-d", "judgements", "scores"}

    def load(name):
        return datasets.load_dataset(str(tmp_path / "out"), name, split="test", cache_dir=str(tmp_path / "cache"))

    asked = load("data-d")
    assert asked[0]["image"].size == (48, 48) and asked[1]["image"] is None
    assert asked[12]["choices"][1] == "a dog" and asked[0]["meta"] == [{"key": "kind", "value": "k0"}]
    assert bits(load("generations-m-d").to_list()) == bits(generations(ran))
    assert load("scores")["value"] == [0.625, None]


def test_somebody_elses_words_stay_text_in_the_readme(ran, tmp_path):
    made = context(ran, tmp_path)
    script = "<script>alert(1)</script>"
    made.title = f"# {script}\n## x [a](javascript:alert(2)) \u202e"
    made.about = {
        "d": DatasetCredits(
            licence=f"{script}|`*b*", citation="@misc{x}\n```\n<img src=x onerror=alert(3)>", source=f"https://e.org/{script}"
        )
    }
    made.models = {"m": {"args": {"artifact": f"`{script}"}}}
    hf(made, images=False)
    _, text = card(tmp_path)
    body = text.split("---\n", 2)[2]
    assert body.startswith("# \\# &lt;script&gt;alert(1)&lt;/script&gt; ## x [a\\](javascript:alert(2)) ⟨U+202E⟩\n")
    page = MarkdownIt("commonmark").render(body)  # which passes HTML through
    assert not re.search(r"<(script|img|a)\b", page) and "\u202e" not in page
    assert "- d: &lt;script&gt;alert(1)&lt;/script&gt;\\|\\`\\*b\\* (https://e.org/&lt;script&gt;alert(1)&lt;/script&gt;)" in body
    assert "````bibtex\n@misc{x}\n```\n" in body
