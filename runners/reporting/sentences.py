"""All fixed sentences of the report, by section: to read in one go, and to translate.

A text in braces is a field, which `str.format` fills in. Fields hold names, numbers, or other sentences of this module.
"""

# Findings
WRONG_ANSWERS_OF = "the wrong answers of {model}"
UNCERTAIN_QUESTIONS_OF = "the uncertain questions asked of {model}"
NO_INTERVAL = "no interval"
TOO_FEW_GROUPS_TO_RANK = "a ranking needs {needed} groups of questions, and {found} have a score"
MODELS_NOT_RANKED = "Models are not ranked by {metric}, since {why}. Values: {values}."
ALL_MODELS_EQUAL = "{who} have the same {metric}, {value}."
MODELS_SHARE_BEST = "{models} share the best {metric} of {among}, {value}."
BEST_MODEL = "{model} has the best {metric} of {among}, {value}; {others}."
BOTH_MODELS = "Both models"
ALL_OF = "All {among}"
ONLY_MODEL = "{model} has {values}."
ON_DATASET = "{value} on {dataset}"
BETTER_THAN_OTHER = "it is significantly better than the other"
BETTER_THAN_ALL = "it is significantly better than all {of} others"
OTHER_IS_TIED = "the other is statistically tied"
ALL_OTHERS_TIED = "all {of} others are statistically tied"
ONE_OTHER_TIED = "{n} of the {of} others is statistically tied"
SOME_OTHERS_TIED = "{n} of the {of} others are statistically tied"
ONE_MODEL = "{n} model"
MODELS = "{n:,} models"
N_ESTIMATORS = "{n} estimators"
AND = " and "
OTHERS = "others"
OF_THEM = "of them"
BASELINES = "baselines"
EVERY_SET_HAS_ALL = "every set has all options"
SHARED_QUESTIONS_TESTED = "; {shares}, and the test uses the questions that both have"
MODELS_WITH_ABSTENTION = " with abstention or recalibration"
CANDIDATES_COMPARED = "the {candidates} that could be compared (not {others})"
ONLY_BASELINE = "The baseline without {unseen}, {baseline}, has {value}"
BEST_BASELINE = "Of {n} baselines without {unseen}, {baseline} has the best {value}"
BEST_BEATS_BASELINES = "; {best} is significantly better than {baselines}"
BEST_DOES_NOT_BEAT_BASELINES = "; {best} was not shown to be significantly better than every such baseline{least}"
THE_IMAGE = "the image"
THE_QUESTION = "the question"
IMAGE_OR_QUESTION = "the image or the question"
SHORTCUT_UNUSED = "{shortcut}. No classifier baseline uses this (add `blind: {baseline}`), so an improvement may come from it."
SELECTION_ADJUSTED = "{interval}, selection-adjusted"
OVER_PROMPTS = "{model}: over {n} prompts, {metric} is {worst} ({worst_prompt}) to {best} ({best_prompt}), a spread of {spread}"
EQUAL_OVER_PROMPTS = "{model}: over {n} prompts, {metric} is always {value}"
PROMPTS_DIFFER = "the best and the worst prompt differ significantly"
PROMPTS_TIED = "the best and the worst prompt are statistically tied"
PROMPT_DIFFERENCE = "; on the questions that both have, the difference is {difference}{interval}; {verdict}, p = {p}"
AGAINST_BASELINE = "{model} is significantly {verdict} than {baseline} on {metric}: {change}, p = {p}"
EQUAL_TO = "{model} is {verdict} to {baseline} on {metric}: {change}, p = {p}."
NOT_WORSE_THAN = "{model} is {verdict} than {baseline} on {metric}: {change}, p = {p}."
ONE_TIED = "On {metric} {model} is statistically tied with {baseline}, which does not prove equality."
ALL_TIED = "On {metric} all {n} tested models are statistically tied with {baseline}, which does not prove equality."
ONE_OF_TIED = "On {metric} {n} of {of} tested models is statistically tied with {baseline}, which does not prove equality."
SOME_TIED = "On {metric} {n} of {of} tested models are statistically tied with {baseline}, which does not prove equality."
BEATS_BASELINE = ", and than the baseline without {unseen} ({baselines})"
BEATS_BASELINES = ", and than the baselines without {unseen} ({baselines})"
DOES_NOT_BEAT_BASELINES = "; it was not shown to be significantly better than every baseline without {unseen}{least}"
SMALLEST_DIFFERENCE = " (least favourable test: against {baseline})"
AUROC_AND_CHANCE = "AUROC {value}, where chance is 0.5"
ESTIMATORS_NOT_RANKED = "Estimators are not ranked by AUROC for {target}, since {why}."
NO_ESTIMATOR_BEATS_CHANCE = "Of {among} that rank {target}, {verdict}. The highest AUROC is that of {best}: {value}."
ESTIMATORS_SHARE_BEST = "{n} of {among} share the best ranking of {target}: {value}."
BEST_ESTIMATOR = "Of {among}, {estimator} ranks {target} best: {value}; {others}."
SETS_UNINFORMATIVE = "Prediction sets are uninformative: {why}."
SET_SIZE = " with {size} options on average"
SETS_HAVE_EVERY_OPTION = " but contain every option, so they are uninformative"
SETS_COVER = "{score} sets cover {share} of questions ({band}){size}"
FINDINGS_NOTE = (
    "Intervals and tests{intervals}. A ranking uses paired differences, {correction}; tests against a baseline or between prompts use "
    "paired t tests, corrected as the spec says. A statistical tie does not prove equality. Selection-adjusted intervals hold for all "
    "values of a column at once."
)

# Findings figure
STATE_LEAD = "best, or statistically tied with it"
STATE_BEHIND = "significantly worse than a better one"
STATE_NOT_COMPARED = "not in the ranking"
STATE_UNEQUAL = "not ranked: scored shares differ"
STATE_UNRANKED = "not ranked: its own interval"
STATE_INVERTED = "no better than chance"
DOT_AND_LINE = "Dot: value; line: {interval}."
RING = "Ring: a baseline without {unseen}."
DASHED_CHANCE = "Dashed: chance."
BEST_ROWS_SHOWN = "The best {shown} of up to {n} rows are shown; the leaderboard has all."
BEST_FIRST = "{kinds}, the best first"
ESTIMATORS_OF = "{n} estimators of {model}"
MODELS_UNRANKED = "{n} model{s}, not ranked"
SIMULTANEOUS_INTERVAL = "simultaneous interval, which holds for all rows of a panel at once"
INTERVAL = "interval"
NO_FIGURE = "No figure: no model has a value of its main metric."

# First table
NOT_IN_DATASET = "not in this dataset"
MODELS_SHOWN = "The first {n} models of each dataset are shown; the leaderboard has all."
IN_VARIANTS = "{kinds:,} in {variants:,} variants"
UP_TO_EACH = "up to {n:,} each"
SPEC = "Spec"
MODELS_FACT = "Models"
DATASETS = "Datasets"
PERTURBATIONS = "Perturbations"
CLEAN_ANSWERS = "Clean answers"
ANSWERS = "Answers"
JUDGE = "Judge"
CONFORMAL = "Conformal"
WITH_ABSTENTION_OR_RECALIBRATION = "with abstention or recalibration"
BASELINE_IGNORING_THE_IMAGE = "baseline that ignores the image or the question"
BASELINES_IGNORING_THE_IMAGE = "baselines that ignore the image or the question"
SAMPLES_NOT_AVAILABLE = "samples are not available"
CHOICE_AND_OPEN = "{n:,} questions ({choice:,} multiple-choice, {open:,} open-ended)"
CHOICE = "{n:,} multiple-choice questions"
OPEN_ENDED = "{n:,} open-ended questions"
IMAGES = "{n:,} images"
TEXT_ONLY = "text only"
GROUPS = "{n:,} groups"
UNANSWERABLE = "{n:,} unanswerable"
COLLAPSES = "A model collapses under a perturbation"
UNSCORED = "Many answers are not scored"
CAUTIONS = "Estimators that do not suit the answers"
DISPUTES = "Recorded logs disagree with the judge"
RESULTS_NOTE = "Clean inputs{intervals}. {marks} n: scored questions, with the scored share if below 100%. {shown}"
RESULTS = "Results"
FINDINGS = "Findings"
ABSTENTION = "Abstention"
LEADERBOARD = "Leaderboard"
DATA = "Data"
EXAMPLES = "Examples"
REPORT = "Qualm benchmark report"
WHY_COLUMN_UNDEFINED = "Why {n} column has undefined values"
WHY_COLUMNS_UNDEFINED = "Why {n} columns have undefined values"
MORE = "{n} more"

# Chance
NONE_BEATS_CHANCE_INVERTED = (
    "none beats chance ({chance}), and the ranking is inverted: the whole interval of the best is worse than chance"
)
NONE_BEATS_CHANCE = "none beats chance ({chance})"
NONE_SIGNIFICANTLY_BEATS_CHANCE = "the best is not significantly better than chance ({chance}): its interval contains it"
CHANCE_LEVEL = "chance level: {levels}"

# Leaderboard
PREDICTION_SETS = "Prediction sets"
UNCERTAINTY_ESTIMATORS = "Uncertainty estimators"
MEAN_OVER = "mean over {part}"
MEAN_OVER_DATASETS = "mean over datasets{part}"
OF_GROUPS = " of {n} groups"
CALIBRATION_ROWS = ": {calibrating} rows{groups} calibrate, {testing} are tested"
ROWS_OF_SETTING = "the rows on which conformal setting {setting} does not calibrate{counts}"
TEST_PART_COLUMNS = "Columns of the test part use {rows}. The other columns use all rows."
OVER_TEST_PART = "{title}: test part"
OVER_ALL_ROWS = "{title}: all rows"
TEST_PART = ", test part"
NOT_MEASURED_FOR_MODEL = "not measured for this model"
NO_REASON = "no reason on record"
NOT_RANKED_BIASED = "not ranked: biased"
NOT_MEASURED_FOR_BOTH = "not measured for both"
NOT_TESTED = "not tested"
MARKS = (
    "**Bold**: significantly better than every other ranked row of its column. †: the best ranked value, or statistically tied with every "
    "better one. No mark: significantly worse, not ranked (such as baselines that ignore the image or the question), or all ranked rows "
    "are statistically tied. Based on paired differences over resamples of whole groups, {correction}."
)
LEADERBOARD_NOTE = (
    "Clean inputs, all questions except in columns of the test part. Each value has its interval{intervals}; values in grey have none. "
    "Point at a value for its n and groups. {marks} ↑: higher is better; ↓: lower is better; no arrow: neither direction is better. Scored "
    "share: the share of answers with a score, shown if below 100%. If more than 1% of the answers are unread, bounds follow the value: "
    "all unread answers wrong, and all right. Columns whose scored shares differ by more than 2 points are not ranked, nor are calibration "
    "errors, whose bias depends on the model."
)
CHANCE_NOTE = (
    "Chance: the expected value of an uninformative uncertainty; a value whose interval contains it is not significantly better, and one "
    "whose whole interval is worse than it is not marked. Prediction rejection ratio: gain over chance as a share of the gain of a perfect "
    "ranking."
)
CHANCE_ROW = "expected value of an uninformative uncertainty"
MACRO_AVERAGES_NOTE = (
    "Every dataset or slice has equal weight, however many questions it has. Means over datasets are neither ranked nor tested."
)
MACRO_AVERAGES = "Macro averages"
ONE_NOTE = "{n} note on these values"
NOTES = "{n} notes on these values"

# Tests between models
PAIRED_TESTS = "{test} tests over whole groups, {correction}."
FIRST_MINUS_SECOND = "Differences are the first model minus the second. Each interval is for that difference alone."
NO_PROOF_OF_EQUALITY = "The absence of a significant difference does not prove equality."
ERRORS_COMPARED_BY_SQUARE = "Calibration errors are compared by their squared bias-corrected error, since the plain estimate is biased."
MARGIN_P_VALUES = (
    "p, equal: the difference is within the margin; p, not worse: the first is not worse by the margin; both corrected like p, but by "
    "Holm’s method instead of max-T."
)
FIRST_SHOWN = "The first {shown} of {n:,} are shown; all are in {where}."
MODEL_TESTS = "Tests between models: {significant:,} of {n:,} differences are significant"
MARGIN_COLUMNS = ("p, equal", "p, not worse")
MODEL_TEST_COLUMNS = ("models", "metric", "values", "difference", "interval", "p", "finding")

# Tests of estimators
ONE_DIFFERENCE = "{significant} of 1 difference from the best estimator of a model is significant (corrected p < .05)."
ONE_OF_DIFFERENCES = "1 of {n:,} differences from the best estimator of a model is significant (corrected p < .05)."
DIFFERENCES = "{significant:,} of {n:,} differences from the best estimator of a model are significant (corrected p < .05)."
TIE_IS_NO_PROOF = " A statistical tie does not prove equality."
UNRANKED_SHARES = "not ranked, since scored shares differ"
FROM_THE_BEST = "Differences are from the best estimator. Each interval is for that difference alone; p-values are corrected."
ESTIMATOR_TESTS = "Tests of estimators against the best of each model"
STATISTICALLY_TIED = "statistically tied"
ESTIMATOR_TEST_COLUMNS = ("model", "metric", "best", "estimator", "difference", "interval", "corrected p", "verdict")

# Figures
CALIBRATED_BINS = (
    "Vertical lines: 95% range of a bin's accuracy under perfect calibration, with the answers of a group correlated as observed; one bin "
    "in twenty lies outside by chance. "
)
CALIBRATION_P = "p: test of perfect calibration, not corrected for the number of models. "
PANELS_SHOWN = " The first {shown} of {n} panels are shown."
MODEL_TICKS = "one tick or line per model ({n})"
THEIR_MEAN = "their mean"
RELIABILITY = "Accuracy in each bin of confidence against mean confidence. Dashed: perfect calibration. "
ANSWERS_BELOW = "Below: number of answers in each bin."
RISK_AND_COVERAGE = "Risk and coverage"
RISK_AND_COVERAGE_CAPTION = "Error rate among the answered questions, if the model answers only those with the highest confidence."
BY_CONFIDENCE = "by confidence"
ORACLE = "oracle: right answers first"
RANDOM_ORDER = "random order"
SET_SIZES = "Sizes of the prediction sets"
SET_SIZES_CAPTION = "Setting {setting}, test questions."
SEPARATION = "Uncertainty of right and of wrong answers"
SEPARATION_CAPTION = "A good estimator separates the two distributions. Each is over its own kind of answers."
SEPARATION_QUANTILES = " Dot: median; thick: middle half; thin: middle 80%."
BY_VARIANT = "By variant"
CORRECTNESS_UNDEFINED_UNDER = " Correctness is undefined under {variants}: {why}."
DOT_AND_ITS_INTERVAL = "Dot: value; line: its interval."
ROWS_SHOWN = "The first {shown} of {n:,} rows are shown; all are in {where}."
BEST_AUROC = "AUROC: of the estimator with the highest mean over models on clean inputs."
TICKS_AND_MEAN = "One tick per model; diamond: their mean. Intervals are in the table below."
LINES_SHOWN = " The table has the first {shown} of these rows' {n:,} lines; all are in {where}."
UNDEFINED = "undefined ({why})"
SHARE_ANSWERED = "share answered"
ERROR_AMONG_THEM = "error among them"
OPTIONS_IN_SET = "options in the set"
SHARE_OF_QUESTIONS = "share of questions"
NO_SCORED_ROWS = "no scored rows"
NO_VALUE = "no value for these rows"
CALIBRATION_HEADING = "Calibration and selective answering"
UNCERTAINTY_HEADING = "Prediction sets and uncertainty"
SLICES_HEADING = "Slices and perturbations"
NUMBERS = "The numbers"

# Group-conditional coverage
COVERAGE_BY_GROUP_NOTE = (
    "Each group has a threshold from its own calibration questions, so its sets contain the reference answer for at least the target share "
    "of questions, on average over calibration samples that are exchangeable with the test questions of the same group. With "
    "`split: groups` and the standard quantile this holds for a random question of a new cluster, each cluster having equal weight. Clean "
    "inputs only. Expected: the range that contains coverage on this many test questions in 95% of such samples; at most one group in "
    "forty falls below it by chance. “none”: too few calibration questions or clusters for a threshold. A question of such a group has no "
    "prediction set; if the groups are labels or options, such options are included in every set."
)
COVERAGE_BY_GROUP = "Coverage by {part}: {dataset} · {setting}"
IN_GROUPS = " in {n:,} groups"
NO_TEST_QUESTIONS = "no test questions"
COVERAGE_BY_GROUP_TITLE = "Group-conditional coverage"
COVERAGE_BY_GROUP_COLUMNS = (
    *("model", "score", "group", "calibration n", "test n", "threshold", "coverage", "expected (95%)"),
    *("", "mean size"),
)

# Recalibrated confidences
RECALIBRATED_NOTE = (
    "“raw” is the model’s own confidence; every other row is that confidence, or an estimator’s value, after calibration. Calibrators are "
    "fitted on part of the questions, in whole groups, or on split `val`; all rows are over the n other scored questions: compare them "
    "with each other, and with the leaderboard only if n is equal. “better” and “worse”: the corrected p is below .05 and the interval of "
    "the difference excludes 0. Both are conservative: a statistical tie does not prove that a calibrator has no effect. “not tested”: "
    "fewer than {needed} groups of questions, a metric without interval, or resamples without a fit."
)
RECALIBRATED = "Raw and recalibrated: {dataset} · {setting}"
RECALIBRATED_COLUMNS = ("model", "metric", "confidence", "value (interval)", "minus raw (interval)", "corrected p", "against raw", "n")

# Uncertain questions
NOT_MEASURED = "not measured"
FLOORS = "floors {low} – {high}, each over the questions of its row"
FLOOR_ON_THESE = "; floor {floor} on these"
HIGHER_THAN_EVERY_OTHER = "; significantly higher than every other"
TIED_WITH_HIGHER = "; statistically tied with every higher value"
BEST_AGAINST_ASKING_NOTE = (
    "F1 with uncertain questions as positives. The best estimator and its threshold are selected on these same questions, which is "
    "optimistic; its interval accounts for the threshold, not for the estimator. Replies need no threshold; replies that are neither yes "
    "nor no are unscored."
)
ALL_CALLED_UNCERTAIN = " Calling all questions uncertain has F1 {f1}."
BEST_AGAINST_ASKING = "{dataset}: best estimator against asking the model"
UNCERTAIN_QUESTIONS = "Uncertain questions"
FLOOR = "floor {value}"
BEST_AGAINST_ASKING_COLUMNS = ("model", "best estimator")
ASKED = "asked: {way}"
UNCERTAIN_QUESTIONS_NOTE = (
    "How well uncertainty separates questions labelled uncertain from clear ones, over clean inputs (the paper’s Tables 2 and 3). AUROC: "
    "0.5 is chance. Best F1 uses the threshold that maximises it on these same questions. Its floor is the F1 of calling all questions "
    "uncertain, so a value near the floor is uninformative. **Bold**: the highest value, or statistically tied with every higher one; no "
    "mark if all are tied. Intervals are below the values."
)

# Under perturbation
BECAME_WRONG = "became wrong"
ALL_ARE_IN = " All are in {path}."
FIRST_OF_KIND_SHOWN = "The first {shown:,} of {n:,} {what} are shown.{where}"
LEFT_OUT = "Left out: {names}, under which correctness is undefined ({why})."
OF_CHANGED = "{value} of changed"
NOT_SIGNIFICANT_WITHOUT_INTERVAL = "not significant, since it has no interval"
INTERVAL_CONTAINS_0 = "not significant, since its interval contains 0"
CHANGED_INPUTS = "of {n:,.0f} changed inputs {value}{interval}"
NO_ATTRIBUTION = "no attribution"
SAMPLES_WITHOUT_ATTRIBUTION = "these samples have no attribution"
ATTRIBUTION_NOTE = "Only samples of known modality. Intervals resample groups without refitting the regression. {fits}"
ATTRIBUTION_ACCURACY = "Accuracy of attribution"
TWO_METRICS = "two metrics"
RANK_STABILITY_NOTE = (
    "Kendall’s τ-b between two rankings of the estimators: 1 = equal, 0 = unrelated, −1 = reversed; undefined for fewer than three. The "
    "interval comes from resampled questions. AUROC is over clean inputs; URR and HCC are means over perturbations. "
)
RANK_STABILITY = "Rank stability of estimators"
MODALITY_MEANS = (
    "Unweighted means over the perturbations of each modality under which the metric is defined and the model does not collapse, with "
    "intervals. "
)
MODALITY_COVERAGE = "Coverage: calibrated on clean inputs, so it has no guarantee under perturbation. "
METRICS_BY_MODALITY = "Metrics by modality"
UNDER_PERTURBATION = "Under perturbation"
ALL_QUESTIONS = "all questions"
OVER_CHANGED_SAMPLES = " over the samples whose input is changed"
OVER_ALL_INPUTS = "; over all inputs {value}{interval}"
UNCERTAIN_FROM_CLEAR = "Highest AUROC for separating uncertain from clear questions (0.5 is chance): {best}."
PERTURBED_FROM_CLEAN = (
    "Highest AUROC for separating perturbed from clean inputs (mean over perturbations{over}; 0.5 is chance): {best}. They are the best of "
    "many, and their intervals are not selection-adjusted."
)
NOT_SELECTION_ADJUSTED = "{interval}, not selection-adjusted"
SELECTION_ADJUSTED_OVER = "{interval}, selection-adjusted over {n:,}"
TIED_WITH_OTHER = ", statistically tied with {n:,} other"
TIED_WITH_OTHERS = ", statistically tied with {n:,} others"
BECOME_WRONG = "Share of questions whose right answer becomes wrong{over}: "
BY_KIND_OF_QUESTION = "; by kind of question{over}: "
MEANS_OVER_PERTURBATIONS = " (means over perturbations, models and datasets{of}). "
ACCURACY_BY_STRENGTH = "Accuracy against strength: {dataset}"
URR_BY_STRENGTH = "URR against strength: {model} on {dataset}{which}"
UNCERTAINTY_BY_STRENGTH = "Mean uncertainty against strength: {estimator} on {dataset}"
BANDS_IF_FEW = "Intervals are bands if there are few lines; all are in the table."
COVERAGE_UNDER_PERTURBATION = "Conformal coverage under perturbation: {dataset}"
COVERAGE_AND_TARGET = "coverage ({score}), target {target}"
COVERAGE_WITHOUT_GUARANTEE = (
    "Calibrated on clean inputs, so coverage under perturbation has no guarantee. Dashed: target coverage. In {below:,} of {n:,} perturbed "
    "cells the whole interval lies below it."
)
SIGNIFICANT_EFFECTS_NOTE = (
    "The number of significant tests (p < .05) over all models, datasets and estimators under this perturbation: ↑ more uncertainty or "
    "hallucination than by chance, or a positive HCC; ↓ the opposite{also}. {correction}"
)
ALL_P_VALUES = " All p-values, including those of slices, are in {path}."
SIGNIFICANT_EFFECTS = "Significant effects by perturbation"
TWO_SIDED_TESTS = "Two-sided t tests over whole groups, {correction}."
MODALITIES_UNTESTED = (
    "Modalities are not tested against each other: such a test needs at least 20 groups of questions, bootstrap resamples, and values of "
    "two modalities."
)
ONLY_CHANGED_INPUTS = "changed inputs"
OVER_CHANGED_INPUTS = " over the changed inputs"
THE_ONE_ESTIMATOR = "the one estimator"
MODALITY_ABOVE = "{higher} above {lower} for {n_above:,}, below for {n_below:,}"
MODALITY_DIFFERENCES = (
    "Significant differences in URR{over} between modalities, of {estimators}: {differences}; the others are statistically tied."
)
LARGEST_MODALITY_DIFFERENCE = "{text} Largest significant difference: {estimator} ({where}), {difference}."
OTHERS_TIED = "The others are statistically tied. "
ALL_MODALITIES_TIED = "All modalities are statistically tied. "
MODALITY_TESTS_NOTE = (
    "Means over the perturbations of each modality, over the changed inputs if these are known. Paired tests over resamples of whole "
    "groups, corrected by Westfall and Young's max-T method over the spec’s family of tests. Each interval is for that difference alone."
)
THE_FIRST_SHOWN = " The first {shown} of {n:,} are shown; all are in {where}."
MODALITY_TESTS = "Tests between modalities"
MODALITY_PAIR = "{higher} {high} against {lower} {low}: {difference}, corrected p = {p}"
MODALITY_TEST_COLUMNS = ("model", "metric", "modalities", "difference", "interval", "corrected p", "finding")
ATTRIBUTION_COLUMNS = (
    *("model", "tested on", "right ↑ (interval)", "mean over modalities ↑", "AUROC of image over text ↑", "majority baseline"),
    "samples",
)
PERTURBED_FROM_CLEAN_SHORT = "AUROC, perturbed from clean"
HCC_NEEDS_INTERVAL = "; HCC also needs an interval without 0"
HALLUCINATION_RATE = "hallucination rate"
BOTH_OVER_ALL_SAMPLES = ", over all samples"
OF_ALL_QUESTIONS = ", of all questions"
NOT_ANSWERED_BY_SPEC = "Not answered by this spec:"
ESTIMATORS_BY_MODALITY = "Estimators by modality"
ESTIMATORS_BY_MODALITY_NOTE = (
    "Means over the perturbations of each modality, with intervals. The variants of one perturbation are averaged first; variants under "
    "which a model collapses are excluded. If a perturbation leaves some inputs unchanged, values are over the changed inputs; point at a "
    "cell for the value over all inputs. Overlapping intervals prove nothing; only a paired test of one modality against another shows a "
    "difference."
)
URR_TITLE = "Which estimators react to which perturbations? URR"
URR_NOTE = (
    "Uncertainty reflection rate: the share of samples whose uncertainty is higher when perturbed than when clean, from 0 to 1 (stronger "
    "colour = higher). A tie counts as no reaction, so 0.5 is the chance level only without ties; a share of ties of 0.1 or more is shown "
    "below the value instead of the interval. If a perturbation leaves some inputs unchanged, the rate over the changed inputs is shown "
    "there. No colour: the model collapses under this perturbation. **Bold**: significantly different from equally many rises and falls (* "
    "p < .05, ** p < .01, *** p < .001). Point at a cell for details."
)
HCC_TITLE = "Does the reaction indicate hallucination? HCC"
HCC_NOTE = (
    "Hallucination change correlation: the correlation between the rise in uncertainty and a right answer becoming wrong, from −1 to 1. "
    "Blue: uncertainty rises where answers become wrong; red (negative): it falls there. Few answers become wrong under a mild "
    "perturbation, so read the interval. **Bold**: different from 0 by both the test (* p < .05, ** p < .01, *** p < .001) and the "
    "interval, which is stricter if answers rarely become wrong. If some inputs are unchanged, the coefficient over the changed inputs is "
    "shown below. Undefined cells state the reason."
)
HCC_BY_CATEGORY = "HCC by category (the paper’s Figures 3 and 14 to 25)"
HALLUCINATION_BY_CATEGORY = "Hallucination by category"
HALLUCINATION_BY_CATEGORY_NOTE = (
    "Share of questions that are answered right when clean and wrong when perturbed, over all samples, with intervals (the paper’s Table "
    "5). **Bold**: significantly more or fewer than the wrong answers that become right (* p < .05, ** p < .01, *** p < .001)."
)
ATTRIBUTED_TO = "Which modality the uncertainty is attributed to"
ATTRIBUTED_TO_NOTE = (
    "Attribution is a regression trained on samples of known modality; its features are the values of all estimators and their mean "
    "changes under the perturbations of each modality. Each sample of known modality is predicted by a regression trained without its "
    "group, and, if every modality has several kinds of damage, again by one trained without its group and its kind. Samples of unknown "
    "modality are shown only if the prediction, including its interval, is better than always naming the same modality. **Bold**: the "
    "known modality."
)
STRENGTHS = "Accuracy, URR and uncertainty against strength"
GALLERY = "One question under every perturbation"
GALLERY_QUESTION = "Question {question} of {dataset} as the model receives it, and the answers"
GALLERY_BOLD = "**Bold**: differs from the answer to the clean question."
GALLERY_REFERENCE = "The reference answer is “{answer}”."
GALLERY_CUT = "The first {shown} of {n} variants."
GALLERY_IMAGES = "Images are reduced in size; an unchanged image or question is not repeated."

# Answers to the research questions
CAPTURE = "How well do estimators capture the uncertainty of each modality?"
REACT = "How consistently do they react, and do they react more to one modality than to others?"
WARN = "Do perturbations make models hallucinate, and do estimators indicate it?"
ATTRIBUTION = "Where does the uncertainty come from?"
NOT_ANSWERED = "Not answered: "
ATTRIBUTION_UNCHECKED = (
    "attribution needs samples of known modality, at least {n} groups of each of two modalities; the datasets of this spec have fewer "
    "(specs/attribution_scenes.yaml has enough)."
)
ONE_MODALITY = "attribution needs perturbations of two modalities under which the model does not collapse; this spec has fewer."
COLLAPSES_EXCLUDED = "Variants under which a model collapses are excluded."
WARNING_NOT_ANSWERED = "Whether estimators indicate it is not answered: {why}"
NO_UNCERTAIN_LABELS = "there is no value of auroc_uncertain or {metric}."
METRIC_MISSING = "the spec does not name {metric}."
NO_CORRECTNESS = "under all of these perturbations, correctness is undefined ({why})."
ALL_UNDEFINED = "All cells are undefined; the reasons are given below."
UNCERTAINTY_RISES = "uncertainty rises in more samples than it falls"
UNCERTAINTY_FALLS = "it falls in more"
UNCERTAINTY_RISES_WHERE_WRONG = "uncertainty rises where answers become wrong"
UNCERTAINTY_FALLS_WHERE_WRONG = "it falls there"
AND_INTERVAL_WITHOUT_0 = ", and an interval without 0"
COMBINATIONS = "In {up:,} of {n:,} combinations of model, dataset, estimator and perturbation, {rises} ({rule}), in {down:,} {falls}"
COMBINATIONS_UNDEFINED = "; {n:,} are undefined"
COMBINATIONS_EXCLUDED = "; {n:,} more are excluded, since the model collapses. "
NOT_ADJUSTED = "{text} These intervals are not selection-adjusted."
NOT_VALIDATED = "Not validated, so other samples are not attributed"
NAMED_FOR = "for {model}, the known modality is named for {shares}, n = {n:,}"
ATTRIBUTION_CHECK = "{verdict}: {shares}; the majority baseline has {floor}."
OF_UNSEEN_SCENES = "of samples of unseen scenes or images"
OF_UNSEEN_DAMAGE = "of samples with an unseen kind of damage"
OTHER_SAMPLES = "Of {n:,} other samples: {shares}."
HIGHEST = "Highest {measure}{over}: {cell}, {value}. "
LOWEST = "Lowest: {cell}, {value}{ties}."
AND_TIES = ", ties {share}"
SIGNIFICANCE_RULE = "p < .05"
VALIDATED = "Validated"
CELL = "{estimator} under {variant} ({model} on {dataset})"

# Published values
NO_PUBLISHED_SETTING = "no conformal setting of this spec is called '{setting}', so the authors' settings are not repeated"
NO_PUBLISHED_TABLES = "{folder} holds none of {tables}"
PUBLISHED_NAMES_NONE = "no published cell has a model, dataset and metric that this spec measures"
NOT_PUBLISHED = "not among the published values"
PUBLISHED_AND_RECOMPUTED = "published {published}, recomputed {recomputed}, difference {difference:.3g}"
CELLS_AGREE = "{equal:,} of {n:,} compared cells agree to 1e−6; the largest absolute difference is {largest}"
PUBLISHED_UNMEASURED = "Published but not measured by this spec: {names}."
PUBLISHED_TABLES = (
    "The published tables hold {models} models and {datasets} datasets; {models_here} and {datasets_here} of them are in this run."
)
NO_OWN_SETTING = "No conformal setting is called '{setting}', so our defaults are not compared."
TOTAL_EFFECT = "total: published to ours"
ONLY_TOTAL = "No settings lead from the published one to ours step by step, so only the total is shown."
PUBLISHED_RESULTS = "Published results"
ERROR_ON_TEST_ROWS = "calibration error on: all → test rows"
PUBLISHED_AGAINST_RECOMPUTED = "Published against recomputed"
NO_COMPARISON = "No comparison: {why}."
CELL_BY_CELL = "Cell by cell, with the authors’ settings"
CELL_BY_CELL_NOTE = "Above: published. Below: recomputed from the recorded outputs; ✓ equal within 1e−6, ≠ different."
WITH_OUR_DEFAULTS = "With our defaults"
WITH_OUR_DEFAULTS_NOTE = (
    "Above: the setting *ours*, test rows only. Below: its difference from the value with the authors’ settings on the same outputs."
)
SOURCES = "Sources of the difference"
SOURCES_NOTE = "Each row changes the factors that it names. Above: mean change over the models; below: the largest change of any model."

# Studies
CALIBRATION_SIZE = "How much calibration data is needed"
DASHED_TARGET = "Dashed: target coverage."
SHARE_TO_CALIBRATE = "share used to calibrate"
RANKS = "Ranks by accuracy and by uncertainty"
RANKS_HIGHER = "ranks higher by {first} than by {second}"
RANKS_LOWER = "ranks lower"
ABOUT_THE_SAME = "about the same"
CORRELATION = "{first} and {second}: Spearman {rho}, Kendall τ-b {tau}"
RANK_CORRELATION = "Rank correlation over {n} models: {correlations}."
MODEL_SIZE = "Size of the language model"
MODEL_SIZE_CAPTION = "One line per family of models; parameters in billions, on a logarithmic axis."
BILLIONS_OF_PARAMETERS = "billions of parameters"
LARGER_MODEL = "larger model"
CHAT_TUNING = "Chat tuning"
COLOURED = "Coloured: a significant difference by the paired test."
CHAT_TUNING_CAPTION = "Ring: the base model; dot: its chat-tuned form. {colours}"
SIGNIFICANTLY_BETTER = "significantly better"
SIGNIFICANTLY_WORSE = "significantly worse"
TIED_OR_NOT_TESTED = "statistically tied or not tested"

# Further tables
ROWS_AND_COLUMNS = "{rows:,} of {n_rows:,} rows and {columns} of {n_columns} columns; all are in {path}."
FURTHER_TABLES = "Further tables"

# Judges
JUDGES_NOTE = (
    "On answers labelled by people. Refusals recognised: accuracy of the judge’s decision whether an answer is a refusal. Kendall’s τ-b: "
    "rank correlation of its ratings with people’s, from −1 to 1. Sensitivity: of the answers rated right by people and right or wrong by "
    "the judge, the share that it rates right; specificity: the same for wrong answers. Scores use the first suitable judge, of the "
    "dataset’s own judges if it names some. Unreadable replies give no rating."
)
JUDGES = "Judges against people"
JUDGES_COLUMNS = (
    *("judge", "refusals recognised ↑ (Wilson 95%)", "false negatives", "false positives", "Kendall’s τ-b ↑ (95%)", "p", "equal ratings"),
    *("sensitivity ↑ (95%)", "specificity ↑ (95%)", "answers", "unreadable"),
)

# How answers ended
ENDINGS = "How answers ended"
ENDINGS_NOTE = (
    "Greedy answers to clean inputs. A truncated answer may lack its last words; raise max_new_tokens if many are. Empty answers are "
    "unscored."
)
ENDINGS_COLUMNS = ("model · dataset", "answers", "truncated at max_new_tokens", "stopped by a content filter", "API refusal", "empty")

# Abstention
MEAN_OF_CATEGORIES = "mean of categories"
WITH_ABSTENTION = "abstention or recalibration"
FINE_TUNED = "supervised fine-tuning"
SUBSET = "{model} ({n} of each category)"
CORRECTED_AS_SPECIFIED = "corrected as the spec says"
ALL_ANSWERABLE = "{dataset} (all answerable)"
PREVALENCE = "{unanswerable:,} of {n:,} questions ({share}) are unanswerable"
NO_CONFIDENCE = "no confidence"
EQUAL_CATEGORIES = "Each has {n:,} questions"
UNEQUAL_CATEGORIES = "All categories have equal weight, although {smallest} has {n:,} questions and the largest {largest:,}"
NO_BASELINE = (
    "This spec has no baseline that ignores the image or the question (add `blind:`), so no improvement can be attributed to the image "
    "rather than to the questions."
)
BASELINES_UNTESTED = (
    "No model was tested against the baselines that ignore the image or the question, so no improvement can be attributed to the image "
    "rather than to the questions."
)
REFUSERS_ONLY = "Compared with refusal classifiers only, since they were not run with a shuffled or removed image: {models}."
GAINS = "{metric}: significantly better than {baseline} and than all their baselines that ignore the image or the question: {models}."
NOT_TESTED_ASIDE = " (not tested)"
GAINS_OVER_SPEC_BASELINE = (
    "{text} Better than {baseline} but not shown to be better than all their baselines that ignore the image or the question: {models}."
)
REFUSES = " It refuses {share} of {n:,} questions."
TRAINED_ON = "It was trained on {n:,} questions."
NO_THRESHOLD = "no threshold, since there are no answers to choose it on"
TARGET_NOT_ATTAINED = " The rule could not be fitted, or attains no target."
ABSTAINS_ON = "; turns {share} of {n:,} answers into abstentions"
VALIDATION_SPLIT = "the validation split"
HALF_OF_GROUPS = "half of the test groups"
TEST_SPLIT = "the test split itself, which is optimistic"
ABSTENTION_RULE = "{model}+{method}{part}: {threshold}; fitted on {n:,} answers of {split}{share}. {statement}{failed}"
STUDY = "Confidence-weighted accuracy against other metrics: {dataset}"
STUDY_CAPTION = (
    "One dot per model. If the dots lie on a line, both metrics rank the models alike; the paper finds a rising line against accuracy and "
    "a falling one against calibration error. Correlations over few models, most of them derived from one another, are approximate."
)
CORRELATION_UNDEFINED = "correlation undefined ({n} models)"
STUDY_LEFT_OUT = " Models with abstention or recalibration are left out; the tables of slices have them."
BY_CATEGORY = "By category: {dataset}"
BY_CATEGORY_CAPTION = "One bar per model; line: its interval. Answerable and unanswerable questions of a category are pooled."
WEIGHTED_ACCURACY_AXIS = "conf.-weighted accuracy ↑"
THRESHOLD = "threshold {value}"
STUDY_TITLE = "Which metrics agree with confidence-weighted accuracy"
STUDY_DEPENDENT = "Models derived from one another are not independent, so any interval is approximate."
ABSTENTION_NOTE = "Each value has its interval{intervals} below it. Every question has equal weight."
NEVER_ABSTAINS = "{prevalence}: a model that never abstains has F1 IDK 0."
ON_SUBSETS = "Run on a subset and compared with others on it: {models}."
WITHOUT_CONFIDENCES = "Without confidences, so metrics of confidence are missing: {models}."
TRIANGLES = "Paired tests against {baseline} on the same questions, p-values {correction}:"
NO_TRIANGLE = (
    "no triangle: no significant difference, no test, or scored shares that differ by more than 2 points. Point at a cell for the "
    "difference. Calibration errors are compared by their squared bias-corrected error."
)
NO_SPEC_BASELINE = "The spec names no baseline, so the tables of values have no triangles."
BY_KIND = "By kind of uncertainty"
BY_KIND_NOTE = (
    "“mean of categories” gives every category equal weight; it is the paper’s total (`macro_averages: [category]`). Marks as above."
)
BEYOND = "Tests against baselines that ignore the image or the question"
BEYOND_NOTE = (
    "The model’s value minus that of a baseline, over all questions: the smallest difference that is not significantly better, or the "
    "smallest of all if there is none. Baselines are classifiers that refuse by the question or the image alone, and the model itself with "
    "a shuffled or removed image if it was run so. An improvement counts only if it is significant against all of them and against the "
    "baseline model. ▲ better, ▼ worse, p < .01; △ better, ▽ worse, p < .05."
)
FURTHER_TESTS = "Tests between other models"
FURTHER_TESTS_NOTE = (
    "The first model’s value minus the second’s over all questions, with the interval of the difference. For the first model: ▲ better, ▼ "
    "worse, p < .01; △ better, ▽ worse, p < .05."
)
AVERAGES = "Averages over categories, as in the paper"
AVERAGES_NOTE = (
    "Unweighted means over {categories}, without intervals; undefined if one of them is. {sizes}. If categories are equally large, only F1 "
    "differs from the values over all questions."
)
RULES = "Thresholds of abstention and recalibration"
COST = "Cost on answerable questions"
COST_NOTE = (
    "Accuracy on answerable questions, where an abstention counts as wrong, and on all questions unless they form pairs; of other "
    "benchmarks their own metrics. Beside it, if tested: the difference from"
)
COST_WITHOUT_BASELINE = "a baseline (the spec names none, so intervals are shown)"
COST_READING = (
    "on the same questions with its interval. Above −0.03, an interval of accuracy excludes a loss of three answers in a hundred."
)
BETTER_01 = "better, p < .01;"
BETTER_05 = "better, p < .05;"
WORSE_05 = "worse, p < .05;"
WORSE_01 = "worse, p < .01;"

# Data
PAIRS_NOTE = "Every pair has one answerable and one unanswerable (IDK) question; each image is counted once."
IMAGES_AND_QUESTIONS = "Images and questions"
WHEN_ASSEMBLED = "when the dataset was assembled"
ALL_RECIPES = "all recipes"
RECIPES_NOTE = "Every candidate that did not become a pair is counted under its reason."
DUPLICATES_DROPPED = "; the question pairs with the image of the earlier split were dropped"
DUPLICATES = (
    "Near-duplicates: {n:,} pairs of images of different splits look alike (perceptual hashes within {distance} of 64 bits){between}{fate}."
)
REMOVAL = "How well objects were removed"
REMOVAL_NOTE = (
    "Inpainted images compared with the same scene rendered without the object, inside and outside the mask. Still detected: the share of "
    "images that are closer to the image with the object than to the one without it."
)
SHORTCUTS = "Shortcuts: answerability from the question or the image alone"
NONE_DECIDED = "undefined: none decided"
DROPPED_TOGETHER = "; a pair is dropped with either member"
STALE_DECISIONS = " {n:,} decisions on questions that have changed or been removed since are not counted."
REVIEW = "Validity by human review"
REVIEW_NOTE = (
    "The share of reviewed {splits} questions that the majority found valid, before filtering; a tie counts as not valid. Of {n:,} "
    "{unit}s, {kept:,} are kept{dropped}{together}.{stale}"
)
ONE_REVIEWER = "One reviewer ({name})"
TWO_REVIEWERS_NEEDED = "{who} reviewed this dataset; agreement needs two reviewers."
NO_SHARED_QUESTIONS = "{n} reviewers share no question, so their agreement is undefined."
EXPECTED_AGREEMENT_1 = "undefined (expected agreement is 1)"
NO_INTERVAL_ASIDE = " (no interval)"
AGREEMENT = (
    "Agreement of {n} reviewers ({names}): {coefficients}. Raw agreement and α are over the {shared:,} questions that at least two of them "
    "reviewed, κ over those that all reviewed. For κ and α, 1 is perfect and 0 is chance; 95% intervals over questions in brackets."
)
REMOVAL_COLUMNS = ("recipe", "PSNR inside, dB ↑", "PSNR outside ↑", "SSIM inside ↑", "SSIM outside ↑", "still detected ↓", "images")
IMAGES_COUNTED = "images (changed / clean)"
QUESTIONS_COUNTED = "questions (IDK / answerable)"
ALL_SPLITS = "all splits"
NO_CATEGORY = "no category"
NO_PIXEL_DIFFERS = "the same"
WRONG_SUBSET = "wrong subset"
TIED = "tied"
SHARE_VALID = "valid (Wilson 95%)"
DROPPED = " (dropped: {reasons})"
DATA_TITLE = "Categories, pairs and reviews"
TAXONOMY = "Categories of uncertainty"
TAXONOMY_COLUMNS = ("category", "definition", "expected answer")

# Examples
NO_ANSWER = "no answer: {reason}"
IMAGE_LEFT_OUT = "image left out: the page has reached its size limit"
IMAGE_NOT_FOUND = "image not found"
IMAGE_TOO_LARGE = "image too large to show ({error})"
IMAGE_UNREADABLE = "image not readable ({error})"
EXAMPLES_SHOWN = "{shown:,} of {n:,} examples are shown, so that the page stays below {mebibytes:.0f} MiB."
EXAMPLES_TITLE = "{n} questions or pairs of questions, with the models’ answers"
PAIRS_SHOWN_NOTE = (
    "Both questions of a pair with every model’s answer, its confidence, and its contribution to confidence-weighted accuracy (from −1, "
    "certain and wrong, to 1, certain and right). Pairs on which models differ come first, from each category in turn; they are not a "
    "random sample."
)
IMAGE_OF_BOTH = "Image of both questions"
IMAGE_OF_ONE = "Image of the {claim} question"
CONTRIBUTION = "{verdict}; contributes {worth} to confidence-weighted accuracy"
RECIPE_RECORD = "Record of the recipe"
NO_REFERENCE_ANSWER = "no reference answer"
NO_REFERENCE = "no reference"
SELECTED_AS = "Selected as"

# How the results were made
INTERVALS_FACT = "Intervals"
RANKINGS_FACT = "Rankings"
TESTS_FACT = "Tests"
DECODING_FACT = "Decoding"
ESTIMATORS_FACT = "Estimators"
SEED_FACT = "Seed"
JUDGE_FACT = "Judge {label}"
INTERVALS_FROM = "{level:g}% intervals from {n:,} bootstrap resamples of whole groups"
NO_BOOTSTRAP = "none: bootstrap: 0"
RANKINGS_FROM = "paired differences over the same resamples, {correction}"
MARGIN_OF_EQUALITY = "; margin of equality: {margins}"
TESTS_OVER_GROUPS = "{test} tests over whole groups; p-values {correction}{margin}"
ALL_RECORDED = "none: all answers were recorded with other tools"
NEW_TOKENS = "at most {n:,} new tokens"
TOP_K = ", top_k {k} (local models)"
SAMPLED_ANSWERS = "; {n} sampled answers at temperature {temperature:g}, top_p {top_p:g}{top_k}"
PROMPT_OF = "Prompt of {names}"
CONFIDENCE_OF_OPEN_ANSWERS = "Confidence of open answers"
CONFORMAL_SETS = "Conformal sets {label}"
CONFORMAL_FACTS = "{scores}; alpha {alpha:g}; calibration: {rows}"
VERSIONS = "Versions of prompts, engine and judging"
ALL_OTHERS_1 = "{versions}; 1 of all others"
ALL_1 = "1 of all"
AS_ITS_SOURCE = "as its source"
NO_FILES_HERE = "none: the model has no files here"
NOT_ADDED = "not added"
MADE_BY_A_STAGE = "made by a stage: md5 in dvc.lock"
NOT_READABLE = "not readable"
DATA_COLUMNS = ("dataset", "source", "official files", "digest", "licence", "SHA-256 of questions")
MODEL_COLUMNS = ("model", "plugin", "files", "digest", "dtype", "parameters")
SPEC_DIGEST = "Spec digest"
NOT_GIVEN = "not given"
GREEDY = "greedy, {tokens}{sampled}"
NO_SAMPLED_ANSWERS = "; no sampled answers"
NOT_AVAILABLE = "not available"
NONE_HERE = "none here"
NOT_SPECIFIED = "not specified"
HIGHER_IS_BETTER = "higher is better"
LOWER_IS_BETTER = "lower is better"
NO_DIRECTION = "no direction"
READING_TITLE = "Intervals, tests, {n} metrics, and how this was made"
READING_NOTE = (
    "Intervals are at the level given in the spec unless 95% is stated or they concern shortcuts. Standard errors come from resamples and "
    "a jackknife of whole groups, such as the questions on one image. A value over too few groups has no interval; an undefined value has "
    "a reason. Answers that could not be scored are counted, never guessed. A value is significantly better or worse than another only by "
    "a paired test on the same questions: overlapping intervals prove nothing, and the absence of a mark does not prove equality. `qualm "
    "compare` tests pairs."
)
READING = "How to read this"
MADE = "How this was made"
STAMP = (
    "Git commit, machine, stage times and cost are not part of this page; they are in the checkout that made it ({folder}; qualm show "
    "--how)."
)
NO_LIBRARIES = "tables without library versions."
MADE_WITH = "Made with"
NO_DESCRIPTION = "no description"
HOW_TO_READ = "How to read: {title}"
