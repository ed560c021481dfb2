"""The spec language: keys of a benchmark, their meanings and defaults.

Pydantic checks the structure; `resolve` checks parameters of plugins against their signatures. The descriptions are the source of
docs/reference/spec.md and of the JSON Schema for editors.
"""

from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from qualm.registry.plugins.rule import MAX_EXACT, MAX_NUMBER

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
ARTIFACT_PATTERN = rf"{NAME_PATTERN[:-1]}(:[A-Za-z0-9][A-Za-z0-9_.@=,-]{{0,127}})?$"
"""Pattern of an entry of registry/data/, or `SPEC:MODEL`."""
PROMPT_PATTERN = rf"{NAME_PATTERN[:-1]}(/{NAME_PATTERN[1:-1]})?$"
"""Pattern of a file of specs/prompts/, or of a folder in it."""
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


def whole(value: Any) -> Any:
    """Convert floats such as 15.0 to int."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(whole)]
UNITS = ("questions", "images", "pairs")
"""What a `limit` counts: samples, images with all their samples, whole contrastive pairs."""
PAIR_UNITS = ("questions", "pairs")
"""What the `limit` of a pair recipe counts; a pair is two questions."""
Seed = Annotated[Whole, Ge(0), Le(MAX_EXACT)]
SplitSeed = Annotated[Whole, Ge(0), Lt(2**32)]  # as scikit-learn takes it


def _all_none_or_names(value: Any) -> Any:
    """Validate `perturb:`, with one error message for all its forms."""
    if isinstance(value, bool) or (isinstance(value, list) and value and all(isinstance(name, str) for name in value)):
        return value if isinstance(value, bool) else _once(value)
    raise PydanticCustomError("perturb", "true, false, or a list of names of perturbations")


def _once(value: list[Any]) -> list[Any]:
    """Refuse a list that names something twice, since it would be measured or compared twice."""
    if twice := next((item for i, item in enumerate(value) if item in value[:i]), None):
        named = twice if isinstance(twice, str) else f"[{', '.join(twice)}]"
        raise PydanticCustomError("once", "each of them once, and {named} is there twice", {"named": named})
    return value


def limit(value: Any, units: tuple[str, ...] = UNITS) -> Any:
    """Validate `limit:`, with one error message for all its forms.

    Args:
        value: `{unit: NUMBER}` or `{unit: {SPLIT: NUMBER}}`; of a dataset also a number of questions.
        units: what can be counted.
    """
    plain = "a whole number of questions, or " if units == UNITS else ""
    ways = f"{plain}a number of {', '.join(units[:-1])} or {units[-1]}, in all or by split: {{pairs: 100}}, {{pairs: {{test: 100}}}}"
    error = PydanticCustomError("limit", "{ways}", {"ways": ways})
    if plain and _is_count(value):
        return whole(value)
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in units:
        raise error
    ((unit, numbers),) = value.items()
    by_split = numbers if isinstance(numbers, dict) else {"": numbers}
    if not by_split or not all(_is_count(n) for n in by_split.values()) or not all(isinstance(name, str) for name in by_split):
        raise error
    counts = {name: whole(n) for name, n in by_split.items()}
    return {unit: counts if isinstance(numbers, dict) else counts[""]}


def _is_count(value: Any) -> bool:
    number = whole(value)
    return isinstance(number, int) and not isinstance(number, bool) and 0 < number <= MAX_NUMBER


Count = Annotated[int, Gt(0), Le(MAX_NUMBER)]
Limit = Annotated[Count | dict[Literal["questions", "images", "pairs"], Count | dict[Name, Count]], BeforeValidator(limit)]
Perturb = Annotated[bool | list[str], BeforeValidator(_all_none_or_names)]
Once = AfterValidator(_once)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Category(_Strict):
    """One kind of uncertainty in the taxonomy."""

    definition: str = Field("", description="What makes questions of this kind uncertain.")
    answer: str = Field("", description="What counts as a right answer if the question cannot be answered.")
    examples: list[str] = Field([], description="A few questions of this kind.")


_SPLITS = "Splits that models are scored on; by default `test` if there is one, otherwise all but `train`."

_LONE = (
    "What to do with a valid member of a pair whose other member reviewers rejected: `drop` it, since lone members reward always answering "
    "or always abstaining, or `keep` it, as CertainlyUncertain did."
)

_JUDGES = "Names of the spec's judges that judge the answers; scores use the first one. By default, all judges."

_PERTURB = (
    "The spec's perturbations to apply: `true` (the default) for all, `false` for none, or a list of names. Questions that "
    "are uncertain already are better left clean."
)


class WrittenExample(_Strict):
    """One example with its answer, as the spec or a file writes it."""

    question: str = Field(description="The question.")
    answer: str = Field(description="The answer, as the model should give it: a letter for `letter`, an object for `json`.")
    options: list[str] = Field([], description="Options of a multiple-choice question.")
    images: list[str] = Field([], description="Paths of its images, from the root of the project.")
    hint: str = Field("", description="Text for `{hint}`.")


class Examples(_Strict):
    """Source of the few-shot examples of a prompt."""

    split: Name | None = Field(None, description="Split of the dataset that they are drawn from; scored splits are refused.")
    file: str | None = Field(None, description="File of specs/prompts/ in JSON Lines, with the keys of written examples.")
    shots: Whole | None = Field(None, gt=0, le=64, description="Number of examples; of a file, by default all.")
    seed: Seed | None = Field(None, description="Seed of the draw from a split; by default the spec's.")


class Prompt(_Strict):
    """Text around every question."""

    template: str | None = Field(
        None,
        description="The user's turn: a text with `{question}`, and with `{options}`, `{letters}`, `{hint}` and `{instruction}` where "
        "wanted; or the name of a file of specs/prompts/. Lines whose placeholders are all empty are left out. By default the "
        "question, its options, and the instruction of the answer format.",
    )
    system: str | None = Field(None, description="System message before the conversation.")
    answer_format: str | dict[str, Any] | None = Field(
        None,
        description="`letter`: the option's letter, read from log-probabilities (the default with options); `free`: any words (the default "
        "without); `short`: a word or short phrase; `json` or `{json: SCHEMA}`: an object whose `answer` is read. It sets "
        "`{instruction}`. Words that answer questions with options need a judge such as `option_match`.",
    )
    examples: Examples | list[WrittenExample] | None = Field(
        None, description="Questions with answers that are shown first (few-shot): drawn from a split, of a file, or a list."
    )


_PROMPT = (
    "Text around the questions: the name of a file of specs/prompts/, or a mapping with `template`, `system`, `answer_format` and "
    "`examples`. Keys of a model override those of a dataset, and these the spec's."
)
_PROMPTS = f"{_PROMPT} A list compares prompts: each is a row of the results, `MODEL@prompt=NAME`."


class Balance(_Strict):
    """Draw equally many scored samples of each class by seed, from as many groups as possible."""

    take: Whole = Field(gt=0, le=MAX_NUMBER, description="How many of each class; more only adds.")
    by: str = Field(
        "uncertain", description="The field whose values are the classes: `uncertain`, meant to be or not; `category`; a key of meta."
    )
    shortfall: Literal["error", "fewest", "keep"] = Field(
        "error",
        description="Where a class has fewer: end the run, take as many of each as the smallest class has, or take what there is.",
    )


class Dataset(BaseModel):
    """A dataset: a card of `registry/cards/`, with parameters of its adapter beside it."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    card: str = Field(
        description="Name of a card in registry/cards/ (`qualm data ls`). The adapter's parameters are given beside this key."
    )
    source: Name | None = Field(None, description="Entry of registry/data/ to read; by default the card's own.")
    limit: Limit | None = Field(
        None,
        description="Maximum number of questions, or of what is named: `{images: 100}`, with all their questions, or `{pairs: 100}`, whole "
        "contrastive pairs; by split with `{pairs: {test: 100}}`. Drawn by seed and stratified by category; a larger limit only adds.",
    )
    balance: Balance | None = Field(
        None,
        description="Draw the same number of scored samples from each class; if the dataset is curated, after people's decisions are "
        "applied.",
    )
    evaluate: bool | None = Field(
        None, description="Whether models answer it; by default yes, unless a fine-tune trains on it or pairs are made from it."
    )
    splits: list[Name] | None = Field(None, min_length=1, description=_SPLITS)
    where: str | None = Field(
        None,
        description="Which samples to take: an expression over their fields and meta, such as `LQI >= 4 and INV <= 2`, or the name of a "
        "subset of the card.",
    )
    uncertain: str | None = Field(
        None,
        description="Which samples are meant to be uncertain: an expression like that of `where`; by default the unanswerable samples.",
    )
    ask_answerable: Name | None = Field(
        None,
        description="Name of a prompt in specs/prompts/ that contains {question}; with it, models are asked whether the question is "
        "uncertain.",
    )
    prompt: Any = Field(None, description=_PROMPT)
    judges: Annotated[list[str], Once] | None = Field(None, min_length=1, description=_JUDGES)
    perturb: Perturb = Field(True, description=_PERTURB)
    skip_bad: bool = Field(
        False, description="Skip unreadable records, which are listed and counted, instead of ending the run at the first one."
    )
    prepare: Any = Field(
        None,
        description="How questions are transformed before they are asked: a plugin of registry/preparations/; a list is a sweep.",
    )
    answerable_by: Any = Field(
        None,
        description="Judge that decides which questions are answerable, where a dataset does not say: `rules`, or `lave` with its model. A "
        "question whose references mostly abstain is not (CertainlyUncertain, equation 1).",
    )
    disjoint: Annotated[list[Name], Once] | None = Field(
        None, min_length=1, description="Datasets of the same source that must not select (`where:`) any sample of this dataset; checked."
    )
    curated: Name | None = Field(
        None, description="Entry of registry/data/ with people's decisions (`qualm verify`), which filter the scored splits."
    )
    unreviewed: Literal["drop", "keep"] = Field(
        "drop", description="What to do with questions of the scored splits that nobody has reviewed."
    )
    lone: Literal["drop", "keep"] = Field("drop", description=_LONE)


class NearDuplicates(_Strict):
    """Images that look alike in different splits."""

    distance: Whole = Field(
        4,
        ge=0,
        le=16,
        description="Largest number of differing bits, of 64, between the perceptual hashes of near-duplicates; 0 = equal hashes.",
    )
    drop: bool = Field(
        False,
        description="Leave out the pairs that use near-duplicates in the earlier split (train before val before test); otherwise "
        "near-duplicates are only counted.",
    )


class PairSet(_Strict):
    """A dataset of contrastive pairs: an answerable question and a similar unanswerable one."""

    recipes: list[Any] = Field(
        description="How pairs are made: plugins of runners/plugins/pairs/. Beside a recipe, `as: NAME` renames it, and "
        "`limit: {pairs: 100}` or `{questions: 200}`, two for each pair, ends it with so many, in all or by split "
        "(`{pairs: {test: 100}}`). Samples of its dataset are then used in an order drawn by seed, about as many as pairs are missing."
    )
    curated: Name | None = Field(
        None, description="Entry of registry/data/ with people's decisions (`qualm verify`), which filter the test split."
    )
    unreviewed: Literal["drop", "keep"] = Field("drop", description="What to do with test questions that nobody has reviewed.")
    lone: Literal["drop", "keep"] = Field("drop", description=_LONE)
    near_duplicates: NearDuplicates = Field(NearDuplicates(), description="Images that look alike across splits.")
    evaluate: bool = Field(True, description="Whether models answer it.")
    splits: list[Name] | None = Field(None, min_length=1, description=_SPLITS)
    prompt: Any = Field(None, description=_PROMPT)
    judges: Annotated[list[str], Once] | None = Field(None, min_length=1, description=_JUDGES)
    perturb: Perturb = Field(True, description=_PERTURB)


class About(_Strict):
    """Facts about a model for the report's comparisons."""

    family: str = Field("", description="Models of one family are compared by size.")
    billions: float | None = Field(None, gt=0, le=1_000_000, description="Parameters of the language model, in billions.")
    chat: bool | None = Field(None, description="Whether it is chat-tuned.")
    base: str | None = Field(None, description="The model it was tuned from, as named in this spec.")


class Inference(_Strict):
    """Settings of decoding and confidence."""

    max_new_tokens: Whole = Field(16, gt=0, le=1_000_000, description="Longest answer in tokens.")
    draws: Whole = Field(
        10,
        gt=0,
        le=1000,
        description="Number of sampled answers to each open question, if an estimator reads them; a larger number only adds draws.",
    )
    temperature: float = Field(
        0.7, ge=0.001, le=100, description="Softmax temperature of sampled answers; the greedy answer does not use it."
    )
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Nucleus sampling: sampled answers use the most probable tokens whose total probability is at least this; 1 = all.",
    )
    top_k: Whole = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Sampled answers use the so many most probable tokens, before top_p; 0 = all. LM-Polygraph's default is 50. Models "
        "behind a server (`openai`) sample without it, since that protocol has no such parameter.",
    )
    confidence: Literal["sequence", "verify"] = Field(
        "sequence",
        description="Confidence of an open answer: `sequence` = its probability; `verify` = P(yes) / (P(yes) + P(no)) when the model is "
        "asked whether its answer is right.",
    )


class Calibration(_Strict):
    """Rows that set the conformal threshold."""

    fraction: Annotated[float, Gt(0), Lt(1)] | list[Annotated[float, Gt(0), Lt(1)]] = Field(
        0.5, description="Share of rows used for calibration."
    )
    seed: SplitSeed | list[SplitSeed] = Field(42, description="Seed of the split.")
    split: Literal["groups", "rows"] | list[Literal["groups", "rows"]] = Field(
        "groups", description="`groups` keeps samples of one image or question on one side; `rows` is scikit-learn's train_test_split."
    )
    within: str | list[str] | None = Field(
        None,
        description="Calibrate within each value of this field: the questions of each value are split by themselves and have a threshold "
        "of their own (`per:` this field). By default, all questions are split together.",
    )


class Conformal(_Strict):
    """One conformal prediction setting for multiple-choice data."""

    scores: list[Any] = Field(min_length=1, description="Nonconformity scores: plugins of runners/plugins/conformal/.")
    alpha: Annotated[float, Gt(0), Lt(1)] | list[Annotated[float, Gt(0), Lt(1)]] = Field(0.1, description="Allowed error rate.")
    quantile: Literal["standard", "numpy_higher"] | list[Literal["standard", "numpy_higher"]] = Field(
        "standard",
        description="`standard` = the k-th smallest score; of questions in groups, with `split: groups`, the quantile by groups, each of "
        "which counts once. `numpy_higher` = what VLM-Uncertainty-Bench's code computes, by questions.",
    )
    empty_set: Literal["argmax", "empty"] | list[Literal["argmax", "empty"]] = Field(
        "argmax", description="An empty set becomes the most probable option, or stays empty."
    )
    precision: Literal["double", "single"] | list[Literal["double", "single"]] = Field(
        "double", description="Floating-point precision of softmax, scores and thresholds; `single` = as in VLM-Uncertainty-Bench's code."
    )
    calibration: Calibration = Field(Calibration(), description="Which rows set the threshold.")
    per: str | list[str] | None = Field(
        None,
        description="Compute a separate threshold for each part of the questions, so that coverage holds within each part: `label`, by the "
        "letter of the right option, or `option`, by its text (class-conditional); `category` or any other field or key of meta "
        "(Mondrian). By default, one threshold for all.",
    )


def _held_out(value: Any) -> Any:
    """Refuse splits that are scored, since calibrators must not see them."""
    if value in ("test", "all", "rows"):
        raise PydanticCustomError(
            "held_out", "half, or val: a calibrator is never fitted on rows that are scored, nor on others of their groups"
        )
    return value


class HeldOut(_Strict):
    """Answers for fitting calibrators, none of which is scored."""

    fit: Annotated[Literal["half", "val"], BeforeValidator(_held_out)] = Field(
        "half",
        description="`half`: part of the scored questions, in whole groups, so that no image or question is on both sides; metrics of "
        "calibrators use the other part. `val`: questions of split `val`, which are then answered but not scored; metrics use "
        "all scored questions.",
    )
    fraction: float = Field(0.5, gt=0, lt=1, description="With `fit: half`, the share of rows that calibrators are fitted on.")
    seed: Seed = Field(42, description="With `fit: half`, the seed of the split.")

    @model_validator(mode="after")
    def _says_nothing_that_is_not_read(self) -> Self:
        if self.fit == "val" and (unread := sorted(self.model_fields_set - {"fit"})):
            raise PydanticCustomError("held_out", "no `{key}` beside `fit: val`, which takes all of that split", {"key": unread[0]})
        return self


class Calibrators(_Strict):
    """Confidences put on the scale on which they are the probability of being right."""

    methods: list[Any] = Field(min_length=1, description="Recalibration methods: plugins of runners/plugins/calibrators/.")
    of: Annotated[list[str], Once] = Field(
        ["confidence"],
        min_length=1,
        description="What is recalibrated: `confidence`, the model's own (for multiple choice, the probabilities of all options), or names "
        "of the spec's estimators, whose uncertainty is turned into a probability of being right.",
    )
    calibration: HeldOut = Field(HeldOut(), description="Which rows calibrators are fitted on.")
    refits: Whole = Field(
        200,
        ge=50,
        le=MAX_NUMBER,
        description="For intervals: number of bootstrap resamples in which each calibrator is refitted; at most "
        "`compare.interval.bootstrap`.",
    )


class Abstention(BaseModel):
    """A rule by which models abstain: a plugin of `runners/plugins/abstentions/`."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    of: list[str] | None = Field(None, min_length=1, description="Models it is applied to; by default those under `models:`.")
    fit: Literal["val", "half", "test"] = Field(
        "val",
        description="Answers on which the threshold is chosen: `val`, answers to that split, which is then not scored; `half`, one half of "
        "the test split's groups, and only the other half is scored; or `test`, the scored answers themselves, as in the paper; "
        "such a threshold is reported as optimistic.",
    )
    per: Literal["all", "category"] = Field(
        "all", description="One threshold for all questions, or one per category, which assumes that categories are known."
    )
    confidence: Literal["kept", "complement"] = Field(
        "kept",
        description="Confidence of an answer that was replaced by a refusal: the answer's own (`kept`), or one minus that (`complement`).",
    )
    seed: Seed = Field(42, description="Seed of the random division into halves.")


class Probe(BaseModel):
    """A classifier of hidden states or attention: a plugin of `runners/plugins/probes/`."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    of: list[str] | None = Field(
        None, min_length=1, description="Models that it is trained for, one probe per model; by default those under `models:`."
    )
    fit: Literal["val", "half"] = Field(
        "val",
        description="Answers that it is trained on: `val`, answers to that split, which is then not scored; or `half`, half of the test "
        "split's groups, for which it then gives no value.",
    )
    transfer: bool = Field(
        True,
        description="Whether each dataset is also scored by a probe trained on the other datasets only, as the estimator "
        "`NAME@other_data`.",
    )
    seed: Seed = Field(42, description="Seed of the random division into halves.")


class Blind(_Strict):
    """Text-only and shuffled-image baselines, which a model that looks must beat."""

    refuser: list[str] = Field(
        [],
        min_length=1,
        description="Models whose refusals are decided by a classifier that sees only the question. It is trained to separate answerable "
        "from unanswerable questions on the train split (by cross-validation over groups if there is none). Where it does not "
        "refuse, the model's own answer is kept. Scored as `MODEL+blind_refuser`.",
    )
    picture_refuser: list[str] = Field(
        [],
        min_length=1,
        description="Models whose refusals are decided by a classifier that sees only the image, for sets of pairs whose images may "
        "show how they were made (`inpainted`). Scored as `MODEL+picture_refuser`.",
    )
    swapped: list[str] = Field(
        [],
        min_length=1,
        description="Models that are also asked with the image of a sample of another group. Scored as `MODEL+swapped_picture`.",
    )
    removed: list[str] = Field(
        [], min_length=1, description="Models that are also asked without the image. Scored as `MODEL+removed_picture`."
    )


class Interval(_Strict):
    """Uncertainty of the scores themselves."""

    bootstrap: Whole = Field(1000, ge=0, le=MAX_NUMBER, description="Resamples of whole groups; 0 = no intervals.")
    level: float = Field(0.95, gt=0, lt=1, description="Level of the intervals.")


Margin = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]


class Compare(_Strict):
    """Intervals and tests of results."""

    baseline: str | None = Field(
        None,
        description="The model that every other model is tested against, on every metric, dataset and slice; `base+METHOD` names an "
        "abstaining model.",
    )
    pairs: Annotated[list[Annotated[list[str], Field(min_length=2, max_length=2)]], Once] = Field(
        [], description="Further pairs of models to test, as `[a, b]`: is b better than a?"
    )
    margin: Margin | dict[str, Margin] | None = Field(
        None,
        description="Largest difference that does not matter, of all shares and correlations or by metric: tests whether two models are "
        "equal within it, and whether a model is not worse by more.",
    )
    correction: Literal["max_t", "holm", "benjamini_hochberg", "none"] = Field(
        "max_t", description="Correction of p-values for multiple testing; `max_t` takes the correlation between tests into account."
    )
    family: Literal["metric", "slice", "study"] = Field(
        "study",
        description="Which tests are corrected together: all of the study, all on a dataset and slice, or those of one metric on a "
        "dataset and slice.",
    )
    interval: Interval = Field(Interval(), description="Bootstrap intervals.")


class Judging(_Strict):
    """Comparison of the judges with people."""

    labels: Name | None = Field(
        None,
        description="Entry of registry/data/ with labels.csv: answers that people judged. Every judge is compared with them, in "
        "judging.json, and `corrected_accuracy` reads those of this spec's models.",
    )


class Report(_Strict):
    """Contents of the report beside the scores."""

    examples: Whole = Field(24, ge=0, le=10_000, description="Number of samples that can be browsed.")
    published: Name | None = Field(
        None, description="Entry of registry/data/ whose tables/*.csv hold published values to show beside the recomputed ones."
    )


class Spec(_Strict):
    """One benchmark."""

    qualm: Literal[1] = Field(description="Version of the spec language.")
    name: Name = Field(description="Name of the benchmark, the same as the file's.")
    title: str = Field("", description="Title of the report.")
    description: str = Field("", description="A paragraph for the report.")
    seed: Seed | None = Field(None, description="Seed of all random numbers; by default the one in params.yaml.")
    taxonomy: dict[Name, dict[Name, Category]] = Field({}, description="Kinds of uncertainty: main kind, then category.")
    datasets: dict[Name, Dataset] = Field(description="The datasets whose questions are asked.")
    pairs: dict[Name, PairSet] = Field({}, description="Datasets of contrastive pairs, made from other datasets.")
    perturbations: list[Any] = Field(
        [],
        description="Variants of every sample, unless its dataset says otherwise: plugins of runners/plugins/perturbations/; a list of "
        "strengths is a sweep.",
    )
    prompt: Any = Field(None, description=_PROMPTS)
    models: dict[Name, dict[str, Any]] = Field(
        {},
        description="The models that answer. Each is one plugin of runners/plugins/models/ with the optional keys `about`, `leave_out` "
        "(estimators whose inputs the model cannot provide), `confidence: none`, `per_category` and `prompt`.",
    )
    finetunes: dict[Name, dict[str, Any]] = Field(
        {}, description="Models trained by this spec: each is one plugin of runners/plugins/finetunes/."
    )
    inference: Inference = Field(Inference(), description="How models answer.")
    judges: list[Any] = Field([], description="What decides whether an open answer is right: plugins of runners/plugins/judges/.")
    unread: Literal["bounds", "exclude", "wrong"] = Field(
        "bounds",
        description="What an answer counts as that no judge could read. `exclude`: it is left out and counted. `bounds`: the same; if more "
        "than 1% are unread, the value is shown with what it would be if all of them were wrong, and if all were right. `wrong`: wrong.",
    )
    judging: Judging = Field(Judging(), description="Comparison of the judges with answers that people judged.")
    estimators: list[Any] = Field([], description="Uncertainty estimators: plugins of runners/plugins/estimators/.")
    conformal: dict[Name, Conformal] = Field({}, description="Conformal prediction settings, each under a name you choose.")
    calibrators: dict[Name, Calibrators] = Field({}, description="Recalibrated confidences, each setting under a name you choose.")
    abstentions: dict[Name, Abstention] = Field(
        {}, description="Ways for models to abstain when they are uncertain, each under a name you choose."
    )
    probes: dict[Name, Probe] = Field(
        {},
        description="Classifiers that estimate from a model's internal states how likely its answer is wrong; you choose the names.",
    )
    blind: Blind = Field(
        Blind(), description="Blind baselines: rows obtained without the question's own image, beside those of the models."
    )
    metrics: list[Any] = Field([], description="Metrics to compute: plugins of runners/plugins/metrics/.")
    slices: Annotated[list[str], Once] = Field(
        [],
        description="Fields of samples; every metric is also computed for each value of a field. `category*answerable` = for each "
        "combination of values.",
    )
    macro_averages: Annotated[list[str], Once] = Field(
        [],
        description="Fields of samples; every metric is also averaged over the values of a field, each value counting alike (the slice "
        "`macro:FIELD`). `datasets` averages over the datasets (the dataset `macro:datasets`). Undefined if one of the values is.",
    )
    compare: Compare = Field(Compare(), description="Intervals and comparisons.")
    report: Report = Field(Report(), description="What the report shows.")


class RunWide(_Strict):
    """params.yaml: which spec is the default, and what every spec falls back to."""

    default: Name = Field(description="The spec that a bare `dvc repro` in the root runs.")
    seed: Seed = 7
    limit: Whole | None = Field(None, gt=0, le=MAX_NUMBER)
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
