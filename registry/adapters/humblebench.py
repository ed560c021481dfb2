"""HumbleBench: which of four options is right, or none of them. Tong, Xia, Shang, Zhou, 2025 (arXiv:2509.09658).

On the hub as an image folder: `metadata.jsonl` with file_name, question_id, question, label and type beside the images that it names. The
options stand in the question, a line each from A to E, and E is "None of the above". Read in the benchmark's code; no file was seen by us.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from qualm.registry import LETTERS
from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, require_text, select
from qualm.registry.recordings.options import parse_lettered
from qualm.registry.sample import Image, Sample

META = ["none_is_right"]
KEYS = ("file_name", "question_id", "question", "label", "type")


def humblebench(context: AdapterContext, *, none_only: bool = False, pictures: bool = True) -> Iterator[Image | Sample]:
    """Yield HumbleBench's multiple-choice questions, all in split `test`.

    Questions come from every `metadata.jsonl`, in order. The category is the type (Object, Attribute, Relation). `meta.none_is_right`
    says whether "None of the above" is right. Questions on one image are a group.

    Args:
        none_only: HumbleBench-E: the right option is taken out, so that "None of the above" is right everywhere.
        pictures: read the images; false = questions alone.

    Raises:
        AdapterError: a file, key or image is missing, or a question does not list its options.
    """
    source = context.need_source("humblebench")
    files = sorted(source.glob("**/metadata.jsonl"))
    if not files:
        raise AdapterError(f"{source}: expected metadata.jsonl of HumbleBench, found none")
    for path in files:
        folder = path.parent.relative_to(source).as_posix()
        for where, record in read_records(path, "questions of HumbleBench", context=context):
            with context.record():
                sample = _sample(record, folder, none_only, pictures, where)
                yield from select(context, sample, (sample.group,), where)


def _sample(record: Any, folder: str, none_only: bool, pictures: bool, where: str) -> Sample:
    if not isinstance(record, dict) or (missing := [key for key in KEYS if record.get(key) is None]):
        absent = f"; missing: {', '.join(missing)}" if isinstance(record, dict) else ""
        raise AdapterError(f"{where}: expected the keys {', '.join(KEYS)}{absent}")
    question, options = parse_lettered(require_text(record, "question", where)) or ("", ())
    label = require_text(record, "label", where).strip()
    if not question or len(options) < 3 or label not in tuple(LETTERS[: len(options)]):
        expected = "a question, a line for each option and the letter of one"
        raise AdapterError(f"{where}: expected {expected}, got {record['question']!r:.120}, {label!r:.20}")
    right, last = LETTERS.index(label), len(options) - 1
    if none_only and right != last:
        options, right, last = (*options[:right], *options[right + 1 :]), last - 1, last - 1
    name = (PurePosixPath(folder) / require_text(record, "file_name", where)).as_posix()
    return Sample(
        sample_id=str(record["question_id"]),
        question=question,
        image_id=name if pictures else None,
        choices=options,
        answer_index=right,
        category=str(record["type"]),
        split="test",
        source="humblebench",
        group=name,
        meta={"none_is_right": "true" if right == last else "false"},
    )
