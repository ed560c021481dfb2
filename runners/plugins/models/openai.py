"""Models behind OpenAI-compatible servers: OpenAI, vLLM, SGLang, `transformers serve`.

They include models without published weights and faster engines. A server shows less than a model knows: at most the
likeliest tokens of each position, and mostly nothing of the prompt. Values that need more stay undefined. Keys,
limits and prices are in qualm.toml: `qualm.runners.runtime.server_config`.
"""

from dataclasses import replace
from typing import Annotated, Literal

from annotated_types import Ge, Le

from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.plugins.models._served import Content, Dialect, OpenAIModel
from qualm.runners.prompts.thinking import SWITCHES, ThinkingError, parse_thinking
from qualm.runners.runtime.settings import Settings
from qualm.runners.servers.client import Client

GIVES = [
    "text",
    "said_confidence",
    {
        "draws": "sampling",
        "token_logprobs": "logprobs",
        "token_entropies": ["logprobs", "truncated_entropies"],
        "top_logprobs": "logprobs",
        "top_tokens": "logprobs",
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
    "qualm.runners.servers.replies",
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
    detail: Literal["auto", "low", "high"] | None = None,
    jpeg: Annotated[int, Ge(1), Le(100)] | None = None,
    n: bool = True,
    sampling: bool = True,
    seeds: bool = True,
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
    thinking: bool | dict[str, int | str | list[str]] | None = None,
    preset: Literal["vllm", "sglang", "llama_cpp", "ollama", "openai", "anthropic", "gemini", "openrouter"] | None = None,
) -> OpenAIModel:
    """Return a model on a server with OpenAI's protocol (docs/how-to/servers.md).

    Args:
        model: as the server names it. Use a dated name: a change of the model behind a name goes unnoticed.
        base_url: up to and with `/v1`; another address of the same model belongs in qualm.toml (`address`).
        version: any text; changing it asks everything anew.
        logprobs: number of likeliest tokens to request for each position; 0 = none (`transformers serve` has none). OpenAI and vLLM show
            20 at most, vLLM more with `--max-logprobs`. Option logits and P(yes) are undefined if a word is not among them.
        truncated_entropies: fill token_entropies with the entropy of these tokens alone, a lower bound.
        partial_p_true: fill p_true where "True" is among these tokens. It is undefined elsewhere, where the model is least sure, so answers
            with a value are a biased sample.
        prompt_logprobs: the server scores prompts (as vLLM does), which the priors need.
        detail: OpenAI's resolution of images; null sends none.
        jpeg: send images as JPEG of this quality; null sends exactly the pixels, as PNG.
        n: request all sampled answers to a question at once, so that its prompt is paid once; no seed is sent then. A server without
            `n` is asked for each.
        sampling: send temperature, top_p and seed, which some models refuse; without them there are no sampled answers, and the server
            decides how it decodes.
        seeds: send a seed with each sampled answer that is requested alone.
        limit_name: the server's name for the greatest length; newer models of OpenAI say `max_completion_tokens`.
        thinking: of a reasoning model: `true`, `false` (sends `enable_thinking: false`), or `{budget: 1024, of: answer, tags: ["<think>",
            "</think>"], switch: enable_thinking, effort: low}`. `budget` tokens are allowed beside the answer's; `switch` is sent as
            `chat_template_kwargs` (vLLM, SGLang), `effort` as `reasoning_effort`. Thinking that the server does not separate is found
            by its tags.
        preset: the server; it sets base_url, n and seeds if they are left out, and refuses what that server lacks
            (docs/how-to/servers.md). The compiler replaces it by its values.

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
    content = Content(version, logprobs, truncated_entropies, prompt_logprobs, detail, jpeg, sampling)
    try:
        thought = parse_thinking(thinking)
    except ThinkingError as error:
        raise ModelError(f"model '{context.label}': {error}") from error
    if thought is not None and not thought.on:
        thought = replace(thought, switch=SWITCHES[0])
    return OpenAIModel(client, content, Dialect(n, seeds, limit_name), thought)
