"""Scenes with a question each: clean, with the image spoilt, with the question spoilt.

They test attribution of uncertainty to a modality, like the labelled subsets of VLM-UQBench (Wang, Chen, Ahmad, Batmanghelich, Li), but
with known damage.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from annotated_types import Ge

from qualm.registry.adapters import AdapterContext
from qualm.registry.sample import Image, Sample
from qualm.registry.scenes.files import ScenesFile
from qualm.registry.scenes.questions import SceneQuestion, ask_any, kinds_in_turn
from qualm.registry.scenes.render import encode_png, png, render
from qualm.registry.scenes.spoiling import PICTURES, QUESTIONS
from qualm.registry.scenes.world import Scene, make_scene, stream

META = ["kind", "level", "spoilt", "how", "modality"]
SPOILT = {"none": "clean", "picture": "image", "question": "text"}
"""Spoilt part -> modality of the uncertainty (`meta.modality`), the truth of attribution."""


def spoilt_scenes(
    context: AdapterContext,
    *,
    scenes: Annotated[int, Ge(1)] = 200,
    split: Literal["train", "val", "test"] = "test",
    level: Literal["easy", "medium", "hard"] = "easy",
) -> Iterator[Image | Sample]:
    """Yield three samples per drawn scene: clean, with spoilt image, with spoilt question.

    The three forms are a group. Kinds of question alternate, as do six corruptions of images and six of questions
    (`qualm.registry.scenes.spoiling`). `meta.spoilt` is none, image or question; `meta.how` is the corruption. The reference is always
    the clean question's answer.

    Args:
        scenes: how many; three samples each.
        split: of the scenes.
        level: as in `synthetic_scenes`.
    """
    with ScenesFile(context.folder / "scenes", split) as file:
        accepted, index = 0, 0
        while accepted < scenes:
            scene = make_scene(context.seed, level, split, index)
            question = ask_any(stream(context.seed, "spoilt", level, split, index), scene, kinds_in_turn(index))
            index += 1
            if question is not None:
                file.write(scene)
                yield from _samples(context, scene, question, f"{level}{context.seed}-{split}-{index - 1:06d}", accepted)
                accepted += 1


def _samples(context: AdapterContext, scene: Scene, question: SceneQuestion, name: str, number: int) -> Iterator[Image | Sample]:
    how_picture, how_question = tuple(PICTURES)[number % len(PICTURES)], tuple(QUESTIONS)[number // len(PICTURES) % len(QUESTIONS)]
    rng = stream(context.seed, "damage", name)
    spoilt_picture = Image(f"{name}-{how_picture}", encode_png(PICTURES[how_picture](render(scene), rng)), scene["image_filename"])
    picture = Image(name, png(scene), scene["image_filename"])
    rows = (
        ("none", "as it is", picture, question.text),
        ("picture", how_picture, spoilt_picture, question.text),
        ("question", how_question, picture, QUESTIONS[how_question](question.text, rng)),
    )
    for spoilt, how, image, text in rows:
        sample = Sample(
            sample_id=f"{name}-{spoilt}",
            question=text,
            image_id=image.image_id,
            references=(question.answer,),
            category=question.kind,
            split=scene["split"],
            source="spoilt_scenes",
            group=name,
            meta={"kind": question.kind, "level": scene["level"], "spoilt": spoilt, "how": how, "modality": SPOILT[spoilt]},
        )
        yield from context.selected(sample, image)
