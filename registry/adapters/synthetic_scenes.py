"""Made-up scenes of coloured solids with questions: no download, no licence worries, and every answer is known.

Scenes follow CLEVR (Justin Johnson, Bharath Hariharan, Laurens van der Maaten, Li Fei-Fei, C. Lawrence Zitnick, Ross
Girshick, "CLEVR: A Diagnostic Dataset for Compositional Language and Elementary Visual Reasoning", CVPR 2017): its
vocabulary and its scene JSON, written to `scenes/CLEVR_{split}_scenes.json`. Images and questions are our own.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

from annotated_types import Ge

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.machine import end_with_parent
from qualm.registry.sample import Image, Sample
from qualm.registry.scenes.files import ScenesFile
from qualm.registry.scenes.questions import CATEGORIES, KINDS, OPTION_KINDS, SceneQuestion, ask_any
from qualm.registry.scenes.render import png
from qualm.registry.scenes.world import Scene, make_scene, stream

META = ["kind", "objects", "level"]
CHUNK = 50
"""Scenes that one process makes at a time."""


def synthetic_scenes(
    context: AdapterContext,
    *,
    level: Literal["easy", "medium", "hard"] = "easy",
    format: Literal["open", "multiple_choice"] = "open",
    train: Annotated[int, Ge(0)] = 0,
    val: Annotated[int, Ge(0)] = 0,
    test: Annotated[int, Ge(0)] = 600,
    questions: Annotated[int, Ge(1)] = 3,
    kinds: list[Literal["color", "shape", "size", "material", "existence", "counting", "relation"]] | None = None,
) -> Iterator[Image | Sample]:
    """Yield drawn scenes, each image before its questions, until each split has its samples.

    Args:
        context: seed, folder and processes.
        level: `easy` (64 px, 1 to 5 objects on clear ground), `medium` (128 px, 3 to 7, some overlap) or `hard`
            (224 px, 6 to 12, clutter and occlusion; objects named by up to four attributes).
        format: `open` for one-word answers; `multiple_choice` for four real options, the right one anywhere among them,
            and then "I don't know" and "None of the above", which are never right here.
        train: samples (not scenes) of the train split.
        val: samples of the val split.
        test: samples of the test split.
        questions: questions about each scene; their kinds take turns.
        kinds: what is asked; all the format has unless given (a size has too few values for four options).

    Both formats draw the same scenes for the same seed. A scene that offers no question of any of `kinds` is left out.

    Raises:
        AdapterError: `kinds` is empty, names a kind twice, or names one that the format does not have.
    """
    allowed = KINDS if format == "open" else OPTION_KINDS
    chosen = tuple(allowed if kinds is None else kinds)
    wrong = [k for k in chosen if k not in allowed]
    if wrong or not chosen or len(set(chosen)) < len(chosen):
        raise AdapterError(f"synthetic_scenes: kinds: expected different ones of {', '.join(allowed)} for {format}, got {list(chosen)}")
    for split, n_samples in (("train", train), ("val", val), ("test", test)):
        if n_samples:
            task = _Task(context.seed, level, split, chosen, questions, format == "multiple_choice")
            yield from _split(context, task, n_samples)


class _Task(NamedTuple):
    seed: int
    level: str
    split: str
    kinds: tuple[str, ...]
    questions: int
    multiple_choice: bool


DrawnScene = tuple[Scene, bytes, list[SceneQuestion]]


def _split(context: AdapterContext, task: _Task, n_samples: int) -> Iterator[Image | Sample]:
    mark = "-mc" if task.multiple_choice else ""
    with ScenesFile(context.folder / "scenes", task.split) as file:
        for scene, picture, questions in _scenes(task, n_samples, context.workers):
            file.write(scene)
            image_id = f"{task.level}{task.seed}-{task.split}-{scene['image_index']:06d}"
            image = Image(image_id, picture, scene["image_filename"])
            for k, question in enumerate(questions[:n_samples]):
                sample = Sample(
                    sample_id=f"{image_id}{mark}-{k}",
                    question=question.text,
                    image_id=image_id,
                    references=() if task.multiple_choice else (question.answer,),
                    choices=question.choices,
                    answer_index=question.answer_index,
                    category=CATEGORIES[question.kind],
                    split=task.split,
                    source="synthetic_scenes",
                    group=image_id,
                    meta={"kind": question.kind, "objects": str(len(scene["objects"])), "level": task.level},
                )
                yield from context.selected(sample, image)
            n_samples -= len(questions)
            if n_samples <= 0:
                return


def _scenes(task: _Task, n_samples: int, workers: int) -> Iterator[DrawnScene]:
    """Yield (scene, PNG, questions) by index without end; the caller stops."""
    starts = itertools.count(0, CHUNK)
    if workers <= 1 or n_samples <= CHUNK * task.questions:
        for start in starts:
            yield from _usable(_chunk(task, start, CHUNK), task, start)
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(workers, get_context("spawn"), end_with_parent) as pool:
        pending = deque((start, pool.submit(_chunk, task, start, CHUNK)) for start in itertools.islice(starts, 3 * workers))
        try:
            while True:
                start, first = pending.popleft()
                yield from _usable(first.result(), task, start)
                following = next(starts)
                pending.append((following, pool.submit(_chunk, task, following, CHUNK)))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _usable(scenes: list[DrawnScene], task: _Task, start: int) -> list[DrawnScene]:
    if not scenes and start >= 20 * CHUNK:
        raise AdapterError(
            f"synthetic_scenes: no scene of level {task.level} offers {task.questions} questions of the kinds {task.kinds}; "
            "lower `questions` or name more `kinds`"
        )
    return scenes


def _chunk(task: _Task, start: int, count: int) -> list[DrawnScene]:
    """Return (scene, PNG, questions) of the scenes from `start` that allow all questions."""
    scenes = []
    for index in range(start, start + count):
        scene = make_scene(task.seed, task.level, task.split, index)
        questions = _ask(task, scene)
        if questions:
            scenes.append((scene, png(scene), questions))
    return scenes


def _ask(task: _Task, scene: Scene) -> list[SceneQuestion]:
    index = scene["image_index"]
    rng = stream(task.seed, task.level, task.split, index, "options" if task.multiple_choice else "open", *task.kinds)
    questions: list[SceneQuestion] = []
    for k in range(task.questions):
        turn = (index * task.questions + k) % len(task.kinds)
        order = task.kinds[turn:] + task.kinds[:turn]
        question = _first_new_question(questions, (ask_any(rng, scene, order, task.multiple_choice) for _ in range(4)))
        if question is None:
            return []
        questions.append(question)
    return questions


def _first_new_question(earlier: Sequence[SceneQuestion], drawn: Iterator[SceneQuestion | None]) -> SceneQuestion | None:
    """Return the first drawn question with a new text, else the last drawn, maybe None."""
    texts = {q.text for q in earlier}
    question = None
    for question in drawn:
        if question is not None and question.text not in texts:
            break
    return question
