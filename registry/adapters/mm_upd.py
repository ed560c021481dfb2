"""MM-UPD: unsolvable questions of MMBench and their solvable twins. Miyai et al., 2024.

Tables of tab-separated text as MMBench has them: index, question, hint, A to E, answer, category, image (base64), source, split, type and
masked_answer, which is the right option that was taken away. Columns as lmms-eval's task and a mirror's card name them; no file was
seen by us. `type` is `standard` where the question can be solved.
"""

from collections.abc import Iterator
from typing import Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_rows
from qualm.registry.adapters._table_pictures import TablePictures
from qualm.registry.recordings.vlmevalkit import question_of
from qualm.registry.sample import Image, Sample

META = ["part", "type", "masked_answer", "l2-category"]
COLUMNS = ("index", "question", "A", "B", "answer", "image", "type")
LETTERS = "ABCDE"
STANDARD = "standard"
EMPTY = ("", "nan", "none")
"""Texts of an empty cell, in lower case."""
DATE = "20240303"


def mm_upd(
    context: AdapterContext,
    *,
    parts: list[Literal["aad", "iasd", "ivqd"]] = ["aad", "iasd", "ivqd"],  # noqa: B006 - a literal, never changed
    setting: Literal["base", "option"] = "base",
) -> Iterator[Image | Sample]:
    """Yield MM-UPD's questions, unsolvable and solvable; each part is a split.

    The files are `data/mm{part}_20240303_{setting}.tsv`. Options are lines of the question, so that a model may abstain. References of a
    solvable question are the right option's text and letter; an unsolvable one is `answerable: false`. The category is `standard` or the
    part. A question and its unsolvable twin are one group, over which dual accuracy (`group_accuracy`) counts.

    Args:
        parts: absent answer (`aad`), incompatible answers (`iasd`), incompatible image and question (`ivqd`).
        setting: `base`, or with an option such as "None of the above" (`option`). The third setting is a prompt here.

    Raises:
        AdapterError: a table, column, image or right option is missing.
    """
    source = context.need_source("mm_upd")
    for part in parts:
        path = source / "data" / f"mm{part}_{DATE}_{setting}.tsv"
        pictures = TablePictures(path, context, "a table of MM-UPD")
        for where, row in read_rows(path, "a table of MM-UPD", COLUMNS, context):
            with context.record():
                image_id, image = pictures.read(row["index"], row["image"], where)
                sample = _sample(row, part, image_id, where)
                yield from pictures.select(sample, row["index"], image, where)


def _sample(row: dict[str, str], part: str, image_id: str, where: str) -> Sample:
    options = {letter: row[letter] for letter in LETTERS if row.get(letter, "").strip().lower() not in EMPTY}
    standard, answer = row["type"] == STANDARD, row["answer"].strip()
    if standard and answer not in options:
        raise AdapterError(f"{where}: answer: expected one of {', '.join(options)}, got {answer!r:.40}")
    if not row["question"].strip() or len(options) < 1:
        raise AdapterError(f"{where}: expected a question and options, got {row['question']!r:.80}")
    hint = row.get("hint", "").strip()
    lines = [hint] if hint.lower() not in EMPTY else []
    lines += [row["question"].strip(), *(f"{letter}. {text}" for letter, text in options.items())]
    extras = {name: row[name] for name in ("masked_answer", "l2-category") if row.get(name, "").strip().lower() not in EMPTY}
    return Sample(
        sample_id=f"{part}-{row['type']}-{row['index']}",
        question="\n".join(lines),
        image_id=image_id,
        references=(options[answer], answer) if standard else (),
        category=STANDARD if standard else part,
        answerable=standard,
        split=part,
        source="mm_upd",
        group=f"{part} {question_of(row['index'])}",
        meta={"part": part, "type": row["type"], **extras},
    )
