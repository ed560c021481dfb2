"""UNK-VQA: questions of VQA v2 made unanswerable, beside answerable ones. Guo, Jiao, Shen, Nie, Kankanhalli, 2024 (TPAMI)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, require_choice, require_integer, require_record, require_text, select
from qualm.registry.sample import Image, Sample

META = ["alter_type", "reason", "question_id_origin", "answer_origin"]
AMBIGUOUS = "multiple plausible answers"
"""Reason of the questions that CertainlyUncertain leaves out."""
FOLDERS = {"train": "images-train", "val": "images-val", "test": "images-val"}
TOP_KEYS = ("answer_map", "reason_map", "alter_type_map", "annotation")
KEYS = ("question_id", "question", "image_name", "answerability", "alter_type", "misc")
ORIGIN = ("question_id_origin", "image_name_origin", "answer_origin")


def unk_vqa(
    context: AdapterContext,
    *,
    parts: list[Literal["train", "val", "test"]] | None = None,
    ambiguous: bool = False,
    reason: str = "reason",
    images: str | None = None,
) -> Iterator[Image | Sample]:
    """Yield UNK-VQA's questions, answerable and not, in file order; by default of `test`.

    The files are `annt_train.json`, `images-train/`, and likewise. If `answerability.binary` is true, the answer is the one reference.
    Otherwise the question is `answerable: false`, the category is `unanswerable`, and `meta.reason` has the codes of the reasons
    (`reason_map`), joined by a space. meta also has the alteration and the original. Images were altered too: equal names in two folders
    are two images.

    This was written without the files. Their README shows only an answerable record, so the key of `answerability.other` that holds the
    reasons is a parameter. A record without it ends the run and shows its keys.

    Args:
        parts: `test` unless given.
        ambiguous: keep unanswerable questions of which a reason is that there are several plausible answers; CertainlyUncertain
            leaves them out.
        reason: the key with the code or list of codes.
        images: the folder of the images; unless given `images-train` for train and `images-val` for val and test.

    Raises:
        AdapterError: a file, key or value is not as in the release. Nothing is guessed.
    """
    source = context.need_source("unk_vqa")
    for split in parts or ["test"]:
        path = source / f"annt_{split}.json"
        content = _read(path)
        left_out = {code for code, text in content["reason_map"].items() if AMBIGUOUS in text}
        if not left_out and not ambiguous:
            raise AdapterError(
                f"{path}: reason_map: expected a reason with '{AMBIGUOUS}', got {content['reason_map']}; or say `ambiguous: true`"
            )
        folder = images or FOLDERS[split]
        for number, record in enumerate(content["annotation"]):
            where = f"{path}: annotation {number}"
            with context.record():
                sample, codes = _sample(record, content, split, folder, reason, where)
                if not ambiguous and left_out & set(codes):
                    continue
                yield from select(context, sample, (f"{folder}/{record['image_name']}",), where)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise AdapterError(f"{path}: expected the annotations of UNK-VQA, found none")
    try:
        members = dict(pair for _, pair in read_records(path, "the annotations of UNK-VQA", "*"))
    except AdapterError as error:
        raise AdapterError(
            f"{error}. The sample in UNK-VQA's README is not JSON either: it lacks the comma after alter_type_map and has one too many at "
            "its end; a file made of it needs both corrected"
        ) from error
    content = require_record(members, TOP_KEYS, str(path), others=())
    for name in TOP_KEYS[:-1]:
        if not isinstance(content[name], dict) or not all(isinstance(text, str) for text in content[name].values()):
            raise AdapterError(f"{path}: {name}: expected an object of code -> text, got {content[name]!r:.60}")
    if not isinstance(content["annotation"], list) or not content["annotation"]:
        raise AdapterError(f"{path}: annotation: expected a list of records, got {content['annotation']!r:.60}")
    return dict(content)


def _sample(record: Any, maps: Mapping[str, Any], split: str, folder: str, key: str, where: str) -> tuple[Sample, list[str]]:
    require_record(record, KEYS, where, others=())
    origin = require_record(record["misc"], ORIGIN, f"{where}: misc", others=())
    answerability = require_record(record["answerability"], ("binary", "other"), f"{where}: answerability", others=())
    if not isinstance(answerability["binary"], bool):
        raise AdapterError(f"{where}: answerability.binary: expected true or false, got {answerability['binary']!r:.60}")
    require_choice(record, "alter_type", maps["alter_type_map"], where)
    references: tuple[str, ...] = ()
    codes: list[str] = []
    if answerability["binary"]:
        other = require_record(answerability["other"], ("answer",), f"{where}: answerability.other", others=("options",))
        references = (require_text(other, "answer", f"{where}: answerability.other"),)
    else:
        codes = _reasons(answerability["other"], key, maps["reason_map"], f"{where}: answerability.other")
    name = require_text(record, "image_name", where)
    sample = Sample(
        sample_id=f"{split}/{require_integer(record, 'question_id', where)}",
        question=require_text(record, "question", where),
        image_id=f"{folder}/{Path(name).stem}",
        references=references,
        category="answerable" if answerability["binary"] else "unanswerable",
        answerable=answerability["binary"],
        split=split,
        source="unk_vqa",
        group=str(origin["image_name_origin"]),
        meta={
            "alter_type": record["alter_type"],
            "question_id_origin": str(origin["question_id_origin"]),
            "answer_origin": str(origin["answer_origin"]),
            **({"reason": " ".join(codes)} if codes else {}),
        },
    )
    return sample, codes


def _reasons(other: Any, key: str, reasons: Mapping[str, str], where: str) -> list[str]:
    if not isinstance(other, dict) or key not in other:
        there = ", ".join(map(str, other)) if isinstance(other, dict) else repr(other)[:60]
        raise AdapterError(
            f"{where}: missing '{key}', the codes of why it cannot be answered; it has: {there or 'no keys'}; name it by `reason: KEY`"
        )
    codes = [str(code) for code in (other[key] if isinstance(other[key], list) else [other[key]])]
    if not codes or not set(codes) <= set(reasons):
        raise AdapterError(
            f"{where}: {key}: expected one or more of the codes in reason_map ({', '.join(reasons)}), got {other[key]!r:.60}"
        )
    return codes
