"""Why people answer a question about an image differently. Bhattacharya, Li, Gurari, 2019 (ICCV).

Five people marked, for each question, which of ten reasons apply; the counts are what VLM-UQBench's subsets are cut from.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_image, read_records, require_record, require_text
from qualm.registry.adapters._vizwiz_images import ASIDE, NAMES, match_images
from qualm.registry.adapters.vizwiz import count_unanswerable
from qualm.registry.sample import Image, Sample

REASONS = ("LQI", "IVE", "INV", "DFF", "AMB", "SBJ", "SYN", "GRN", "SPM", "OTH")
"""In the order of `ans_dis_labels`: low-quality image, insufficient visual evidence, invalid, difficult, ambiguous, subjective,
synonyms, granularity, spam, other."""
META = ["LQI", "IVE", "INV", "DFF", "AMB", "SBJ", "SYN", "GRN", "SPM", "OTH", "answer_type", "said_unanswerable", "src_dataset"]
KEYS = ("qid", "image", "question", "answers", "ans_type", "src_dataset", "ans_dis_labels")
PEOPLE = 5
ANSWERS = 10


def vizwiz_ans_difference(
    context: AdapterContext,
    *,
    dataset: Literal["vizwiz", "vqa"] = "vizwiz",
    split: Literal["train", "val", "test"] = "val",
    images: bool = True,
) -> Iterator[Image | Sample]:
    """Yield questions on which people disagree; `meta` counts reasons by five annotators.

    `meta.LQI` ... `meta.OTH` count how many of five people ticked each reason. The files are
    `Annotations/DATASET_ans_difference_SPLIT.json`, or `vizwiz/data/vizwiz_SPLIT.json` as in the authors' repository. `sample_id` is the
    record's `qid`. References are the ten answers. The category is `ans_type` with `-` for `/`. `answerable` is not in the files and is
    true for all; `meta.said_unanswerable` counts answers that say "unanswerable".

    The files name images by VizWiz's first naming (twelve digits). Today's release has eight digits, and equal numbers are not equal
    images. So an image is read only from `images/NAME` under the record's name, or as `image_names.json` says. `qualm data add` writes
    that table if the folder has today's annotations, and lists questions with an unidentified image in `image_names_aside.json`. These
    are left out, and a note counts those that the spec selects.

    Args:
        dataset: Questions of VizWiz, or of VQA.
        split: As released.
        images: Read the images; false gives questions without them, for counting and for recorded answers.

    Raises:
        AdapterError: a file, key, count or image is not as in the release. Nothing is guessed.
    """
    source = context.need_source("vizwiz_ans_difference")
    path = _annotations(source, dataset, split)
    names, aside = (_read_names(source / NAMES), _read_names(source / ASIDE, several=True)) if images else ({}, {})
    left_out = 0
    for where, record in read_records(path, "answer-difference annotations", context=context):
        with context.record():
            sample = _sample(require_record(record, KEYS, where, others=()), dataset, split, images, where)
            if record["image"] in aside:
                left_out += context.selects(sample)
                continue
            yield from context.selected(sample, _image, source, record["image"], sample.image_id, names, where)
    if left_out:
        context.note(f"{left_out:,} questions are left out, as their images could not be identified; {ASIDE} of the entry says why")


derived_files = match_images
"""Makes the tables of image names from today's release (`qualm.registry.adapters.DerivedFiles`)."""


def _annotations(source: Path, dataset: str, split: str) -> Path:
    places = [source / "Annotations" / f"{dataset}_ans_difference_{split}.json"]
    places += [source / "vizwiz" / "data" / f"vizwiz_{split}.json"] if dataset == "vizwiz" else []
    file = next((path for path in places if path.is_file()), None)
    if file is None:
        raise AdapterError(f"expected the annotations at {' or '.join(map(str, places))}, found none")
    return file


def _sample(record: dict[str, Any], dataset: str, split: str, images: bool, where: str) -> Sample:
    counts, answers = record["ans_dis_labels"], record["answers"]
    if not isinstance(counts, list) or len(counts) != len(REASONS) or not all(type(c) is int and 0 <= c <= PEOPLE for c in counts):
        expected = f"{len(REASONS)} whole numbers from 0 to {PEOPLE}, for {', '.join(REASONS)}"
        raise AdapterError(f"{where}: ans_dis_labels: expected {expected}; got {counts!r:.80}")
    if not isinstance(answers, list) or len(answers) != ANSWERS or not all(isinstance(a, str) for a in answers):
        raise AdapterError(f"{where}: answers: expected {ANSWERS} texts, got {answers!r:.80}")
    kind, name = require_text(record, "ans_type", where), require_text(record, "image", where)
    image_id = Path(name).stem
    meta = {reason: str(count) for reason, count in zip(REASONS, counts, strict=True)}
    meta |= {"answer_type": kind, "said_unanswerable": str(count_unanswerable(tuple(answers)))}
    return Sample(
        sample_id=require_text(record, "qid", where),
        question=require_text(record, "question", where),
        image_id=image_id if images else None,
        references=tuple(answers),
        category=kind.replace("/", "-"),
        split=split,
        source=f"vizwiz_ans_difference/{dataset}",
        group=image_id,
        meta=meta | {"src_dataset": require_text(record, "src_dataset", where)},
    )


def _read_names(path: Path, several: bool = False) -> Mapping[str, str]:
    """Return {annotated image name: path or reason}, {} without the file; else AdapterError."""
    if not path.is_file():
        return {}
    try:
        names = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise AdapterError(f"{path}: expected an object of image names: {error}") from error
    if not isinstance(names, dict) or not all(isinstance(v, str) for v in names.values()):
        raise AdapterError(f"{path}: expected an object {{name in the annotations: path in the entry}}")
    if not several and len(set(names.values())) < len(names):
        twice = next(v for v in names.values() if list(names.values()).count(v) > 1)
        raise AdapterError(f"{path}: two names stand for one image: {twice}; two records' images are never the same file")
    return names


def _image(source: Path, name: str, image_id: str, names: Mapping[str, str], where: str) -> Image:
    if names and name not in names:
        raise AdapterError(f"{where}: {NAMES} has no image for '{name}'; expected all {len(names):,} of its names and this one")
    places = (names[name],) if names else (f"images/{name}",)
    try:
        return read_image(source, places, image_id, where)
    except AdapterError as error:
        raise AdapterError(
            f"{error}. Today's VizWiz release renumbers its images, so they cannot be matched by number: add the entry with the images "
            f"under the names of the annotations, or with today's Annotations/*.json and images, from which `qualm data add` makes "
            f"{NAMES}; or say `images: false`"
        ) from None
