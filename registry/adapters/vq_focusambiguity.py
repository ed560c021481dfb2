"""VQ-FocusAmbiguity: questions that may be about several places. Chen et al., 2025.

The released files were not seen by us: which keys they have beside `set`, `width` and `height` is not confirmed. So the keys that
are read are parameters, and a record without them ends the run with the keys it has.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import number_repeats, read_image, read_records, require_record, require_text
from qualm.registry.sample import Image, Sample

META: list[str] = ["file"]


def vq_focusambiguity(
    context: AdapterContext,
    *,
    parts: list[Literal["train", "val", "test"]] | None = None,
    question: str = "question",
    image: str = "image",
    ambiguous: str = "ambiguous",
    id: str | None = None,
) -> Iterator[Image | Sample]:
    """Yield VQ-FocusAmbiguity's questions; those with an ambiguous focus are unanswerable.

    The files are `SPLIT_gt.json`; the split is the file's. An ambiguous question has no single right answer, so it is `answerable:
    false`; `category` is `ambiguous` or `unambiguous`. There are no references. Questions on one image are a group, also across splits.
    Two different images of one name end the run. The number of masks is not read.

    Args:
        parts: Which files; train and val unless given: the 60 ambiguous and 80 other questions of VLM-UQBench. Models are scored on
            both where the spec says `splits: [train, val]`, else on val alone.
        question: Key of the question's text.
        image: Key of the image's file name, looked for as `images/NAME`, `images/SPLIT/NAME`, `SPLIT/NAME`.
        ambiguous: Key of the label: true or false, or 1 or 0.
        id: Key of the record's id, where there is one; else it is made of the image's name and the question.

    Raises:
        AdapterError: a file or image is missing, or a record lacks one of these keys or has another kind of value there.
    """
    source = context.need_source("vq_focusambiguity")
    sent: dict[str, tuple[str, str]] = {}
    for split in parts or ("train", "val"):
        path = source / f"{split}_gt.json"
        repeated: Counter[str] = Counter()
        for where, record in read_records(path, "VQ-FocusAmbiguity's records", context=context):
            with context.record():
                require_record(record, [question, image, ambiguous, *([id] if id else [])], where)
                name = require_text(record, image, where)
                sample = Sample(
                    sample_id=_sample_id(record, split, name, record[question], id, repeated, where),
                    question=require_text(record, question, where),
                    image_id=Path(name).stem,
                    category="ambiguous" if _label(record[ambiguous], ambiguous, where) else "unambiguous",
                    answerable=not _label(record[ambiguous], ambiguous, where),
                    split=split,
                    source="vq_focusambiguity",
                    group=Path(name).stem,
                    meta={"file": path.name},
                )
                if not context.selects(sample):
                    continue
                if sent.get(name, ("",))[0] != split:
                    picture = read_image(source, (f"images/{name}", f"images/{split}/{name}", f"{split}/{name}"), Path(name).stem, where)
                    if name not in sent:
                        yield picture
                    elif (source / sent[name][1]).read_bytes() != picture.data:
                        raise AdapterError(f"{where}: {image}: {picture.path} and {sent[name][1]} are two images; rename one")
                    sent[name] = split, picture.path
                yield sample


def _label(value: Any, key: str, where: str) -> bool:
    if value not in (0, 1) or not isinstance(value, bool | int):
        raise AdapterError(f"{where}: {key}: expected true or false, got {value!r:.60}")
    return bool(value)


def _sample_id(
    record: dict[str, Any], split: str, image_name: str, question: Any, key: str | None, repeated: Counter[str], where: str
) -> str:
    """Return SPLIT/ID, or without `key` SPLIT/IMAGE/HASH, numbered by `repeated`."""
    if key is not None:
        if not isinstance(record[key], str | int) or isinstance(record[key], bool):
            raise AdapterError(f"{where}: {key}: expected an id, got {record[key]!r:.60}")
        return f"{split}/{record[key]}"
    return number_repeats(f"{split}/{Path(image_name).stem}/{hashlib.sha256(str(question).encode()).hexdigest()[:10]}", repeated)
