"""Names of the columns that estimators and metrics can read."""

from qualm.registry.plugins.internals import PREFIXES

CONTEXT = "context"
UNIFORM = "uniform"
"""Second parameter of randomised conformal scores."""

DRAWN = {"draw_texts": "text", "draw_logprobs": "token_logprobs", "draw_entropies": "token_entropies"}
"""Columns of sampled answers -> the column of GENERATIONS that they read."""

UNDER = {"draw_texts_under_": "text", "draw_logprobs_under_": "token_logprobs"}
"""Prefixes of columns of answers sampled under perturbations -> the column of GENERATIONS. The variants follow the prefix: `all`, a
perturbation (`blur`: at all its strengths) or one variant (`blur@radius=2`)."""

QUESTION = "question"
"""The sample's question, without perturbations."""

CHOICES = "choices"
"""A judge with a parameter of this name rates multiple-choice questions that are answered in words; open ones too if its file has
`READS = ["open", "choices"]`."""

IN_WORDS = "in_words"
"""Signal of a model without option logits: it answers multiple-choice questions in words, which a judge reads."""

RATED_BY, MARKED_BY = "rated_by_", "marked_by_"
"""Prefixes of metric columns: `rated_by_JUDGE` holds a judge's ratings, `marked_by_JUDGE/NAME` one of its marks. Without a label
(`rated_by_`, `marked_by_/NAME`) the judge is the one whose ratings are scored."""

GROUP_OF, CODE_OF = "group_of_", "code_of_"
"""Prefixes of metric columns that number the values of a sample field: groups of dependent rows, and categories."""

ANSWERS = (
    "sample_id", "variant", "draw", "text", "token_logprobs", "token_entropies", "logprobs_without_image", "logprobs_without_question",
    "logprobs_without_both", "image_divergence", "uniform_divergence", "top_logprobs", "top_tokens", "option_logits",
    "p_true", "p_true_sampling", "p_yes", "said_confidence", "input_digest", "thinking", "no_answer", "finish", "verdict",
)  # fmt: skip
"""Columns of GENERATIONS (`qualm.registry.sample`, which needs Arrow); a test holds the two together."""

SCORED = (
    "correct", "confidence", "answerable", "uncertain", "fold", "predicted", "n_options", "option_probabilities", "right_option",
    "is_calibration", "covered", "set_size", "says_uncertain", "uncertainty", "clean_correct", "clean_uncertainty",
    "uncertainty_change", "input_changed", "pred_is_idk", "gt_is_idk", "hedges", "labelled", "people_rating",
    "sampled_correct", "sampling_variance", "weights",
)  # fmt: skip
"""Columns that metrics read; `qualm.runners.contracts.metrics` explains them."""

LABELLED = "labelled"
"""The column that is 1 for answers that people rated."""

SAMPLED_COLUMNS = frozenset({"sampled_correct", "sampling_variance"})

SET_COLUMNS = frozenset({"covered", "set_size"})


def of_estimators() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return (names, name prefixes) of the columns that estimators can read."""
    return frozenset({*ANSWERS, *DRAWN, QUESTION, CONTEXT}), (*UNDER, *PREFIXES)


def of_metrics() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return (names, name prefixes) of the columns that metrics can read."""
    return frozenset(SCORED), (RATED_BY, MARKED_BY, GROUP_OF, CODE_OF)
