"""Prompts that fine-tunes train with: those that the trained model is asked with, as far as training can use them."""

from collections.abc import Iterator
from typing import Any

from qualm.compiler.spec.resolved import FinetuneUse, ModelUse, Resolved

EXAMPLES = "examples"


def training_prompts(resolved: Resolved, f: FinetuneUse) -> dict[str, dict[str, Any]]:
    """Return {dataset: prompt} to train a fine-tune with; default prompts are left out.

    Of a list it is the first prompt, without few-shot examples.
    """
    if not f.models:  # it begins from no model that knows prompts
        return {}
    prompts = {d: {key: value for key, value in prompt.items() if key != EXAMPLES} for d, prompt in _asked_with(resolved, f)}
    return {dataset: prompt for dataset, prompt in prompts.items() if prompt}


def training_prompt_notes(resolved: Resolved) -> Iterator[str]:
    """Yield a sentence per difference between a fine-tune's training and evaluation prompts."""
    for f in resolved.finetunes:
        asked = [prompt for _, prompt in _asked_with(resolved, f)]
        names = [model.ref.label.rpartition("prompt=")[2] for model in _trained(resolved, f)]
        if any(asked) and not f.models:
            yield f"{f.ref.label} is trained with the recipe's own questions, not with `prompt:`"
            continue
        if len(names) > 1:
            yield f"{f.ref.label} is trained with the first prompt, '{names[0]}', and asked with each of the {len(names)}"
        if any(EXAMPLES in prompt for prompt in asked):
            yield f"{f.ref.label} is trained without the few-shot examples of its prompt, and asked with them"


def _asked_with(resolved: Resolved, f: FinetuneUse) -> list[tuple[str, dict[str, Any]]]:
    """Return (training dataset, prompt) pairs of the first model that a fine-tune makes."""
    datasets = [d for d in resolved.data if d.label.split("@")[0] in f.datasets]
    return [(d.label, model.prompt_for(d)) for model in _trained(resolved, f)[:1] for d in datasets]


def _trained(resolved: Resolved, f: FinetuneUse) -> list[ModelUse]:
    return [model for model in resolved.models if model.unprompted == f.ref.label]
