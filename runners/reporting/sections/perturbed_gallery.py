"""One question under every perturbation: what models were shown of it, and what they said.

Lost without it: whether a strength leaves an image that a person could still answer from, which no score tells.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from qualm.registry import CLEAN, MODALITIES
from qualm.registry.formats.pictures import tile_images
from qualm.runners.data.dataset import BrokenSampleError, DatasetFolder, Variant, VariantInput, read_variants
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.examples import answer_text, options_of
from qualm.runners.reporting.text import display_name, visible
from qualm.runners.reporting.thumbnails import small

SIDE = 192
"""Longer side of an image on the page, in pixels."""
MAX_VARIANTS = 36
MODELS = 3


@dataclass
class Tile:
    """One question under one variant, with the models' answers."""

    name: str
    strength: str
    modality: str
    picture: str = ""
    """Image of the clean question, or of a variant that changes it."""
    no_image: str = ""
    question: str = ""
    """Likewise."""
    answers: list[tuple[str, str, bool]] = field(default_factory=list)
    """Model, what it said, and whether that is another answer than to the clean question."""


@dataclass
class Gallery:
    dataset: str
    sample_id: str
    right: str
    tiles: list[Tile]
    models: list[str]
    """Named where there are several."""
    there: int
    """Variants of the question, those that are not shown included."""


def gallery(results: Report) -> Gallery | None:
    """Return a question under up to MAX_VARIANTS variants; None if no variant was answered."""
    there = [d for d in results.datasets if d in results.samples]
    ordered = sorted(there, key=lambda d: not results.samples[d]["image_id"].drop_nulls().len())
    return next((drawn for dataset in ordered if (drawn := _of_dataset(results, dataset))), None)


def _of_dataset(results: Report, dataset: str) -> Gallery | None:
    """Return a dataset's gallery, one sample under its variants; None if none was perturbed."""
    answered = results.stage.inputs["generations"]
    models = [m for m in results.models if dataset in answered.get(m, {})][:MODELS]
    labels = [CLEAN, *(v["variant"] for v in results.stage.params["variants"])]
    answers = {m: results.source.texts(m, dataset, None).filter(pl.col("variant").is_in(labels)).collect() for m in models}
    sample_id = _chosen(results, dataset, models[0], answers[models[0]]) if models else None
    if sample_id is None:
        return None
    mine = {m: {r["variant"]: r for r in f.filter(pl.col("sample_id") == sample_id).iter_rows(named=True)} for m, f in answers.items()}
    sample = results.samples[dataset].row(by_predicate=pl.col("sample_id") == sample_id, named=True)
    options = options_of(sample)
    texts = {
        m: {v: answer_text(r["text"] or "", r["option"] if options else None, options) for v, r in rows.items()} for m, rows in mine.items()
    }
    tiles = _tiles(results, dataset, sample_id, texts)
    right = options[sample["answer_index"]] if options and sample["answer_index"] is not None else " / ".join(sample["references"] or [])
    names = [visible(m, 40) for m in models] if len(models) > 1 else []
    there = len(set().union(*texts.values()))
    return Gallery(visible(dataset, 80), visible(sample_id, 80), visible(right, 200), tiles, names, there - 1)


def _chosen(results: Report, dataset: str, model: str, answers: pl.DataFrame) -> str | None:
    samples = results.samples[dataset]
    pictured = samples.filter(pl.col("image_id").is_not_null())
    candidates = (samples if pictured.is_empty() else pictured).select("sample_id")
    applied = answers.join(candidates, on="sample_id", how="semi").group_by("sample_id").agg(pl.col("variant").n_unique().alias("n"))
    most = applied.filter(pl.col("n") == pl.col("n").max())["sample_id"].to_list()
    if applied.is_empty() or applied["n"].max() == 1:
        return None
    own = results.answers.filter((pl.col("dataset") == dataset) & (pl.col("model") == model) & (pl.col("correct") == 1.0))
    right = set(own["sample_id"].to_list())
    return str(min(most, key=lambda s: (s not in right, hashlib.sha256(f"{results.stage.seed}\x00{s}".encode()).digest())))


def _tiles(results: Report, name: str, sample_id: str, answers_by_model: dict[str, dict[str, str]]) -> list[Tile]:
    """Return the tiles of the clean question and of up to MAX_VARIANTS variants, by modality."""
    stage = results.stage
    there = [v for v in stage.params["variants"] if any(v["variant"] in t for t in answers_by_model.values())]
    entries = [{"variant": CLEAN, "plugin": None}, *sorted(there, key=lambda v: MODALITIES.index(v["modality"]))]
    dataset = DatasetFolder(name, Path(stage.inputs["datasets"][name]))
    row = next(i for i, s in enumerate(dataset.samples) if s["sample_id"] == sample_id)
    clean = dataset.item(row)
    selection = entries[: MAX_VARIANTS + 1]
    variants = zip(selection, read_variants(selection, stage.inputs.get("perturbed")), strict=True)
    tiles = [
        _tile(entry.get("plugin") or "", variant, variant.item(dataset, row), clean, stage.seed, answers_by_model)
        for entry, variant in variants
    ]
    for tile in tiles[1:]:
        tile.picture = tile.picture if tile.picture != tiles[0].picture else ""
    return tiles


def _tile(
    plugin: str, variant: Variant, item: VariantInput | None, clean: VariantInput, seed: int, by_model: dict[str, dict[str, str]]
) -> Tile:
    tile = Tile(display_name(plugin) if plugin else "Clean", visible(variant.name.partition("@")[2], 60), variant.modality)
    try:
        images, question = (item and variant.perturb(seed, item, item.images())) or ((), clean.question)
        tile.picture = small(tile_images(images), SIDE) if images else ""
    except BrokenSampleError as error:
        tile.no_image, question = visible(str(error), 120), clean.question
    if not plugin or question != clean.question:
        tile.question = visible(question, 300)
    for model, texts in by_model.items():
        if variant.name in texts:
            changed = texts[variant.name] != texts.get(CLEAN)
            tile.answers.append((visible(model, 40), visible(texts[variant.name], 120), changed))
    return tile
