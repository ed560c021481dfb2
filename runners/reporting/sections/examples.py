"""A sample of questions to look at: typical right and wrong answers, the most confident wrong ones, the least confident right ones."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from qualm.registry import option_label
from qualm.registry.formats.picture_lists import all_ids, picture_ids
from qualm.registry.sample import IMAGES
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.text import number, visible
from qualm.runners.reporting.thumbnails import decode_side_by_side, small
from qualm.runners.runtime.records import iterate_rows

SIDE = 208
"""Longest side of a thumbnail in pixels."""
BUDGET = 2_300_000
"""Bytes of all thumbnails together, so that the page stays easy to mail."""
THOUGHT = 1200
"""Characters of a model's thinking that are shown."""
KINDS = ("most confident wrong", "wrong", "least confident right", "right", "unscored")


@dataclass
class AnswerView:
    """One model's answer as an example card shows it."""

    model: str
    text: str
    verdict: str
    confidence: str
    width: int
    """Confidence in percent, for a bar."""
    why: str = ""
    """For which of `KINDS` this answer was picked, if it was."""
    thinking: str = ""


@dataclass
class ExampleView:
    """One question with every model's answer, as an example card shows it."""

    dataset: str
    sample_id: str
    question: str
    references: list[str]
    choices: list[tuple[str, bool]]
    category: str
    answerable: bool
    thumbnail: str = ""
    no_image: str = ""
    several: bool = False
    """True if the thumbnail has several images; then it is as wide as the card."""
    answers: list[AnswerView] = field(default_factory=list)


def examples(results: Report, how_many: int, datasets: list[str]) -> list[ExampleView]:
    """Return up to `how_many` example questions, shared among datasets, the same for a seed."""
    questions: list[ExampleView] = []
    spent = 0
    for place, dataset in enumerate(datasets):
        share = how_many // len(datasets) + (place < how_many % len(datasets))
        picks = _pick(results, dataset, share)
        samples = {r["sample_id"]: r for r in results.samples[dataset].filter(pl.col("sample_id").is_in(list(picks))).to_dicts()}
        image_ids = all_ids(samples[s]["image_id"] for s in picks)
        images = images_of(Path(results.stage.inputs["datasets"][dataset]) / "images", image_ids)
        answers = results.answers_to(dataset, picks)
        for sample_id, why in picks.items():
            example = _example(dataset, samples[sample_id], answers.filter(pl.col("sample_id") == sample_id), why, results.models)
            image_id = samples[sample_id]["image_id"]
            if image_id:
                example.thumbnail, example.no_image = thumbnail([images.get(name) for name in picture_ids(image_id)], BUDGET - spent)
                example.several = len(picture_ids(image_id)) > 1
                spent += len(example.thumbnail)
            questions.append(example)
    return questions


def _pick(results: Report, dataset: str, how_many: int) -> dict[str, dict[str, str]]:
    """Return up to `how_many` sample ids -> {model: why}, chosen in turn by model and kind."""
    queues = []
    for model in results.models:
        rows = results.answers.filter((pl.col("dataset") == dataset) & (pl.col("model") == model))
        salt = hashlib.sha256(f"{results.stage.seed}\x00{model}\x00{dataset}".encode()).digest()
        shuffled = rows[np.random.default_rng(int.from_bytes(salt[:8], "big")).permutation(rows.height)]
        scored = shuffled.filter(pl.col("correct").is_finite())
        sure = pl.col("confidence").is_finite()
        wrong, right = scored.filter(pl.col("correct") < 0.5), scored.filter(pl.col("correct") >= 0.5)
        queues += [
            (model, "most confident wrong", wrong.filter(sure).sort("confidence", descending=True, maintain_order=True)["sample_id"]),
            (model, "wrong", wrong["sample_id"]),
            (model, "least confident right", right.filter(sure).sort("confidence", maintain_order=True)["sample_id"]),
            (model, "right", right["sample_id"]),
            (model, "unscored", shuffled.filter(~pl.col("correct").is_finite() | pl.col("correct").is_null())["sample_id"]),
        ]
    queues.sort(key=lambda q: KINDS.index(q[1]))
    lists = [(model, kind, iter(ids)) for model, kind, ids in queues]  # a few thousand of them are Python's strings at a time
    picks: dict[str, dict[str, str]] = {}
    while lists and len(picks) < how_many:
        going = []
        for model, kind, rest in lists:
            fresh = next((s for s in rest if s not in picks), None) if len(picks) < how_many else None
            if fresh is not None:
                picks[fresh] = {model: kind}
                going.append((model, kind, rest))
        lists = going
    return picks


def _example(dataset: str, sample: dict[str, Any], answers: pl.DataFrame, why: dict[str, str], models: list[str]) -> ExampleView:
    options = options_of(sample)
    right = sample["answer_index"]
    example = ExampleView(
        visible(dataset, 80),
        visible(sample["sample_id"], 80),
        visible(sample["question"] or ""),
        [visible(r, 200) for r in (sample["references"] or [])[:6]],
        [(f"{option_label(i)}  {visible(c, 200)}", i == right) for i, c in enumerate(options)],
        visible(sample["category"] or "", 80),
        sample["answerable"] is not False,
    )
    rows = {r["model"]: r for r in answers.iter_rows(named=True)}
    example.answers = [_answer(rows[model], options, why.get(model, "")) for model in models if model in rows]
    return example


def _answer(row: dict[str, Any], options: list[str], why: str) -> AnswerView:
    without = say.NO_ANSWER.format(reason=row["no_answer"]) if row["no_answer"] else ""
    text = answer_text(row["text"], row["predicted"], options) or without
    thought = visible(row["thinking"] or "", THOUGHT)
    bar = confidence_bar(row["confidence"])
    return AnswerView(visible(row["model"], 80), visible(text, 240), verdict(row["correct"]), *bar, why, thought)


def confidence_bar(confidence: float | None) -> tuple[str, int]:
    """Return a confidence as text and as a bar's width in percent; a dash and 0 if none."""
    if confidence is None or not math.isfinite(confidence):
        return "–", 0
    return number(confidence, 2), round(100 * min(max(confidence, 0.0), 1.0))


def options_of(sample: dict[str, Any]) -> list[str]:
    """Return the options of a multiple-choice question; [] for an open one."""
    return [c or "" for c in sample["choices"] or []]


def answer_text(text: str, picked: int | None, options: list[str]) -> str:
    """Return an answer as text; if an option is picked, its label and text."""
    if not options or picked is None:
        return text
    return f"{option_label(picked)}  {options[picked]}" if picked < len(options) else option_label(picked)


def verdict(correct: float | None) -> str:
    if correct is None or math.isnan(correct):
        return "unscored"
    if correct in (0.0, 1.0):
        return "right" if correct else "wrong"
    return "partly"


def images_of(folder: Path, image_ids: set[str]) -> dict[str, bytes]:
    """Return image id -> image bytes; images that are not in the folder are left out."""
    images: dict[str, bytes] = {}
    if not image_ids or not folder.is_dir():
        return images
    for row in iterate_rows(folder, IMAGES, batch_size=256):
        if row["image_id"] in image_ids and row["image"] is not None and row["image"]["bytes"]:
            images[row["image_id"]] = row["image"]["bytes"]
            if len(images) == len(image_ids):
                break
    return images


def thumbnail(files: Sequence[bytes | None], max_bytes: int) -> tuple[str, str]:
    """Return (data URI of re-encoded images side by side, "") or ("", why there is none)."""
    picture, why = decode_side_by_side(files)
    if picture is None:
        return "", why
    uri = small(picture, SIDE * min(len(files), 3))
    return (uri, "") if len(uri) <= max_bytes else ("", say.IMAGE_LEFT_OUT)
