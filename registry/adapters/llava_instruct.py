"""LLaVA's visual instructions: conversations about images, for tuning. Liu, Li, Li, Lee, 2024 (CVPR)."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import number_repeats, read_records, require_record, require_text, select
from qualm.registry.sample import HISTORY, Image, Sample

META = ["turn", "origin", "history"]
IMAGE = "<image>"
FILE = "llava_v1_5_mix665k.json"


def llava_instruct(
    context: AdapterContext,
    *,
    file: str = "llava_v1_5_mix665k.json",
    turns: Literal["dialogue", "each", "first"] = "dialogue",
    text_only: bool = True,
) -> Iterator[Image | Sample]:
    """Yield a sample per question of LLaVA's conversations, in split `train`.

    The file is a list of `{id, image, conversations: [{from: human | gpt, value}]}`; images are at `image` from the entry's top, or under
    `images/`. The mark `<image>` is removed from questions. Earlier turns are `meta.history`, which fine-tuning puts before the question.
    Ids repeat in the release, so `sample_id` is the id, a digest of the conversation, and the turn. `meta.origin` is the first folder of
    the image (`coco`, `gqa`...), or `text`.

    Args:
        file: its name.
        turns: `dialogue`: each question after all that was said before it, as LLaVA is tuned. `each`: each question by itself, which a
            follow-up ("And what color is it?") may not stand. `first`: only the first.
        text_only: take the conversations without an image too.

    Raises:
        AdapterError: a file, key or value is not as in the release. Nothing is guessed.
    """
    source = context.need_source("llava_instruct")
    repeated: Counter[str] = Counter()
    for where, record in read_records(source / file, "LLaVA's conversations", context=context):
        with context.record():
            require_record(record, ("id", "conversations"), where, others=("image", "model"))
            if "image" not in record and not text_only:
                continue
            for sample in _samples(record, turns, repeated, where):
                yield from select(context, sample, (str(sample.image_id), f"images/{sample.image_id}"), where)


def coco_questions(entry: Path) -> frozenset[tuple[int, str]]:
    """Return {(COCO image number, lower-case first line)} of LLaVA's questions; or AdapterError.

    LLaVA puts how to answer ("using a single word or phrase") on the next line.
    """
    questions: set[tuple[int, str]] = set()
    for where, record in read_records(entry / FILE, "LLaVA's conversations"):
        name = PurePosixPath(str(require_record(record, ("id", "conversations"), where).get("image", "")))
        number = name.stem.rpartition("_")[2]
        if name.parts[:1] != ("coco",) or not number.isdecimal():
            continue
        for question, _ in _turns(record["conversations"], True, where):
            questions.add((int(number), question.splitlines()[0].strip().casefold()))
    return frozenset(questions)


def _samples(record: dict[str, Any], turns: str, repeated: Counter[str], where: str) -> list[Sample]:
    image = require_text(record, "image", where) if "image" in record else None
    digest = hashlib.sha256(json.dumps([image, record["conversations"]], ensure_ascii=False).encode()).hexdigest()[:10]
    name = number_repeats(f"{record['id']}-{digest}", repeated)
    pairs = _turns(record["conversations"], image is not None, where)
    return [
        Sample(
            sample_id=f"{name}/{turn}",
            question=question,
            image_id=image,
            references=(answer,),
            split="train",
            source="llava_instruct",
            group=image or name,
            meta={
                "turn": str(turn),
                "origin": image.partition("/")[0] if image is not None else "text",
                **({HISTORY: json.dumps(pairs[:turn], ensure_ascii=False)} if turns == "dialogue" and turn else {}),
            },
        )
        for turn, (question, answer) in enumerate(pairs[:1] if turns == "first" else pairs)
    ]


def _turns(conversation: Any, has_image: bool, where: str) -> list[tuple[str, str]]:
    """Return a conversation's (question, answer) pairs in order; AdapterError if malformed.

    Args:
        has_image: expect one mark `<image>` in the questions, and remove it.
    """
    where = f"{where}: conversations"
    if not isinstance(conversation, list) or not conversation:
        raise AdapterError(f"{where}: expected a list of turns, got {conversation!r:.60}")
    turns: list[tuple[str, str]] = []
    for i, turn in enumerate(conversation):
        require_record(turn, ("from", "value"), f"{where}[{i}]", others=())
        if turn["from"] not in ("human", "gpt") or not isinstance(turn["value"], str):
            raise AdapterError(f"{where}[{i}]: expected words from human or gpt, got {turn!r:.80}")
        turns.append((turn["from"], turn["value"]))
    marks = sum(text.count(IMAGE) for speaker, text in turns if speaker == "human")
    if has_image and marks != 1:
        raise AdapterError(f"{where}: expected one {IMAGE} in what the human says, found {marks}")
    pairs = [
        ((question.replace(IMAGE, "") if has_image else question).strip(), answer.strip())
        for (who, question), (then, answer) in pairwise(turns)
        if (who, then) == ("human", "gpt")
    ]
    if not pairs or not all(question and answer for question, answer in pairs):
        raise AdapterError(f"{where}: expected questions of human, each with an answer of gpt, got {conversation!r:.100}")
    return pairs
