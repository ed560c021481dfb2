"""The spec language: keys of a benchmark, their meanings and defaults.

Pydantic checks the structure; `resolve` checks parameters of plugins against their signatures. The descriptions are the source of
docs/reference/spec.md and of the JSON Schema for editors.
"""

from dataclasses import dataclass
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

from qualm.registry.plugins.registry import MAX_EXACT, MAX_NUMBER, NAME_PATTERN

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


def whole(value: Any) -> Any:
    """Return a float without a fraction (15.0) as int, any other value unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(whole)]
UNITS = ("questions", "images", "pairs")
"""Unit of a `limit`: samples, images with all their samples, whole contrastive pairs."""
PAIR_UNITS = ("questions", "pairs")
"""Unit of a pair recipe's `limit`; a pair is two questions."""
NAME_KEY = "as"
"""Key beside a recipe's plugin that names the recipe, so that one plugin can be used twice in a set."""
LIMIT_KEY = "limit"
"""Key beside a recipe's plugin with the largest number of pairs or questions that it makes."""
Seed = Annotated[Whole, Ge(0), Le(MAX_EXACT)]
SplitSeed = Annotated[Whole, Ge(0), Lt(2**32)]  # as scikit-learn takes it


def _all_none_or_names(value: Any) -> Any:
    """Return a valid `perturb:` (bool or list of names) unchanged; else raise."""
    if isinstance(value, bool) or (isinstance(value, list) and value and all(isinstance(name, str) for name in value)):
        return value if isinstance(value, bool) else _reject_repeats(value)
    raise PydanticCustomError("perturb", "true, false, or a list of names of perturbations")


def _reject_repeats(value: list[Any]) -> list[Any]:
    """Return a list unchanged; raise PydanticCustomError if an item repeats.

    It would be measured or compared twice.
    """
    if twice := next((item for i, item in enumerate(value) if item in value[:i]), None):
        named = twice if isinstance(twice, str) else f"[{', '.join(twice)}]"
        raise PydanticCustomError("once", "each of them once, and {named} is there twice", {"named": named})
    return value


def _reject_lone_names(value: list[str | list[str]]) -> list[str | list[str]]:
    """Return a list unchanged; raise if a list in it has under two names or repeats one."""
    for names in value:
        if isinstance(names, list) and len(_reject_repeats(names)) < 2:
            raise PydanticCustomError("combined", "two or more in a list that is combined, got [{named}]", {"named": ", ".join(names)})
    return value


def limit(value: Any, units: tuple[str, ...] = UNITS) -> Any:
    """Return a valid `limit:` with ints for whole floats; else PydanticCustomError.

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
Once = AfterValidator(_reject_repeats)


@dataclass(frozen=True)
class ReadBy:
    """Annotation of a spec key that is a parameter of stages of kind `stage`.

    A value equal to the default is left out, unless `always`.
    """

    stage: str
    always: bool = False


class _Entry(BaseModel):
    """A mapping of a spec, whose keys marked `ReadBy` are parameters of stages.

    A new key needs no other code than its reader's.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    def parameters(self, stage: str) -> dict[str, Any]:
        """Return {key: value} of the keys `ReadBy` a stage kind; defaults only if `always`."""
        fields = type(self).model_fields
        marks = {n: m for n, field in fields.items() for m in field.metadata if isinstance(m, ReadBy) and m.stage == stage}
        dumped = self.model_dump(mode="json", include=set(marks))
        return {n: v for n, v in dumped.items() if marks[n].always or getattr(self, n) != fields[n].default}

    def settings(self) -> dict[str, Any]:
        """Return {key: value} of the keys that the class declares, without plugin keys."""
        return self.model_dump(mode="json", include=set(type(self).model_fields))


class _Strict(_Entry):
    model_config = ConfigDict(extra="forbid")


class _BesidePlugin(_Entry):
    model_config = ConfigDict(extra="allow")


class Category(_Strict):
    """Entry of `taxonomy:`: definition, right reply and examples of one kind of uncertainty."""

    definition: str = Field("", description="What makes questions of this kind uncertain.")
    answer: str = Field("", description="The right reply if the question cannot be answered.")
    examples: list[str] = Field([], description="A few questions of this kind.")


_SPLITS = "Splits to score; by default `test`, otherwise all but `train`."

_LONE = "Drop or keep a valid pair member whose partner reviewers rejected."

_JUDGES = "Judges of the spec to use, by default all; scores use the first."

_PERTURB = "Perturbations of the spec to apply: all, none or a list of names."


class WrittenExample(_Strict):
    """One example with its answer, as the spec or a file writes it."""

    question: str = Field(description="The question.")
    answer: str = Field(description="The answer, as the model should give it: a letter for `letter`, an object for `json`.")
    options: list[str] = Field([], description="Options of a multiple-choice question.")
    images: list[str] = Field([], description="Paths of its images, from the root of the project.")
    hint: str = Field("", description="Text for `{hint}`.")


class Examples(_Strict):
    """Key `examples:` of a prompt: a split or file from which its few-shot examples come."""

    split: Name | None = Field(None, description="Split of the dataset to draw from; scored splits are refused.")
    file: str | None = Field(None, description="File of specs/prompts/ in JSON Lines, with the keys of written examples.")
    shots: Whole | None = Field(None, gt=0, le=64, description="Number of examples; of a file, all by default.")
    seed: Seed | None = Field(None, description="Seed of the draw; by default the spec's.")


class Prompt(_Strict):
    """Key `prompt:`: text around every question, the form of answers, and few-shot examples."""

    template: str | None = Field(
        None,
        description=(
            "The user's turn, as text or the name of a file in specs/prompts/. Placeholders: `{question}`, `{options}`, "
            "`{letters}`, `{hint}`, `{instruction}`. Lines of nothing but empty placeholders are left out."
        ),
    )
    system: str | None = Field(None, description="System message before the conversation.")
    answer_format: str | dict[str, Any] | None = Field(
        None,
        description=(
            "`letter`: the option's letter, from log-probabilities (default with options). `free`: any words (default without). "
            "`short`: a word or short phrase. `json`, `{json: SCHEMA}`: an object whose `answer` is read. Sets `{instruction}`."
        ),
    )
    confidence_target: float | None = Field(
        None,
        ge=0,
        lt=1,
        description=(
            "Tell models to answer only if they are more confident than this t, since a mistake costs t / (1 - t) points. Stands in "
            "`{instruction}`; the metric `confidence_target` scores it."
        ),
    )
    examples: Examples | list[WrittenExample] | None = Field(
        None, description="Few-shot examples: drawn from a split, read from a file, or a list."
    )


_PROMPT = "One prompt, as for the spec."
_PROMPTS = (
    "A file of specs/prompts/, or a mapping of `template`, `system`, `answer_format`, `confidence_target`, `examples`. A model's keys "
    "override a dataset's, and these the spec's. A list compares prompts, as rows `MODEL@prompt=NAME`."
)


class Balance(_Strict):
    """Key `balance:` of a dataset: equally many scored samples of each class, drawn by seed."""

    take: Whole = Field(gt=0, le=MAX_NUMBER, description="How many of each class; a larger number only adds.")
    by: str = Field("uncertain", description="Field whose values are the classes: `uncertain`, `category` or a key of meta.")
    shortfall: Literal["error", "fewest", "keep"] = Field(
        "error",
        description=(
            "If a class has too few: `error` ends the run, `fewest` reduces all classes to the smallest, `keep` takes what there is."
        ),
    )


class Dataset(_BesidePlugin):
    """Entry of `datasets:`: a card of `registry/cards/`, and parameters of its adapter."""

    card: str = Field(description="Card in registry/cards/ (`qualm data ls`).")
    source: Name | None = Field(None, description="Entry of registry/data/ to read; by default the card's own.")
    limit: Limit | None = Field(
        None,
        description=(
            "Maximum number of questions, `{images: 100}` or `{pairs: {test: 100}}`. Drawn by seed, stratified by category; a larger "
            "limit only adds."
        ),
    )
    balance: Balance | None = Field(
        None,
        description="Draw equally many scored samples of each class: `take`, `by`, `shortfall`.",
    )
    evaluate: bool | None = Field(
        None, description="Ask models these questions; by default not if a fine-tune trains on them or pairs are made from them."
    )
    splits: list[Name] | None = Field(None, min_length=1, description=_SPLITS)
    where: str | None = Field(
        None,
        description="Select samples by an expression such as `LQI >= 4 and INV <= 2`, or a subset of the card.",
    )
    uncertain: str | None = Field(
        None,
        description="Samples that are meant to be uncertain, selected as by `where`; by default the unanswerable ones.",
    )
    ask_answerable: Name | None = Field(
        None,
        description="Ask whether the question is uncertain, by this prompt of specs/prompts/.",
    )
    prompt: Any = Field(None, description=_PROMPT)
    judges: Annotated[list[str], Once] | None = Field(None, min_length=1, description=_JUDGES)
    perturb: Perturb = Field(True, description=_PERTURB)
    skip_bad: Annotated[bool, ReadBy("data")] = Field(False, description="Leave out and count unreadable records.")
    prepare: Any = Field(
        None,
        description="Plugin that transforms questions; a list is a sweep.",
    )
    answerable_by: Any = Field(
        None,
        description=(
            "Judge (`rules`, or `lave` with its model) for datasets without labels of answerability. A question is unanswerable if its "
            "references mostly abstain (CertainlyUncertain, equation 1)."
        ),
    )
    disjoint: Annotated[list[Name], Once] | None = Field(
        None, min_length=1, description="Datasets of the same source that must share no sample with this one."
    )
    curated: Name | None = Field(None, description="Entry of registry/data/ whose decisions (`qualm verify`) filter the scored splits.")
    unreviewed: Annotated[Literal["drop", "keep"], ReadBy("curate", always=True)] = Field(
        "drop", description="Drop or keep scored questions without a review."
    )
    lone: Annotated[Literal["drop", "keep"], ReadBy("curate", always=True)] = Field("drop", description=_LONE)


class NearDuplicates(_Strict):
    """Key `near_duplicates:` of a pair set: search for images alike in different splits."""

    distance: Whole = Field(
        4,
        ge=0,
        le=16,
        description="Largest number of differing bits, of the 64 of a perceptual hash, at which two images count as alike.",
    )
    drop: bool = Field(
        False,
        description=("Drop pairs with near-duplicates from the earlier split (train, val, test) instead of only counting them."),
    )


class PairSet(_Strict):
    """Entry of `pairs:`: recipes of pairs of an answerable and an unanswerable question."""

    recipes: list[Any] = Field(
        description=("Pair plugins. Beside one, `as: NAME` renames it; `limit: {pairs: 100}` or `{questions: {test: 200}}` ends it early.")
    )
    curated: Name | None = Field(None, description="Entry of registry/data/ whose decisions (`qualm verify`) filter the test split.")
    unreviewed: Literal["drop", "keep"] = Field("drop", description="Drop or keep test questions without a review.")
    lone: Literal["drop", "keep"] = Field("drop", description=_LONE)
    near_duplicates: Annotated[NearDuplicates, ReadBy("assemble", always=True)] = Field(
        NearDuplicates(), description="Images that look alike across splits."
    )
    evaluate: bool = Field(True, description="Ask models these questions.")
    splits: list[Name] | None = Field(None, min_length=1, description=_SPLITS)
    prompt: Any = Field(None, description=_PROMPT)
    judges: Annotated[list[str], Once] | None = Field(None, min_length=1, description=_JUDGES)
    perturb: Perturb = Field(True, description=_PERTURB)


class About(_Strict):
    """Key `about:` of a model: family, size in billions, chat-tuned, base; for comparisons."""

    family: str = Field("", description="Models of one family are compared by size.")
    billions: float | None = Field(None, gt=0, le=1_000_000, description="Parameters in billions; orders models of a family.")
    chat: bool | None = Field(None, description="The model is chat-tuned.")
    base: str | None = Field(None, description="The model it was tuned from, as named in this spec.")


class Model(_BesidePlugin):
    """Entry of `models:`: a plugin of `runners/plugins/models/` and its settings."""

    about: About | None = Field(None, description="Facts for the report's comparisons.")
    leave_out: list[str] | None = Field(None, description="Estimators, by name or label, to skip for this model.")
    confidence: Literal["none"] | None = Field(None, description="`none`: never ask the model how sure it is.")
    per_category: Annotated[int, Ge(2), Le(MAX_NUMBER), BeforeValidator(whole)] | None = Field(
        None, description="Ask only this many questions of each category and split."
    )
    prompt: Any = Field(None, description=_PROMPTS)


class Inference(_Strict):
    """Section `inference:`: settings of decoding and confidence."""

    max_new_tokens: Annotated[Whole, ReadBy("infer", always=True), ReadBy("finetune", always=True)] = Field(
        16, gt=0, le=1_000_000, description="Longest answer in tokens."
    )
    draws: Whole = Field(
        10,
        gt=0,
        le=1000,
        description="Sampled answers per open question; a larger number only adds.",
    )
    temperature: float = Field(0.7, ge=0.001, le=100, description="Softmax temperature of sampled answers.")
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Nucleus sampling: total probability of the sampled tokens; 1 = all.",
    )
    top_k: Whole = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Sample from this many likeliest tokens, before top_p; 0 = all. Servers ignore it.",
    )
    confidence: Literal["sequence", "verify"] = Field(
        "sequence",
        description=(
            "Confidence of an open answer: its probability (`sequence`), or P(yes) / (P(yes) + P(no)) when asked whether it is right "
            "(`verify`)."
        ),
    )


class Calibration(_Strict):
    """Key `calibration:` of a conformal setting: choice of the rows that set the threshold."""

    fraction: Annotated[float, Gt(0), Lt(1)] | list[Annotated[float, Gt(0), Lt(1)]] = Field(
        0.5, description="Share of rows used for calibration."
    )
    seed: SplitSeed | list[SplitSeed] = Field(42, description="Seed of the split.")
    split: Literal["groups", "rows"] | list[Literal["groups", "rows"]] = Field(
        "groups", description="`groups` keeps each group on one side; `rows` is scikit-learn's train_test_split."
    )
    within: str | list[str] | None = Field(
        None,
        description="Split and calibrate separately for each value of this field (`per:` this field).",
    )


class Conformal(_Strict):
    """Entry of `conformal:`: one conformal prediction setting for multiple-choice data."""

    scores: list[Any] = Field(min_length=1, description="Nonconformity scores.")
    alpha: Annotated[float, Gt(0), Lt(1)] | list[Annotated[float, Gt(0), Lt(1)]] = Field(0.1, description="Allowed error rate.")
    quantile: Literal["standard", "numpy_higher"] | list[Literal["standard", "numpy_higher"]] = Field(
        "standard",
        description=(
            "`standard` = the conformal quantile; with `split: groups`, each group counts once. `numpy_higher` = as "
            "VLM-Uncertainty-Bench's code."
        ),
    )
    empty_set: Literal["argmax", "empty"] | list[Literal["argmax", "empty"]] = Field(
        "argmax", description="An empty set becomes the most probable option, or stays empty."
    )
    precision: Literal["double", "single"] | list[Literal["double", "single"]] = Field(
        "double", description="Floating-point precision; `single` = as VLM-Uncertainty-Bench's code."
    )
    calibration: Calibration = Field(Calibration(), description="Rows that set the threshold.")
    per: str | list[str] | None = Field(
        None,
        description=(
            "A threshold for each part of the questions: `label` (letter of the right option), `option` (its text), `category`, another "
            "field or key of meta."
        ),
    )


def _held_out(value: Any) -> Any:
    """Return the value of `fit:` unchanged; raise if it names scored rows."""
    if value in ("test", "all", "rows"):
        raise PydanticCustomError(
            "held_out", "half, or val: a calibrator is never fitted on rows that are scored, nor on others of their groups"
        )
    return value


class HeldOut(_Strict):
    """Key `calibration:` of calibrators: answers to fit them on, none of which is scored."""

    fit: Annotated[Literal["half", "val"], BeforeValidator(_held_out)] = Field(
        "half",
        description=(
            "`half`: fit on whole groups of the scored questions, and score the others. `val`: fit on split `val`, and score all."
        ),
    )
    fraction: float = Field(0.5, gt=0, lt=1, description="With `fit: half`, the share of rows to fit on.")
    seed: Seed = Field(42, description="With `fit: half`, the seed of the split.")

    @model_validator(mode="after")
    def _says_nothing_that_is_not_read(self) -> Self:
        if self.fit == "val" and (unread := sorted(self.model_fields_set - {"fit"})):
            raise PydanticCustomError("held_out", "no `{key}` beside `fit: val`, which takes all of that split", {"key": unread[0]})
        return self


class Calibrators(_Strict):
    """Entry of `calibrators:`: methods that turn confidences into chances of being right."""

    methods: list[Any] = Field(min_length=1, description="Recalibration methods.")
    of: Annotated[list[str | list[str]], Once, AfterValidator(_reject_lone_names)] = Field(
        ["confidence"],
        min_length=1,
        description=(
            "What to recalibrate: `confidence` (of multiple choice, all options' probabilities) or estimators. A list within the list is "
            "combined, as by `logistic_regression`: `[[confidence, perplexity]]`."
        ),
    )
    calibration: HeldOut = Field(HeldOut(), description="Rows to fit on.")
    refits: Whole = Field(
        200,
        ge=50,
        le=MAX_NUMBER,
        description="Bootstrap resamples that refit each calibrator; at most `compare.interval.bootstrap`.",
    )


class Abstention(_BesidePlugin):
    """Entry of `abstentions:`: a plugin of `runners/plugins/abstentions/` and its settings."""

    of: list[str] | None = Field(None, min_length=1, description="Models to apply it to; by default all under `models:`.")
    fit: Literal["val", "half", "test"] = Field(
        "val",
        description=(
            "Answers that set the threshold, which are then not scored: split `val`, or half of the test groups (`half`). `test`: the "
            "scored answers, as in the paper; reported as optimistic."
        ),
    )
    per: Literal["all", "category"] = Field("all", description="One threshold for all questions, or one per category.")
    confidence: Literal["kept", "complement"] = Field(
        "kept",
        description="Confidence of an abstention: that of the replaced answer (`kept`), or one minus it (`complement`).",
    )
    seed: Seed = Field(42, description="Seed of the halves.")


class Probe(_BesidePlugin):
    """Entry of `probes:`: a plugin of `runners/plugins/probes/` and its settings."""

    of: list[str] | None = Field(
        None, min_length=1, description="Models to train it for, one probe per model; by default all under `models:`."
    )
    fit: Literal["val", "half"] = Field(
        "val",
        description="Answers to train on, which get no value: split `val`, or half of the test groups (`half`).",
    )
    transfer: bool = Field(
        True,
        description="Also score each dataset by a probe of the others, `NAME@other_data`.",
    )
    seed: Seed = Field(42, description="Seed of the halves.")


class Blind(_Strict):
    """Section `blind:`: the models that get each baseline without the question's image or text."""

    refuser: list[str] = Field(
        [],
        min_length=1,
        description=("Models for which a classifier of the question's words also abstains. Rows `MODEL+blind_refuser`."),
    )
    picture_refuser: list[str] = Field(
        [],
        min_length=1,
        description=("Models for which a classifier of the image also abstains. Rows `MODEL+picture_refuser`."),
    )
    swapped: list[str] = Field(
        [],
        min_length=1,
        description="Models also asked with the image of another group. Rows `MODEL+swapped_picture`.",
    )
    removed: list[str] = Field([], min_length=1, description="Models also asked without the image. Rows `MODEL+removed_picture`.")


class Interval(_Strict):
    """Key `interval:` of `compare:`: settings of the bootstrap intervals of scores."""

    bootstrap: Whole = Field(
        1000,
        ge=0,
        le=MAX_NUMBER,
        description="Resamples of whole groups; 0: no intervals; tests use the jackknife, and `holm` for `max_t`.",
    )
    level: float = Field(0.95, gt=0, lt=1, description="Level of the intervals.")


Margin = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]


class Compare(_Strict):
    """Section `compare:`: settings of the intervals, tests and comparisons of results."""

    baseline: str | None = Field(
        None,
        description="Test every other model against this one; `base+METHOD` is an abstaining model.",
    )
    pairs: Annotated[list[Annotated[list[str], Field(min_length=2, max_length=2)]], Once] = Field(
        [], description="Further pairs of models to test, `[a, b]`: is b better than a?"
    )
    margin: Margin | dict[str, Margin] | None = Field(
        None,
        description=(
            "Largest difference that does not matter, for all shares and correlations or by metric; tests equality and non-inferiority."
        ),
    )
    correction: Literal["max_t", "holm", "benjamini_hochberg", "none"] = Field(
        "max_t", description="Correction of p-values for multiple testing."
    )
    family: Literal["metric", "slice", "study"] = Field(
        "study",
        description="Tests corrected together: all (`study`), those of one dataset and slice (`slice`), or of one metric there (`metric`).",
    )
    interval: Interval = Field(Interval(), description="Bootstrap intervals.")

    @property
    def applied_correction(self) -> str:
        """Return the correction of p-values: `holm` for `max_t` if there are no resamples."""
        return "holm" if self.correction == "max_t" and not self.interval.bootstrap else self.correction


class Judging(_Strict):
    """Section `judging:`: people's ratings with which the judges are compared."""

    labels: Name | None = Field(
        None,
        description=("Entry of registry/data/ with labels.csv, people's ratings of answers, for judging.json and `corrected_accuracy`."),
    )


class Report(_Strict):
    """Section `report:`: contents of the report beside the scores."""

    examples: Annotated[Whole, ReadBy("report", always=True)] = Field(24, ge=0, le=10_000, description="Number of samples to browse.")
    published: Name | None = Field(
        None, description="Entry of registry/data/ with published values (tables/*.csv) to show beside the recomputed ones."
    )


class Spec(_Strict):
    """One benchmark: all sections of a file `specs/NAME.yaml`."""

    qualm: Literal[1] = Field(description="Version of the spec language.")
    name: Name = Field(description="Name of the benchmark, equal to the file's.")
    title: str = Field("", description="Title of the report.")
    description: str = Field("", description="A paragraph for the report.")
    seed: Seed | None = Field(None, description="Seed of all random numbers; by default params.yaml's.")
    taxonomy: dict[Name, dict[Name, Category]] = Field({}, description="Kinds of uncertainty: main kind, then category.")
    datasets: dict[Name, Dataset] = Field(description="Datasets whose questions are asked.")
    pairs: dict[Name, PairSet] = Field({}, description="Sets of contrastive pairs, made from datasets.")
    perturbations: list[Any] = Field(
        [],
        description="Variants of every sample; a list of strengths is a sweep.",
    )
    prompt: Any = Field(None, description=_PROMPTS)
    models: dict[Name, Model] = Field({}, description="Models that answer.")
    finetunes: dict[Name, dict[str, Any]] = Field({}, description="Models that this spec trains: one fine-tune plugin each.")
    inference: Inference = Field(Inference(), description="How models answer.")
    judges: list[Any] = Field([], description="Judges of open answers.")
    unread: Annotated[Literal["bounds", "exclude", "wrong"], ReadBy("score")] = Field(
        "bounds",
        description=(
            "Answers that no judge can read are left out and counted (`exclude`), or count as `wrong` (metrics of marks, such as yes and "
            "no, still leave them out). `bounds` also shows, above 1%, the values if all were wrong or right."
        ),
    )
    judging: Judging = Field(Judging(), description="People's ratings of answers.")
    estimators: list[Any] = Field([], description="Uncertainty estimators.")
    conformal: dict[Name, Conformal] = Field({}, description="Conformal settings, by names of yours.")
    calibrators: dict[Name, Calibrators] = Field({}, description="Recalibrated confidences, likewise.")
    abstentions: dict[Name, Abstention] = Field({}, description="Abstention rules for uncertain answers, likewise.")
    probes: dict[Name, Probe] = Field(
        {},
        description="Classifiers that predict wrong answers from internal states, likewise.",
    )
    blind: Blind = Field(Blind(), description="Baselines without image or question, or with another image.")
    metrics: list[Any] = Field([], description="Metrics to compute.")
    slices: Annotated[list[str], Once] = Field(
        [],
        description="Fields of samples; every metric is also computed for each value. `category*answerable` = each combination.",
    )
    macro_averages: Annotated[list[str], Once] = Field(
        [],
        description=(
            "Fields of samples; every metric is also averaged over their values with equal weights (slice `macro:FIELD`). `datasets` "
            "averages over datasets."
        ),
    )
    compare: Compare = Field(Compare(), description="Intervals and comparisons.")
    report: Report = Field(Report(), description="What the report shows.")


class RunWide(_Strict):
    """File params.yaml: which spec is the default, and what every spec falls back to."""

    default: Name = Field(description="The spec that a bare `dvc repro` in the root runs.")
    seed: Seed = Field(7, description="Seed of specs that set none.")
    limit: Whole | None = Field(None, gt=0, le=MAX_NUMBER, description="Maximum number of questions of datasets that set none.")
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = Field("float32", description="Precision of models that set none.")
