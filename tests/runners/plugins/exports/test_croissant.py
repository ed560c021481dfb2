"""Croissant: loaded and validated by mlcroissant where it is installed, digests and fields always."""

import hashlib
import io
import json
from datetime import datetime
from pathlib import Path

import PIL.Image
import pyarrow.parquet as pq
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.plugins.exports import DatasetCredits, ExportError
from qualm.runners.plugins.exports.croissant import FIELDS, croissant
from qualm.runners.runtime.records import read_table, write_table
from tests.support.projects.exported import OPTIONS, context, ran, same_bytes

__all__ = ["ran"]
ABOUT = DatasetCredits("Data", "CC BY 4.0", "@misc{d, title={D}}", "https://example.org", "Pictures.", {"dataBiases": "Few shapes."})
GIVEN = {"creator": "Ann; Bo", "published": "2026-03-01", "version": "1.0.0"}


def exported(ran: Path, folder: Path, about=ABOUT, datasets=None, **options):
    made = context(ran, folder, datasets=datasets or {"d": ran / "data"})
    made.parts, made.about = (), {"d": about}
    croissant(made, **options)
    return made


def document(folder: Path) -> dict:
    return json.loads((folder / "croissant.json").read_text())


def test_the_file_that_is_described(ran, tmp_path):
    made = exported(ran, tmp_path, **GIVEN)
    assert not made.lost and made.counts["samples"] == 16
    about = document(tmp_path)
    (file,) = about["distribution"]
    data = (tmp_path / file["contentUrl"]).read_bytes()
    assert file["sha256"] == hashlib.sha256(data).hexdigest() and file["contentSize"] == f"{len(data)} B"
    rows = pq.read_table(tmp_path / file["contentUrl"]).to_pylist()
    for row, sample in zip(rows, read_table(ran / "data/samples.parquet", SAMPLES).to_pylist(), strict=True):
        assert {name: row[name] for name in FIELDS if name != "meta"} == {name: sample[name] for name in FIELDS if name != "meta"}
        assert json.loads(row["meta"]) == dict(sample["meta"]) and (row["image"] is None) == (sample["image_id"] is None)
    assert PIL.Image.open(io.BytesIO(rows[0]["image"])).size == (48, 48)


def test_several_pictures_of_one_question_make_lists_of_all(ran, tmp_path):
    rows = read_table(ran / "data/samples.parquet", SAMPLES).to_pylist()[2:4]
    rows[0]["image_id"] = json.dumps(["p0", "p1"])
    write_table(tmp_path / "two" / "samples.parquet", rows, SAMPLES)
    (tmp_path / "two" / "images").symlink_to(ran / "data" / "images")
    exported(ran, tmp_path / "out", DatasetCredits(description="Zwei 图."), {"d": tmp_path / "two"}, **GIVEN)
    assert "Zwei 图." in (tmp_path / "out" / "croissant.json").read_text(encoding="utf-8")
    about = document(tmp_path / "out")
    fields = {field["name"]: field for field in about["recordSet"][1]["field"]}
    lists = {
        name: {key: fields[name].get(key) for key in ("isArray", "arrayShape", "repeated")} for name in ("images", "choices", "question")
    }
    assert lists == {
        "images": {"isArray": True, "arrayShape": "-1", "repeated": True},
        "choices": {"isArray": True, "arrayShape": "-1", "repeated": None},
        "question": {"isArray": None, "arrayShape": None, "repeated": None},
    }
    written = pq.read_table(tmp_path / "out" / about["distribution"][0]["contentUrl"]).to_pylist()
    assert [len(row["images"]) for row in written] == [2, 1]


def test_where_it_is_from(ran, tmp_path):
    exported(ran, tmp_path, **GIVEN)
    about = document(tmp_path)
    assert about["license"] == "https://spdx.org/licenses/CC-BY-4.0.html" and about["citeAs"] == "@misc{d, title={D}}"
    assert [person["name"] for person in about["creator"]] == ["Ann", "Bo"] and about["datePublished"] == "2026-03-01"
    assert about["url"] == "https://example.org" and about["description"] == "Pictures." and about["rai:dataBiases"] == ["Few shapes."]


def test_what_nobody_says_is_left_out_and_counted(ran, tmp_path):
    made = exported(ran, tmp_path, DatasetCredits(licence="ask the authors", source="generated"))
    about = document(tmp_path)
    assert about["license"] == "ask the authors" and not {"creator", "datePublished", "url", "citeAs", "version"} & set(about)
    assert made.lost == {
        f"{name}, which Croissant requires and neither card nor options give": 1 for name in ("url", "creator", "datePublished")
    }


def test_several_data_sets_come_into_folders(ran, tmp_path):
    exported(ran, tmp_path, datasets={"d": ran / "data", "e": ran / "data"})
    assert document(tmp_path / "d")["name"] == "d" and (tmp_path / "e" / "data" / "samples.parquet").is_file()


def test_mistakes(ran, tmp_path):
    with pytest.raises(ExportError, match="expected a date as YYYY-MM-DD"):
        exported(ran, tmp_path, published="yesterday")
    write_table(tmp_path / "none" / "samples.parquet", [], SAMPLES)
    with pytest.raises(ExportError, match="dataset 'd' has no questions"):
        exported(ran, tmp_path, datasets={"d": tmp_path / "none"})


def test_equal_inputs_equal_bytes(ran, tmp_path):
    def export(made):
        made.datasets = {"d": ran / "data"}
        croissant(made)

    same_bytes(export, ran, tmp_path)


def test_mlcroissant_validates_and_loads_it(ran, tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed; pip install mlcroissant")
    exported(ran, tmp_path, **GIVEN)
    dataset = mlcroissant.Dataset(tmp_path / "croissant.json")
    assert not dataset.metadata.ctx.issues.errors and not dataset.metadata.ctx.issues.warnings
    assert dataset.metadata.data_biases == ["Few shapes."] and dataset.metadata.date_published == datetime(2026, 3, 1)
    assert dataset.metadata.cite_as == ABOUT.citation and dataset.metadata.distribution[0].sha256
    records = list(dataset.records("samples"))
    samples = read_table(ran / "data/samples.parquet", SAMPLES).to_pylist()
    assert [record["samples/sample_id"].decode() for record in records] == [sample["sample_id"] for sample in samples]
    assert records[0]["samples/image"].size == (48, 48) and records[1]["samples/image"] is None
    assert [text.decode() for text in records[12]["samples/choices"]] == OPTIONS and records[12]["samples/answer_index"] == 0
    assert records[0]["samples/answer_index"] is None and records[2]["samples/answerable"] is False
    assert [record["splits/name"] for record in dataset.records("splits")] == ["test"]


def test_mlcroissant_loads_several_pictures_of_a_question(ran, tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed; pip install mlcroissant")
    rows = read_table(ran / "data/samples.parquet", SAMPLES).to_pylist()[2:4]
    rows[0]["image_id"] = json.dumps(["p0", "p1"])
    write_table(tmp_path / "two" / "samples.parquet", rows, SAMPLES)
    (tmp_path / "two" / "images").symlink_to(ran / "data" / "images")
    exported(ran, tmp_path / "out", datasets={"d": tmp_path / "two"}, **GIVEN)
    records = list(mlcroissant.Dataset(tmp_path / "out" / "croissant.json").records("samples"))
    assert [[image.size for image in record["samples/images"]] for record in records] == [[(48, 48)] * 2, [(48, 48)]]
