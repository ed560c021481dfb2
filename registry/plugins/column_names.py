"""Names of the columns that estimators and metrics can read."""

from qualm.registry.plugins.internals import PREFIXES

CONTEXT = "context"
"""A first parameter of this name is not a column: it receives the run's settings."""


DRAWN = {"draw_texts": "text", "draw_logprobs": "token_logprobs", "draw_entropies": "token_entropies"}
"""Columns of sampled answers, and which column of GENERATIONS each is of."""


UNDER = {"draw_texts_under_": "text", "draw_logprobs_under_": "token_logprobs"}
"""How columns of answers sampled under perturbed variants begin, and which column of GENERATIONS each is of. What follows says which
variants: `all`, a perturbation (`blur`: at all its strengths) or one variant (`blur@radius=2`)."""


QUESTION = "question"
"""The sample's own question, as its data set has it."""


CHOICES = "choices"
"""A judge with a parameter of this name is for multiple-choice questions that are answered in words; whether for open ones too says
`READS = ["open", "choices"]` in its file."""


IN_WORDS = "in_words"
"""Multiple-choice questions are answered in words, where the model gives no numbers for options, and a judge reads words."""


RATED_BY, MARKED_BY = "rated_by_", "marked_by_"
"""Columns of metrics: `rated_by_JUDGE`, the ratings of the judge of that label; `marked_by_JUDGE/NAME`, one of its marks. Without a label
(`rated_by_`, `marked_by_/NAME`) the judge whose ratings are scored."""


GROUP_OF, CODE_OF = "group_of_", "code_of_"
"""Columns of metrics that number the values of a field of the samples: of what stands or falls together, and of kinds."""


ANSWERS = (
    "sample_id", "variant", "draw", "text", "token_logprobs", "token_entropies", "logprobs_without_image", "logprobs_without_question",
    "logprobs_without_both", "image_divergence", "uniform_divergence", "option_logits", "p_true",
    "p_true_sampling", "p_yes", "said_confidence", "input_digest", "thinking", "no_answer",
)  # fmt: skip
"""Columns of GENERATIONS (`qualm.registry.sample`, which needs Arrow); a test holds the two together."""


SCORED = (
    "correct", "confidence", "answerable", "uncertain", "fold", "predicted", "n_options", "option_probabilities", "right_option",
    "is_calibration", "covered", "set_size", "says_uncertain", "uncertainty", "clean_correct", "clean_uncertainty",
    "uncertainty_change", "input_changed", "pred_is_idk", "gt_is_idk", "weights",
)  # fmt: skip
"""What a metric reads, as `qualm.runners.contracts.metrics` explains it."""


SET_COLUMNS = frozenset({"covered", "set_size"})
"""What metrics read of conformal sets."""


def of_estimators() -> tuple[frozenset[str], tuple[str, ...]]:
    """The columns that estimators can read, and how others begin."""
    return frozenset({*ANSWERS, *DRAWN, QUESTION, CONTEXT}), (*UNDER, *PREFIXES)


def of_metrics() -> tuple[frozenset[str], tuple[str, ...]]:
    """The columns that metrics can read, and how others begin."""
    return frozenset(SCORED), (RATED_BY, MARKED_BY, GROUP_OF, CODE_OF)
