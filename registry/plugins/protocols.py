"""Contracts of plugins: one Protocol for each kind, which `get` holds a plugin's source to.

A plugin `NAME.py` of a kind has a function `NAME`. The Protocol's `__call__` states its positional parameters: those behind the star may
be left out (`context` then comes first, the others last), except `weights`, which is always last. Its keyword-only arguments are the
parameters of a spec. The Protocol's attributes are constants that its module may declare, written out as literals; those without a
default are needed. Further methods are functions that the module may have. `context` holds the run's settings and other inputs beside the
spec's parameters (`AdapterContext`, `PairContext`, `ModelContext`...); its type stands beside the returned types, in
`qualm.runners.contracts.KIND` or the `__init__.py` of the kind's folder.
"""

import difflib
import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Gt, Len, Predicate

from qualm.registry import MODALITIES
from qualm.registry.plugins.column_names import CONTEXT, of_estimators, of_metrics
from qualm.registry.plugins.extras import EXTRAS
from qualm.registry.plugins.validation import fits
from qualm.registry.system.textfiles import shorten

T = TypeVar("T")
_NOTHING: Any = MappingProxyType({})
Texts = Annotated[list[str] | tuple[str, ...], "a list of texts"]
OneOf = Annotated[dict[str, dict[Any, T]], Len(1, 1), "{parameter: {value or pattern of values: ...}}"]
ByArgument = Union[T, OneOf[T]]  # noqa: UP007 - generic
"""A value, or {parameter: {value or pattern of values: value}}; the first pattern that matches counts."""
_Given = list[str | dict[str, str | Texts]] | tuple[str | dict[str, str | Texts], ...]
Needs = Annotated[Texts | dict[str, str | OneOf[dict[Any, Any] | str | None]], "a list of columns, or {parameter: column}"]
_Key = str | Annotated[dict[Literal["of"], str], Len(1, 1)]
MetaKeys = Annotated[list[_Key] | tuple[_Key, ...], 'a list of keys, or of {"of": "parameter"}']
Asks = Annotated[
    dict[Literal["each", "times", "requests", "pictures", "text", "attempts", "prompts", "only"], Any],
    Predicate(lambda asks: asks.get("each") in ("question", "image", "answer")),
    "a mapping of each, times, requests, pictures, text, attempts, prompts, only",
]
OnlyWith = Annotated[dict[str, dict[str, Texts]], "{parameter, or parameter=value: {other parameter: its values}}"]


class Plugin(Protocol):
    """Constants that a plugin of any kind may declare."""

    SERVER: str = ""
    """Parameter with the address of the server that it asks; `model` names the model there."""
    ASKS: Asks = _NOTHING
    """Number of requests to the generator that a parameter names, for prices (`qualm.compiler.project.text_prices` explains the keys)."""
    ASSETS: Texts = ()
    """Files beside the module that it reads."""
    EXTRA: Literal[tuple(EXTRAS)] = ""  # type: ignore[valid-type]
    """Extra of the installation without which it cannot run."""
    ALSO_KNOWN_AS: Texts = ()
    """Names in papers and other libraries, which are no names here."""
    CITES: Texts = ()
    """Papers, by keys of `registry/entries/references.bib` or as BibTeX."""


class Dataset(Plugin, Protocol):
    """Contract of dataset adapters: turn official files, or a generator, into samples.

    - It streams `Image` and `Sample` (`qualm.registry.sample`), whatever the size. An image comes once, before the first sample that names
      it; `context.selected` yields both in order, and reads no image that the spec does not select.
    - Ids are the source's own or derived from content, never row numbers. Order is the source's, for every number of workers. Randomness
      comes from `context.seed` and stable ids, and a larger number of samples only adds.
    - A missing or malformed file ends the run with an `AdapterError` that names file, place, expectation and remedy. Work on one record
      stands in `with context.record():`, so that `skip_bad: true` can leave that record out, listed and counted.
    - What is known of an image in words is `meta.evidence`. Files for other readers may be written beneath `context.folder`.
    - A module outside a project may have `derived_files` (`DerivedFiles`), which `qualm data add` calls with the folder of official files.
    """

    META: MetaKeys = ()
    """Keys of `meta` that its samples may have, against which `where:` is checked; `{"of": "parameter"}` stands for a parameter's."""

    def __call__(self, context: Any) -> Iterator[Any]: ...


class Preparation(Plugin, Protocol):
    """Contract of preparations: change questions before models are asked (`prepare:`).

    - It yields the selected samples in their order, with other questions, options, references, groups or meta; ids, images and splits stay.
      A sample may be left out; the stage counts those. One that cannot be prepared raises `PreparationError`.
    - Randomness comes from `context.seed` and stable ids, unless somebody else's code is reproduced.
    """

    META: MetaKeys = ()
    """Keys of `meta`, as for datasets."""

    def __call__(self, context: Any, samples: Sequence[Any]) -> Iterator[Any]: ...


class Pair(Plugin, Protocol):
    """Contract of pair recipes: make pairs of an answerable and an unanswerable question.

    - It yields pairs of the parameter `category`, a path of the spec's taxonomy: the answerable member, then the unanswerable one, with
      the same `pair_id` (`pair_samples`). Images of the source are named by `image_id`; a new image is yielded before its sample.
    - Split and group are the source's, so that no image or scene is on both sides of a split.
    - Ids follow from the source's, and randomness from `context.rng(...)` of stable ids: a new source sample changes no earlier pair.
    - Rows come from `context.parts(rows)`, which hands out no more than `limit` needs. Samples without a pair are dropped with
      `context.drop(reason)` and counted. Expensive results are stored by content at once.
    """

    def __call__(self, context: Any) -> Iterator[Any]: ...


class Perturbation(Plugin, Protocol):
    """Contract of perturbations: change a sample before a model sees it, by a strength.

    | MODALITY | item of `batch` and of the result |
    |---|---|
    | `image` | `PIL.Image.Image`, mode RGB; size and mode stay |
    | `text` | `str`, the question without its options |
    | `cross` | `tuple[PIL.Image.Image, str]` |

    - It returns as many items, in order, and does not modify its inputs. None means that it cannot be applied; the item has no such
      variant and is counted. At strength zero it returns equal items, which are counted too.
    - `rngs` has a generator per item, determined by seed, variant and sample, its only source of randomness: a result does not depend on
      other items, position or batch size.
    - It is applied whenever images are loaded. With a `context` (`PerturbContext`), for one that takes minutes or money, it is a stage of
      its own, `perturb`, which stores the results for all models; `materialize: true` makes a stage of any other.
    """

    MODALITY: Literal[MODALITIES]  # type: ignore[valid-type]
    """Modality that it changes."""
    STRENGTHS: Texts = ()
    """Numeric parameters that make it stronger, for `qualm strength`; by default all numbers, `()` for none."""
    KEEPS_ANSWER: bool = True
    """False if the right answer may change: such answers are scored only with `scored: true`."""

    def __call__(self, batch: Sequence[Any], rngs: Sequence[Any], *, context: Any = None) -> Sequence[Any]: ...


class Model(Plugin, Protocol):
    """Contract of models: answer prompts, ask a server, or look up recorded answers.

    It returns a `Model`, a `Remote` or a `Recording` (`qualm.runners.contracts.models`).

    - `digest` changes with everything that answers depend on: weights, config, tokenizer, processor, dtype.
    - Creating a model reads no weights and sends nothing; `load` reads them, if something has to be computed.
    - `render` returns the exact text for the processor; a model sees that and the pixels. `encode` runs on a loader thread, `answer` on the
      device.
    - An answer depends only on its own prompt, up to rounding; at float32 its text is the same in every batch. Random numbers depend on the
      request's stream and the number of the sampled answer. A part that was not requested or does not exist is None.
    """

    GIVES: Annotated[_Given | OneOf[_Given], "a list of columns that it gives"] = ()
    """Columns of GENERATIONS that it can fill. `{"token_logprobs": "logprobs"}`: only if that parameter (several: a list) is set.
    `{"format": {"a": [...], "b": [...]}}`: a list for each value of a parameter."""
    FOLDER: str = ""
    """Parameter with a folder as transformers saves a vision-language model, for `qualm validate`."""
    ENGINE: Texts = ()
    """Modules that shape requests and read replies, for models computed elsewhere: only their edits invalidate answers."""

    def __call__(self, context: Any) -> Any: ...


class Finetune(Plugin, Protocol):
    """Contract of fine-tunes: return a `TrainingRecipe` with module, batches and saving.

    `qualm.runners.contracts.finetunes` has the class.

    - `batches(step)` depends only on step and seed, so that training continues after a kill. `share(step, part, parts)`, if given, returns
      one of several shares of that batch, for several devices or gradient accumulation; the mean of their losses is the batch's loss.
    - `module` is a LightningModule. `training_step` returns the loss and logs curves, its random numbers seeded by the step;
      `configure_optimizers` sets learning rates.
    - `save(folder, state)` writes the model as `save_pretrained` does, with processor, tokenizer and safetensors weights.
    """

    LOADS_WITH: str = "hf_vlm"
    """Model plugin that loads what it makes."""

    def __call__(self, context: Any) -> Any: ...


class Judge(Plugin, Protocol):
    """Contract of judges: rate how right answers in words are, and whether they abstain.

    Numbered options need no judge.

    - It returns a `Judgement` (`qualm.runners.contracts.judges`) per question, in order, which depends only on its own question,
      references, prediction and evidence. Expensive ones are stored by content.
    - `rating` is 1 for right, 0 for wrong, between them for partly right, None if it cannot decide, which is counted. Abstaining is right
      without references; any other answer is then wrong.
    - The detector of rules (`_refusals.is_refusal`) decides whether an answer abstains, unless DECIDES_ABSTENTIONS.
    - `evidence` is what is known about the image, `meta.evidence`. A judge with `choices` rates multiple-choice questions that were
      answered in words; its references are the right option's text and letter.
    - A parameter `otherwise: Annotated[Chosen, Kind("judges")] | None = None` names the judge of what this one cannot read (`parse_ok`
      false); `qualm.runners.scoring.apply_judge` asks it.
    """

    READS: Texts = ()
    """`["open", "choices"]` for a judge with `choices` that rates open questions too."""
    MARKS: Texts = ()
    """Further numbers of each readable answer, which metrics read as `marked_by_JUDGE/NAME`."""
    PEOPLE: Annotated[int, Gt(0), "a whole number above 0"] = 1
    """Number of references from which those of unanswerable questions are passed: they are people's answers, not ways to abstain."""
    DECIDES_ABSTENTIONS: bool = False
    """True if its language model decides whether an answer abstains; tables of metrics that rest on it say so."""

    def __call__(
        self,
        questions: list[str],
        references: list[list[str]],
        predictions: list[str],
        *,
        context: Any = None,
        evidence: list[str] | None = None,
        choices: list[list[str]] | None = None,
    ) -> list[Any]: ...


class Estimator(Plugin, Protocol):
    """Contract of estimators: return how uncertain a model's answers to questions are.

    - Positional parameters are columns. Those of GENERATIONS (`qualm.registry.sample`) are of the greedy answer: a list column is a list of
      n float64 arrays, text a list of n strings, a number an array (n,). `draw_texts`, `draw_logprobs` and `draw_entropies` are lists over
      the sampled answers. `question` is the sample's.
    - `draw_texts_under_WHICH` and `draw_logprobs_under_WHICH` are of sampled answers to perturbed variants, sorted; WHICH is `all`, a
      perturbation or a variant, usually a parameter. Such an estimator has values for clean answers only.
    - `hidden_states/LAYER/PLACE` and `draw_hidden_states/LAYER/PLACE` (`qualm.registry.plugins.internals`) come like list columns.
    - Rows that lack a column or sampled answers are not passed; their value is null and counted. Multiple-choice rows hold one token.
    - The result is (n,) float64, HIGHER = MORE UNCERTAIN, NaN if undefined; +inf is allowed. A value depends on its own row only.
    - With a `context` (`EstimatorContext`) it can open an NLI model.
    """

    NEEDS: Needs = ()
    """Its columns, where parameters are not named after them (`qualm.registry.plugins.columns`)."""

    def __call__(self, *columns: Any, context: Any = None) -> Any: ...


class Probe(Plugin, Protocol):
    """Contract of probes: classify hidden states or attention, to predict wrong answers.

    It returns a `ProbeDesign` (`qualm.runners.contracts.probes`).

    Columns come as to estimators; the features are (n, d) and a row's depend on that row. The stage `probe` trains one classifier per model
    on clean answers that are not scored (`fit:`). Its value is the probability of the target, scored as an estimator's.
    """

    NEEDS: Needs = ()
    """See `Estimator.NEEDS`."""
    TARGET: Annotated[Literal["wrong"] | Annotated[dict[Literal["high"], str], Len(1, 1)], '"wrong", or {"high": "parameter"}']
    """Target of its training: which answers are wrong, or where the estimator that a parameter names is high."""
    BESIDE: str = ""
    """Parameter that names a perturbed variant, with which the design's `ranking` compares answers in training."""

    def __call__(self, *columns: Any) -> Any: ...


class Calibrator(Plugin, Protocol):
    """Contract of calibrators: turn scores of answers into probabilities of being right.

    - `score` (n,) are finite scores for fitting, HIGHER = MORE LIKELY RIGHT: the log odds of a confidence, or an uncertainty with its sign
      turned. `right` (n,) is 0..1. `weights` is a (B, n) matrix as for metrics. `at` (m,) are scores to convert.
    - The result is (B, m): the probability that an answer with that score is right, by the fit to each resample; NaN without a fit. A
      probability depends only on its own score.
    - Options of a multiple-choice question are passed as answers and their results divided by their sum, unless OPTIONS.
    """

    OPTIONS: bool = False
    """True if it takes log-probabilities of all options at once: `score`, `right` (n, K), `at` (m, K), NaN beyond the last option, to
    (B, m, K), which sums to 1 over each question's options."""
    PROBABILITIES: bool = False
    """True if it recalibrates probabilities only, no other scores."""
    SEVERAL: bool = False
    """True if it also combines several scores of an answer: `score` (n, d) and `at` (m, d)."""

    def __call__(self, score: Any, right: Any, weights: Any, at: Any) -> Any: ...

    def interval(self, score: Any, right: Any, weights: Any, at: Any) -> Any:
        """Return (low, high) probabilities at `at` per resample, an array (2, B, m).

        For a method with an uncertainty of its own.
        """


class Conformal(Plugin, Protocol):
    """Contract of nonconformity scores: how badly each option fits, from probabilities.

    - `probs` (n, K) is the softmax over a question's options, NaN beyond the last one; the result is NaN exactly there. It is float64, or
      float32 under `precision: single`, where sums must stay float32.
    - The result (n, K) scores every option, HIGHER = FITS WORSE; a prediction set has all options with scores up to the threshold.
    - `uniform` (n,) are numbers in [0, 1) by question and seed of the setting, equal for all models and variants. No other randomness; a
      row's scores depend on that row only; otherwise coverage is not guaranteed.
    - A set contains the right option with probability at least 1 - alpha, on average over draws of exchangeable calibration and test
      questions (with `split: groups`, of groups, each counting once); not for each question, category or draw, nor for perturbed inputs.
    """

    def __call__(self, probs: Any, *, uniform: Any = None) -> Any: ...


class Abstention(Plugin, Protocol):
    """Contract of abstention methods: fit a rule for when a model should abstain.

    It returns an `AbstentionRule` (`qualm.runners.contracts.abstentions`).

    `fit` (`Answers`) holds clean, judged open answers of one model to one dataset or category, perhaps none. Answers of confidence below
    `threshold` become "I don't know", after rescaling to sigmoid(logit(p) / temperature + shift). `statement` says in one sentence what the
    rule promises; `attained` is False if it cannot keep that.
    """

    def __call__(self, fit: Any) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class MetricMeta:
    """Properties of a metric and of its tests, for `META` in its module.

    For example `META = MetricMeta(higher_is_better=True, interval="proportion")`.
    """

    higher_is_better: ByArgument[bool | None] = None
    """Its direction; None if neither is better."""
    over: Annotated[str | dict[str, str], "a column, or {parameter: column}"] = ""
    """Column that is 1 for the rows that it is over, which n counts; `{"flag": column}`: only if that parameter is set."""
    test: Literal["exchange", "independence"] = "exchange"
    """Test of a perturbation's effect: against the value with clean and perturbed answers exchanged, or against 0."""
    target: Literal["1 - alpha"] = "1 - alpha"
    """Nominal value by the conformal setting, shown with a band."""
    interval: ByArgument[Literal["t", "proportion", "optimistic", "skewed", "correlation", "own", "none"]] = "none"
    """Method of its interval (`qualm.runners.scoring.limits`), or `own` with a function `interval`."""
    contrasts: ByArgument[Literal["classes", "types", "none"]] = "none"
    """Which of its functions `classes` and `types` holds, where that depends on a parameter."""
    only_with: OnlyWith = field(default_factory=dict)
    """Values of another parameter with which a parameter has a meaning; anything else is an error of `qualm validate`."""
    why_no_interval: ByArgument[str] = ""
    """Reason for `interval="none"`, for the report."""
    compared_by: str = ""
    """Unbiased metric, with a parameter `squared`, by which models are compared where the bias of this one depends on the model."""
    row_by_row: bool = False
    """True if each summed row depends only on the same row of the columns, so that many resamples with different columns go at once."""
    increases_with: str = ""
    """Argument of ratings from 0 to 1 with which it never falls, so that unread answers bound it."""
    assumes: str = ""
    """Condition under which its values hold, shown below them."""
    companions: Texts = ()
    """Metrics that are always computed beside it, without which it misleads."""


class Metric(Plugin, Protocol):
    """Contract of metrics: one number per resample from columns of scored samples.

    Positional parameters are named after the columns that they read, float64 without NaN, (n,) except `option_probabilities`; rows that
    lack one are counted as unscored:

    | column | meaning |
    |---|---|
    | correct | 0..1: right option chosen, or the judge's rating of an open answer |
    | confidence | 0..1: largest softmax over the options; for an open answer by `inference.confidence` |
    | answerable | 1 if the question can be answered |
    | uncertain | 1 if the question is meant to be uncertain: by the dataset's `uncertain:`, else if it is unanswerable |
    | fold | 0 or 1: half of the dataset's groups that the row is in, for metrics that choose something on other rows |
    | predicted, n_options | index of the likeliest option, number of options (multiple choice only) |
    | option_probabilities | (n, K): softmax over a question's options, 0 beyond the last one |
    | right_option | index of the right option (multiple choice only) |
    | is_calibration | 1 if a conformal setting calibrates on the row, else 0; all 0 without a setting |
    | covered, set_size | of a row's prediction set, for one conformal setting and score |
    | says_uncertain | 1 if the model says that the question is uncertain, for a dataset with `ask_answerable:` |
    | uncertainty | of one estimator, HIGHER = MORE UNCERTAIN, may be infinite |
    | clean_correct, clean_uncertainty | of the same sample, model and estimator on the clean input |
    | uncertainty_change | uncertainty - clean_uncertainty; missing if that is not finite |
    | input_changed | 1 if a perturbed sample's prompt or pixels differ from the clean ones, else 0 |
    | pred_is_idk, gt_is_idk | 1 if the answer abstains, if abstaining is right (open answers only) |
    | hedges | 1 if the answer has a caveat, 0 if it has none or abstains (open answers only) |
    | labelled | 1 if people rated the answer (`judging: {labels: ...}`), else 0 (answers in words only) |
    | people_rating | 0..1: mean rating by people; 0 where `labelled` is 0 (answers in words only) |
    | sampled_correct | mean rating of the question's sampled answers, by the judge whose ratings are scored (answers in words only) |
    | sampling_variance | variance of that mean over further sampled answers: s^2 / k, with s^2 the variance of k ratings |
    | rated_by_NAME, marked_by_NAME/MARK | rating and further measure by the judge labelled NAME (open answers only) |
    | rated_by_, marked_by_/MARK | the same for the judge whose ratings are scored: the dataset's first, else the spec's |
    | group_of_FIELD | a number for each value of a field or meta key of the samples: rows of one value stand or fall together |
    | code_of_FIELD | the same, of values that are kinds (a subtask) and not groups |

    - `weights` is a (B, n) matrix of counts: how often resample b contains each row; ones for the point estimate. `weights @ column` ->
      (B,) and `weights @ columns` (n, m) -> (B, m) are much cheaper than `np.asarray(weights)`, as is `sum_bins`
      (`qualm.runners.contracts.grouped_weights`). The columns that a metric of sets sums must not depend on weights or other sums.
    - The result is (B,), NaN where the metric is undefined, never a substitute such as 0. The docstring names a unit other than a share.
    - `clean_...` and `uncertainty_change` pair a perturbed row with the sample's clean row: undefined for the clean variant. The metric is
      also computed over the samples whose input changed (slice `changed`), if some did not.
    - With `is_calibration` a metric is over test rows, unless its parameter `rows` is "all": it then does not depend on the setting.
    - With `group_of_FIELD` or `code_of_FIELD` it is over the samples that have FIELD, and skipped for datasets without it. If a row of a
      `group_of_` is unscored, all rows of that group are. `group_of_group` are the samples' own groups.
    - It is evaluated per conformal setting and score and as their mean (`set_size[ours/lac]`, `[ours/mean]`), per setting, per estimator
      (`auroc[perplexity]`), or once, by the columns that it reads. With `confidence` and no sets also on recalibrated ones.

    The optional functions below take the metric's columns and parameters.
    """

    META: MetricMeta = MetricMeta()
    """Properties of the metric and of its tests."""
    NEEDS: Needs = ()
    """Columns that depend on parameters: `{"groups": "group_of_{by}"}`."""

    def __call__(self, *columns: Any, weights: Any) -> Any: ...

    def why_undefined(self, *columns: Any) -> str:
        """Return why the metric has no value on these rows, as a phrase."""

    def classes(self, *columns: Any) -> Any:
        """Return per row 1 for one contrasted class (such as right answers), 0 for the other.

        With few groups of either there is no interval or comparison.
        """

    def types(self, *columns: Any) -> Any:
        """Return a code per row for its type, (n,) floats; the metric averages over types.

        With few groups of a type there is no interval.
        """

    def enters(self, *columns: Any) -> Any:
        """Return per row 1 if it counts in the metric's denominator, else 0.

        By default those count of which anything but 0 is summed.

        A metric that looks at single weights needs it.
        """

    def null_test(self, *columns: Any) -> tuple[float, str]:
        """Return (p-value, description) of a test with the null hypothesis of a perfect value."""

    def chance(self, *columns: Any) -> float:
        """Return the metric's expected value for an uninformative uncertainty."""

    def bounds(self, *columns: Any) -> tuple[float, float]:
        """Return (lowest, highest) possible value of the metric on these rows.

        By default it is [0, 1] for `proportion` and `optimistic`, and [-1, 1] for `correlation`.
        Arguments are any columns, and `never_empty`: 1 if a prediction set has an option at every threshold.
        """

    def minimum_standard_error(self, *columns: Any, value: float) -> float:
        """Return a lower bound of the standard error if `value` is true and rows are independent."""

    def interval(self, *columns: Any, group: Any, level: float) -> tuple[float, float]:
        """Return (low, high) of a confidence interval at `level`, rows clustered by `group`."""


class Tuning(Plugin, Protocol):
    """Contract of tunings: choose which weights a fine-tune changes, and save the result.

    It returns a `Tuning` (`qualm.runners.contracts.tunings`).

    It reads the weights (`model.load`) and sets `requires_grad` for exactly those to train. `network` is called as the transformers model
    is; `save` writes files that `models: hf_vlm` and transformers load; `reference` remembers the model as it is when called.
    """

    ADAPTER: bool = False
    """True if it makes an adapter, not a whole model."""

    def __call__(self, model: Any) -> Any: ...


class Generator(Plugin, Protocol):
    """Contract of generators: answer prompts with text, for other plugins.

    It returns a `GeneratorEngine`, a `Composer` or a `Rewriter` (`qualm.runners.contracts.generators`).

    - Another plugin opens it: `open_generator(chosen, context.settings).complete([chat("What is this?", png)], max_new_tokens=32)`. Replies
      are stored by content in `.qualm/replies`. Creating it loads no weights and sends nothing before the first request.
    - `identity` changes with everything that replies depend on, and contains no secret. A reply depends only on its own request. Equal
      seeds give equal replies, as far as a server allows.
    - Replies are yielded as soon as they are complete. Only an engine with `structured = True` gets a JSON Schema. A request that cannot
      be answered gives a `Reply` without text and with a reason; a failing server or model raises GeneratorError.
    """

    def __call__(self, context: Any) -> Any: ...


class Nli(Plugin, Protocol):
    """Contract of NLI models: whether one text follows from another or contradicts it.

    It returns an `NliEngine` (`qualm.runners.contracts.nli`).

    - It returns the logits ENTAILMENT, NEUTRAL, CONTRADICTION per pair (`classes = 3`), or those of entailment and its absence (`classes =
      2`), which depend only on that pair, up to rounding at float32. Weights are read for the first pair. `identity` changes with
      everything that logits depend on; an empty one is not worth storing.
    - Equal pairs are inferred once and stored in `.qualm/nli`. Without asking it, a text entails itself with certainty, and a text without
      visible characters contradicts one with.
    """

    COSINE: bool = False
    """True for a sentence encoder: it returns one cosine similarity per pair (`classes = 1`), for estimators with `similarity: cosine`."""

    def __call__(self, context: Any) -> Any: ...


class Saliency(Plugin, Protocol):
    """Contract of saliencies: find the thing in an image on which an answer depends.

    See `qualm.runners.contracts.saliency`.

    It yields a `Target` for rows of a source dataset, in order; rows without one are dropped with `context.drop(reason)` and counted. Keys
    and randomness follow from the source's ids. `thing` is everything that has to go, under one mask. It opens no image: places are boxes
    in pixels, or objects of a scene graph.
    """

    def __call__(self, context: Any, folder: Any, rows: Sequence[Any]) -> Iterator[Any]: ...


class Mask(Plugin, Protocol):
    """Contract of masks: find the pixels of an image that show a thing.

    See `qualm.runners.contracts.masks`.

    It returns a function from a batch of `MaskRequest`s to one mask each, in order: bool, (height, width), True on the thing, at least one
    pixel, not dilated; or a short reason, which is counted. A mask depends only on its own request. Weights are read for the first batch.
    """

    def __call__(self, context: Any) -> Any: ...


class Inpainter(Plugin, Protocol):
    """Contract of inpainters: remove a thing from an image.

    See `qualm.runners.contracts.inpainters`.

    It returns a function from a batch of `Job`s to one image each, in order, of the same size and mode. The mask is dilated; pixels outside
    stay unchanged, except by `rerender`. A result depends only on its own job, and on no random number. It is called from several threads;
    one that needs a device uses a lock. Weights are read for the first batch.
    """

    def __call__(self, context: Any) -> Any: ...


class Export(Plugin, Protocol):
    """Contract of exports: write a benchmark in the format of another tool.

    `qualm export SPEC OUT --to NAME` calls it (`lm-eval` is `lm_eval.py`).

    - It writes to `context.folder`, which is empty and published once everything is written. Parameters are options: `-O table=tsv`.
    - Nothing is invented: no prompt template, probability or token text. For recorded answers the prompt is the recording's or missing, and
      decoding, seed, shots and date are missing.
    - Data without a field in the format go under one key, `qualm`, if it allows foreign keys, so that `recorded` reads them back bit for
      bit. Data that cannot be kept are reported by `context.lose` and counted.
    - Order is the dataset's. Equal inputs give equal bytes, except for the date of the export.
    """

    OF: Literal["datasets", "answers", "results", "runs"] = "answers"
    """Content that it writes. `datasets` receives `context.datasets` and no parts. `results` and `runs` receive `context.results`; `runs`
    is also possible for a spec without metrics that trains models."""

    def __call__(self, context: Any) -> None: ...


PROTOCOLS: Mapping[str, type] = {
    "datasets": Dataset, "preparations": Preparation, "pairs": Pair, "perturbations": Perturbation, "models": Model, "finetunes": Finetune,
    "tunings": Tuning, "judges": Judge, "estimators": Estimator, "conformal": Conformal, "calibrators": Calibrator, "metrics": Metric,
    "generators": Generator, "saliency": Saliency, "masks": Mask, "inpainters": Inpainter, "abstentions": Abstention, "probes": Probe,
    "nli": Nli, "exports": Export,
}  # fmt: skip
"""Kind of plugin -> its contract."""
_OF_PARAMETERS = ("STRENGTHS", "SERVER", "BESIDE")
"""Constants that name parameters."""
_COLUMNS = {"metrics": of_metrics, "estimators": of_estimators, "probes": of_estimators}


@cache
def declarations(kind: str) -> dict[str, Any]:
    """Return {constant: its type} of all that a plugin of a kind may declare, cached.

    The kind's constants come first (for metrics the fields of META), then those of all kinds.
    """
    protocol = PROTOCOLS[kind]
    hints = get_type_hints(protocol, include_extras=True)
    meta = get_type_hints(MetricMeta, include_extras=True) if kind == "metrics" else {}
    return meta | {name: hints[name] for of in (protocol, Plugin) for name in of.__annotations__ if hints[name] is not MetricMeta}


def faults(
    kind: str, name: str, reads: Collection[str], parameters: Collection[str], declares: Mapping[str, Any], computed: Collection[str]
) -> Iterator[str]:
    """Yield a message for each way in which a plugin's source breaks its kind's contract.

    Args:
        computed: names of constants that are expressions, no literals.
    """
    yield from _positional_fault(kind, name, list(reads))
    there = ", ".join(parameters) or "none"
    for constant, annotation in declarations(kind).items():
        expected = f"{constant}: expected {_described(annotation)}"
        if constant in computed:
            yield f"{expected}, written out as a literal; got an expression"
        elif constant not in declares:
            if not hasattr(PROTOCOLS[kind], constant) and not hasattr(MetricMeta(), constant):
                yield f"{expected}; it is missing"
        elif not fits(annotation, declares[constant]):
            yield f"{expected}, got {shorten(declares[constant])}"
        elif constant in _OF_PARAMETERS:
            value = declares[constant]
            for unknown in sorted({value} - set(parameters) if isinstance(value, str) else set(value) - set(parameters)):
                yield f"{constant} names '{unknown}'; expected parameters of {name}: {there}"
    if kind == "metrics":
        yield from _meta_faults(declares, computed)


def _positional_fault(kind: str, name: str, reads: list[str]) -> Iterator[str]:
    of = [p for p in inspect.signature(PROTOCOLS[kind].__call__).parameters.values() if p.name != "self"]
    first = [p.name for p in of if p.kind is p.POSITIONAL_OR_KEYWORD]
    columns = any(p.kind is p.VAR_POSITIONAL for p in of)
    needed = [p.name for p in of if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    optional = [p.name for p in of if p.kind is p.KEYWORD_ONLY and p.default is not p.empty]
    own = reads[1:] if CONTEXT in optional and reads[:1] == [CONTEXT] else reads
    last = own[len(first) :] if not columns else own[len(own) - len(needed) :]
    sound = last == needed if columns and needed else set(last) <= set(optional) and len(own) >= len(first)
    if sound and (CONTEXT in first or CONTEXT not in own) and (own or not columns):
        return
    words = [*first, *(["columns..."] if columns else []), *needed]
    perhaps = [f"perhaps {each} {'first' if each == CONTEXT else 'last'}" for each in optional]
    expected = ", ".join([f"({', '.join(words)})", *perhaps])
    yield f"{name}: expected positional parameters {expected}; got {', '.join(reads) or 'none'}"


def _described(annotation: Any) -> str:
    """Return a type annotation in words for an error message, "True or False"."""
    inner, origin = get_args(annotation), get_origin(annotation)
    if origin is Annotated:
        return next((text for text in inner[1:] if isinstance(text, str)), "") or _described(inner[0])
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if inner:
        return " or ".join(map(_described, inner))
    return {bool: "True or False", str: "a text", type(None): "None"}.get(annotation, str(annotation))


def _meta_faults(declares: Mapping[str, Any], computed: Collection[str]) -> Iterator[str]:
    if "META" in computed or "META" in declares:
        yield "META: expected MetricMeta(...), its fields written out as literals; got an expression"
    known = declarations("metrics")
    for name in sorted(name for name in declares if name.islower() and name not in known):
        near = difflib.get_close_matches(name, known, 1, 0.5)
        yield f"META: unknown field '{name}'" + (f" (did you mean '{near[0]}'?)" if near else "")
    if not _is_explained(declares.get("interval"), declares.get("why_no_interval")):
        yield "why_no_interval: expected beside a written interval='none', and only there"


def _is_explained(interval: Any, why: Any) -> bool:
    """Return whether `why` has reasons exactly where `interval` is "none"."""
    if not isinstance(interval, Mapping):
        return bool(interval == "none") == (why is not None)
    none = {parameter: {key for key, method in of.items() if method == "none"} for parameter, of in interval.items()}
    return bool(none == {parameter: set(of) for parameter, of in (why or {}).items()})


def unknown_columns(kind: str, name: str, reads: Collection[str]) -> Iterator[str]:
    """Yield a message for each of `reads` that is no column of this kind; maybe none."""
    if kind not in _COLUMNS:
        return
    columns, prefixes = _COLUMNS[kind]()
    for column in reads:
        if column not in columns and not column.startswith(prefixes):
            near = difflib.get_close_matches(column, columns, 1, 0.6)
            there = ", ".join([*sorted(columns), *(f"{prefix}..." for prefix in prefixes)])
            hint = f"did you mean '{near[0]}'?" if near else f"there are: {there}"
            yield f"{name} reads the column '{column}', which does not exist ({hint})"
