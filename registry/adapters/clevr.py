"""CLEVR v1.0: rendered scenes, scene graphs, and compositional questions with programs. Johnson et al., 2017 (CVPR)."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, require_integer, require_record, require_text, select
from qualm.registry.sample import Image, Sample

META = ["function", "family"]

CATEGORIES = {
    "count": "counting",
    "exist": "existence",
    **{f"query_{a}": "attribute" for a in ("size", "color", "material", "shape")},
    **{f"equal_{a}": "comparison" for a in ("size", "color", "material", "shape", "integer")},
    "greater_than": "comparison",
    "less_than": "comparison",
}
"""Last function of a program -> category."""


def clevr(context: AdapterContext, *, split: Literal["train", "val", "test"] = "val") -> Iterator[Image | Sample]:
    """Yield one CLEVR split's questions, each after its image; copy its scene graphs.

    The files are `questions/CLEVR_SPLIT_questions.json`, `images/SPLIT/*.png`. `sample_id` is `SPLIT_QUESTIONINDEX`. Questions on one
    image are a group. The category is the kind of the program's last step: `attribute`, `existence`, `counting` or `comparison`; `meta`
    has that step as `function`, and the question's family. Scene graphs are copied to `scenes/`. The test split was released without
    answers, programs and scenes: its samples have no references and no categories.

    Raises:
        AdapterError: a file or record is not as in the release.
    """
    source = context.need_source("clevr")
    scenes = source / "scenes" / f"CLEVR_{split}_scenes.json"
    if scenes.is_file():
        (context.folder / "scenes").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(scenes, context.folder / "scenes" / scenes.name)
    path = source / "questions" / f"CLEVR_{split}_questions.json"
    for where, record in read_records(path, "the questions of CLEVR v1.0 (`qualm data show clevr`)", "questions", context):
        with context.record():
            name = require_text(require_record(record, ("image_filename", "question", "question_index"), where), "image_filename", where)
            sample = _sample(record, split, Path(name).stem, where)
            yield from select(context, sample, (f"images/{split}/{name}",), where, of=name)


def _sample(record: dict[str, Any], split: str, image_id: str, where: str) -> Sample:
    meta = {"family": str(record["question_family_index"])} if "question_family_index" in record else {}
    category = ""
    references: tuple[str, ...] = ()
    if split != "test":
        require_record(record, ("answer", "program"), where)
        program = record["program"]
        step = program[-1] if isinstance(program, list) and program else None
        function = step.get("function", step.get("type")) if isinstance(step, dict) else None
        if not isinstance(function, str) or function not in CATEGORIES:
            expected = f"expected its last step to be one of {', '.join(sorted(CATEGORIES))}"
            raise AdapterError(f"{where}: program: {expected}, got {function!r:.60}")
        meta, category, references = meta | {"function": function}, CATEGORIES[function], (_answer(record["answer"], where),)
    return Sample(
        sample_id=f"{split}_{require_integer(record, 'question_index', where):06d}",
        question=require_text(record, "question", where),
        image_id=image_id,
        references=references,
        category=category,
        split=split,
        source="clevr",
        group=image_id,
        meta=meta,
    )


def _answer(value: Any, where: str) -> str:
    """Return text unchanged, a bool as "yes" or "no", an int as digits; else AdapterError."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str | int):
        raise AdapterError(f"{where}: answer: expected text, got {value!r:.60}")
    return str(value)
