"""Input of a model for one question: the text after its chat template, or a request's body."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from qualm.registry.formats.picture_lists import picture_ids
from qualm.runners.contracts.models import Remote, Request
from qualm.runners.inference.open_inference import open_inference
from qualm.runners.inference.requests import Asker
from qualm.runners.runtime.code_digest import find_engine
from qualm.runners.runtime.stage import Stage, StageError


def model_input(stage: Stage, dataset: str, sample: str | None, variant: str) -> dict[str, Any]:
    """Return a dict of what a model is sent for one sample (None: the first), without weights.

    Args:
        stage: of the model.
        dataset: its name, one of the stage's.
        sample: its id; by default the first sample that is asked.
        variant: name of the perturbation.

    Returns:
        `sample`; `images`, as they are shown in the text; and `body` of a request, or `text`.

    Raises:
        StageError: no such sample or variant, or the model's answers are recorded.
        ModelError: the model cannot be had.
    """
    job = open_inference(stage)
    if hasattr(job.model, "lookup"):
        raise StageError(f"model '{stage.params['model']['label']}': its answers are recorded; nothing is sent")
    folder = next(d for d in job.datasets if d.name == dataset)
    rows = [row for row, one in enumerate(folder.samples) if sample in (None, one["sample_id"])]
    variants = [v for v in job.variants if v.name == variant]
    if not variants:
        raise StageError(
            f"expected a variant of dataset '{dataset}', got '{variant}'; there are: {', '.join(v.name for v in job.variants)}"
        )
    if not rows:
        raise StageError(
            f"dataset '{dataset}' has no sample '{sample}' that models answer; the first one that has is '{folder.samples[0]['sample_id']}'"
        )
    asker = Asker(job.model, find_engine(job.module), [folder.only(rows[:1])], variants, job.needs, stage)
    cells, broken = asker.survey()
    if not cells:
        raise StageError("; ".join(broken) or f"variant '{variant}' does not apply to this sample")
    request = asker.request(cells[0].place, asker.parts(cells[0].options)[:1])
    row = asker.datasets[0].samples[0]
    images = _images(request, picture_ids(row["image_id"]))
    contents = {"sample": row["sample_id"], "images": images}
    if isinstance(job.model, Remote):
        return {**contents, "body": job.model.body(request, images, asker.decoding)}  # type: ignore[attr-defined]
    return {**contents, "text": _with_images(request.prompt, getattr(job.model, "image_marks", ()), images)}


def _images(request: Request, names: Sequence[str]) -> list[str]:
    examples = len(request.asked.example_images)
    of = [*(f"example {n + 1}" for n in range(examples)), *names]
    return [f"<image: {name}, {image.width}x{image.height}>" for name, image in zip(of, request.images, strict=False)]


def _with_images(text: str, marks: Sequence[str], images: Sequence[str]) -> str:
    """Return a prompt with image descriptions in place of `marks`, or after it if none fits."""
    mark = next((mark for mark in marks if images and text.count(mark) == len(images)), None)
    if mark is None:
        return "\n".join([text, *images]) if images else text
    first, *others = text.split(mark)
    return first + "".join(image + other for image, other in zip(images, others, strict=True))


def format_input(contents: dict[str, Any]) -> str:
    """Return the text or request body of `model_input` as it is printed."""
    return contents["text"] if "text" in contents else json.dumps(contents["body"], indent=1, ensure_ascii=False)
