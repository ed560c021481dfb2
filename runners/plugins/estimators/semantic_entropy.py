"""Semantic entropy: entropy over meanings instead of texts (Kuhn et al., ICLR 2023; Farquhar et al., Nature 2024).

UQ-NLG: Lin, Trivedi and Sun, "Generating with Confidence", 2023.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from scipy.special import entr

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import Draws, EstimatorContext, Floats, Texts
from qualm.runners.plugins.estimators._meanings import Ints, clusters

CITES = ["kuhn2023semantic", "farquhar2024detecting"]
NEEDS = {
    "draw_texts": "draw_texts",
    "draw_logprobs": {
        "version": {"sum": "draw_logprobs", "kuhn": "draw_logprobs", "uq_nlg": "draw_logprobs", "normalised": "draw_logprobs"}
    },
    "question": {"compared": {"with_question": "question"}},
}


def semantic_entropy(
    context: EstimatorContext,
    draw_texts: Texts,
    draw_logprobs: Draws | None,
    question: Sequence[str] | None,
    *,
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    version: Literal["sum", "frequency", "kuhn", "uq_nlg", "normalised"] = "sum",
    compared: Literal["answers", "with_question"] = "answers",
    same: Literal["entailment", "no_contradiction"] = "entailment",
    unique: bool = False,
) -> Floats:
    """Return each question's entropy, in nats, over the meanings of its sampled answers.

    Draws that entail each other in both directions are one cluster (greedily, against each cluster's first draw). With N draws, their
    log-probabilities l_i (sums over tokens at temperature 1, end of sequence included; means for `kuhn`) and ln p(c) = logsumexp of l_i in
    cluster c; in nats, higher = more uncertain:

    - `sum`: -(1/N) sum_i ln p(c(i)), LM-Polygraph's default. Equal draws add their probability up, so it may be below 0.
    - `frequency`: -(1/N) sum_i ln(n_c(i) / N), the entropy of cluster sizes ("discrete" semantic entropy); reads no probabilities.
    - `kuhn`: -(1/clusters) sum_c ln p(c), as Kuhn et al. compute it, without the constant 5 that their code adds.
    - `uq_nlg`: -(logsumexp_c ln p(c) - ln clusters), as UQ-NLG's code has it.
    - `normalised`: the entropy of p(c) / sum p(c) (Rao-Blackwellised), in [0, ln clusters].

    Undefined where a draw has no tokens (except for `frequency`). Draws that are empty texts are one cluster of their own.

    Example: probabilities .4, .2, .1, .3 in clusters {0, 1}, {2}, {3} give 1.132052, 1.039721, 1.339128, 1.098612, .897946.

    Args:
        nli: NLI model for entailment: `lexical` knows words alone; for sentences `hf`, with a model.
        version: which of the formulas above.
        compared: the answers alone, or each behind the sample's question, as Kuhn et al. compare them.
        same: one meaning = each follows from the other; or, looser, as in UQ-NLG, neither contradicts the other.
        unique: count equal texts once, the first of each.
    """
    contexts = question if compared == "with_question" else None
    model = context.nli(nli, "contradiction" if same == "no_contradiction" else "entailment")
    labels_by_sample = clusters(model, draw_texts, contexts, same)
    firsts = [list({text: i for i, text in reversed(list(enumerate(t)))}.values()) if unique else range(len(t)) for t in draw_texts]
    values = []
    for sample, (labels, indices) in enumerate(zip(labels_by_sample, firsts, strict=True)):
        rows = sorted(indices)
        logprobs = draw_logprobs[sample] if draw_logprobs is not None else None
        values.append(entropy(labels[rows], [logprobs[i] for i in rows] if logprobs is not None else None, version))
    return np.array(values, dtype=np.float64)


def entropy(labels: Ints, logprobs: Sequence[Floats] | None, version: str) -> float:
    """Return a sample's semantic entropy by cluster labels; NaN without needed `logprobs`.

    Args:
        labels: the cluster of each sampled answer.
        logprobs: of the tokens of each sampled answer; not read by `frequency`.
        version: of the formula.
    """
    if version == "frequency":
        return float(-np.log(np.bincount(labels)[labels] / len(labels)).mean() + 0.0) if len(labels) else float("nan")
    if not logprobs or not all(map(len, logprobs)):
        return float("nan")
    own = np.array([row.mean() if version == "kuhn" else row.sum() for row in logprobs])
    per_cluster = np.array([np.logaddexp.reduce(own[labels == c]) for c in np.unique(labels)])
    if version == "sum":
        return float(-np.mean(per_cluster[np.unique(labels, return_inverse=True)[1]]))
    if version == "kuhn":
        return float(-np.mean(per_cluster))
    total = np.logaddexp.reduce(per_cluster)
    if version == "uq_nlg":
        return float(np.log(len(per_cluster)) - total)
    return float(entr(np.exp(per_cluster - total)).sum() + 0.0)
