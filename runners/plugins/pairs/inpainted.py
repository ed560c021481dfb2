"""Pairs of two images and one question: the image, and the same without the object that the question is about.

The extraneous category of CertainlyUncertain (appendix F.1): the object in question (saliency), its pixels (mask, dilated), the painted
image (inpaint), and an abstaining answer. Each step is a plugin.

For scenes every pair is proved from the scene graph: the image allows one answer, the scene without the object none. The painted image is
compared with the scene rendered without it (`qualm.runners.data.removal_quality`); recipe.json has the result.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from qualm.registry.plugins.registry import Chosen, DatasetName, Kind, PromptFile, load_chosen
from qualm.registry.sample import Image, Sample
from qualm.registry.scenes.contrast import REFUSALS
from qualm.runners.contracts.masks import dilation_reach
from qualm.runners.contracts.pairs import Member, PairContext, PairError, keep_single_image, pair_samples
from qualm.runners.contracts.saliency import Target
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.removal_quality import Removal, summarize_removals
from qualm.runners.plugins.pairs._painting import Painted, Painter
from qualm.runners.plugins.pairs._two_pictures import Questioner, QuestionOptions

ASKS = {"each": "question", "pictures": 2, "prompts": ["extraneous"], "only": {"question": "llm"}}
"""Requests to the server `asker`: see `qualm.compiler.project.text_prices`."""
CITES = ["chandu2025certainlyuncertain"]
EXTRA = "pictures"

IDK = dict(zip(("dont_know", "dont_see", "there_is_no", "cant_see"), REFUSALS["extraneous"], strict=True))
"""The paper's four ways to abstain."""


def inpainted(
    context: PairContext,
    *,
    dataset: DatasetName,
    saliency: Annotated[Chosen, Kind("saliency")],
    mask: Annotated[Chosen, Kind("masks")],
    inpaint: Annotated[Chosen, Kind("inpainters")] = "telea",
    category: str = "epistemic/extraneous",
    dilate: Annotated[int, Ge(0)] = 20,
    largest: Annotated[float, Gt(0), Le(1)] = 0.8,
    question: Literal["same", "templates", "llm"] = "same",
    asker: Annotated[Chosen, Kind("generators")] | None = None,
    prompt: PromptFile | None = None,
    attempts: Annotated[int, Ge(1), Le(1000)] = 2,
    most_dropped: Annotated[float, Ge(0), Le(1)] = 1.0,
    temperature: Annotated[float, Ge(0), Le(100)] = 0.7,
    max_new_tokens: Annotated[int, Ge(1)] = 120,
    idk: list[Literal["dont_know", "dont_see", "there_is_no", "cant_see"]] | None = None,
    control: bool = False,
) -> Iterator[Image | Sample]:
    """Yield per question the image without its object, and samples on both images.

    Args:
        dataset: its images are used; each pair keeps its split and group.
        saliency: finds the object in question: `scene_graph`, `question_llm`, `gqa`.
        mask: finds its pixels: `scene_graph`, `boxes`, `grounded_sam`.
        inpaint: paints over it: `telea`, `navier_stokes`, `lama`, or `rerender` for the exact scene without it.
        category: of the pairs, a path of the taxonomy.
        dilate: side in pixels of the square by which masks grow; the paper's 20 is for photographs, 64-pixel scenes want about 5.
            An even one grows a pixel more to the right and down than to the left and up.
        largest: dilated masks that cover a larger share of the image are dropped.
        question: `same`: the question that saliency is about. `templates`: another about the same object, made from what is known
            of it (scene graphs). `llm`: written by `asker`, which is shown both images and writes the abstention too.
        asker: for `llm`, a generator that reads images: `hf` or `openai`.
        prompt: for `llm`, name of your file in specs/prompts/; our own by default, `paper/extraneous` for CertainlyUncertain's.
        attempts: for `llm`, tries per question, each with its own seed; then it is dropped and counted by its last reason.
        most_dropped: for `llm`, greatest share of dropped questions; beyond it the stage fails.
        temperature: for `llm`; a second attempt needs it above 0 to differ.
        max_new_tokens: for `llm`, greatest length of a reply.
        idk: ways to abstain to draw from, by default all four of the paper: "I don't know.", "I don't see any ...",
            "There is no ... in the image.", "I can't see any ...".
        control: show the answerable member with another, random object painted over in the same way, so that both members are
            painted. A sweep (`[false, true]`) makes both kinds.

    Dropped and counted: failures of saliency and masks, images that cannot be decoded, masks that are too large, and for
    scenes pairs that cannot be proved.

    Raises:
        PairError: a dataset, plugin or model that cannot be used.
    """
    kinds = [k for k in IDK if idk is None or k in idk]
    if not kinds:
        raise PairError("idk: expected at least one way to decline, got an empty list; leave it out for all four")
    if question == "llm" and asker is None:
        raise PairError("question llm: expected a generator that reads images as `asker`, got none; say `asker: {hf: {artifact: ...}}`")
    folder = context.dataset(dataset)
    source = DatasetFolder(dataset, folder)
    rows = keep_single_image(context, source.table.to_pylist())
    masker, inpainter = load_chosen("masks", mask)(context), load_chosen("inpainters", inpaint)(context)
    painter = Painter(context, source, masker, inpainter, dilate, largest, control)
    measured: list[Removal] = []
    shares: list[float] = []
    find = load_chosen("saliency", saliency)
    options = QuestionOptions(asker, prompt, attempts, most_dropped, temperature, max_new_tokens)
    questioner = Questioner(context, options) if question == "llm" else None
    for part in context.parts(rows):
        targets = (t for target in find(context, folder, part) for t in _reworded(context, target, question))
        pictures = painter.paint(targets)
        pairs: Iterator[tuple[Painted, str]] = questioner.ask(pictures) if questioner else ((p, "") for p in pictures)
        for painted, declined in pairs:
            measured += [painted.removal] if painted.removal is not None else []
            shares.append(float(painted.plan.jobs[0].mask.mean()))
            yield from _pair(context, painted, category, *(("llm", declined) if declined else _draw_abstention(context, painted, kinds)))
    if questioner:
        questioner.check_share()
    context.notes["inpainting"] = {
        "dilation": {"kernel": dilate, "grows": dilation_reach(dilate), "off_centre": dilate > 1 and dilate % 2 == 0},
        "mask_share": round(float(np.mean(shares)), 4) if shares else None,
        "control": control,
        "removal": summarize_removals(measured) if measured else None,
    }


def _reworded(context: PairContext, target: Target, how: str) -> Iterator[Target]:
    pool = list(target.asks()) if how == "templates" else [(target.question, target.answer)]
    if not pool:
        context.drop("no template fits")
        return
    text, answer = pool[int(context.rng("template", target.key).integers(len(pool)))]
    yield replace(target, question=text, answer=answer)


def _draw_abstention(context: PairContext, painted: Painted, kinds: list[str]) -> tuple[str, str]:
    target = painted.plan.target
    kind = kinds[int(context.rng("idk", target.key).integers(len(kinds)))]
    return kind, IDK[kind].format(x=target.thing.name, xs=target.thing.plural)


def _pair(context: PairContext, painted: Painted, category: str, kind: str, declined: str) -> Iterator[Image | Sample]:
    plan, target, thing = painted.plan, painted.plan.target, painted.plan.target.thing
    pair_id = f"{target.key}-{context.label}"
    names = [f"{pair_id}-{what}" for what, _ in zip(("without", "control"), painted.pictures, strict=False)]
    for name, data in zip(names, painted.pictures, strict=True):
        yield Image(name, data)
    image_id, first = target.row["image_id"], {"object": thing.name, "proof": plan.proofs[0]}
    second = {**first, "removed": thing.name, "mask_share": f"{plan.jobs[0].mask.mean():.4f}"}
    if len(names) > 1:
        image_id = names[1]
        first |= {"control": "true", "removed": plan.jobs[1].thing.name, "control_proof": plan.proofs[1]}
    yield from pair_samples(
        target.row,
        pair_id,
        "inpainted",
        category,
        Member(image_id, target.question, target.answer, _without_empty(first)),
        Member(names[0], target.question, declined, _without_empty({**second, "idk": kind})),
    )


def _without_empty(meta: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in meta.items() if value}
