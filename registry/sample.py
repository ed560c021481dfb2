"""Vocabulary of the project: sample, image, generation, judgement, uncertainty, score.

Every table that one stage writes and another reads has its Arrow schema here and nowhere else, so that a
column means the same thing in every file. Read this file first; it takes two minutes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa

from qualm.registry import ALL as ALL
from qualm.registry import ASKED as ASKED
from qualm.registry import CLEAN as CLEAN
from qualm.registry import EVIDENCE as EVIDENCE
from qualm.registry import GREEDY as GREEDY
from qualm.registry import HISTORY as HISTORY
from qualm.registry import MACRO as MACRO
from qualm.registry import MACRO_DATASETS as MACRO_DATASETS
from qualm.registry import REJECTED as REJECTED
from qualm.registry import UNCERTAIN as UNCERTAIN

AS_GIVEN = {b"precision": b"as given"}
"""Marks a column of doubles that may be as small as they like, and are not rounded to the decimals of results when they are written."""

_NO_META: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Image:
    """An image file's bytes, not decoded, with its id and original path."""

    image_id: str
    data: bytes
    path: str = ""
    """File name in the source, kept so that a person can find the original."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A question with reference answers or options, and maybe an image."""

    sample_id: str
    """Stable: the source's own id where it has one, else derived from content. Never a row number of ours."""
    question: str
    image_id: str | None = None
    """Id of its image; None without one; a JSON list of ids if there are several (`qualm.registry.formats.picture_lists`)."""
    references: tuple[str, ...] = ()
    """Acceptable answers of an open-ended question. Of an unanswerable one: how declining may be put, for training; judges need none."""
    choices: tuple[str, ...] = ()
    """Options of a multiple-choice question, in the order they are shown; empty for an open-ended one."""
    answer_index: int | None = None
    """Place of the right option in `choices`."""
    category: str = ""
    """Slash-separated path in the spec's taxonomy (`epistemic/extraneous`) or the source's own kind of question."""
    answerable: bool = True
    split: str = "test"
    source: str = ""
    """Name of the adapter or recipe that made it."""
    group: str = ""
    """Samples of one group are not independent (one image, rotations of one question): they are resampled together
    and never split between calibration and test. Empty means a group of its own."""
    meta: Mapping[str, str] = field(default_factory=lambda: _NO_META)
    """Anything else worth slicing by (`situation`, `dimension`, `kind`...), as text."""
    pair_id: str | None = None
    """Id shared by the two members of a contrastive pair."""


def _columns(kind: pa.DataType, *names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, kind) for name in names]


WHERE_USED = {"written": "where used"}
"""Metadata of a column that a table without any value in it does not have; it is read as null there."""

IMAGE_STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
"""Arrow type of images in Hugging Face `datasets`, so that `load_dataset("parquet", ...)` opens our files."""

IMAGES = pa.schema(
    [("image_id", pa.string()), ("image", IMAGE_STRUCT)],
    metadata={"huggingface": '{"info": {"features": {"image_id": {"dtype": "string", "_type": "Value"}, "image": {"_type": "Image"}}}}'},
)

SAMPLES = pa.schema(
    [
        *_columns(pa.string(), "sample_id", "image_id", "question"),
        ("references", pa.list_(pa.string())),
        ("choices", pa.list_(pa.string())),
        ("answer_index", pa.int16()),
        ("category", pa.string()),
        ("answerable", pa.bool_()),
        *_columns(pa.string(), "split", "source", "group"),
        ("meta", pa.map_(pa.string(), pa.string())),
        ("pair_id", pa.string()),
    ]
)

GENERATIONS = pa.schema(
    [
        ("sample_id", pa.string()),
        ("variant", pa.string()),  # perturbation@parameter=value, or "clean"
        ("draw", pa.int16()),  # 0 greedy, with every signal that was asked for; 1..N sampled, with text and what is known of its tokens
        ("text", pa.string()),
        ("token_logprobs", pa.list_(pa.float32())),  # natural log, of the generated tokens, end-of-sequence included, at temperature 1
        ("token_entropies", pa.list_(pa.float32())),  # nats, over the full vocabulary, same length
        ("logprobs_without_image", pa.list_(pa.float32())),  # of the same tokens, had the image not been shown
        ("logprobs_without_question", pa.list_(pa.float32())),  # had nothing been asked about it
        ("logprobs_without_both", pa.list_(pa.float32())),  # had there been neither
        ("image_divergence", pa.list_(pa.float32())),  # nats per token: KL of what could come next with the image from that without it
        # nats per token: KL of the uniform distribution over the vocabulary from what could come next
        ("uniform_divergence", pa.list_(pa.float32())),
        ("top_logprobs", pa.list_(pa.list_(pa.float32()))),  # of the likeliest tokens at each position of the answer, highest first
        # these tokens as the text that each adds to the answer; of equally likely ones the answer's own comes first
        pa.field("top_tokens", pa.list_(pa.list_(pa.string())), metadata=WHERE_USED),
        ("option_logits", pa.list_(pa.float64())),  # one per choice, at the answer's first position
        pa.field("p_true", pa.float64(), metadata=AS_GIVEN),  # of "True", when asked whether the answer is true or false
        pa.field("p_true_sampling", pa.float64(), metadata=AS_GIVEN),  # the same, its sampled answers being shown to it before it is asked
        pa.field("p_yes", pa.float64(), metadata=AS_GIVEN),  # P(yes) / (P(yes) + P(no)), when asked whether the answer is right
        ("said_confidence", pa.string()),  # the reply, when asked how sure it is of the answer
        ("input_digest", pa.string()),  # rendered prompt and pixels: what the model really saw
        pa.field("thinking", pa.string(), metadata=WHERE_USED),  # of a reasoning model: what it thought before it answered
        pa.field("no_answer", pa.string(), metadata=WHERE_USED),  # why there is no text: `qualm.registry.WITHOUT_ANSWER`
        pa.field("finish", pa.string(), metadata=WHERE_USED),  # of a server's answer: length, content_filter, refusal
        pa.field("verdict", pa.float64(), metadata=WHERE_USED),  # of a recorded answer: what its log says of it, 1 right to 0 wrong
    ]
)

JUDGEMENTS = pa.schema(
    [
        *_columns(pa.string(), "model", "dataset", "sample_id", "variant"),
        ("draw", pa.int16()),
        ("judge", pa.string()),
        ("pred_is_idk", pa.bool_()),
        ("gt_is_idk", pa.bool_()),
        ("rating", pa.float64()),  # 0..1; null = could not be scored
        ("reply", pa.string()),  # what the judge said, where a model is the judge
        ("parse_ok", pa.bool_()),
        ("marks", pa.map_(pa.string(), pa.float64())),  # what else the judge measured, by name: `said`, `sentences`...
        pa.field("hedges", pa.bool_(), metadata=WHERE_USED),  # it answers with a caveat; by rules, whichever judge rates it
    ]
)

UNCERTAINTIES = pa.schema(
    [
        *_columns(pa.string(), "model", "dataset", "sample_id", "variant", "estimator"),
        ("value", pa.float64()),  # HIGHER = MORE UNCERTAIN; null = undefined for this sample
    ]
)

CONFORMAL_SETS = pa.schema(
    [
        *_columns(pa.string(), "model", "dataset", "sample_id", "variant"),
        ("setting", pa.string()),  # the name of the spec's conformal entry
        ("score", pa.string()),  # lac, aps...
        ("is_calibration", pa.bool_()),
        ("set_mask", pa.uint64()),  # bit i set: option i is in the set
        ("set_size", pa.int16()),
        ("covered", pa.bool_()),
    ]
)

CONFORMAL_THRESHOLDS = pa.schema(
    [
        *_columns(pa.string(), "model", "dataset", "setting", "score"),
        ("alpha", pa.float64()),
        ("threshold", pa.float64()),  # +inf: too few groups (or rows) calibrate, every set is full; null of a part of which that is so
        ("n_calibration", pa.int64()),
        ("n_groups", pa.int64()),  # of the rows that calibrate
        ("n_test", pa.int64()),
        ("n_empty", pa.int64()),  # test sets that were empty before the empty-set rule
        # where a setting has `per:`, a row for each part of the questions
        pa.field("per", pa.string(), metadata=WHERE_USED),
        pa.field("part", pa.string(), metadata=WHERE_USED),
        pa.field("coverage", pa.float64(), metadata=WHERE_USED),  # of test rows of the part, clean inputs
        pa.field("band_low", pa.float64(), metadata=WHERE_USED),  # in which coverage is to be expected
        pa.field("band_high", pa.float64(), metadata=WHERE_USED),
        pa.field("mean_size", pa.float64(), metadata=WHERE_USED),  # of these rows' sets
    ]
)

ABSTENTIONS = pa.schema(
    [
        *_columns(pa.string(), "model", "dataset", "sample_id", "variant"),
        ("method", pa.string()),  # the name of the spec's abstention, "(optimistic)" behind it where it saw what it is scored on
        ("confidence", pa.float64()),  # of the answer as it then stands
        ("threshold", pa.float64()),
        ("abstains", pa.bool_()),  # an answer was turned into a refusal; null = no confidence, or nothing to fit on
        ("is_fit", pa.bool_()),  # chosen on and therefore not scored
    ]
)

ABSTENTION_RULES = pa.schema(
    [
        *_columns(pa.string(), "model", "dataset", "method"),
        ("part", pa.string()),  # "all", or the category that the rule is for
        ("threshold", pa.float64()),  # null: nothing to fit on
        ("attained", pa.bool_()),  # false: what was asked for could not be had
        ("statement", pa.string()),  # what the rule promises, in words
        ("fit", pa.string()),  # val, half or test; of the blind refuser: what it has learnt from
        ("n_fit", pa.int64()),
        ("n_abstained", pa.int64()),  # of the clean answers it is applied to, those it was fitted on left out
        ("n", pa.int64()),  # of how many
    ]
)

PROBE_FITS = pa.schema(
    [
        ("probe", pa.string()),
        ("model", pa.string()),
        ("dataset", pa.string()),  # whose answers it speaks of
        ("learnt_from", pa.string()),  # datasets, joined by commas
        ("n", pa.int64()),  # answers that it has learnt from
        ("n_groups", pa.int64()),  # groups of them
        ("share", pa.float64()),  # of these that were wrong, or of high uncertainty; null = none
        ("threshold", pa.float64()),  # above which an uncertainty is high; null where it learns from what is wrong
        ("val_accuracy", pa.float64()),  # on a fifth of the groups, of a probe that has learnt from the others; null = a class is absent
        ("val_calibration_error", pa.float64()),
        ("val_auroc", pa.float64()),
        ("why", pa.string()),  # why there is no probe; null where there is one
    ]
)

SHORTCUTS = pa.schema(
    [
        ("category", pa.string()),  # "all" = all of them
        ("sees", pa.string()),  # nothing, question or image
        ("n_learnt", pa.int64()),  # rows that were learnt from
        ("n", pa.int64()),  # rows that were told of
        ("in_turn", pa.bool_()),  # no train split: groups were told of in turn, by what the others teach
        ("repeated", pa.float64()),  # share of the questions that occur in train word by word
        ("accuracy", pa.float64()),  # null = undefined, as are low and high
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("balanced_accuracy", pa.float64()),  # mean over the two classes
        ("balanced_low", pa.float64()),
        ("balanced_high", pa.float64()),
        ("above_limit", pa.bool_()),  # the interval lies above the limit; null = there is none
        ("why", pa.string()),  # why something is undefined
    ]
)

_MEASURED = [
    ("value", pa.float64()),  # null = undefined
    ("low", pa.float64()),
    ("high", pa.float64()),
    ("n", pa.int64()),
    ("n_unscored", pa.int64()),
    ("why", pa.string()),  # why it is undefined, or why many rows are unscored, and what to do
    ("n_groups", pa.int64()),  # with a scored row
    ("interval", pa.string()),  # its method: t, proportion, optimistic, skewed, correlation, own, macro
    ("level", pa.float64()),
    ("n_resamples", pa.int64()),  # 0 of an interval that rests on none, where no average or comparison needs them
    ("n_undefined_resamples", pa.int64()),  # left out, having no value
    ("why_no_interval", pa.string()),  # of a value without one
    ("low_at_threshold", pa.float64()),  # of conformal sets: were no other threshold ever drawn
    ("high_at_threshold", pa.float64()),
    ("target", pa.float64()),  # of coverage: 1 - alpha
    ("band_low", pa.float64()),  # ...where it is to be expected if the promise holds, at 95%
    ("band_high", pa.float64()),
    ("promise", pa.string()),  # what is promised of it, and on what conditions
    ("p_null", pa.float64()),  # of calibration errors: as large ones by chance...
    ("null", pa.string()),  # ...if this held
    ("chance", pa.float64()),  # of estimators: what an uncertainty without information reaches on the same rows
    ("scored_share", pa.float64()),  # of the rows that could have a value, those that have one
    ("value_if_wrong", pa.float64()),  # the value if all unread answers were wrong; null where none is unread or `unread` is not `bounds`
    ("value_if_right", pa.float64()),  # ...and if all were right
    ("disputed", pa.string()),  # of a recorded log: how often its own verdict is another one, with examples
    ("caution", pa.string()),  # of a model on a dataset: why values of some estimators say little
    ("collapsed", pa.string()),  # of a variant: why the model is said to collapse under it
]

SCORES = pa.schema(
    [
        ("model", pa.string()),
        ("dataset", pa.string()),  # "macro:datasets": averaged over datasets
        ("variant", pa.string()),
        # "all", FIELD=VALUE, or "macro:FIELD": a mean over its values; of a perturbed variant "changed": what differs from clean input
        ("slice", pa.string()),
        ("metric", pa.string()),  # the plugin
        ("parameters", pa.string()),  # all that it was given, as JSON; null of a metric that the spec has no more
        ("estimator", pa.string()),  # whose uncertainty it reads; null = none, as in the columns that follow
        ("conformal", pa.string()),  # the setting of conformal sets that it is of, or whose calibration rows it leaves out
        ("nonconformity", pa.string()),  # the score of those sets; "mean": over all of the setting's
        ("calibrator", pa.string()),  # SETTING/METHOD that recalibrated the confidence that it reads
        ("judge", pa.string()),  # whose ratings it reads; null where all questions are multiple choice
        ("higher_is_better", pa.bool_()),  # null: neither direction is
        ("label", pa.string()),  # metric, parameters, estimator... in one text, by which reports, filters and the other tables call it
        *_MEASURED,
    ]
)

LABELLED_SCORES = pa.schema(
    [
        *_columns(pa.string(), "model", "dataset", "variant", "slice"),
        ("metric", pa.string()),  # the label of SCORES
        *_MEASURED,
    ]
)
"""Scores at run time: all that SCORES parts into columns is one label."""

COMPARISONS = pa.schema(
    [
        ("a", pa.string()),  # the baseline, or the first of a pair
        *_columns(pa.string(), "b", "dataset", "slice", "metric"),
        ("value_a", pa.float64()),  # both on the rows that both are scored on
        ("value_b", pa.float64()),
        ("difference", pa.float64()),  # b minus a
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("p", pa.float64()),  # two-sided, that the difference is 0
        ("p_adjusted", pa.float64()),  # for the tests of this metric, or of all metrics, on this dataset and slice
        ("why", pa.string()),  # reason why there is no p
        ("compared_by", pa.string()),  # the unbiased metric whose values these are, squared; null: the metric itself
        ("margin", pa.float64()),  # largest difference that does not matter
        ("p_equivalent", pa.float64()),  # that the difference is not within the margin; corrected as p_adjusted, by Holm's method for max-T
        ("p_not_worse", pa.float64()),  # that b is worse by the margin or more; corrected likewise
        ("n", pa.int64()),
        ("higher_is_better", pa.bool_()),  # null: neither direction is
        ("scored_share_a", pa.float64()),  # of each side by itself; the test is over rows that both have
        ("scored_share_b", pa.float64()),
    ]
)

RANKINGS = pa.schema(
    [
        *_columns(pa.string(), "dataset", "variant", "slice"),
        ("metric", pa.string()),  # its label, without the estimator where estimators are ranked
        ("among", pa.string()),  # models, estimators, "models and estimators"
        ("model", pa.string()),  # whose estimators are ranked, else null
        ("candidate", pa.string()),  # a model, an estimator, or MODEL/ESTIMATOR; the best first
        ("value", pa.float64()),
        ("low", pa.float64()),  # holds for all candidates at once, so also for the one that was picked
        ("high", pa.float64()),
        ("leader", pa.string()),  # the candidate of the best value
        ("p_adjusted", pa.float64()),  # of the difference from the leader; of the leader the largest against any other
        ("rank_low", pa.int64()),  # 1 + number of candidates that are significantly better: simultaneous interval of the rank
        ("rank_high", pa.int64()),  # candidates - number of those that are significantly worse; null where not comparable
        ("may_be_best", pa.bool_()),  # in the confidence set of the best: tied with every better value
        ("is_best", pa.bool_()),  # significantly better than every other candidate
        ("candidates", pa.int64()),
        ("n", pa.int64()),
        ("chance", pa.float64()),  # of estimators: what an uncertainty without information reaches
        ("scored_share", pa.float64()),
        ("not_comparable", pa.bool_()),  # scored shares differ too much: none is called the best
    ]
)

ESTIMATOR_COMPARISONS = pa.schema(
    [
        *_columns(pa.string(), "model", "dataset", "variant", "slice", "metric", "a", "b"),
        ("value_a", pa.float64()),
        ("value_b", pa.float64()),
        ("difference", pa.float64()),  # b minus a, in the same resamples of the same answers
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("p", pa.float64()),  # two-sided, from the spread of the difference over resamples of whole groups
        ("p_adjusted", pa.float64()),  # by max-T over all pairs of the family, those of models included
        ("n", pa.int64()),
        ("higher_is_better", pa.bool_()),
    ]
)

MODALITY_COMPARISONS = pa.schema(
    [
        ("model", pa.string()),
        ("dataset", pa.string()),
        ("slice", pa.string()),  # `changed`: over the samples whose input is changed, where these are known; else `all`
        ("metric", pa.string()),  # with its estimator
        ("a", pa.string()),  # a modality
        ("b", pa.string()),
        ("value_a", pa.float64()),  # mean over its perturbations
        ("value_b", pa.float64()),
        ("difference", pa.float64()),  # b minus a, in the same resamples
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("p", pa.float64()),  # two-sided, from the spread of the difference over resamples of whole groups
        ("p_adjusted", pa.float64()),  # by max-T over all such pairs of the family
        ("n", pa.int64()),
    ]
)

CALIBRATOR_COMPARISONS = pa.schema(
    [
        *_columns(pa.string(), "model", "dataset", "variant", "slice", "metric"),
        ("setting", pa.string()),  # the name of the spec's calibrators
        ("a", pa.string()),  # raw, a method, or METHOD/ESTIMATOR
        ("b", pa.string()),
        ("value_a", pa.float64()),  # over the rows on which none is fitted
        ("value_b", pa.float64()),
        ("difference", pa.float64()),  # b minus a
        ("low", pa.float64()),  # over draws of the rows that calibrate too
        ("high", pa.float64()),
        ("p", pa.float64()),  # two-sided, from the spread of the difference over resamples of whole groups, each fitted anew
        ("p_adjusted", pa.float64()),  # by max-T over all pairs of calibrators of the family
        ("n", pa.int64()),
        ("higher_is_better", pa.bool_()),
    ]
)

RECALIBRATED = pa.schema(
    [
        *_columns(pa.string(), "model", "dataset", "variant", "sample_id"),
        ("setting", pa.string()),  # the name of the spec's calibrators
        ("method", pa.string()),
        ("estimator", pa.string()),  # whose value was recalibrated; several combined: joined by +; null = the model's own confidence
        ("confidence", pa.float64()),  # that the answer is right; null where the row calibrates, or has no score
        ("option", pa.int64()),  # of multiple choice: the likeliest option, recalibrated
        ("is_calibration", pa.bool_()),
        pa.field("p0", pa.float64(), metadata=WHERE_USED),  # the interval that a Venn-Abers predictor merges into `confidence`
        pa.field("p1", pa.float64(), metadata=WHERE_USED),
    ]
)

EFFECTS = pa.schema(
    [
        ("model", pa.string()),
        ("dataset", pa.string()),
        ("variant", pa.string()),  # any but clean
        ("slice", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("reference", pa.float64()),  # without an effect: with clean and perturbed exchanged, or a correlation of 0
        ("p", pa.float64()),  # two-sided, that value and reference are equal
        ("p_adjusted", pa.float64()),  # for the tests of this metric, or of all metrics, on this dataset and slice
        ("n", pa.int64()),
    ]
)

CORRELATIONS = pa.schema(
    [
        ("dataset", pa.string()),
        ("slice", pa.string()),
        ("metric", pa.string()),  # what `studied` is set against, over the models of the spec
        ("studied", pa.string()),
        ("n_models", pa.int64()),
        *_columns(pa.float64(), "pearson", "pearson_low", "pearson_high"),
        pa.field("pearson_p", pa.float64(), metadata=AS_GIVEN),
        ("spearman", pa.float64()),
        pa.field("spearman_p", pa.float64(), metadata=AS_GIVEN),
    ]
)

RANK_STABILITY = pa.schema(
    [
        ("metric_a", pa.string()),  # what estimators are ranked by
        *_columns(pa.string(), "model_a", "dataset_a", "metric_b", "model_b", "dataset_b"),
        ("n_estimators", pa.int64()),  # that have both values
        ("tau_b", pa.float64()),  # Kendall's, of the two rankings
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)

ATTRIBUTIONS = pa.schema(
    [
        *_columns(pa.string(), "model", "dataset", "sample_id"),
        ("image", pa.float64()),  # probability, by a regression that saw nothing of the sample's group; null = not among the labels
        ("text", pa.float64()),
        ("cross", pa.float64()),
        ("blamed", pa.string()),  # the likeliest of the three
        ("truth", pa.string()),  # what the data say: image, text, cross or clean; null = nothing
    ]
)

BLAMES = pa.schema(
    [
        ("model", pa.string()),
        ("held_out", pa.string()),  # what was not seen of a labelled sample: its group, or its group and kind of damage
        ("n", pa.int64()),  # samples whose modality is known and that have an attribution
        *_columns(pa.float64(), "accuracy", "accuracy_low", "accuracy_high"),
        ("balanced_accuracy", pa.float64()),  # mean over modalities of the share that is right
        ("balanced_accuracy_low", pa.float64()),
        ("balanced_accuracy_high", pa.float64()),
        ("auroc", pa.float64()),  # of the lead of image over text, among samples of the two
        ("auroc_low", pa.float64()),
        ("auroc_high", pa.float64()),
        ("floor", pa.float64()),  # accuracy of always naming the most frequent modality
    ]
)
