"""VLM-Uncertainty-Bench: uncertainty-aware evaluation of vision-language models. Kostumov, Nutfullin, Pilipenko, Ilyushin, 2024.

Five public benchmarks recast as six-option questions. The released outputs carry the questions, so no images are needed
to score recorded runs; where the processed images lie beside the outputs, they are taken along.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters.seedbench import DIMENSIONS
from qualm.registry.formats.vub_layout import APPENDED, OPTION_LETTERS, LayoutError, answer_index, list_runs, read_records
from qualm.registry.recordings.vlmevalkit import question_of
from qualm.registry.sample import Image, Sample
from qualm.registry.system.dvc_objects import lies_in


def vlm_uncertainty_bench(context: AdapterContext, *, dataset: str, run: str | None = None) -> Iterator[Image | Sample]:
    """Yield the questions in one model's outputs, `output/RUN/DATASET.pkl`.

    Options are A to D of the file and the two that the authors add, E "I don't know" and F "None of the above", which are never right. If
    the file has no text for an option (17 questions of MMBench), it is empty, and `meta["missing_options"]` names its letter; the
    authors' prompt moved later texts one letter up.

    Args:
        dataset: File name without `.pkl`: mmbench, oodcv, scienceqa, seedbench, ai2d.
        run: Whose file the questions are read from; by default the first run in name order. All hold the same questions.

    Raises:
        AdapterError: the folder or a record is not as the official repository writes it.
    """
    source = context.need_source("vlm_uncertainty_bench")
    try:
        there = list_runs(source, dataset)
        if run is None and not there:
            raise LayoutError(f"{source}: no output/RUN/{dataset}.pkl; expected the official repository's folder, or check the name")
        records = read_records(source, run or there[0], dataset)
    except LayoutError as error:
        raise AdapterError(str(error)) from error
    for record in records:
        image = _image(source, record)
        yield from context.selected(_sample(record, dataset, image), image)


def _sample(record: dict[str, Any], dataset: str, image: Image | None) -> Sample:
    hint = record.get("hint")
    question = record["question"]
    meta = _meta(record)
    if isinstance(hint, str) and hint:
        question = f"{hint}\n{question}"
    missing = [letter for letter in OPTION_LETTERS if not isinstance(record[letter], str)]
    if missing:
        meta["missing_options"] = "".join(missing)
    options = tuple(record[letter] if letter not in missing else "" for letter in OPTION_LETTERS)
    return Sample(
        sample_id=str(record["id"]),
        question=question,
        image_id=image.image_id if image else None,
        choices=(*options, *APPENDED),
        answer_index=answer_index(record),
        category=meta.get("category") or meta.get("situation") or meta.get("dimension") or "",
        source=f"vlm_uncertainty_bench/{dataset}",
        group=question_of(str(record["id"])) if dataset == "mmbench" and isinstance(record["id"], int) else meta.get("image_path", ""),
        meta=meta,
    )


def _meta(record: dict[str, Any]) -> dict[str, str]:
    names = ("category", "l2-category", "situation", "phase", "subject", "topic", "grade", "skill")
    meta = {name: str(record[name]) for name in names if isinstance(record.get(name), str | int)}
    kind = record.get("question_type_id")
    if isinstance(kind, int) and 1 <= kind <= len(DIMENSIONS):
        meta["dimension"] = DIMENSIONS[kind - 1]
    if isinstance(record.get("image_path"), str):
        meta["image_path"] = record["image_path"]
    return meta


def _image(source: Path, record: dict[str, Any]) -> Image | None:
    """Read a record's image; None if it names none or no file inside the source."""
    name = record.get("image_path")
    if not isinstance(name, str):
        return None
    path = source / name
    try:
        if not lies_in(source, path) or not path.is_file():
            return None
    except (OSError, ValueError):  # a name that no file can have
        return None
    return Image(image_id=name, data=path.read_bytes(), path=name)
