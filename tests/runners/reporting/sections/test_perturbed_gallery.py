"""One question under every perturbation: the images, questions and answers that models were shown and gave."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image, ImageFilter

from qualm.registry.sample import GENERATIONS, IMAGES, SAMPLES
from qualm.runners.contracts.perturbations import random_generator
from qualm.runners.plugins.perturbations.typos import typos
from qualm.runners.reporting.load import read_report
from qualm.runners.reporting.sections import perturbed_gallery as module
from qualm.runners.reporting.sections.perturbed_gallery import Gallery, gallery
from qualm.runners.runtime.records import read_table, write_table

BLUR = [{"variant": f"blur@radius={r}", "plugin": "blur", "modality": "image", "args": {"radius": r}} for r in (2.0, 10.0)]
TYPOS = {"variant": "typos@p=0.5", "plugin": "typos", "modality": "text", "args": {"p": 0.5}}


def shown(stage: Any) -> Gallery:
    found = gallery(read_report(stage))
    assert found is not None
    return found


def pixels(uri: str) -> np.ndarray[Any, Any]:
    assert uri.startswith("data:image/jpeg;base64,")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))).convert("RGB")).astype(int)


def original(fabric: Any, found: Gallery) -> Image.Image:
    folder = Path(fabric.inputs["datasets"][found.dataset])
    image_id = pl.from_arrow(read_table(folder / "samples.parquet", SAMPLES)).filter(pl.col("sample_id") == found.sample_id)["image_id"][0]
    rows = read_table(folder / "images" / "00000.parquet", IMAGES).to_pylist()
    data = next(r["image"]["bytes"] for r in rows if r["image_id"] == image_id)
    return Image.open(io.BytesIO(data)).convert("RGB")


def test_pictures_are_those_of_the_variants(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate()
    found = shown(fabric.stage(variants=BLUR))
    clean, weak, strong = found.tiles
    assert (clean.name, weak.name, weak.strength, strong.modality) == ("Clean", "blur", "radius=2.0", "image")
    whole = original(fabric, found)
    for tile, radius in ((clean, 0), (weak, 2), (strong, 10)):
        expected = whole.filter(ImageFilter.GaussianBlur(radius)) if radius else whole
        expected.thumbnail((module.SIDE, module.SIDE), Image.Resampling.LANCZOS)
        assert np.abs(pixels(tile.picture) - np.asarray(expected).astype(int)).mean() < 3, "but for what JPEG loses"
    assert clean.question.startswith("What color") and weak.question == strong.question == ""


def test_answers_are_those_of_the_table_and_others_than_the_clean_one_are_marked(fabricate: Callable[..., Any]) -> None:
    for dataset in ("open", "choice"):
        fabric = fabricate(datasets=(dataset,), n=20)
        found = shown(fabric.stage(variants=BLUR))
        assert found.models == ["large", "small"]
        for model in found.models:
            table = pl.read_parquet(fabric.inputs["generations"][model][dataset]).filter(pl.col("sample_id") == found.sample_id)
            rows = {r["variant"]: r for r in table.iter_rows(named=True)}
            sample = int(found.sample_id.rpartition("-")[2])

            def words(row: dict[str, Any], dataset: str = dataset, sample: int = sample, fabric: Any = fabric) -> str:
                picked = int(np.argmax(row["option_logits"])) if dataset == "choice" else 0
                return f"{'ABCDEF'[picked]} {fabric.answer(sample + picked)}" if dataset == "choice" else str(row["text"])

            for tile, variant in zip(found.tiles, ("clean", "blur@radius=2.0", "blur@radius=10.0"), strict=True):
                ((text, changed),) = [(text, changed) for who, text, changed in tile.answers if who == model]
                assert " ".join(text.split()) == words(rows[variant])
                assert changed == (words(rows[variant]) != words(rows["clean"]))
        assert found.right == fabric.answer(int(found.sample_id.rpartition("-")[2]))
        first = pl.read_parquet(fabric.inputs["generations"]["large"][dataset]).filter(pl.col("variant") == "clean")
        assert first.height == 20 and found.tiles[0].answers[0][1].endswith(found.right), "a question that the first model answers right"


def test_a_question_that_is_changed_is_shown(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(models=("large",), datasets=("open",))
    path = fabric.inputs["generations"]["large"]["open"]
    table = pl.read_parquet(path)
    only = table.filter((pl.col("variant") == "clean") & (pl.col("sample_id") == "open-7")).with_columns(variant=pl.lit(TYPOS["variant"]))
    _rewrite(path, pl.concat([table.filter(pl.col("variant") == "clean"), only]))
    found = shown(fabric.stage(variants=[TYPOS]))
    clean, wrong = found.tiles
    assert found.sample_id == "open-7" and found.models == [], "the one to which most variants were applied"
    (expected,) = typos([clean.question], [random_generator(7, TYPOS["variant"], "open-7")], p=0.5)
    assert wrong.question == expected != clean.question and clean.picture and wrong.picture == ""


def test_what_a_stage_has_made_is_shown_from_its_folder(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    fabric = fabricate(models=("large",), datasets=("open",))
    made = tmp_path / "made" / "open"
    rows = pl.from_arrow(read_table(Path(fabric.inputs["datasets"]["open"]) / "samples.parquet", SAMPLES)).to_dicts()
    write_table(made / "samples.parquet", [r | {"question": "Something else?", "meta": {}} for r in rows], SAMPLES)
    fabric.inputs["perturbed"] = {"blur@radius=2.0": {"open": str(made)}}
    _, weak, strong = shown(fabric.stage(variants=[BLUR[0] | {"made": True}, BLUR[1]])).tiles
    assert (weak.question, weak.picture) == ("Something else?", "") and strong.picture and not strong.question


def test_only_so_many_are_shown_and_the_rest_is_counted(fabricate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VARIANTS", 1)
    found = shown(fabricate().stage(variants=BLUR))
    assert len(found.tiles) == 2 and found.there == 2


def test_a_picture_that_cannot_be_read_is_said_and_text_alone_has_none(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("open",))
    images = Path(fabric.inputs["datasets"]["open"]) / "images" / "00000.parquet"
    broken = [{"image_id": f"image-{i}", "image": {"bytes": b"no image", "path": f"{i}.png"}} for i in range(20)]
    write_table(images, broken, IMAGES)
    assert all("cannot be decoded" in tile.no_image and not tile.picture for tile in shown(fabric.stage(variants=BLUR)).tiles)


def test_a_data_set_that_stays_clean_is_passed_over(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(models=("large",), datasets=("choice", "open"))
    path = fabric.inputs["generations"]["large"]["choice"]
    _rewrite(path, pl.read_parquet(path).filter(pl.col("variant") == "clean"))
    assert shown(fabric.stage(variants=BLUR)).dataset == "open"


def test_where_nothing_was_perturbed_there_is_none(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(models=("large",), datasets=("open",))
    path = fabric.inputs["generations"]["large"]["open"]
    _rewrite(path, pl.read_parquet(path).filter(pl.col("variant") == "clean"))
    assert gallery(read_report(fabric.stage(variants=BLUR))) is None


def _rewrite(path: str, frame: pl.DataFrame) -> None:
    Path(path).unlink()
    write_table(Path(path), frame.to_dicts(), GENERATIONS)
