"""HallusionBench: yes-or-no questions on figures, on edited figures, and without any. Guan, Liu, Wu et al., 2024 (CVPR)."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import add_instruction, read_records, require_record, require_text, select
from qualm.registry.sample import Image, Sample

META = ["visual_input", "difficulty", "figure", "pair", "note"]
PLACE = ("category", "subcategory", "set_id", "figure_id", "question_id")
KEYS = (*PLACE, "visual_input", "sample_note", "question", "gt_answer", "gt_answer_details", "filename")
ANSWERS = {"1": "yes", "0": "no"}
UNCLEAR = "unclear"
PICTURES = "hallusion_bench"
"""The folder that the images are packed in; file names in the records begin below it."""
VISUAL = ("0", "1", "2")
"""Without an image, with the original, with an edited one."""


def hallusionbench(context: AdapterContext, *, instruction: str = "") -> Iterator[Image | Sample]:
    """Yield HallusionBench's yes-or-no questions in file order, some without an image.

    The files are `HallusionBench.json`, images below `hallusion_bench/` by each record's `filename`. `visual_input` 0 asks without an
    image, 1 with the original, 2 with an edited one (`meta.difficulty` hard; the others are easy). References are yes or no, and the
    answer in a sentence. If a needed figure is not shown (`VS`, figure 0), "unclear" is right too, as in the official code. `sample_id`
    is CATEGORY_SUBCATEGORY_SET_FIGURE_QUESTION. Questions of one set are a group. The category is `VD/illusion` and so on. `meta.pair`
    groups one question over all figures of a set (qAcc), `meta.figure` all questions on one figure (fAcc; absent if the needed figure is
    not shown).

    Args:
        instruction: Put behind every question. The release says nothing, since a language model judges the answers.

    Raises:
        AdapterError: a file, key, value or image is not as in the release. Nothing is guessed.
    """
    source = context.need_source("hallusionbench")
    for where, record in read_records(source / "HallusionBench.json", "HallusionBench's questions", context=context):
        with context.record():
            sample = _sample(require_record(record, KEYS, where, others=()), instruction, where)
            yield from select(context, sample, (f"{PICTURES}/{sample.image_id}", str(sample.image_id)), where)


def _sample(record: dict[str, Any], instruction: str, where: str) -> Sample:
    for key, allowed in (("category", ("VD", "VS")), ("visual_input", VISUAL), ("gt_answer", ANSWERS)):
        if record[key] not in tuple(allowed):
            raise AdapterError(f"{where}: {key}: expected one of {', '.join(allowed)} as text, got {record[key]!r:.60}")
    kind, part, of_set, figure, question = (require_text(record, key, where) for key in PLACE)
    group, visual = f"{kind}_{part}_{of_set}", record["visual_input"]
    if (visual == "0") != (record["filename"] is None):
        expected = "expected one where visual_input is not 0, and only there"
        raise AdapterError(f"{where}: filename: {expected}, got {record['filename']!r:.60} with {visual}")
    not_shown = kind == "VS" and figure == "0"
    references = (ANSWERS[record["gt_answer"]], require_text(record, "gt_answer_details", where))
    figure_of = {} if not_shown else {"figure": f"{group}_{figure}"}
    note = {"note": require_text(record, "sample_note", where)} if record["sample_note"] else {}
    return Sample(
        sample_id=f"{group}_{figure}_{question}",
        question=add_instruction(require_text(record, "question", where), instruction),
        image_id=None if record["filename"] is None else str(PurePosixPath(require_text(record, "filename", where))),
        references=(*references, UNCLEAR) if not_shown else references,
        category=f"{kind}/{part}",
        source="hallusionbench",
        group=group,
        meta={
            "visual_input": visual,
            "difficulty": "hard" if visual == "2" else "easy",
            "pair": f"{group}_{question}",
            **figure_of,
            **note,
        },
    )
