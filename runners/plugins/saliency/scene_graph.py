"""Saliency by scene graph: the question is parsed and its objects are looked up, without a model."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge

from qualm.registry.scenes.contrast import FORMS, Query, ask_about_object, parse_query, possible_answers, word
from qualm.registry.scenes.questions import matching_objects, noun_phrase, referents
from qualm.registry.scenes.world import LEVELS, VALUES, Scene
from qualm.runners.contracts.pairs import PairContext, PairError, group_by_image
from qualm.runners.contracts.saliency import Row, Target, Thing
from qualm.runners.data.scene_graphs import SceneGraphError, read_scenes

TRIES = 6
"""Draws of a question before a scene counts as unsuitable."""


def scene_graph(
    context: PairContext,
    folder: Path,
    rows: Sequence[Row],
    *,
    ask: Literal["drawn", "source"] = "drawn",
    each: Annotated[int, Ge(1)] = 1,
    alone: bool = False,
) -> Iterator[Target]:
    """Yield a Target per question about a scene's object: a new one or the dataset's own.

    Args:
        folder: a dataset of scenes, with its graphs beside the images.
        rows: samples; if questions are drawn, the first of each image stands for all.
        ask: `drawn`: new questions about one object of each image ("What color is the cube?"). `source`: the dataset's own,
            as far as they ask for an attribute of an object; others are dropped and counted.
        each: questions drawn for each image, about different objects.
        alone: ask about the only object of an image, too. The image without it is always the same empty table, which a model could
            memorise; so these are dropped and counted by default.

    Raises:
        PairError: the dataset has no scene graphs.
    """
    try:
        scenes = read_scenes(folder, {row["image_id"] for row in rows})
    except SceneGraphError as error:
        raise PairError(str(error)) from error
    for image_id, samples in group_by_image(rows).items():
        scene = scenes.get(image_id)
        if scene is None:
            context.drop("no scene graph")
        else:
            for target in _drawn(context, scene, samples[0], each) if ask == "drawn" else _own(context, scene, samples):
                if target.others or alone:
                    yield target
                else:
                    context.drop("nothing else in the image")


def _drawn(context: PairContext, scene: Scene, row: Row, each: int) -> Iterator[Target]:
    rng = context.rng("question", row["image_id"])
    taken: list[int] = []
    for k in range(each):
        tries = (ask_about_object(rng, scene, taken) for _ in range(TRIES))
        question = next((q for q in tries if q is not None and q.answer is not None), None)
        if question is None:
            context.drop("no object that is unique")
            return
        taken += question.about[0]
        yield _target(f"{row['image_id']}-{k}", row, scene, question.text, str(question.answer))


def _own(context: PairContext, scene: Scene, rows: Sequence[Row]) -> Iterator[Target]:
    for row in rows:
        try:
            query = parse_query(row["question"])
        except ValueError:
            context.drop("asks for no attribute of a thing")
            continue
        answers = possible_answers(query, scene)
        if query.ask not in VALUES or query.when != "now":
            context.drop("asks for no attribute of a thing")
        elif len(answers) != 1:
            context.drop("not answered by its image")
        else:
            yield _target(row["sample_id"], row, scene, row["question"], answers[0])


def _target(key: str, row: Row, scene: Scene, question: str, answer: str) -> Target:
    phrase = parse_query(question).of
    meant = matching_objects(scene, phrase)
    others = tuple(_thing(scene, i) for i in range(len(scene["objects"])) if i not in meant)
    thing = Thing(noun_phrase(phrase), noun_phrase(phrase, plural=True), objects=meant)
    return Target(key, row, question, answer, thing, partial(_other_questions, scene, meant, question), others, scene)


def _thing(scene: Scene, i: int) -> Thing:
    phrase = {a: scene["objects"][i][a] for a in LEVELS[scene["level"]].attributes}
    return Thing(noun_phrase(phrase), noun_phrase(phrase, plural=True), objects=(i,))


def _other_questions(scene: Scene, meant: Sequence[int], question: str) -> list[tuple[str, str]]:
    """Return other (question, answer) pairs about an attribute of these objects."""
    forms = [text for ask, when, text in FORMS if (ask, when) == ("attribute", "now")]
    answers: dict[str, str] = {}
    for attribute in LEVELS[scene["level"]].attributes:
        for i, phrase in referents(scene, attribute):
            if i in meant:
                answers.update({word(Query(attribute, phrase), text): scene["objects"][i][attribute] for text in forms})
    return [(text, answer) for text, answer in answers.items() if text != question]
