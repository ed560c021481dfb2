"""IVE of VLM-UQBench: questions about something that the image does not show. The prompt is our own, the form of the reply theirs."""

from typing import Annotated

from annotated_types import Ge, Le
from numpy.random import Generator
from PIL.Image import Image

from qualm.registry.plugins.registry import Chosen, Kind, PromptFile
from qualm.runners.contracts.perturbations import PerturbContext
from qualm.runners.plugins.perturbations._rewriting import RewriteOptions, new_variants

CITES = ["wang_vlmuqbench"]
MODALITY = "cross"
STRENGTHS = ()
KEEPS_ANSWER = False
ASSETS = ["../../../specs/prompts/amb_ive.md"]


def ive(
    context: PerturbContext,
    batch: list[tuple[Image, str]],
    rngs: list[Generator],
    *,
    generator: Annotated[Chosen, Kind("generators")] = "rules",
    prompt: PromptFile | None = None,
    temperature: Annotated[float, Ge(0), Le(100)] = 0.7,
    retries: Annotated[int, Ge(0), Le(1000)] = 3,
    max_new_tokens: Annotated[int, Ge(1)] = 400,
) -> list[tuple[Image, str] | None]:
    """Return (image, question about something not in it) per item; None where that fails.

    The reason is one of three (missing interaction target, implied missing associate, out of frame); where none fits (null), the item is
    left out. The image stays. Accuracy is undefined under this variant: the old answer is no longer right. The reason goes into the
    sample's meta key `reason_unanswerable`.

    A model that reads images writes AMB and IVE in one JSON reply, which both share if their parameters are equal. An unusable reply is
    requested again; after the last try the item is left out and counted by the reason.

    Args:
        rngs: choose among what `rules` finds.
        generator: `rules` for questions about drawn scenes: about what is outside the image or was done before it, which no scene graph
            fixes. `hf` or `openai`, if they read images, for any.
        prompt: a file of yours in specs/prompts/, with `{question}` in it, instead of our amb_ive; `paper/amb_ive` for the paper's.
        temperature: of the model; tries need it above 0 to differ.
        retries: further tries.
        max_new_tokens: longest reply.
    """
    options = RewriteOptions("amb_ive", prompt, retries, temperature, max_new_tokens, sees=True, seeds="amb_ive")
    return new_variants(context, batch, rngs, generator, "ive", options)
