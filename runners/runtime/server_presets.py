"""Capabilities and addresses of servers with OpenAI's protocol, from their API documentation.

A spec names one: `openai: {preset: ollama, model: ...}`. The compiler then fills in `base_url` and how to ask, and refuses what the server
cannot give. A server may give less than its description: what single models lack, only their first answer tells.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """Address of a known server, and the features that it supports."""

    title: str
    base_url: str
    key: str = ""
    """Environment variable with the key."""
    top: int = 0
    """Maximum of `logprobs`; 0 = no log-probabilities."""
    top_note: str = ""
    """Condition of that maximum."""
    prompts: bool = False
    n: bool = False
    """True if a request can ask for several answers."""
    seeds: bool = True
    hottest: float = 2.0
    """Highest sampling temperature."""
    structured: bool = True
    """True if replies can be constrained to a JSON Schema."""
    batch: bool = False
    """True if it has OpenAI's batch API."""
    api: str = ""
    """Documentation that these values are taken from."""


PRESETS = {
    "vllm": Preset(
        "vLLM",
        "http://127.0.0.1:8000/v1",
        top=100,
        top_note="20 unless started with `--max-logprobs`",
        prompts=True,
        n=True,
        api="https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
    ),
    "sglang": Preset(
        "SGLang",
        "http://127.0.0.1:30000/v1",
        top=100,
        top_note="started with `SGLANG_RETURN_ORIGINAL_LOGPROB=1`",
        n=True,
        api="https://docs.sglang.io/docs/basic_usage/openai_api",
    ),
    "llama_cpp": Preset(
        "llama.cpp",
        "http://127.0.0.1:8080/v1",
        top=100,
        api="https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
    ),
    "ollama": Preset(
        "Ollama",
        "http://127.0.0.1:11434/v1",
        top=20,
        top_note="from version 0.12.11",
        api="https://docs.ollama.com/api/openai-compatibility",
    ),
    "openai": Preset(
        "OpenAI",
        "https://api.openai.com/v1",
        key="OPENAI_API_KEY",
        top=20,
        top_note="not of reasoning models",
        n=True,
        batch=True,
        api="https://developers.openai.com/api/docs/api-reference/chat",
    ),
    "anthropic": Preset(
        "Anthropic",
        "https://api.anthropic.com/v1",
        key="ANTHROPIC_API_KEY",
        seeds=False,
        hottest=1.0,
        structured=False,
        api="https://docs.anthropic.com/en/api/openai-sdk",
    ),
    "gemini": Preset(
        "Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        key="GEMINI_API_KEY",
        n=True,
        seeds=False,
        api="https://ai.google.dev/api/compatibility",
    ),
    "openrouter": Preset(
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        key="OPENROUTER_API_KEY",
        top=20,
        top_note="by some of its providers",
        api="https://openrouter.ai/docs/api-reference/parameters",
    ),
}


REQUIRED_FIELDS = {"logprobs": "top", "truncated_entropies": "top", "partial_p_true": "top", "prompt_logprobs": "prompts"}
"""Parameter of a spec -> field of `Preset` that it requires."""


def unsupported_reason(preset: Preset | None, parameters: Iterable[str]) -> str:
    """Return why a server lacks log-probabilities that these spec parameters need; "" if not."""
    if preset is None or all(getattr(preset, REQUIRED_FIELDS[name]) for name in parameters if name in REQUIRED_FIELDS):
        return ""
    what = "log-probabilities of prompts" if preset.top else "log-probabilities"
    return f"{preset.title} shows no {what}, whatever is set"


def find_unsupported(
    preset: Preset, logprobs: int = 0, prompts: bool = False, n: bool = False, seeds: bool = False, temperature: float = 0.0
) -> dict[str, str]:
    """Return {spec key to blame: error message} of requests that a server cannot serve.

    Args:
        preset: the server.
        logprobs: requested number of likeliest tokens.
        prompts: whether prompts are scored.
        n: whether a request asks for several answers.
        seeds: whether requests have seeds.
        temperature: sampling temperature.
    """
    wrong: dict[str, str] = {}
    if logprobs > preset.top:
        shows = f"shows the {preset.top} likeliest tokens at most" if preset.top else "shows no log-probabilities"
        wrong["logprobs"] = f"{preset.title} {shows}, got {logprobs}"
    if prompts and not preset.prompts:
        wrong["prompt_logprobs"] = f"{preset.title} scores no prompts, so that it gives no priors"
    if n and not preset.n:
        wrong["n"] = f"{preset.title} gives one answer to a request"
    if seeds and not preset.seeds:
        wrong["seeds"] = f"{preset.title} takes no seed"
    if temperature > preset.hottest:
        wrong["preset"] = f"{preset.title} draws at temperatures up to {preset.hottest:g}, got {temperature:g} (`inference: temperature`)"
    return wrong
