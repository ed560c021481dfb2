"""A model's judgement of its own answer: P(yes) and P(True).

P(yes) / (P(yes) + P(no)) at the first position of the reply to `qualm.runners.prompts.question.VERIFY`, each summed over the spellings that
are one token for this tokenizer: the confidence of CertainlyUncertain (Khyathi Raghavi Chandu et al., ICLR 2025, section 2.3).
P("True") at the first position of the reply to `qualm.runners.prompts.question.p_true_prompt`, not normalised by "False": P(True) of
VLM-UQBench and lm-polygraph, after Kadavath et al., 2022.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from qualm.runners.contracts.models import ModelError

if TYPE_CHECKING:
    import torch

    from qualm.runners.inference.hf.reader import Reader

SPELLINGS = {**{word: (word, word.capitalize(), word.upper()) for word in ("yes", "no")}, "True": ("True",)}
"""Surface forms, each with and without a space before it."""


def yes_share(model: Reader, logits: torch.Tensor, prompt: str) -> list[float | None]:
    """Return P(yes) / (P(yes) + P(no)) per row of logits (rows, V) after `prompt`; None: NaN."""
    import torch

    yes, no = (torch.logsumexp(logits[:, spellings(model, word, prompt)], dim=1) for word in ("yes", "no"))
    shares: list[float] = torch.sigmoid(yes - no).tolist()
    return [None if s != s else s for s in shares]


def true_probability(model: Reader, logits: torch.Tensor, prompt: str) -> list[float | None]:
    """Return P("True") of all tokens, per row of logits (rows, V) after `prompt`; None if NaN."""
    import torch

    shares: list[float] = torch.softmax(logits, dim=1)[:, spellings(model, "True", prompt)].sum(dim=1).tolist()
    return [None if s != s else s for s in shares]


def spellings(model: Reader, word: str, prompt: str) -> list[int]:
    """Return the token ids of a word's spellings that are one token; ModelError for none."""
    ids, tried = single_tokens(model, prompt, [gap + form for form in SPELLINGS[word] for gap in ("", " ")])
    if not ids:
        way = "`leave_out:` the estimators of P(True)" if word == "True" else "say `confidence: none`"
        raise ModelError(
            f"model '{model.label}': no spelling of '{word}' is one known token after a prompt; tokens found: {tried}; beside this model, "
            f"{way}"
        )
    return sorted(set(ids.values()))


def single_tokens(model: Reader, prompt: str, texts: Iterable[str]) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Return (id by text, for texts of one token after a prompt; all token ids by text)."""
    before = model.tokenize(prompt)
    whole = {text: model.tokenize(prompt + text) for text in texts}
    single = {text: ids[-1] for text, ids in whole.items() if ids[:-1] == before and ids[-1] != model.tokenizer.unk_token_id}
    return single, {text: ids[len(before) :] for text, ids in whole.items()}
