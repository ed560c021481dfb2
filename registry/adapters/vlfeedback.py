"""VLFeedback: answers of several models to one instruction, rated by GPT-4V; preferences for tuning. Li et al., 2023 (Silkie).

CertainlyUncertain calls it MMInstruction.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import check_image, number_repeats, read_image, read_records, require_record, require_text
from qualm.registry.adapters._parquet import cell_image, rows
from qualm.registry.sample import REJECTED, Image, Sample

META = ["rejected", "rating", "rejected_rating"]
ASPECTS = ("Helpfulness", "Visual Faithfulness", "Ethical Considerations")
FILE = "vlfeedback_80k.jsonl"


def vlfeedback(
    context: AdapterContext,
    *,
    pairs: Literal["all", "extremes"] = "all",
    aspects: list[Literal["Helpfulness", "Visual Faithfulness", "Ethical Considerations"]] | None = None,
    margin: float = 0.0,
) -> Iterator[Image | Sample]:
    """Yield a sample per preference: the better answer, the worse in `meta.rejected`.

    All samples are in split `train`. The files are `vlfeedback_80k.jsonl` with `images/`, or `data/*.parquet` with the images inside:
    records of `id`, `prompt` and `completions`, each with a `response` and `annotations` ({aspect: {Rating: "1".."5"}}). An answer's
    rating is the mean over the aspects; one without a number for each ("N/A") is left out. Two answers that differ by more than `margin`
    are a preference, for the fine-tune `dpo`. Preferences on one image are a group.

    Args:
        pairs: `all` of the answers to a prompt, as Silkie; or only `extremes`: the best against the worst, of equals the first.
        aspects: all three unless given.
        margin: how far apart ratings must be, on the scale from 1 to 5; equal ones are never a preference.

    Raises:
        AdapterError: a file, key or value is not as described. Nothing is guessed.
    """
    source = context.need_source("vlfeedback")
    repeated: Counter[str] = Counter()
    for where, record in _records(source, context):
        with context.record():
            require_record(record, ("id", "prompt", "completions"), where, others=("img_path", "image", "models"))
            image = _image(source, record, where)
            rated = _rated(record["completions"], aspects or ASPECTS, where)
            for sample in _preferences(record, image.image_id, rated, pairs, margin, repeated, where):
                yield from context.selected(sample, image)


def _records(source: Path, context: AdapterContext) -> Iterator[tuple[str, Any]]:
    shards = sorted((source / "data").glob("*.parquet"))
    if shards and not (source / FILE).is_file():
        return (row for path in shards for row in rows(path, context=context))
    return read_records(source / FILE, "VLFeedback's preferences (or data/*.parquet)", context=context)


def _image(source: Path, record: Mapping[str, Any], where: str) -> Image:
    """Return a record's image; its id ends with a digest, since the release's ids repeat."""
    if record.get("image") is not None:
        data, path = cell_image(source, record["image"], where)
        image = Image("", check_image(data, where), path)
    else:
        name = str(record.get("img_path") or f"{record['id']}.jpg")
        image = read_image(source, (f"images/{name}", name), "", where)
    return replace(image, image_id=f"{record['id']}-{hashlib.sha256(image.data).hexdigest()[:10]}")


def _rated(completions: Any, aspects: Sequence[str], where: str) -> list[tuple[int, str, float]]:
    """Return (index, text, mean rating 1 to 5) of each completion rated on all `aspects`."""
    if isinstance(completions, dict):  # as Parquet has it: a list under each key
        require_record(completions, ("response", "annotations"), f"{where}: completions", others=("model",))
        if not all(isinstance(part, list) for part in completions.values()) or len({len(part) for part in completions.values()}) > 1:
            raise AdapterError(f"{where}: completions: expected lists of one length, got {completions!r:.100}")
        completions = [{"response": r, "annotations": a} for r, a in zip(completions["response"], completions["annotations"], strict=True)]
    if not isinstance(completions, list):
        raise AdapterError(f"{where}: completions: expected a list, got {completions!r:.60}")
    rated: list[tuple[int, str, float]] = []
    for i, completion in enumerate(completions):
        place = f"{where}: completions[{i}]"
        require_record(completion, ("response", "annotations"), place, others=("model",))
        notes = require_record(completion["annotations"], tuple(aspects), f"{place}: annotations", others=ASPECTS)
        ratings = [_rating(notes[aspect], f"{place}: annotations.{aspect}") for aspect in aspects]
        if all(rating is not None for rating in ratings) and isinstance(completion["response"], str) and completion["response"].strip():
            rated.append((i, completion["response"].strip(), sum(filter(None, ratings)) / len(ratings)))
    return rated


def _rating(note: Any, where: str) -> int | None:
    rating = str(require_record(note, ("Rating",), where, others=("Rationale",))["Rating"]).strip()
    if rating in ("1", "2", "3", "4", "5"):
        return int(rating)
    if rating.upper() in ("N/A", "NONE", ""):
        return None
    raise AdapterError(f"{where}: Rating: expected 1 to 5 or N/A, got {rating!r:.60}")


def _preferences(
    record: dict[str, Any],
    image_id: str,
    rated: list[tuple[int, str, float]],
    pairs: str,
    margin: float,
    repeated: Counter[str],
    where: str,
) -> Iterator[Sample]:
    prompt = require_text(record, "prompt", where).strip()
    name = number_repeats(f"{image_id}/{hashlib.sha256(prompt.encode()).hexdigest()[:10]}", repeated)
    chosen = list(combinations(rated, 2))
    if pairs == "extremes" and rated:
        chosen = [(max(rated, key=lambda one: one[2]), min(rated, key=lambda one: one[2]))]
    for one, other in chosen:
        (better, answer, high), (worse, rejected, low) = (one, other) if one[2] >= other[2] else (other, one)
        if high - low <= margin or answer == rejected:
            continue
        yield Sample(
            sample_id=f"{name}/{better}-{worse}",
            question=prompt,
            image_id=image_id,
            references=(answer,),
            split="train",
            source="vlfeedback",
            group=image_id,
            meta={REJECTED: rejected, "rating": f"{high:.4g}", "rejected_rating": f"{low:.4g}"},
        )
