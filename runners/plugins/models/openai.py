"""Models behind OpenAI-compatible servers: OpenAI, vLLM, SGLang, `transformers serve`.

They include models without published weights and faster engines. A server shows less than a model knows: at most the
likeliest tokens of each position, and mostly nothing of the prompt. Values that need more stay undefined. Keys,
limits and prices are in qualm.toml: `qualm.runners.servers.config`.
"""

from dataclasses import replace
from typing import Annotated, Literal

from annotated_types import Ge, Le

from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.plugins.models._served import Content, Dialect, OpenAIModel
from qualm.runners.prompts.thinking import SWITCHES, ThinkingError, declared
from qualm.runners.runtime.settings import Settings
from qualm.runners.servers.client import Client

GIVES = [
    "text",
    "said_confidence",
    {
        "draws": "sampling",
        "token_logprobs": "logprobs",
        "token_entropies": ["logprobs", "truncated_entropies"],
        "option_logits": "logprobs",
        "p_yes": "logprobs",
        "p_true": ["logprobs", "partial_p_true"],
        "logprobs_without_image": ["logprobs", "prompt_logprobs"],
        "logprobs_without_question": ["logprobs", "prompt_logprobs"],
        "logprobs_without_both": ["logprobs", "prompt_logprobs"],
    },
]
SERVER = "base_url"
"""Parameter with the server's address."""
ENGINE = [
    "qualm.runners.plugins.models._served",
    "qualm.runners.plugins.models._completions",
    "qualm.runners.plugins.models._reasoning",
    "qualm.runners.prompts.thinking",
    "qualm.runners.inference.hf.own_answer",
    "qualm.runners.prompts.question",
]
"""Code that shapes answers; the libraries that compute them are the server's."""


def openai(
    context: ModelContext,
    *,
    model: str,
    base_url: str = "https://api.openai.com/v1",
    version: str = "",
    logprobs: Annotated[int, Ge(0), Le(100)] = 0,
    truncated_entropies: bool = False,
    partial_p_true: bool = False,
    prompt_logprobs: bool = False,
    system: str | None = None,
    detail: Literal["auto", "low", "high"] | None = None,
    jpeg: Annotated[int, Ge(1), Le(100)] | None = None,
    n: bool = True,
    sampling: bool = True,
    seeds: bool = True,
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
    thinking: bool | dict[str, int | str | list[str]] | None = None,
    preset: Literal["vllm", "sglang", "llama_cpp", "ollama", "openai", "anthropic", "gemini", "openrouter"] | None = None,
) -> OpenAIModel:
    """Ask a model on a server with OpenAI's protocol (docs/how-to/servers.md).

    Args:
        model: as the server names it. If that name comes to mean another model, nobody notices: use a dated name.
        base_url: up to and with `/v1`. Where the same model is served elsewhere, say so in qualm.toml (`address`).
        version: any text; changing it asks everything anew.
        logprobs: how many of the likeliest tokens of a position the server shall show; 0 = none (`transformers serve` has none). OpenAI
            and vLLM show 20 at most, vLLM more with `--max-logprobs`. Option logits and P(yes) are read from them and are undefined
            where a word is not among them.
        truncated_entropies: fill token_entropies with the part of the entropy that these tokens make up: a lower bound, not the entropy.
        partial_p_true: fill p_true where "True" is among these tokens. It is undefined elsewhere, which is where the model is least sure
            of its answer, so the answers that have a value are not a fair sample.
        prompt_logprobs: the server scores prompts (vLLM does), so that it can give the priors.
        system: a system message before every conversation.
        detail: how closely OpenAI looks at images; not sent where null.
        jpeg: send images as JPEG of this quality; null sends exactly the pixels, as PNG.
        n: ask for all draws of a question in one request, which pays for its prompt once; no seed is sent then. A server that does not
            take `n` is asked for each draw.
        sampling: send temperature, top_p and seed, which some models refuse; without them there are no draws, and answers are decoded as
            the server likes.
        seeds: send a seed with draws that are asked for one by one.
        limit_name: what the server calls the longest answer; newer models of OpenAI say `max_completion_tokens`.
        thinking: of a reasoning model: `true`, `false` (sends `enable_thinking: false`), or `{budget: 1024, of: answer, tags: ["<think>",
            "</think>"], switch: enable_thinking, effort: low}`. `budget` tokens are allowed beside the answer's; `switch` is sent as
            `chat_template_kwargs` (vLLM, SGLang), `effort` as `reasoning_effort`. Thinking that the server does not tell apart is found
            by its tags.
        preset: which server it is. Sets base_url, n and seeds where they are left out, and refuses what that server does not give: see
            the table in docs/how-to/servers.md. Spelled out when the spec is compiled.

    Raises:
        ModelError: the address is not valid or holds a secret; entropies, P(True) or priors without log-probabilities; a preset that no
            compiler spelled out.
    """
    if preset is not None:
        raise ModelError(f"model '{context.label}': a preset is spelled out where specs are compiled; expected base_url, n and seeds here")
    if not logprobs and (truncated_entropies or partial_p_true or prompt_logprobs):
        raise ModelError(f"model '{context.label}': truncated_entropies, partial_p_true and prompt_logprobs need logprobs of at least 1")
    try:
        client = Client(f"model '{context.label}'", model, base_url, (context.settings or Settings()).server(base_url, model))
    except ValueError as error:
        raise ModelError(f"model '{context.label}': {error}") from None
    content = Content(version, logprobs, truncated_entropies, prompt_logprobs, system, detail, jpeg, sampling)
    try:
        thought = declared(thinking)
    except ThinkingError as error:
        raise ModelError(f"model '{context.label}': {error}") from error
    if thought is not None and not thought.on:
        thought = replace(thought, switch=SWITCHES[0])
    return OpenAIModel(client, content, Dialect(n, seeds, limit_name), thought)
