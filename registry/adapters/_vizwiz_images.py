"""Images of the answer-difference annotations in today's VizWiz release, which names its images anew.

The annotations have the first release's names, of twelve digits; today's archives have eight, and equal numbers are not equal images.
Questions and answers are the same but for blanks, punctuation, letters outside ASCII, and "unsuitable", which today's release partly
rewrites to "unanswerable"; the ten answers keep their order.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from qualm.registry.adapters import AdapterError
from qualm.registry.adapters._official import read_records, require_record
from qualm.registry.formats.pictures import perceptual_hash

NAMES = "image_names.json"
"""An object {name in the annotations: path in the entry}."""
ASIDE = "image_names_aside.json"
"""An object {name in the annotations: why its image could not be identified}."""
SPLITS = ("train", "val", "test")
UNANSWERABLE = {"unanswerable", "unsuitable", "unsuitableimage"}
MIN_DISTINCT = 2
"""Distinct answers by which a question is recognised: ten times "unanswerable" to "What is this?" is of many images."""
MAX_BITS = 4
"""Bits of 64 in which the hashes of one photograph may differ."""

Key = tuple[str, tuple[str, ...]]


def match_images(folder: Path, files: Collection[str], progress: Callable[[str], None]) -> tuple[dict[str, str], list[str]]:
    """Match images by question or hash; return ({table file: JSON text}, counts in words).

    A question and its ten answers identify an image where one record here and one of today's has them. For the others, where
    `images/NAME` is there, the image of today's release whose hash is the only one close to it counts, or else `images/NAME` itself.
    Everything else is set aside with its reason. Nothing is matched where the folder has no annotations of today's release, or a
    table of names already.

    Args:
        folder: Annotations, today's `Annotations/SPLIT.json` and `SPLIT/VizWiz_SPLIT_*.jpg`, and `images/NAME` where they are kept.
    """
    todays = [folder / place for split in SPLITS if (place := f"Annotations/{split}.json") in files]
    records = dict(_annotated(folder, files))
    if not todays or not records or NAMES in files:
        return {}, []
    here, there = defaultdict(list), defaultdict(list)
    for name, key in records.items():
        here[key].append(name)
    for path in todays:
        for place, key in _released(path):
            there[key].append(place)
    names: dict[str, str] = {}
    aside: dict[str, tuple[str, str]] = {}
    for name, key in records.items():
        kind, detail = _match_or_doubt(key, here[key], there[key], files)
        if kind:
            aside[name] = kind, detail
        else:
            names[name] = detail
    by_text = len(names)
    unused = sorted(place for place in set(files) - set(names.values()) if place.startswith(tuple(f"{s}/VizWiz_" for s in SPLITS)))
    alike = _match_by_hash(folder, [name for name in aside if f"images/{name}" in files], unused, progress)
    names |= alike
    aside = {name: why for name, why in aside.items() if name not in alike}
    tables = {NAMES: names, ASIDE: {name: f"{kind}: {reason}" for name, (kind, reason) in aside.items()}}
    texts = {file: json.dumps(table, indent=1, sort_keys=True) + "\n" for file, table in tables.items()}
    return texts, _counts(records, by_text, alike, aside)


def _annotated(folder: Path, files: Collection[str]) -> Iterator[tuple[str, Key]]:
    for place in sorted(f for f in files if f.startswith(("Annotations/vizwiz_ans_difference_", "vizwiz/data/vizwiz_"))):
        for where, record in read_records(folder / place, "answer-difference annotations"):
            row = require_record(record, ("image", "question", "answers"), where)
            yield str(row["image"]), _key(row["question"], row["answers"], where)


def _released(path: Path) -> Iterator[tuple[str, Key]]:
    """Yield (image path, (question, answers)) of a VizWiz file, texts reduced to a-z and 0-9.

    The test split has no answers.
    """
    for where, record in read_records(path, "VizWiz-VQA's annotations"):
        row = require_record(record, ("image", "question"), where)
        answers = row.get("answers", [])
        if not isinstance(answers, list):
            raise AdapterError(f"{where}: answers: expected a list, got {answers!r:.60}")
        texts = [require_record(answer, ("answer",), where)["answer"] for answer in answers]
        yield f"{path.stem}/{row['image']}", _key(row["question"], texts, where)


def _key(question: Any, answers: Any, where: str) -> Key:
    if not isinstance(question, str) or not isinstance(answers, list) or not all(isinstance(a, str) for a in answers):
        raise AdapterError(f"{where}: expected a question and a list of answers, all of them texts, got {question!r:.40}, {answers!r:.60}")
    letters = (_letters(answer) for answer in answers)
    return _letters(question), tuple("unanswerable" if a in UNANSWERABLE else a for a in letters)


def _letters(text: str) -> str:
    return re.sub("[^a-z0-9]", "", text.lower())


def _match_or_doubt(key: Key, annotated: Collection[str], released: list[str], files: Collection[str]) -> tuple[str, str]:
    """Return ("", path of the new image) for a certain match, else (kind of doubt, reason)."""
    question, answers = key
    if not question or len(set(answers)) < MIN_DISTINCT:
        return "ambiguous", "its question is empty, or its ten answers are equal; either fits many images"
    if not released:
        return "unmatched", "no record of today's release has its question and answers"
    if len(annotated) > 1 or len(released) > 1:
        return "ambiguous", "several questions of the annotations, or of today's release, have this text and these answers"
    if released[0] not in files:
        return "unmatched", "its image of today's release is not among the files"
    return "", released[0]


def _match_by_hash(folder: Path, names: list[str], todays: list[str], progress: Callable[[str], None]) -> dict[str, str]:
    """Return {old: path of the one new image that only it is near to, else `images/NAME`}.

    Hashes are near if at most MAX_BITS bits differ. No other old image may have a hash near to the new one.
    """
    if not names:
        return {}
    old, new = (_hashes(folder, places, progress) for places in ([f"images/{name}" for name in names], todays))
    close = np.bitwise_count(old[0][:, None] ^ new[0][None, :]) <= MAX_BITS if len(todays) else np.zeros((len(names), 0), bool)
    close &= old[1][:, None] & new[1][None, :]
    single = (close.sum(axis=1) == 1)[:, None] & (close.sum(axis=0) == 1)[None, :] & close
    pairs = dict(zip(*np.nonzero(single), strict=True))
    return {name: todays[pairs[i]] if i in pairs else f"images/{name}" for i, name in enumerate(names)}


def _hashes(folder: Path, places: list[str], progress: Callable[[str], None]) -> tuple[np.ndarray, np.ndarray]:
    """Return (perceptual hashes, uint64; mask of readable images), one item per path each."""
    found: list[int | None] = []
    for place in places:
        progress(place)
        found.append(perceptual_hash((folder / place).read_bytes()))
    return np.array([value or 0 for value in found], np.uint64), np.array([value is not None for value in found], bool)


def _counts(records: Collection[str], by_text: int, alike: Mapping[str, str], aside: Mapping[str, tuple[str, str]]) -> list[str]:
    kept = sum(place.startswith("images/") for place in alike.values())
    kinds = Counter(kind for kind, _ in aside.values())
    reasons = Counter(why for _, why in aside.values())
    return [
        f"images of {len(records):,} questions: {by_text:,} matched by question and answers, {len(alike) - kept:,} by image hash, "
        f"{kept:,} kept under their old names, {kinds['ambiguous']:,} ambiguous, {kinds['unmatched']:,} unmatched",
        *(f"{n:,} set aside: {why}" for why, n in reasons.most_common()),
        *([f"{ASIDE} names each; they are left out where images are read"] if aside else []),
    ]
