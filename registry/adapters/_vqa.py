"""VQA's questions and people's answers, joined by question id (VQA v1 and v2); both files need not be in one order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_records, require_integer, require_record, require_text

CATEGORIES = {"yes/no": "yes-no", "number": "number", "other": "other"}
"""Types of answers -> categories, where `/` would begin a part of a path."""


class Annotation(NamedTuple):
    """Annotation of one VQA question: people's answers, types of question and answer."""

    image_id: int
    question_type: str
    answer_type: str
    """Empty where the file does not say."""
    answers: tuple[str, ...]


class QuestionRow(NamedTuple):
    """A VQA question with its place, ids and annotation, None if the split has none."""

    where: str
    question_id: int
    image_id: int
    question: str
    annotation: Annotation | None


def read_questions(
    context: AdapterContext, questions: Path, annotations: Path | None, what: str, people: int | None = None
) -> Iterator[QuestionRow]:
    """Yield a row per question in file order; tell `context` of one that lacks its annotation.

    Only the annotations by which the orders of the two files differ are in memory.

    Args:
        annotations: a file with a list `annotations`; None for a part without public answers.
        people: answers that every question must have; None = at least one.

    Raises:
        AdapterError: keys are not as released, a question and an annotation have no partner, or the two differ in image.
    """
    annotated = _annotations(context, annotations, what, people) if annotations is not None else None
    waiting: dict[int, Annotation] = {}
    for where, record in read_records(questions, f"the questions of {what}", "questions", context):
        with context.record():
            require_record(record, ("image_id", "question", "question_id"), where, others=())
            question_id, image_id = require_integer(record, "question_id", where), require_integer(record, "image_id", where)
            annotation = None
            if annotated is not None:
                annotation = waiting.pop(question_id, None) or _find_annotation(annotated, question_id, waiting)
                if annotation is None:
                    raise AdapterError(f"{where}: question_id {question_id}: has no annotation in {annotations}")
                if annotation.image_id != image_id:
                    raise AdapterError(
                        f"{where}: question_id {question_id}: image_id {image_id} here, {annotation.image_id} in {annotations}"
                    )
            yield QuestionRow(where, question_id, image_id, require_text(record, "question", where), annotation)
    for question_id, annotation in annotated or ():
        waiting[question_id] = annotation
    if waiting:
        context.bad(
            AdapterError(f"{annotations}: {len(waiting):,} annotations of questions that {questions} does not have: {min(waiting)}...")
        )


def _find_annotation(annotated: Iterator[tuple[int, Annotation]], sought: int, waiting: dict[int, Annotation]) -> Annotation | None:
    """Read on to question id `sought`; return its annotation or None; others go to `waiting`."""
    for question_id, annotation in annotated:
        if question_id == sought:
            return annotation
        waiting[question_id] = annotation
    return None


def _annotations(context: AdapterContext, path: Path, what: str, people: int | None) -> Iterator[tuple[int, Annotation]]:
    kinds: dict[str, str] = {}
    texts: dict[str, str] = {}
    others = ("answer_type", "multiple_choice_answer", "ans_source")
    for where, record in read_records(path, f"the annotations of {what}", "annotations", context):
        with context.record():
            require_record(record, ("question_id", "image_id", "question_type", "answers"), where, others=others)
            answers = _answers(record["answers"], people, where)
            kind = require_text(record, "question_type", where)
            annotation = Annotation(
                require_integer(record, "image_id", where),
                kinds.setdefault(kind, kind),
                str(record.get("answer_type", "")),
                tuple(texts.setdefault(text, text) for text in answers),
            )
            yield require_integer(record, "question_id", where), annotation


def _answers(answers: Any, people: int | None, where: str) -> list[str]:
    if not isinstance(answers, list) or not answers or (people is not None and len(answers) != people):
        got = f"{len(answers)} of them" if isinstance(answers, list) else repr(answers)[:60]
        raise AdapterError(f"{where}: answers: expected a list of {people or 'at least one'}, got {got}")
    texts = []
    for i, answer in enumerate(answers):
        require_record(answer, ("answer",), f"{where}: answers[{i}]", others=("answer_confidence", "answer_id", "raw_answer"))
        if not isinstance(answer["answer"], str):
            raise AdapterError(f"{where}: answers[{i}]: answer: expected text, got {answer['answer']!r:.60}")
        texts.append(answer["answer"])
    return texts
