"""Shared by judges that send a language model one prompt about each answer."""

from collections.abc import Mapping, Sequence

from qualm.registry.plugins.registry import Chosen
from qualm.runners.contracts.generators import GeneratorError, chat
from qualm.runners.contracts.judges import JudgeContext, JudgeError
from qualm.runners.inference.generator import open_generator
from qualm.runners.prompts.templates import PromptError, fill_placeholders, read_prompt


def replies(
    context: JudgeContext,
    judge: str,
    by: Chosen,
    fields: Sequence[Mapping[str, str] | None],
    user_prompt: str | None,
    max_new_tokens: int,
    max_prompt_characters: int | None = None,
) -> list[str | None]:
    """Return the model's reply per answer; None if unasked, prompt too long, or no text.

    A request that the server rejects has no text.

    Args:
        judge: its name, which is that of our prompt as well.
        by: the generator that is asked.
        fields: values of the prompt's placeholders, per answer; None where nothing is asked.
        user_prompt: a file of the user's, instead of ours.
        max_new_tokens: longest reply.
        max_prompt_characters: characters beyond which a prompt is not sent, and counted.

    Raises:
        JudgeError: the model or server fails, or a prompt lacks a placeholder.
    """
    try:
        text, where = read_prompt(judge, user_prompt), user_prompt or f"{judge}.md"
        filled = [None if values is None else fill_placeholders(text, values, where) for values in fields]
        short = [p for p in filled if p is not None and (max_prompt_characters is None or len(p) <= max_prompt_characters)]
        generator = open_generator(by, context.settings)
        by_prompt = (
            dict(zip(short, generator.complete([chat(p) for p in short], max_new_tokens=max_new_tokens), strict=True)) if short else {}
        )
        context.counters.update(generator.counters)
    except (GeneratorError, PromptError) as error:
        raise JudgeError(f"judge {judge}: {error}") from error
    if too_long := sum(p is not None for p in filled) - len(short):
        context.counters["prompts too long"] += too_long
    return [by_prompt[p].text if p in by_prompt else None for p in filled]
