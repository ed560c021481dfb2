"""INV of VLM-UQBench: questions that no image can answer. The prompt is our own."""

from typing import Annotated

from annotated_types import Ge, Le
from numpy.random import Generator

from qualm.registry.plugins.registry import Chosen, Kind, PromptFile
from qualm.runners.contracts.perturbations import PerturbContext
from qualm.runners.plugins.perturbations._rewriting import RewriteOptions, new_questions

CITES = ["wang_vlmuqbench"]
MODALITY = "text"
STRENGTHS = ()
KEEPS_ANSWER = False
ASSETS = ["../../../specs/prompts/inv.md"]


def inv(
    context: PerturbContext,
    batch: list[str],
    rngs: list[Generator],
    *,
    generator: Annotated[Chosen, Kind("generators")] = "rules",
    prompt: PromptFile | None = None,
    temperature: Annotated[float, Ge(0), Le(100)] = 0.7,
    retries: Annotated[int, Ge(0), Le(1000)] = 3,
    max_new_tokens: Annotated[int, Ge(1)] = 64,
) -> list[str | None]:
    """Return invalid or nonsensical rewrites of the questions; None where that fails.

    There is no strength. The paper asks GPT-4o at temperature .7, with an unknown number of tries. Only the question is sent. A reply must
    hold one new question with a question mark; after the last try the item is left out and counted by the reason. Accuracy is undefined
    under this variant unless the spec says `scored: true`, as in the paper's Table 5.

    Args:
        rngs: choose among the forms of words of `rules`.
        generator: `rules` for questions about drawn scenes, in fixed forms of words; `hf` or `openai` for any.
        prompt: a file of yours in specs/prompts/, with `{question}` in it, instead of our inv; `paper/inv` for the paper's.
        temperature: of the model; tries need it above 0 to differ.
        retries: further tries.
        max_new_tokens: longest reply.
    """
    return new_questions(context, batch, rngs, generator, RewriteOptions("inv", prompt, retries, temperature, max_new_tokens))
