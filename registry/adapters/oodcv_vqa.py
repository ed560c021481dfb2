"""OODCV-VQA: counting and yes-or-no questions on images out of the ordinary. Tu et al., 2023 ("How Many Unicorns Are in This Image?")."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import number_repeats, read_records, require_choice, require_record, require_text, select
from qualm.registry.sample import Image, Sample

META = ["situation", "phase", "answer_type", "count"]
KEYS = ("image", "question", "answer", "text_answer", "options", "answer_type", "phase", "situation")
SITUATIONS = ("iid", "occlusion", "context", "pose", "shape", "texture", "weather")
NUMBER = "number"
COUNTS = ("Zero", "One", "Two", "Three", "Four", "Five")
FOLDER = "ood/oodcv-vqa"
PREFIXES = (".", FOLDER, f"safety_evaluation_benchmark_datasets/{FOLDER}")
"""Possible folders of the files: themselves, the benchmark's folder, the unpacked archive."""


def oodcv_vqa(
    context: AdapterContext,
    *,
    answers: Literal["number", "yes-no", "all"] = "number",
    counterfactual: bool = False,
    format: Literal["choices", "open"] = "choices",
) -> Iterator[Image | Sample]:
    """Yield OODCV-VQA's questions with number or yes-no answers, as choices unless `open`.

    The files are `oodcv-vqa.json` (or `oodcv-counterfactual.json`), `phase-1/images/...`. An option's value is its last word ("A. 2"): a
    number, written as a word as in VLM-Uncertainty-Bench (`Zero` to `Five`), or Yes or No. Questions on one image are a group. The
    category is the `situation` (weather, context, ...), and `meta.count` the true number. The files have no ids: `sample_id` is a digest
    of image, question and options, with `-2` for a second occurrence.

    Args:
        answers: `number` is the Digits subset; `yes-no` the other answers; `all` both.
        counterfactual: The questions that suppose something that is not the case.
        format: `open` asks without options, as the authors' evaluation does; its reference is the digit, or Yes or No (judge `oodcv_vqa`).

    Raises:
        AdapterError: a file, key, value or image is not as in the release. Nothing is guessed.
    """
    source = context.need_source("oodcv_vqa")
    name = "oodcv-counterfactual.json" if counterfactual else "oodcv-vqa.json"
    path = next((p for prefix in PREFIXES if (p := source / prefix / name).is_file()), source / name)
    met: Counter[str] = Counter()
    for where, record in read_records(path, "OODCV-VQA's questions (`qualm data show oodcv_vqa`)", context=context):
        with context.record():
            sample = _sample(require_record(record, KEYS, where, others=()), format, met, where)
            if answers != "all" and (record["answer_type"] == NUMBER) != (answers == NUMBER):
                continue
            places = [(Path(prefix) / str(sample.image_id)).as_posix() for prefix in PREFIXES]
            yield from select(context, sample, places, where)


def _sample(record: dict[str, Any], form: str, met: Counter[str], where: str) -> Sample:
    situation = require_choice(record, "situation", SITUATIONS, where)
    image, question, kind = (require_text(record, key, where) for key in ("image", "question", "answer_type"))
    options = record["options"]
    if not isinstance(options, list) or len(options) < 2 or not all(isinstance(o, str) and o.strip() for o in options):
        raise AdapterError(f"{where}: options: expected a list of at least two texts, got {options!r:.120}")
    choices, right = _as_words(options, str(record["text_answer"]), kind, where)
    digest = hashlib.sha256("\0".join((image, question, *options)).encode()).hexdigest()[:16]
    as_choices = form == "choices"
    return Sample(
        sample_id=number_repeats(digest, met),
        question=question,
        image_id=image,
        references=() if as_choices else (str(COUNTS.index(right)) if kind == NUMBER else right,),
        choices=choices if as_choices else (),
        answer_index=choices.index(right) if as_choices else None,
        category=situation,
        source="oodcv_vqa",
        group=image,
        meta={
            "situation": situation,
            "phase": require_text(record, "phase", where),
            "answer_type": kind,
            **({"count": right} if kind == NUMBER else {}),
        },
    )


def _as_words(options: list[str], answer: str, kind: str, where: str) -> tuple[tuple[str, ...], str]:
    """Return (options as words, the right one): "A. 2" becomes `Two`; else AdapterError."""
    word_of = dict(zip(map(str, range(len(COUNTS))), COUNTS, strict=True)) if kind == NUMBER else {"Yes": "Yes", "No": "No"}
    ends = [(text.split() or [""])[-1] for text in (*options, answer)]
    wrong = next((end for end in ends if end not in word_of), None)
    if wrong is not None:
        raise AdapterError(f"{where}: expected options and answer of {kind} that end with {', '.join(word_of)}, got {wrong!r:.60}")
    *words, right = (word_of[end] for end in ends)
    if words.count(right) != 1:
        raise AdapterError(f"{where}: text_answer: expected one of the options {', '.join(words)}, once, got {answer!r:.60}")
    return tuple(words), right
