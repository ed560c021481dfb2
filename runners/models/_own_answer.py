"""P(pred): a model is asked whether its own answer is right, and its yes is weighed against its no.

P(yes) / (P(yes) + P(no)) at the first position of the reply to `runners.prompts.VERIFY`, each summed over the spellings that
are one token for this tokenizer; the confidence of CertainlyUncertain (Khyathi Raghavi Chandu et al., ICLR 2025, section 2.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runners.models import Answer, ModelError, Request
from runners.prompts import verification

if TYPE_CHECKING:
    from runners.models.hf_vlm import HfVlm

SPELLINGS = {word: (word, word.capitalize(), word.upper()) for word in ("yes", "no")}
"""Surface forms, each with and without a space before it."""


def weigh(model: HfVlm, requests: Sequence[Request], answers: Sequence[Answer]) -> list[float | None]:
    """P(yes) of each answer, by one forward pass over the conversation that goes on from it; None where both are impossible."""
    import torch

    asked = [
        replace(r, prompt=model.render(verification(r.question, a.text or "", r.image is not None)), options=0)
        for r, a in zip(requests, answers, strict=True)
    ]
    tensors = model.on_device(model.encode(asked))
    with torch.inference_mode():
        logits = model.module(**tensors, use_cache=False, logits_to_keep=1).logits[:, -1].double()
    yes, no = (torch.logsumexp(logits[:, spellings(model, word, asked[0].prompt)], dim=1) for word in SPELLINGS)
    shares: list[float] = torch.sigmoid(yes - no).tolist()
    return [None if s != s else s for s in shares]


def spellings(model: HfVlm, word: str, prompt: str) -> list[int]:
    """Token ids of the spellings of a word that follow a prompt as one known token.

    Raises:
        ModelError: none does, so the model's yes cannot be told from its no.
    """
    found: dict[int, str] = {}
    tried: dict[str, Any] = {}
    before = model.tokenize(prompt)
    for text in (gap + form for form in SPELLINGS[word] for gap in ("", " ")):
        after = model.tokenize(prompt + text)
        tried[text] = after[len(before) :]
        if after[:-1] == before and after[-1] != model.tokenizer.unk_token_id:
            found[after[-1]] = text
    if not found:
        raise ModelError(f"model '{model.label}': no spelling of '{word}' is one known token after a prompt; tokens found: {tried}")
    return sorted(found)
