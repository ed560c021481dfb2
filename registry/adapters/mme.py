"""MME: two yes-or-no questions to every image in fourteen subtasks of perception and cognition. Fu, Chen, Shen et al., 2023."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_image, yes_or_no
from qualm.registry.sample import Image, Sample

META = ["subtask"]
SUBTASKS = {
    "perception": ("existence", "count", "position", "color", "posters", "celebrity", "scene", "landmark", "artwork", "OCR"),
    "cognition": ("commonsense_reasoning", "numerical_calculation", "text_translation", "code_reasoning"),
}
RELEASE = "MME_Benchmark_release_version"
"""The folder that the release is packed in; the subtasks may lie in it or in the entry itself."""
QUESTIONS, PICTURES = "questions_answers_YN", "images"
"""Folders of a subtask that has images and questions apart."""
SUFFIXES = (".jpg", ".png", ".jpeg")
QUESTIONS_PER_IMAGE = 2


def mme(context: AdapterContext, *, part: Literal["all", "perception", "cognition"] = "all") -> Iterator[Image | Sample]:
    """Yield MME's yes-or-no questions by subtask, two after each image.

    The files are `SUBTASK/NAME.txt` beside `SUBTASK/NAME.jpg` or `.png`, or `SUBTASK/questions_answers_YN/NAME.txt` and
    `SUBTASK/images/NAME.jpg`. A text file has two lines: question, tab, Yes or No. `sample_id` is `SUBTASK/NAME/1` or `/2`. The two
    questions on an image are a group. The category is `perception/SUBTASK` or `cognition/SUBTASK`, and `meta.subtask` its name.

    Args:
        part: All fourteen subtasks, or those of one part. Celebrities, posters, scenes, landmarks and artworks must be asked for from the
            authors; without them `part: cognition` can be read.

    Raises:
        AdapterError: a subtask, file, line or image is not as in the release. Nothing is guessed.
    """
    source = context.need_source("mme")
    subtasks = {kind: names for kind, names in SUBTASKS.items() if part in ("all", kind)}
    root = source / RELEASE if (source / RELEASE).is_dir() else source
    if missing := [name for names in subtasks.values() for name in names if not (root / name).is_dir()]:
        raise AdapterError(f"{root}: expected a folder for every subtask; missing {', '.join(missing)}")
    for kind, names in subtasks.items():
        for name in names:
            yield from _subtask(context, source, root / name, f"{kind}/{name}")


def _subtask(context: AdapterContext, source: Path, folder: Path, category: str) -> Iterator[Image | Sample]:
    apart = (folder / QUESTIONS).is_dir()
    files = sorted((folder / QUESTIONS if apart else folder).glob("*.txt"))
    if not files:
        raise AdapterError(f"{folder}: expected a text file for every image, found none")
    for path in files:
        with context.record():
            samples = [s for s in _samples(path, folder.name, category) if context.selects(s)]
            if samples:
                place = ((folder / PICTURES if apart else folder).relative_to(source) / path.stem).as_posix()
                yield read_image(source, [f"{place}{suffix}" for suffix in SUFFIXES], f"{folder.name}/{path.stem}", str(path))
            yield from samples


def _samples(path: Path, subtask: str, category: str) -> Iterator[Sample]:
    try:
        lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise AdapterError(f"{path}: expected text in UTF-8: {error}") from error
    if len(lines) != QUESTIONS_PER_IMAGE:
        raise AdapterError(f"{path}: expected {QUESTIONS_PER_IMAGE} lines of question, tab, Yes or No, got {len(lines)}")
    image_id = f"{subtask}/{path.stem}"
    for number, line in enumerate(lines, 1):
        question, tab, answer = line.strip().rpartition("\t")
        where = f"{path}: line {number}"
        if not tab or not question.strip():
            raise AdapterError(f"{where}: expected a question, a tab, and Yes or No, got {line!r:.80}")
        yield Sample(
            sample_id=f"{image_id}/{number}",
            question=question.strip(),
            image_id=image_id,
            references=(yes_or_no({"answer": answer}, "answer", where),),
            category=category,
            source="mme",
            group=image_id,
            meta={"subtask": subtask},
        )
