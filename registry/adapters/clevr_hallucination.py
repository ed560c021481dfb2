"""CLEVR-Hallucination: questions of four kinds whose answers follow from scene graphs. VLM-UQBench: Wang, Chen, Ahmad, Batmanghelich, Li.

A wrong answer to a question that the image answers is a hallucination, of an attribute, an object, a number or a relation.
The scenes are CLEVR's (Johnson et al., CVPR 2017) or drawn here.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

from annotated_types import Ge

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_image
from qualm.registry.sample import Image, Sample
from qualm.registry.scenes.files import ScenesFile, ScenesFileError, read_scenes_file
from qualm.registry.scenes.questions import SceneQuestion, ask
from qualm.registry.scenes.render import png
from qualm.registry.scenes.validity import InvalidQuestionError, check
from qualm.registry.scenes.world import VALUES, Scene, make_scene, stream

META = ["kind", "objects", "level"]
TYPES = ("attribute", "existence", "counting", "relation")
COUNTS = ("0", "1", "2", "3", "4")
"""Counts that are asked for in turn."""
MAX_TRIES = 24
"""Questions drawn of a scene until one has the answer that is wanted."""
SCENES_PER_QUESTION = 60
"""Drawn scenes per question of a type, at most, before giving up."""


def clevr_hallucination(
    context: AdapterContext,
    *,
    per_type: Annotated[int, Ge(1)] = 150,
    types: list[Literal["attribute", "existence", "counting", "relation"]] | None = None,
    split: Literal["train", "val", "test"] | None = None,
    level: Literal["easy", "medium", "hard"] = "easy",
    margin: Annotated[float, Ge(0)] = 0.2,
    relations: Literal["sides", "directions", "both"] = "sides",
) -> Iterator[Image | Sample]:
    """Yield `per_type` questions of each hallucination type, checked on scene graphs.

    There are `per_type` questions of each type, at most one of a type per image. Every question has one right answer
    (`qualm.registry.scenes.validity`): an object named with "the" occurs once, an absent object is absent, and relations are not
    borderline. Answers are balanced (yes and no; counts 0 to 4; the attributes and their values), so no constant answer does well. A
    larger `per_type` only adds questions.

    Args:
        per_type: Questions of each type; 150 in the paper.
        types: Which of attribute, existence, counting and relation; all unless given. The sample's category.
        split: Of the scenes: of CLEVR's files train or val (the default), of drawn ones any (test).
        level: Of drawn scenes, as in `synthetic_scenes`; CLEVR's files have their own look.
        margin: Least distance of two objects along the axis that a relation asks about, in the scene's units.
        relations: What questions of relations ask: whether one object is on a side of another (yes or no), which attribute the one
            object has that lies in a direction, or both in turn, as the paper does.

    Raises:
        AdapterError: the files are not CLEVR's, or there are too few scenes.
    """
    chosen = tuple(types or TYPES)
    if len(set(chosen)) < len(chosen):
        raise AdapterError(f"clevr_hallucination: types: expected different ones, got {list(chosen)}")
    part = split or ("val" if context.source else "test")
    drawn = (
        _SceneImage(make_scene(context.seed, level, part, i), f"{level}{context.seed}-{part}-{i:06d}", context, part)
        for i in range(SCENES_PER_QUESTION * per_type)
    )
    scenes = _official(context, part) if context.source else drawn
    counts = dict.fromkeys(chosen, 0)
    with ScenesFile(context.folder / "scenes", part) as file:
        n_scenes = 0
        for one in scenes:
            n_scenes += 1
            questions = [
                (kind, question)
                for kind in chosen
                if counts[kind] < per_type
                and (question := _question(context.seed, one, kind, _target(kind, counts[kind], relations), margin)) is not None
            ]
            if questions:
                file.write(one.scene)
            for kind, question in questions:
                counts[kind] += 1
                yield from context.selected(_sample(one, kind, question), one.image)
            if min(counts.values()) >= per_type:
                return
    short = ", ".join(f"{n} of {kind} (next wanted: {'='.join(_target(kind, n, relations))})" for kind, n in counts.items() if n < per_type)
    raise AdapterError(f"clevr_hallucination: {n_scenes:,} scenes gave only {short}; expected {per_type} of each type, lower `per_type`")


class _SceneImage(NamedTuple):
    scene: Scene
    image_id: str
    context: AdapterContext
    where: str

    def image(self) -> Image:
        name = self.scene["image_filename"]
        if self.context.source is None:
            return Image(self.image_id, png(self.scene), name)
        picture = read_image(self.context.source, (f"images/{self.where}/{name}",), self.image_id, f"scene of {name}")
        return Image(picture.image_id, picture.data, name)


def _official(context: AdapterContext, split: str) -> Iterator[_SceneImage]:
    source = context.need_source("clevr_hallucination")
    try:
        for scene in read_scenes_file(source / "scenes" / f"CLEVR_{split}_scenes.json"):
            yield _SceneImage(scene, scene["image_filename"].rpartition(".")[0], context, split)
    except ScenesFileError as error:
        raise AdapterError(str(error)) from error


def _target(kind: str, number: int, relations: str) -> tuple[str, str]:
    """Return (attribute or kind to ask about, wanted answer) for question `number` of a type."""
    if kind == "relation" and relations == "directions":
        attribute, value = _target("attribute", number, relations)
        return f"direction/{attribute}", value
    if kind == "relation" and relations == "both":
        return _target(kind, number // 2, "directions" if number % 2 else "sides")
    if kind == "attribute":
        attribute = tuple(VALUES)[number % len(VALUES)]
        values = VALUES[attribute]
        return attribute, values[number // len(VALUES) % len(values)]
    answers: Sequence[str] = COUNTS if kind == "counting" else ("yes", "no")
    return kind, answers[number % len(answers)]


def _question(seed: int, scene_image: _SceneImage, kind: str, target: tuple[str, str], margin: float) -> SceneQuestion | None:
    """Draw a valid question of this type with the target answer; None if none was found."""
    asks, answer = target
    scene = scene_image.scene
    if asks in VALUES and all(thing[asks] != answer for thing in scene["objects"]):
        return None
    rng = stream(seed, "hallucination", scene_image.image_id, kind)
    for _ in range(MAX_TRIES):
        question = ask(rng, scene, asks)
        if question is None or question.answer != answer:
            continue
        try:
            check(scene, question.text, question.answer, margin)
        except InvalidQuestionError:
            continue
        return question
    return None


def _sample(one: _SceneImage, kind: str, question: SceneQuestion) -> Sample:
    meta = {"kind": question.kind, "objects": str(len(one.scene["objects"]))}
    return Sample(
        sample_id=f"{one.image_id}-{kind}",
        question=question.text,
        image_id=one.image_id,
        references=(question.answer,),
        category=kind,
        split=one.where,
        source="clevr_hallucination",
        group=one.image_id,
        meta=meta | ({"level": one.scene["level"]} if "level" in one.scene else {}),
    )
