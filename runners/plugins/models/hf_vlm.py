"""Vision-language or text-only models of transformers, with their own processor and chat template.

Published ports of VLMs differ in where images go, how prompts end and what padding does, and log-probabilities depend on all of it. Here a
batch is left-padded, only raw logits are read, every signal comes from one read of the image (`qualm.runners.inference.hf.one_pass`), and
the tests compare every number with a plain unbatched forward pass over prompt and answer.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from qualm.registry.entries.model_folders import model_fault
from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.inference.hf.adapters import base_of, resolve_adapters
from qualm.runners.prompts.thinking import ThinkingError, parse_thinking

if TYPE_CHECKING:
    from qualm.registry.plugins.registry import Artifact
    from qualm.runners.inference.hf.model import HfVlm

GIVES = [
    "text", "token_logprobs", "token_entropies", "option_logits", "p_yes", "p_true", "p_true_sampling", "draws",
    "logprobs_without_image", "logprobs_without_question", "logprobs_without_both", "image_divergence", "uniform_divergence",
    "top_logprobs", "top_tokens",
    "said_confidence", "hidden_states", "attention", "gradient", "evidence", "token_ends",
]  # fmt: skip

EXTRA = "models"
FOLDER = "artifact"


def hf_vlm(
    context: ModelContext,
    *,
    artifact: Artifact | None = None,
    hub: str | None = None,
    revision: str | None = None,
    dtype: Literal["float64", "float32", "bfloat16", "float16"] | None = None,
    trust_remote_code: bool = False,
    adapter: Artifact | None = None,
    template: str | None = None,
    share: bool | None = None,
    quantization: Literal["none", "int8", "int4", "nf4"] = "none",
    thinking: bool | dict[str, int | str | list[str]] | None = None,
    date: str = "2026-01-01",
) -> HfVlm:
    """Return a transformers model from a folder or the hub; weights are loaded when needed.

    A model whose config.json names no vision part is a text-only language model, for questions without images.

    Args:
        artifact: the entry of registry/data/ that holds it, or `SPEC:MODEL`, a model that another spec makes. A folder with
            adapter_config.json is a peft adapter, which is merged into the model it names.
        hub: or its name on the Hugging Face hub; `qualm fetch SPEC` downloads it.
        revision: branch, tag or commit of the hub repository, `main` unless given. `qualm fetch` pins its commit in registry/fetch.lock.
        dtype: of the weights; null takes the run's. In float64 all is computed in double precision: equal results on any machine, at twice
            the time.
        trust_remote_code: run code that comes with the weights; only for a hub model, whose revision pins it.
        adapter: a peft adapter to be merged into these weights: an entry of registry/data/, or `SPEC:MODEL`.
        template: chat template (Jinja) instead of the processor's; models published without one need it.
        share: read common beginnings of prompts once. Null: yes, unless the architecture reads prompts in both directions (PaliGemma);
            false if `qualm doctor model` says that the model's cache cannot be continued.
        quantization: weights of the language model's linear layers in 8 bits (`int8`, by torchao) or 4 (`int4` by torchao, on CUDA; `nf4`
            by bitsandbytes); all else keeps its dtype.
        thinking: of a reasoning model: `true`, `false` (it answers at once), or `{tags: ["<think>", "</think>"], budget: 1024, of: answer,
            switch: enable_thinking}`. Missing keys are read from the chat template. `budget`: greatest number of thinking tokens;
            an answer with more is undefined and counted. `of`: tokens that estimators read: answer, thinking or both.
        date: written by chat templates that ask for today's, so that prompts do not change daily.

    Raises:
        ModelError: nothing or too much names the model, a revision without a pinned commit, or files that are missing.
    """
    from qualm.runners.inference.hf.model import HfVlm

    named = base_of(context, artifact, hub, revision, trust_remote_code)
    base = resolve_adapters(context.label, replace(named, adapters=(Path(adapter),) if adapter else ()))
    fault = model_fault(base.folder) if base.folder is not None else ""
    if fault:
        raise ModelError(f"model '{context.label}': {fault}")
    if base.adapters and quantization != "none":
        raise ModelError(f"model '{context.label}': an adapter cannot be merged into weights of {quantization}; leave one of them out")
    try:
        thought = parse_thinking(thinking)
    except ThinkingError as error:
        raise ModelError(f"model '{context.label}': {error}") from error
    return HfVlm(context.label, base, dtype or context.dtype or "float32", trust_remote_code, template, share, quantization, thought, date)
