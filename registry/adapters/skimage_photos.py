"""Fifty pairs of questions about photographs that the package scikit-image installs.

The questions were written for Qualm. The photographs stay in the package; their digests make every release of scikit-image give the same
dataset or an error.
"""

import hashlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records
from qualm.registry.plugins.extras import install_line
from qualm.registry.sample import Image, Sample
from qualm.registry.system.textfiles import read_bytes

ASSETS = ("skimage_photos.jsonl",)
EXTRA = "photographs"
META = ["form"]
QUESTIONS = Path(__file__).with_name(ASSETS[0])
PHOTOGRAPHS = {
    "astronaut.png": "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
    "brick.png": "7966caf324f6ba843118d98f7a07746d22f6a343430add0233eca5f6eaaa8fcf",
    "camera.png": "b0793d2adda0fa6ae899c03989482bff9a42d3d5690fc7e3648f2795d730c23a",
    "cell.png": "8d23a7fb81f7cc877cd09f330357fc7f595651306e84e17252f6e0a1b3f61515",
    "chelsea.png": "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
    "clock_motion.png": "f029226b28b642e80113d86622e9b215ee067a0966feaf5e60604a1e05733955",
    "coffee.png": "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
    "coins.png": "f8d773fc9cfa6f4d8e5942dc34d0a0788fcaed2a4fefbbed0aef5398d7ef4cba",
    "grass.png": "b6b6022426b38936c43a4ac09635cd78af074e90f42ffa8227ac8b7452d39f89",
    "gravel.png": "c48615b451bf1e606fbd72c0aa9f8cc0f068ab7111ef7d93bb9b0f2586440c12",
    "hubble_deep_field.jpg": "3a19c5dd8a927a9334bb1229a6d63711b1c0c767fb27e2286e7c84a3e2c2f5f4",
    "ihc.png": "f8dd1aa387ddd1f49d8ad13b50921b237df8e9b262606d258770687b0ef93cef",
    "retina.jpg": "38a07f36f27f095e818aea7b96d34202c05176d30253c66733f2e00379e9e0e6",
    "rocket.jpg": "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c",
    "text.png": "bd84aa3a6e3c9887850d45d606c96b2e59433fbef50338570b63c319e668e6d1",
}
"""File of `skimage/data` -> its SHA-256."""
ABSTENTIONS = {
    "epistemic/knowledge": "The photograph does not tell this.",
    "epistemic/complexity": "This cannot be counted.",
    "epistemic/extraneous": "There is no such thing in the photograph.",
    "aleatoric/temporal": "The photograph does not tell what happens at another time.",
    "aleatoric/ambiguity": "It is unclear which one is meant.",
}
"""Category -> reference answer of its unanswerable questions."""


def skimage_photos(context: AdapterContext) -> Iterator[Image | Sample]:
    """Yield 50 pairs of an answerable and an unanswerable question on photographs.

    Two questions about one photograph form a pair. The photograph answers the first one; the second is unanswerable for the reason that is
    the pair's category. All questions about a photograph are one group. `meta.form` is `open`, or `choice` for a question that lists its
    options as lines A to D, so that a model may abstain.

    Raises:
        AdapterError: scikit-image is not installed, or a photograph of it is missing or another one.
    """
    for _, record in read_records(QUESTIONS, "the questions about scikit-image's photographs", context=context):
        for answerable in (True, False):
            yield from context.selected(_sample(record, answerable), read_photograph, record["photograph"])


def _sample(record: dict[str, Any], answerable: bool) -> Sample:
    question = record["question" if answerable else "unanswerable"]
    return Sample(
        sample_id=f"{record['id']}-{'answerable' if answerable else 'unanswerable'}",
        question=question,
        image_id=Path(record["photograph"]).stem,
        references=tuple(record["answers"]) if answerable else (ABSTENTIONS[record["category"]],),
        category=record["category"],
        answerable=answerable,
        source="skimage_photos",
        group=Path(record["photograph"]).stem,
        meta={"form": "choice" if "\n" in question else "open"},
        pair_id=record["id"],
    )


def read_photograph(name: str) -> Image:
    """Read a photograph that scikit-image installs; AdapterError if missing or changed."""
    spec = find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        raise AdapterError(f"skimage_photos: the photographs come with scikit-image, which is not installed: `{install_line(EXTRA)}`")
    path = Path(spec.submodule_search_locations[0]) / "data" / name
    if not path.is_file():
        raise AdapterError(f"{path}: expected a photograph of scikit-image, found none; reinstall scikit-image")
    data = read_bytes(path, what="a photograph of scikit-image")
    if hashlib.sha256(data).hexdigest() != PHOTOGRAPHS[name]:
        raise AdapterError(f"{path}: not the photograph that the questions are about; install scikit-image 0.26")
    return Image(path.stem, data, name)
