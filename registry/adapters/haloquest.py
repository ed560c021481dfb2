"""HaloQuest: questions that invite hallucination, about real and generated images. Wang, Bingham, Yu, Le, Luong, Ghiasi, 2024 (ECCV).

`haloquest-eval.csv` and `haloquest-train.csv` have an unnamed first column with the row's number, image_name, url, image type,
hallucination type, question, groundtruth responses (several, separated by semicolons) and split. The images lie at their urls.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_rows, select
from qualm.registry.sample import Image, Sample

META = ["image_type", "responses", "url"]
COLUMNS = ("", "image_name", "url", "image type", "hallucination type", "question", "groundtruth responses", "split")
UNANSWERABLE = {"false premises": "false premise", "insufficient context": "insufficient context"}
TYPES = {**UNANSWERABLE, "visual challenge": "visual challenge"}


def haloquest(
    context: AdapterContext,
    *,
    parts: list[Literal["eval", "train"]] = ["eval"],  # noqa: B006 - a literal, never changed
    pictures: bool = True,
) -> Iterator[Image | Sample]:
    """Yield HaloQuest's questions; each part is a split; without images if not `pictures`.

    Questions with a false premise or too little context are unanswerable: `answerable: false`, no references, the release's responses in
    `meta.responses`. For visually challenging questions the responses are the references. The category is the hallucination type.
    Questions on one image are a group.

    Args:
        parts: `eval` (608 questions), `train` (7,140).
        pictures: read images/IMAGE_NAME, or, for the 18 rows of `train` without a name, the last part of the url; false = questions alone.

    Raises:
        AdapterError: a file, column or image is missing, or a row is of another kind.
    """
    source = context.need_source("haloquest")
    for part in parts:
        rows = read_rows(source / f"haloquest-{part}.csv", f"HaloQuest, part {part}", COLUMNS, context)
        for where, row in rows:
            with context.record():
                sample = _sample(row, part, pictures, where)
                yield from select(context, sample, (f"images/{sample.image_id}",), where)


def _sample(row: dict[str, str], part: str, pictures: bool, where: str) -> Sample:
    name = row["image_name"] or PurePosixPath(unquote(urlsplit(row["url"]).path)).name
    kind, question = row["hallucination type"], row["question"].strip()
    responses = tuple(dict.fromkeys(text.strip() for text in row["groundtruth responses"].split(";") if text.strip()))
    if kind not in TYPES:
        raise AdapterError(f"{where}: hallucination type: expected one of {', '.join(TYPES)}, got {kind!r:.60}")
    if not row[""].isdecimal() or not name or not question or not responses:
        raise AdapterError(f"{where}: expected a number, an image, a question and responses, got {row!r:.200}")
    return Sample(
        sample_id=f"{part}-{row['']}",
        question=question,
        image_id=name if pictures else None,
        references=() if kind in UNANSWERABLE else responses,
        category=TYPES[kind],
        answerable=kind not in UNANSWERABLE,
        split=part,
        source="haloquest",
        group=name,
        meta={"image_type": row["image type"], "responses": "; ".join(responses), "url": row["url"]},
    )
