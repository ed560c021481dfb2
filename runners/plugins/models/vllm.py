"""Vision-language models on vLLM, in this process: no server, no network, all prompts of a stage through one engine.

For runs that would take `hf_vlm` days, on a GPU that can hold many questions at once. Prompts are rendered and tokenised as by `hf_vlm`;
log-probabilities are of the raw logits (`logprobs_mode="raw_logprobs"`). Other kernels make numbers differ by rounding,
and hidden states and attention are not available. [vllm] in qualm.toml says how GPUs are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from qualm.registry.entries.model_folders import is_adapter, model_fault
from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.inference.hf.adapters import base_of
from qualm.runners.runtime.settings import Settings

if TYPE_CHECKING:
    from qualm.registry.plugins.registry import Artifact
    from qualm.runners.plugins.models._vllm import VllmModel

GIVES = [
    "text", "token_logprobs", "option_logits", "p_yes", "p_true", "draws", "said_confidence",
    "logprobs_without_image", "logprobs_without_question", "logprobs_without_both",
]  # fmt: skip
EXTRA = "vllm"
FOLDER = "artifact"


def vllm(
    context: ModelContext,
    *,
    artifact: Artifact | None = None,
    hub: str | None = None,
    revision: str | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] | None = None,
    trust_remote_code: bool = False,
    template: str | None = None,
    quantization: str | None = None,
    date: str = "2026-01-01",
) -> VllmModel:
    """Return a model (a folder or of the hub) that vLLM runs; `load` starts the engine.

    Args:
        artifact: the entry of registry/data/ that holds it, or `SPEC:MODEL`, a model that another spec makes; no adapter.
        hub: or its name on the Hugging Face hub; `qualm fetch SPEC` downloads it.
        revision: branch, tag or commit of the hub repository, `main` unless given. `qualm fetch` pins its commit in registry/fetch.lock.
        dtype: of the weights; null takes the run's.
        trust_remote_code: run code that comes with the weights; only for a hub model, whose revision pins it.
        template: chat template (Jinja) instead of the processor's.
        quantization: as vLLM names it (awq, gptq, fp8...); null reads it from the model's config.
        date: written by chat templates that ask for today's.

    Raises:
        ModelError: nothing or too much names the model, a revision without a pinned commit, files that are missing, or an adapter.
    """
    from qualm.runners.plugins.models._vllm import VllmModel

    base = base_of(context, artifact, hub, revision, trust_remote_code)
    who, folder = f"model '{context.label}'", base.folder
    if folder is not None and is_adapter(folder):
        raise ModelError(f"{who}: {folder} is an adapter, and this plugin hands vLLM none; ask it with hf_vlm, or merge it first")
    fault = model_fault(folder) if folder is not None else ""
    if fault:
        raise ModelError(f"{who}: {fault}")
    options = (context.settings or Settings()).vllm
    return VllmModel(context.label, base, dtype or context.dtype or "float32", trust_remote_code, template, quantization, options, date)
