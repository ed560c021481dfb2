"""Claim-conditioned probability (Fadeeva et al., Findings of ACL 2024), as LM-Polygraph computes it for whole answers."""

import string
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import Draws, EstimatorContext, Floats
from qualm.runners.contracts.nli import Pair
from qualm.runners.inference.nli import CONTRADICTION, ENTAILMENT

CITES = ["fadeeva2024factchecking"]
NEEDS = ["top_logprobs", "top_tokens"]
Positions = Sequence[Sequence[str]]
"""Texts of the likeliest tokens at each position of an answer, its own first."""
FUNCTION_WORDS = frozenset(
    """a an the this that these those i me my mine myself we us our ours ourselves you your yours yourself he him his himself she her hers
    herself it its itself they them their theirs themselves who whom whose which what where when why how am is are was were be been being do
    does did doing done have has had having can could may might must shall should will would and or but nor so if then than as because while
    until though although of at by for with without about against between among into through during before after above below over under to
    from up down in out on off onto upon again further once here there all any both each few more most other some such no not only own same
    too very just now also""".split()  # noqa: SIM905 - a text that people read
)
"""Articles, pronouns, auxiliaries, conjunctions, prepositions and the like."""
CHUNK = 1_000
"""Answers whose pairs of texts are in memory together."""


def claim_conditioned_probability(
    context: EstimatorContext,
    top_logprobs: Draws,
    top_tokens: Sequence[Positions],
    *,
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    compared: Literal["tokens", "beginnings"] = "tokens",
    function_words: Literal["compared", "skipped"] = "compared",
    k: Annotated[int, Ge(2), Le(100)] = 10,
    form: Literal["probability", "log"] = "probability",
) -> Floats:
    """Return each answer's 1 - prod_t CCP_t: how probable tokens are that contradict it.

    U = 1 - prod_t CCP_t with CCP_t = sum_e p / (sum_e p + sum_c p) over the k likeliest tokens at position t: e entail the answer's token
    (as it does itself), c contradict it, and neutral ones are left out. In [0, 1], higher = more uncertain. NLI is asked in both
    directions: one that is neutral leaves the verdict to the other, and opposite ones are neutral. Equal texts entail each other, and an
    empty one (punctuation, the end of the answer) is neutral to all others. Undefined for an answer without tokens, or without alternatives
    at a position. LM-Polygraph gives U - 1, and asks NLI about equal and empty texts too; the paper computes U for single claims.

    Example: "red" .6, "crimson" .2 (entails), "blue" .1 (contradicts), "the" .1 (neutral) give CCP = .8/.9 and U = .111111.

    Args:
        nli: NLI model of three classes; `lexical` knows words alone.
        compared: single tokens without punctuation, or the beginnings of the answer that end with them.
        function_words: compare articles, pronouns, prepositions and the like too, or give the answer's English ones CCP = 1, as the paper
            does.
        k: likeliest tokens of each position; fewer where fewer are stored (20, or a server's `logprobs`).
        form: U as above, or -sum_t ln CCP_t in nats, in [0, inf), which does not saturate for long answers.
    """
    model = context.nli(nli)
    values = np.full(len(top_tokens), np.nan)
    for start in range(0, len(values), CHUNK):
        answers = list(zip(top_tokens[start : start + CHUNK], top_logprobs[start : start + CHUNK], strict=True))
        texts = [_texts(tokens, logprobs, k, compared, function_words) for tokens, logprobs in answers]
        pairs = dict.fromkeys(pair for answer in texts for row in answer for other in row[1:] for pair in _nli_pairs(row[0], other))
        verdicts = dict(zip(pairs, np.argmax(model.logits(list(pairs)), axis=1).tolist(), strict=True))
        for number, (answer, (_, logprobs)) in enumerate(zip(texts, answers, strict=True), start):
            if answer:
                steps = zip(answer, logprobs, strict=True)
                values[number] = -sum(_log_ccp(position, row[: len(position)], verdicts) for position, row in steps)
    return (values if form == "log" else -np.expm1(-values)) + 0.0


def _texts(tokens: Positions, logprobs: Sequence[Floats], k: int, compared: str, function_words: str) -> list[list[str]]:
    """Return up to k texts to compare at each position, the answer's first; [] if undefined.

    A skipped function word has no alternatives, so that its CCP is 1.
    """
    if any(len(row) < 2 for row in tokens) or [len(row) for row in logprobs] != [len(row) for row in tokens]:
        return []
    texts, before = [], ""
    for row in tokens:
        is_skipped = function_words == "skipped" and _word(row[0]).casefold() in FUNCTION_WORDS
        texts.append([_word(token) if compared == "tokens" else (before + token).strip() for token in row[: 1 if is_skipped else k]])
        before += row[0]
    return texts


def _word(token: str) -> str:
    return token.strip(string.punctuation + string.whitespace)


def _nli_pairs(own: str, other: str) -> tuple[Pair, ...]:
    """Return a pair's two directions for NLI; () if the texts are equal or one is empty."""
    return ((own, other), (other, own)) if own != other and own and other else ()


def _log_ccp(texts: Sequence[str], logprobs: Floats, verdicts: Mapping[Pair, int]) -> float:
    """Return ln CCP of one position.

    Args:
        texts: of the tokens, the answer's own first.
        logprobs: of the tokens.
        verdicts: class of every pair that NLI decides.
    """
    signs = np.array([_sign(texts[0], other, verdicts) for other in texts])
    entailed = np.logaddexp.reduce(logprobs[signs > 0])
    return float(entailed - np.logaddexp.reduce(logprobs[signs != 0]))


def _sign(own: str, other: str, verdicts: Mapping[Pair, int]) -> int:
    """Return the sum of NLI's signs both ways: > 0 entailment, 0 neutral, < 0 contradiction."""
    if own == other:
        return 1
    signs = {ENTAILMENT: 1, CONTRADICTION: -1}
    return sum(signs.get(verdicts[pair], 0) for pair in _nli_pairs(own, other))
