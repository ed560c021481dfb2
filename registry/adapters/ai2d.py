"""AI2D: multiple-choice questions on diagrams of school science. Kembhavi et al., 2016 (ECCV)."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, require_record, select
from qualm.registry.sample import Image, Sample

META = ["abc_label"]
KEYS = ("abcLabel", "answerTexts", "correctAnswer", "questionId")
OPTIONS = 4
TEST_IDS = "ai2d_test_ids.csv"


def ai2d(context: AdapterContext, *, split: Literal["all", "train", "test"] = "all") -> Iterator[Image | Sample]:
    """Yield AI2D's questions in order of diagram number, each diagram before its questions.

    `sample_id` is the question's id (`N.png-K`). Questions on one diagram are a group. The category is the diagram's in
    `categories.json`, if that file exists. `meta.abc_label` is "yes" if options are letters in the diagram. The files are keyed by the
    question's text: of equal questions on one diagram only the last remains.

    Args:
        split: `test` is the diagrams of `ai2d_test_ids.csv`, `train` the others; `all` needs no such list, as VLM-Uncertainty-Bench.

    Raises:
        AdapterError: a file, key, value or image is not as in the release. Nothing is guessed.
    """
    source = context.need_source("ai2d")
    test = _test_ids(source / TEST_IDS) if split != "all" else frozenset()
    categories = _categories(source / "categories.json")
    for path in _files(source):
        with context.record():
            yield from _diagram(context, path, test, categories, split)


def _diagram(
    context: AdapterContext, path: Path, test: Collection[str], categories: dict[str, str], split: str
) -> Iterator[Image | Sample]:
    diagram = path.name.removesuffix(".json")
    if split != "all" and (Path(diagram).stem in test) != (split == "test"):
        return
    whole = require_record(_read(path), ("imageName", "questions"), str(path), others=())
    if whole["imageName"] != diagram:
        raise AdapterError(f"{path}: imageName: expected '{diagram}' as the file is called, got {whole['imageName']!r:.60}")
    for question, record in require_record(whole["questions"], (), f"{path}: questions").items():
        with context.record():
            where = f"{path}: question {question!r:.60}"
            sample = _sample(question, require_record(record, KEYS, where, others=()), diagram, categories.get(diagram, ""), split, where)
            yield from select(context, sample, (f"images/{diagram}",), where)


def _files(source: Path) -> list[Path]:
    """Return the JSON files of questions, one per diagram, by number; AdapterError if none."""
    files = (source / "questions").glob("*.png.json")
    by_number = {int(m[1]): path for path in files if (m := re.fullmatch(r"(\d+)\.png\.json", path.name))}
    if not by_number:
        raise AdapterError(f"{source / 'questions'}: expected AI2D's N.png.json, found none; look at `qualm data show ai2d`")
    return [by_number[n] for n in sorted(by_number)]


def _read(path: Path) -> dict[str, Any]:
    return dict(pair for _, pair in read_records(path, "a JSON object", "*"))


def _sample(question: str, record: dict[str, Any], diagram: str, category: str, split: str, where: str) -> Sample:
    options, right = record["answerTexts"], record["correctAnswer"]
    if not isinstance(options, list) or len(options) != OPTIONS or not all(isinstance(o, str) for o in options):
        raise AdapterError(f"{where}: answerTexts: expected {OPTIONS} texts, got {options!r:.120}")
    if type(right) is not int or not 0 <= right < OPTIONS:
        raise AdapterError(f"{where}: correctAnswer: expected 0 to {OPTIONS - 1}, got {right!r:.60}")
    if not isinstance(record["questionId"], str) or not isinstance(record["abcLabel"], bool) or not question.strip():
        raise AdapterError(f"{where}: expected a question, its id as text and abcLabel true or false, got {record!r:.200}")
    return Sample(
        sample_id=record["questionId"],
        question=question,
        image_id=diagram,
        choices=tuple(options),
        answer_index=right,
        category=category,
        split="test" if split == "all" else split,
        source="ai2d",
        group=diagram,
        meta={"abc_label": "yes" if record["abcLabel"] else "no"},
    )


def _categories(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    categories = _read(path)
    wrong = next((k for k, v in categories.items() if not isinstance(v, str)), None)
    if wrong is not None:
        raise AdapterError(f"{path}: {wrong}: expected a category as text, got {categories[wrong]!r:.60}")
    return categories


def _test_ids(path: Path) -> frozenset[str]:
    """Return the numbers of test diagrams, as text, one a line in a file; else AdapterError."""
    if not path.is_file():
        raise AdapterError(f"{path}: expected the numbers of the test diagrams, one a line, found none; `split: all` needs no list")
    try:
        ids = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise AdapterError(f"{path}: expected text in UTF-8: {error}") from error
    wrong = next((i for i in ids if not re.fullmatch(r"\d+(\.png)?", i)), None)
    if wrong is not None or not ids:
        raise AdapterError(f"{path}: expected numbers of diagrams, one a line, got {wrong!r:.60}")
    return frozenset(i.removesuffix(".png") for i in ids)
