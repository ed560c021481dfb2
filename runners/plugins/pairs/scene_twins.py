"""Pairs of scenes that neither the question nor the image alone reveals: two images and two questions, in all four combinations.

CertainlyUncertain's five kinds on drawn scenes, as a 2 x 2 design: one of two images answers each question, and one of two questions is
answered by each image. This balances both modalities, as VQA v2 (Goyal et al., CVPR 2017) balances one.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from annotated_types import Ge

from qualm.registry.plugins.registry import DatasetName
from qualm.registry.sample import SAMPLES, Image, Sample
from qualm.registry.scenes.contrast import CATEGORIES, refusals
from qualm.registry.scenes.render import png
from qualm.registry.scenes.twins import Twins, is_held_out, twins
from qualm.registry.scenes.world import VALUES
from qualm.runners.contracts.pairs import Member, PairContext, PairError, group_by_image, keep_single_image, pair_samples
from qualm.runners.data.scene_graphs import SceneGraphError, read_scenes
from qualm.runners.runtime.records import read_table

CITES = ["chandu2025certainlyuncertain"]
EXTRA = "pictures"


def scene_twins(
    context: PairContext,
    *,
    dataset: DatasetName,
    category: str,
    per_image: Annotated[int, Ge(1)] = 1,
    held_out: bool = True,
    decline: Literal["all", "first"] = "all",
) -> Iterator[Image | Sample]:
    """Yield two images and four samples per scene: each of two questions fits one image only.

    Each question and each image occurs once with an answer and once without, so a model that sees only one of them is right half of the
    time. Every pair is proved from the scene graphs.

    Args:
        dataset: of scenes; each pair keeps its scene's split and group. The images are drawn anew.
        category: path in the taxonomy. Its last name is one of `knowledge` (what is inside, where nothing has run out), `complexity`
            (more scratches than can be counted), `extraneous` (the object is absent), `temporal` (an object that left no trail),
            `ambiguity` (two objects are meant).
        per_image: uses of each scene, each with two new images and two pairs.
        held_out: ask about 6 of the 24 names of color and shape in val and test only, about the others in train only. Questions for an
            attribute name objects by the other one, and cannot be held out.
        decline: `all`: abstentions are drawn from all the category's ways. `first`: "I don't know."

    Dropped and counted: scenes that offer none, such as those of one object.

    Raises:
        PairError: the dataset has no scene graphs, or the category is none of the five.
    """
    kind = category.rpartition("/")[2]
    if kind not in CATEGORIES:
        raise PairError(f"recipe {context.label}: expected a category named {', '.join(CATEGORIES)}, got '{category}'")
    rows = {image: group[0] for image, group in group_by_image(_rows(context, dataset)).items()}
    try:
        scenes = read_scenes(context.dataset(dataset), rows)
    except SceneGraphError as error:
        raise PairError(f"recipe {context.label}: {error}") from error
    context.notes["held_out"] = _held_out_names() if held_out else []
    for row in (row for part in context.parts(list(rows.values()), 2 * per_image) for row in part):
        image = row["image_id"]
        if image not in scenes:
            context.drop("no scene graph", per_image)
            continue
        for k in range(per_image):
            rng = context.rng(image, k)
            pair = twins(rng, scenes[image], kind, row["split"] != "train" if held_out else None)
            if pair is None:
                context.drop("scene offers none")
                continue
            ways = [refusals(kind, text) for text in pair.questions]
            declined = [w[0] if decline == "first" else w[int(rng.integers(len(w)))] for w in ways]
            yield from _images_and_samples(row, f"{image}-{k}-{context.label}", category, pair, declined)


def _images_and_samples(row: Mapping[str, Any], name: str, category: str, pair: Twins, declined: list[str]) -> Iterator[Image | Sample]:
    """Yield the two images of twins, then the two samples of each question."""
    pictures = [f"{name}-{k + 1}" for k in range(2)]
    for picture, scene in zip(pictures, pair.scenes, strict=True):
        yield Image(picture, png(scene))
    for k, text in enumerate(pair.questions):
        facts = {"level": str(pair.scenes[0]["level"]), "asks": pair.asks, "proof": pair.proofs[k], "twins": name}
        counts = [str(len(scene["objects"])) for scene in pair.scenes]
        yield from pair_samples(
            row,
            pictures[k],
            "scene_twins",
            category,
            Member(pictures[k], text, pair.answers[k], {**facts, "objects": counts[k]}),
            Member(pictures[1 - k], text, declined[k], {**facts, "objects": counts[1 - k]}),
        )


def _held_out_names() -> list[str]:
    return [f"{color} {shape}" for shape in VALUES["shape"] for color in VALUES["color"] if is_held_out(color, shape)]


def _rows(context: PairContext, dataset: str) -> list[dict[str, Any]]:
    columns = ["sample_id", "image_id", "split", "group"]
    rows: list[dict[str, Any]] = read_table(context.dataset(dataset) / "samples.parquet", SAMPLES, columns).to_pylist()
    return keep_single_image(context, rows)
