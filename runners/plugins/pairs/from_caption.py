"""Pairs of questions about one image, written from its caption: one answerable, one unanswerable.

CertainlyUncertain prompts GPT-4 with long captions, one prompt per category, for both questions and their answers. Here any model can
write them, and drawn scenes need none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from qualm.registry.entries.paper_prompts import is_printed
from qualm.registry.plugins.registry import Chosen, DatasetName, Kind, PromptFile
from qualm.registry.sample import SAMPLES, Sample
from qualm.runners.contracts.generators import Composer, GeneratorEngine, GeneratorError, chat
from qualm.runners.contracts.pairs import Member, PairContext, PairError, group_by_image, keep_single_image, pair_samples
from qualm.runners.inference.generator import CachedGenerator, open_engine
from qualm.runners.plugins.generators._rounds import ATTEMPTS, GenerationRounds, ask_in_rounds, check_dropped_share
from qualm.runners.plugins.pairs._written import LABELS, WrittenPair, prompt_sections, questions_of, read_pair
from qualm.runners.prompts.templates import PromptError, fill_placeholders, read_prompt, replace_sections
from qualm.runners.runtime.records import read_table
from qualm.runners.scoring.answer_text import normalise

CITES = ["chandu2025certainlyuncertain"]

ASSETS = [
    "../../../specs/prompts/knowledge.md",
    "../../../specs/prompts/complexity.md",
    "../../../specs/prompts/temporal.md",
    "../../../specs/prompts/ambiguity.md",
]
PROMPTED = ("knowledge", "complexity", "temporal", "ambiguity")
"""Categories with a prompt here; others need one of the user's."""
ASKS = {"each": "image", "times": "per_image", "text": "caption", "attempts": 2}
"""Requests to a server: see `qualm.compiler.project.text_prices`."""
DRAWS = 4
"""Default attempts of `rules`, which cost nothing."""


def from_caption(
    context: PairContext,
    *,
    dataset: DatasetName,
    category: str,
    generator: Annotated[Chosen, Kind("generators")] = "rules",
    captions: Literal["scene_graph", "meta"] | None = None,
    prompt: PromptFile | None = None,
    per_image: Annotated[int, Ge(1)] = 1,
    attempts: Annotated[int, Ge(1), Le(1000)] | None = None,
    most_dropped: Annotated[float, Ge(0), Le(1)] = 1.0,
    temperature: Annotated[float, Ge(0), Le(100)] = 0.7,
    max_new_tokens: Annotated[int, Ge(1)] = 200,
) -> Iterator[Sample]:
    """Yield an answerable and an unanswerable question per pair, from an image's caption.

    Args:
        context: datasets, seed, the taxonomy's text about the category.
        dataset: its images are asked about.
        category: path in the taxonomy; knowledge, complexity, temporal and ambiguity have a prompt of ours.
        generator: `rules` for scenes, every pair proved from the scene graph; `hf` or `openai` for anything with a caption.
        captions: `meta`: the sample's own (meta key `caption`). `scene_graph`: written from it. By default the available one.
        prompt: name of your file in specs/prompts/, with `{caption}` in it; by default our own for the category. `paper/knowledge`,
            `paper/complexity`, `paper/temporal` and `paper/ambiguity` stand for CertainlyUncertain's.
        per_image: pairs about each image.
        attempts: tries per pair, each with its own seed; then it is dropped and counted by its last reason. By default 2 for models and
            4 for `rules`, which cost nothing.
        most_dropped: greatest share of dropped pairs of a model; beyond it the stage fails.
        temperature: of the model; a second attempt needs it above 0 to differ.
        max_new_tokens: greatest length of a reply.

    Raises:
        PairError: there are no captions or scene graphs, the category has no prompt, the generator fails, or too many pairs are dropped.
    """
    rows = {image: group[0] for image, group in group_by_image(_rows(context, dataset)).items()}
    recipe = _Recipe(context, category, per_image, rows)
    parts = ([row["image_id"] for row in part] for part in context.parts(list(rows.values()), per_image))
    try:
        engine = open_engine(generator, context.settings)
        if isinstance(engine, GeneratorEngine):
            prompts = _prompts(recipe, dataset, captions, prompt)
            writing = _Writing(attempts or ATTEMPTS, temperature, max_new_tokens)
            asker = CachedGenerator(engine, context.settings)
            for part in parts:
                yield from _written(recipe, asker, {image: prompts[image] for image in part if image in prompts}, writing)
            check_dropped_share(asker, most_dropped)
        else:
            for part in parts:
                yield from _composed(recipe, engine, dataset, part, attempts or DRAWS)
    except (GeneratorError, PromptError) as error:
        raise PairError(f"recipe {context.label}: {error}") from error


@dataclass
class _Recipe:
    context: PairContext
    category: str
    per_image: int
    rows: Mapping[str, Mapping[str, Any]]
    questions: dict[str, set[str]] = field(default_factory=dict)
    """Questions about each image so far, normalised."""

    @property
    def kind(self) -> str:
        return self.category.rpartition("/")[2]

    def pair(self, image: str, k: int, answerable: Member, unanswerable: Member) -> Iterator[Sample]:
        name = f"{image}-{k}-{self.context.label}"
        yield from pair_samples(self.rows[image], name, "from_caption", self.category, answerable, unanswerable)

    def record_if_new(self, image: str, questions: set[str]) -> bool:
        """Record an image's questions and return True; False, recording none, if one is known."""
        before = self.questions.setdefault(image, set())
        if before & questions:
            return False
        before |= questions
        return True


@dataclass(frozen=True)
class _Writing:
    attempts: int
    temperature: float
    max_new_tokens: int


# -- by rules, from the scene graph ---------------------------------------------------------------------------------------


def _composed(recipe: _Recipe, composer: Composer, dataset: str, images: Sequence[str], attempts: int) -> Iterator[Sample]:
    from qualm.runners.data.scene_graphs import SceneGraphError, read_scenes

    try:
        scenes = read_scenes(recipe.context.dataset(dataset), {*images})
    except SceneGraphError as error:
        raise PairError(f"recipe {recipe.context.label}: {error}; hf and openai write pairs from captions") from error
    for image in images:
        if image not in scenes:
            recipe.context.drop("no scene graph", recipe.per_image)
            continue
        for k in range(recipe.per_image):
            yield from _compose(recipe, composer, scenes[image], image, k, attempts)


def _compose(recipe: _Recipe, composer: Composer, scene: Mapping[str, Any], image: str, pair_index: int, attempts: int) -> Iterator[Sample]:
    """Yield the two samples of one proved pair, or none, after counting the reason."""
    reason = ""
    for attempt in range(attempts):
        rng = recipe.context.rng(image, pair_index, attempt)
        try:
            contrast = composer.compose(scene, recipe.kind, rng)
        except ValueError as error:
            raise PairError(f"recipe {recipe.context.label}: {error}") from error
        reason = "scene offers none" if contrast is None else "asked before"
        if contrast is None or not recipe.record_if_new(
            image, {normalise(contrast.answerable.text), normalise(contrast.unanswerable.text)}
        ):
            continue
        facts = {"level": str(scene["level"]), "objects": str(len(scene["objects"])), "proof": contrast.proof}
        refusal = composer.decline(recipe.kind, contrast.unanswerable.text, rng)
        yield from recipe.pair(
            image,
            pair_index,
            Member(image, contrast.answerable.text, contrast.answerable.answer, {**facts, "asks": contrast.answerable.asks}),
            Member(image, contrast.unanswerable.text, refusal, {**facts, "asks": contrast.unanswerable.asks}),
        )
        return
    recipe.context.drop(reason)


# -- by a model, from captions --------------------------------------------------------------------------------------------


def _written(recipe: _Recipe, generator: CachedGenerator, prompts_by_image: Mapping[str, str], how: _Writing) -> Iterator[Sample]:
    """Yield the samples of all pairs that the generator writes, asked again if unusable."""
    places = {f"{image} {k}": (image, k) for image in prompts_by_image for k in range(recipe.per_image)}

    def read(key: str, text: str) -> WrittenPair:
        image = places[key][0]
        pair = read_pair(text, recipe.questions.get(image, ()))
        recipe.record_if_new(image, questions_of(pair))
        return pair

    pairs = ask_in_rounds(
        recipe.context,
        generator,
        {key: chat(prompts_by_image[image]) for key, (image, _) in places.items()},
        read,
        GenerationRounds(how.attempts, how.temperature, how.max_new_tokens, LABELS),
    )
    for key, (image, k) in places.items():
        if key in pairs:
            pair = pairs[key]
            yield from recipe.pair(image, k, Member(image, pair.answerable, pair.answer), Member(image, pair.unanswerable, pair.refusal))


def _prompts(recipe: _Recipe, dataset: str, captions: str | None, own_prompt: str | None) -> dict[str, str]:
    context, kind, rows = recipe.context, recipe.kind, recipe.rows
    if own_prompt is None and kind not in PROMPTED:
        raise PairError(
            f"recipe {context.label}: category '{recipe.category}' has no prompt of its own; write specs/prompts/{kind}.md, with "
            f"{{caption}} in it, and say `prompt: {kind}`"
        )
    text = replace_sections(read_prompt(kind, own_prompt), {} if is_printed(own_prompt) else prompt_sections(context.about))
    where = own_prompt or f"specs/prompts/{kind}.md"
    captions_by_image = _captions(context, dataset, captions, rows)
    if len(rows) > len(captions_by_image):
        context.drop("no caption", (len(rows) - len(captions_by_image)) * recipe.per_image)
    return {image: fill_placeholders(text, {"caption": caption}, where) for image, caption in captions_by_image.items()}


def _captions(context: PairContext, dataset: str, source: str | None, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    own = {image: text for image, row in rows.items() if (text := dict(row["meta"] or ()).get("caption", "").strip())}
    if source == "meta" or (source is None and own):
        if not own:
            raise PairError(
                f"recipe {context.label}: no sample of '{dataset}' has a caption (meta key `caption`); its adapter must give it"
            )
        return own
    from qualm.registry.scenes.captions import caption
    from qualm.runners.data.scene_graphs import SceneGraphError, read_scenes

    try:
        scenes = read_scenes(context.dataset(dataset), rows)
    except SceneGraphError as error:
        ways = "keep a column of them (`meta: [caption]` of its card), or take drawn scenes"
        raise PairError(f"recipe {context.label}: '{dataset}' has no captions (meta key `caption`), and {error}; {ways}") from error
    return {image: caption(scenes[image]) for image in rows if image in scenes}


def _rows(context: PairContext, dataset: str) -> list[dict[str, Any]]:
    columns = ["sample_id", "image_id", "split", "group", "meta"]
    rows: list[dict[str, Any]] = read_table(context.dataset(dataset) / "samples.parquet", SAMPLES, columns).to_pylist()
    return keep_single_image(context, rows)
