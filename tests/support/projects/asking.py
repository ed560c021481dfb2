"""Samples, variants and a model that only renders, so that what is asked of a model can be worked out by hand."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.data.dataset import DatasetFolder, Variant, read_variants
from qualm.runners.inference.requests import Asker
from qualm.runners.runtime.code_digest import Engine
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from tests.support.projects.tiny_project import CLEAN

ENGINE = Engine(("models/words",), {"draws": 1}, "")


class Words:
    """Renders a conversation as its texts, `<image>` for a picture; says of itself what is never read."""

    digest = "d" * 64

    def render(self, turns: Sequence[dict[str, Any]]) -> str:
        return "\n".join("<image>" if part["type"] == "image" else part["text"] for turn in turns for part in turn["content"])


def picture(seed: int, side: int = 56) -> PIL.Image.Image:
    return PIL.Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8))


def png(image: PIL.Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def sample(name: str, image: str | None, question: str, choices: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "sample_id": name, "image_id": image, "question": question, "references": [], "choices": list(choices),
        "answer_index": 0 if choices else None, "category": "", "answerable": True, "split": "test", "source": "", "group": "", "meta": {},
    }  # fmt: skip


def write_samples(folder: Path, samples: Sequence[dict[str, Any]], pictures: dict[str, bytes]) -> Path:
    write_table(folder / "samples.parquet", list(samples), SAMPLES)
    rows = [{"image_id": name, "image": {"bytes": data, "path": name}} for name, data in pictures.items()]
    write_table(folder / "images" / "00000.parquet", rows, IMAGES)
    return folder


def bare_stage(params: dict[str, Any] | None = None, seed: int = 7, **settings: Any) -> Stage:
    own = {"device": "cpu", "workers": 2, "progress": False, **settings}
    return Stage("t/infer", "t", "infer", "infer", {"max_new_tokens": 4, **(params or {})}, {}, {}, seed, Settings(**own))


def asker_of(
    folders: dict[str, Path],
    variants: Sequence[dict[str, Any] | Variant] = (CLEAN,),
    needs: Sequence[str] = ("text",),
    model: Any = None,
    stage: Stage | None = None,
    **params: Any,
) -> Asker:
    """Of these datasets, in this order."""
    datasets = [DatasetFolder(name, folder) for name, folder in folders.items()]
    listed = [v if isinstance(v, Variant) else read_variants([v])[0] for v in variants]
    return Asker(model or Words(), ENGINE, datasets, listed, frozenset(needs), stage or bare_stage(params))
