"""Questions about drawn scenes that are clear, or uncertain by their image, their words, or the match of the two.

After the subsets of VLM-UQBench (Wang, Chen, Ahmad, Batmanghelich, Li), which people labelled in VizWiz; here they are made from scene
graphs, so the label is known.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.sample import Image, Sample
from qualm.registry.scenes.files import ScenesFile
from qualm.registry.scenes.questions import SceneQuestion, ask_any, kinds_in_turn
from qualm.registry.scenes.render import encode_png, png, render
from qualm.registry.scenes.rewrites import Rewrite, rewrite
from qualm.registry.scenes.world import Scene, make_scene, stream

META = ["kind", "level", "modality", "how", "cross"]
TILES = 6
"""Along a side of an image of low quality."""
TEXT, CROSS = ("inv", "sbj"), ("amb", "ive")
"""Ways in which words are uncertain, and words and image together; they take turns, where a question allows them."""
SCENES_PER_SAMPLE = 20
"""Drawn scenes per scene that is kept, at most, before giving up."""


def uncertain_scenes(
    context: AdapterContext,
    *,
    per_subset: Annotated[int, Ge(1)] = 150,
    split: Literal["train", "val", "test"] = "test",
    level: Literal["easy", "medium", "hard"] = "easy",
) -> Iterator[Image | Sample]:
    """Yield four samples per scene: clear, uncertain by image, by text, and across both.

    These are the paper's subsets, `per_subset` questions each. `meta.modality` is clean, image (six tiles along a side), text (invalid or
    subjective words) or cross (the words fit several objects, or ask for what the image does not show). `meta.how` says in which way, and
    `meta.cross` in which way the scene's cross-modal question is uncertain. The four questions of a scene are a group. Unanswerable
    questions are marked; an ambiguous one has all possible answers as references. A larger number only adds scenes.

    Args:
        per_subset: Scenes, and samples of each subset.
        split: Of the scenes.
        level: As in `synthetic_scenes`.

    Raises:
        AdapterError: too few scenes offer a question that can be made uncertain in every way.
    """
    with ScenesFile(context.folder / "scenes", split) as file:
        drawn = 0
        for index in range(per_subset * SCENES_PER_SAMPLE):
            scene = make_scene(context.seed, level, split, index)
            rng = stream(context.seed, "uncertain", level, split, index)
            question = ask_any(rng, scene, kinds_in_turn(drawn))
            if question and (rewrites := _rewritten(rng, question, scene, drawn)):
                file.write(scene)
                yield from _samples(context, scene, question, rewrites, f"{level}{context.seed}-{split}-{index:06d}")
                drawn += 1
            if drawn == per_subset:
                return
    raise AdapterError(f"uncertain_scenes: {drawn} of {per_subset} scenes after {per_subset * SCENES_PER_SAMPLE} tries; lower `per_subset`")


def _rewritten(rng: np.random.Generator, question: SceneQuestion, scene: Scene, turn: int) -> dict[str, tuple[str, Rewrite]]:
    """Return {"text": (way, rewrite), "cross": (way, rewrite)} of a question; {} unless both."""
    rewrites = {}
    for modality, ways in (("text", TEXT), ("cross", CROSS)):
        for way in (ways[turn % 2], ways[1 - turn % 2]):
            if (new := rewrite(rng, way, question.text, scene)) is not None:
                rewrites[modality] = way, new
                break
    return rewrites if len(rewrites) == 2 else {}


def _samples(
    context: AdapterContext, scene: Scene, question: SceneQuestion, rewrites: dict[str, tuple[str, Rewrite]], name: str
) -> Iterator[Image | Sample]:
    picture = Image(name, png(scene), scene["image_filename"])
    tiled = Image(f"{name}-tiles", _tiled(render(scene)), scene["image_filename"])
    right: tuple[str, ...] = (question.answer,)
    rows = [("clean", "as it is", picture, question.text, right), ("image", "tiles", tiled, question.text, right)]
    rows += [(modality, way, picture, new.question, new.candidates) for modality, (way, new) in rewrites.items()]
    for modality, how, image, text, references in rows:
        sample = Sample(
            sample_id=f"{name}-{modality}",
            question=text,
            image_id=image.image_id,
            references=references,
            answerable=bool(references),
            category=question.kind,
            split=scene["split"],
            source="uncertain_scenes",
            group=name,
            meta={"kind": question.kind, "level": scene["level"], "modality": modality, "how": how, "cross": rewrites["cross"][0]},
        )
        yield from context.selected(sample, image)


def _tiled(pixels: np.ndarray) -> bytes:
    """Return pixels as a PNG of TILES x TILES flat tiles, each of its mean colour."""
    height, width = pixels.shape[:2]
    rows, columns = (np.arange(n) * TILES // n for n in (height, width))
    sums = np.zeros((TILES, TILES, 3))
    np.add.at(sums, (rows[:, None], columns[None, :]), pixels.astype(np.float64))
    counts = np.bincount(rows)[:, None] * np.bincount(columns)[None, :]
    tiles = np.rint(sums / counts[..., None]).astype(np.uint8)
    return encode_png(tiles[rows][:, columns])
