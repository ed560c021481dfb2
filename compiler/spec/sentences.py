"""All fixed sentences that the commands print, by command: to read in one go, and to translate.

A text in braces is a field, which `str.format` fills in. Tags in brackets (`[bold]`) are Rich markup. Messages of errors stand where they
are raised, help texts where the commands and options are declared, and sentences of `qualm data` in `registry/entries/sentences.py`.
"""

from collections.abc import Iterable

from qualm.registry.text import count as count


def list_some(names: Iterable[str], limit: int, separator: str = ", ") -> str:
    """Return up to `limit` names joined, and " and N more" if there are more.

    >>> list_some(["a", "b"], 2), list_some(["a", "b", "c"], 2)
    ('a, b', 'a, b and 1 more')
    """
    listed = list(names)
    first, n = separator.join(listed[:limit]), len(listed) - limit
    return f"{first} and {n:,} more" if n > 0 else first


# All commands

INTERRUPTED = "interrupted"
NEXT_COMMAND = "next: {command}"
WROTE_FILE = "wrote {file}"
MORE_LINES = "  and {n:,} more"

# qualm --help

PANEL_RUN = "From a spec to its results"
PANEL_LOOK = "Look at results"
PANEL_PEOPLE = "People decide"
PANEL_FIND = "Plugins, data, models"
PANEL_SHARE = "Share and clean up"
EXIT_CODES = (
    "Exit codes: 0 success, 1 a check or a run failed, 2 the command could not start as typed or as things are here, 130 interrupted."
)

# Faults, in place of a traceback

NESTED_TOO_DEEP = "something that was read is nested too deep"
OUT_OF_MEMORY = "something that was read takes more memory than there is"
TABLE_DAMAGED = "a table that was read is damaged ({error}); `dvc status` names it, `qualm run SPEC` re-creates it"
UNEXPECTED_ERROR = "unexpected {error}; this is a fault of Qualm or of a library, please report it"
EXPECTED_UTF8 = "expected UTF-8 text: {error}"

# qualm init, qualm new

PROJECT_MADE = "made {folder}; next:\n  cd {folder}\n  qualm plan\n  qualm run"
SPEC_WRITTEN = "wrote {files}; edit it, then:\n  qualm validate {spec}\n  qualm plan {spec}\n  qualm fetch {spec}\n  qualm run {spec}"
AT_MOST_QUESTIONS = "# At most {n} questions of each; images or pairs, and by split, where the spec says so."

# qualm validate

SPEC_IS_VALID = "{spec}: valid ({counts})"

# qualm plan

STAGE_WILL_RUN = "will run"
STAGE_WILL_BE_RESTORED = "will be restored from the cache"
STAGE_MAY_RUN = "runs if its inputs change"
STAGES_MAY_RUN = "run if their inputs change"
STAGE_LACKS = "lacks something"
STAGES_LACK = "lack something"
STAGE_WAITS = "waits for what is missing"
STAGES_WAIT = "wait for what is missing"
STAGE_UP_TO_DATE = "is up to date"
STAGES_UP_TO_DATE = "are up to date"
SEVERAL_STAGES = "{sign} {n} stages {action}: {stages}"
MORE_REASONS = "and {n} more (-v)"
PLAN_COUNTS = {"run": "to run", "restore": "to restore", "perhaps": "perhaps to run", "blocked": "blocked", "unchanged": "up to date"}
PLAN_SUMMARY = "[bold]{spec}[/]: {counts}"
NO_STAGES = "no stages"
EXTRAS_MISSING = "not installed, needed by {stages}: {command}"
REASON_WAITS_FOR = "for {stage}, which lacks something"
REASON_NEW_INPUT = "{path} is new to this stage"
REASON_NOT_READ = "{path} is no longer read"
REASON_NOT_MADE = "output {path} is no longer made"
REASON_GONE = "{path} is not in the workspace"
REASON_EDITED = "{path} was changed by hand"
NOTE = "Note: {note}"

# qualm plan: stored answers

STORED_UNKNOWN = "{stage}: stored answers: {why}"
STORED_KEPT = "{stored} kept{origin}, {computed} to compute"
STORED_KEPT_AT_MOST = "{stored} kept{origin}, at most {computed} to compute"
STORED_FROM_VERSION = " from version {version}"
STORED_N_FROM_VERSION = "{n:,} from version {version}"
NO_ANSWERS = "0 answers"
KNOWN_AFTER_FIRST_RUN = "not known before this stage first runs here"
KNOWN_AFTER_RUN = "not known before the stage runs: {why}"
OTHER_SAMPLES = "other samples, splits or seed"
OTHER_MODEL = "another model, or other code of its plugin"
VERSION_NOT_STORED = "those of version {version} are not in the store any more"
VERSION_REFUSED = "those of version {version} are refused: {why}"
VERSION_NOT_COUNTED = "those of version {version} do not count: {changes} (setting `libraries` is {policy})"

# qualm plan: what it needs

NEEDS_TITLE = "[bold]What this needs from you[/]"
NEEDS = {
    "data": "data and models to add",
    "spec": "models that other specs make",
    "value": "values of the spec to fill in",
    "prompt": "prompts that do not fit their dataset",
    "hub": "models of the Hugging Face hub, unless they are in its cache",
    "environment": "environment variables to set",
    "adapter": "data that nothing here reads yet",
    "extra": "parts of Qualm to install",
}
"""Headings of what the user must provide, by kind and in this order."""
ADD_BY_OTHER_SPEC = "`qualm plan {spec}` says what it lacks; or `dvc pull` where it has run"
ITS_FILES = "its files"
ADD_BY_FETCH = "`qualm fetch {spec}`"
ADD_BY_FETCH_EXCEPT = "`qualm fetch {spec}`, but for {what}"
ADD_WITH_CARD = "`qualm data add {name} --from PATH`; {title}: {source}"
ADD_BY_REVIEW = "`qualm verify {spec} {dataset}`, by which people decide on its questions"
ADD_WITH_CARD_NAME = "`qualm data add {name} --from PATH --card {card}`"
FETCH_PINS_COMMIT = "`qualm fetch {spec}`, which pins its commit"
FETCH_AT_COMMIT = "`qualm fetch {spec}` at {commit}"
NO_SHA256 = "'{value}' is not a SHA-256; the spec must give that of {file}"

# qualm plan: memory and time

ESTIMATES_TITLE = (
    "[bold]What inference takes at most[/] (estimates; what is stored is not computed again; -v shows the arithmetic, --gpu a card's time)"
)
ESTIMATE_QUESTIONS = ", {n:,} questions"
ESTIMATE_MEMORY = "{gib:.3g} GiB in batches of {batch}"
ESTIMATE_TIME = ", {duration} ({source})"
ESTIMATE_STATES = ", {gib:.3g} GiB of hidden states"
EACH_QUESTION = " a question"
STAGES_WITHOUT_ESTIMATE = "    {n} stages: {why}"
TOO_LARGE = "more than the {memory} of {gpu}: take a smaller batch, quantise, or spread it over devices (docs/how-to/scale.md)"
TIME_MEASURED = "time: {seconds:.3g} s an answer when this stage last ran here"
TIME_OPEN = (
    "time of an open-ended question on {gpu}: prefill {prefill:.3g} s, decoding {decode:.3g} s = {operations:.3g} operations at "
    "{efficiency:.0%} of {rate:.3g}/s, {bytes:.3g} bytes at {bandwidth:.3g}/s; launches {launches:.3g} s"
)
TIME_CHOICE = "time of a multiple-choice question: {seconds:.3g} s, without decoding"
MODEL_SIZE = "size: {language:.3g} + {vision:.3g} billion parameters ({source})"
WEIGHTS_SIZE = "weights: {size} as {form}"
CACHE_SIZE = (
    "cache: {kib:.4g} KiB a token = 2 x {layers} layers x {width} wide; batch {batch} x ({prompt} prompt + {answers} answers x "
    "{tokens}){copy} = {size}"
)
AND_A_COPY = " and a copy"
ACTIVATIONS_SIZE = "activations {activations}, logits {logits}; with a tenth of slack {total}"
HIDDEN_STATES_SIZE = "hidden states: {columns}, of {units} units in float16: {each} = {size}; equal answers are stored once"
AN_OPEN_QUESTION = "an open question"
N_VECTORS = "{n:,} vectors"
FLOAT16_NUMBERS = "numbers of each token in float16: {columns}: at most {n:,} an open question = {size}"
FLOAT64_NUMBERS = "numbers of the answer in float64: {columns}: at most {n:,} an open question = {size}"
MODEL_NOT_PUBLISHED = "{model} is not in the table of published models (registry/entries/published_models.yaml)"
MODEL_NOT_HERE = "{path} is not here yet"
MODEL_FILES_UNKNOWN = "no files of it are known"
SIZE_FROM_TABLE = "table of published models, {model}"
MODEL_FILES_INVALID = "{folder}: its config.json or its weights are not as transformers writes them: {error}"
WEIGHTS_UNKNOWN = "{folder}: its weights have no self_attn.k_proj and embed_tokens, which give the size of its cache"
PLAIN_PASSES = "; read by plain passes, which take longer than estimated"
IMAGE_TOKENS_OF_CLASS = "image tokens as in published models of its class"
IMAGE_TOKENS_OF_PATCHES = "one image token per patch"
IMAGE_TOKENS_ASSUMED = "576 image tokens assumed"

# qualm plan: pairs and servers

PAIRS_TITLE = "[bold]Questions that pairs make at most[/] (by the limits of their recipes; two for each pair)"
ALL_SPLITS = "all splits"
COSTS_TITLE = "[bold]What servers are asked at most[/] (estimates; what is stored is not asked again; -v shows the arithmetic)"
NO_PRICE = "no price known (`price` of this server in qualm.toml)"
COST_READS_REPLIES = "    {stage}: nothing, it reads the replies to {other}"
COST_OF_STAGE = "    {stage} ({server}), {items}: {requests:,} requests, {sent:,} tokens sent, {received:,} received: {cost}"
COST_TOGETHER = "    together {cost}"
SPENT = "    {spent}{limit} spent over all runs{reserved}"
SPENDING_LIMIT = " of {limit} (`max_spend` in qualm.toml)"
SPENDING_RESERVED = ", {reserved} of it reserved for requests that have not ended"
MAY_EXCEED_LIMIT = "    this may cost more than is left: the run stops there; raise `max_spend` and run again"
REWRITING_TRIES = "a question: at most {n} tries; one is enough if its first reply can be used"
REWRITING_TOKENS = "tokens: prompt {prompt}, image {image}, reply at its longest {reply}"
IMAGE_NOT_SHOWN = "none, as it is not shown"
OPEN_REQUESTS_TOGETHER = "an open question: the answer, {draws} draws in one request, signals: {signals}"
OPEN_REQUESTS_APART = "an open question: the answer, {draws} draws in a request each, signals: {signals}"
NO_SIGNALS = "none"
ANSWER_TOKENS = "tokens: image {image}, text one per four bytes, answer at its longest {answer}"
BATCHES_IN_TURN = "in {n} rounds of batches: each may take a day"
BATCHES_ONE_DAY = "in batches: a day at most"
PRICE = "${sent:g} per million tokens sent, ${received:g} per million received{batches} (qualm.toml)"
PRICE_IN_BATCHES = " in batches"
MORE_THAN_MAX_SPEND = "more than max_spend (${limit:g}): the run stops there; raise `max_spend` and run again"
TEXT_REQUESTS = (
    "{requests} requests for each, at most {attempts} attempts; tokens: prompts {prompts}, reply at its longest {reply}, image {image}"
)

# qualm plan --jobs, --on

PARALLEL_TITLE = "[bold]What it takes with {options}[/] (by the estimates above, and by how long stages took when they last ran here)"
PARALLEL_TIME = "    {time}; one by one, here: {one_by_one}"
PARALLEL_UNKNOWN = "    not counted, since they never ran here: {stages}"
WORKER_SHARE = "{workers} of {resources}{batches}"
WORKER_BATCHES = ", about {n:,} batches of {size} questions each"
NO_WORKER = "no worker has room for {resources}"

# qualm power

DETECTED = "found with probability {power:g} by a paired test at two-sided {level:.3g}"
DETECTED_ONE_TEST = "; --tests N for a family of N tests"
DETECTED_TESTS = ", .05 over {n:,} tests"
POWER_NONE = "none: a test needs {groups} groups"
POWER_UNKNOWN = "unknown: the models' stored answers show no spread, or there are too few groups"
SPREAD_OF_ANSWERS = "spread: of stored answers, the median over {pairs}"
SPREAD_ASSUMED = (
    "spread: assumed, no stored answers of two models: they disagree on {disagreement:g} of questions, correlation in groups {within:g}; "
    "--disagreement and --within change that"
)

# qualm compile

FILE_WRITTEN = "wrote: {path}"
FILE_OUT_OF_STEP = "out of step: {path}"
FILE_REMOVED = "removed: {path}"
FILE_STALE = "stale: {path}"
FILE_MOVED = "moved: {old} -> {new}"
FILE_TO_MOVE = "to move: {old} -> {new}"
LOCK_DROPPED = "{lock}: dropped entries of stages that are gone: {stages}"
LOCK_HOLDS = "{lock}: holds entries of stages that are gone: {stages}"
SPEC_LEFTOVERS = "left of '{spec}', whose spec is gone: {places}; `qualm clean {spec}` removes it"
COMPILE_AND_COMMIT = "run `{command}`, and commit what it writes"
FILES_IN_STEP = "{files} in step, nothing to write"

# The stage `spec` of a pipeline, which compiles it

PIPELINE_CHANGED = "qualm: {path} changed ({changes}): {todo}"
SPEC_CONTENT = "what the spec is made of"
REPEAT_IN_WORKSPACE = "make the same change in your workspace, run `qualm compile {spec}`, commit, and queue the experiment again"
REPEAT_COMMAND = "it is compiled now, run the same command again"
FILE_FROM_SPEC = "{path}: written from specs/{spec}.yaml"

# qualm fetch

NEEDS_NO_FILES = "{title}: needs no files from outside"
ADDRESSES_NOT_TRIED = "[bold]addresses not tried when their cards were written[/]: {names}"
TO_FETCH = "to fetch: {n} of {of}, {size}"
TO_FETCH_AND_UNKNOWN = "to fetch: {n} of {of}, {size}, and {unknown:,} files of unknown size"
ACCEPT_TERMS = "Do you accept this?"
FETCHED_PINNED = "commits and checksums are pinned in {file}; commit it with registry/data/*.dvc, and everyone gets the same files"
NOT_FETCHED = "not fetched, for the reasons above: {names}"
SPEC_TRAINS_MODELS = "makes the models {models}; `qualm run {spec}` runs it first, and what it needs is in this table"
SPEC_TRAINS_OTHER_MODELS = (
    "makes models that other specs of this table read; `qualm run {spec}` runs it first, and what it needs is in this table"
)
MORE_FILES_NEEDED = "other specs did not need {files}"
MORE_IMAGES_NEEDED = "{n:,} more single files are needed"
FETCH_BY_HAND = "get it from {source}, then `qualm data add {name} --from PATH --card {card}`"
FETCH_LEAVES_OUT = "not fetched: {what}"
FETCHED_WHOLE_FOR_LIMIT = "fetched whole: this limit needs all of it, or exceeds {n:,} questions"
FETCHED_WHOLE_FOR_SOURCE = "fetched whole: its source has no addresses of single images"
FETCHED_CHOSEN_IMAGES = "annotations whole, and only the images that the chosen questions show"
FETCHED_ENTRY = "{outcome} version {version}, {files}, {size}{part}"
FETCHED_IN_PART = ", in part ({problems})"
FETCHED_MODEL = "{files} at {commit}, in {folder}"
HUB_ASKS_TERMS = "asks you to accept terms at {page}; set HF_TOKEN to a token of that account ({tokens})"

# qualm run

LOCK_CUT_SHORT = "[yellow]{lock}: a killed DVC has cut it short; its last entry is dropped and its stage is restored from the cache[/]"
RUN_SUMMARY = "[bold]{spec}[/]: {stages}, {to_run} to run, {perhaps} perhaps, {to_restore} to restore, {unchanged} up to date"
RUN_INTERRUPTED = "[red]interrupted[/]; what was done is kept: run it again to go on"
RUN_STOPPED = "[red]stopped[/]; what was done is kept: run it again to go on (-v shows what DVC says)"
DISK_IS_FULL = "[red]the disk is full[/]: {disk}; make room first"
SPACE_LEFT = "{folder} has {size} left"
RUN_UP_TO_DATE = "[bold]{spec}[/] is up to date after {seconds:.0f} s; `qualm show {spec}` shows the scores"
REPORT_AT = "report: {file}"
RUN_BUSY = "another run is at work in this project ({process})"
RUN_JUST_BEGAN = "it has just begun"
DVC_BUSY = "another DVC command is at work in this project (process {process})"
WAIT_OR_STOP = "{busy}; wait until it has ended, or stop it, and run this again"
STARTING_DVC = "starting DVC"
STAGE_DAMAGED_FILE = "{path}: damaged: its content is not the recorded one; moved to {aside}, to be restored or made again"
DVC_SAYS = "dvc: {error}"

# qualm run --again

RECOMPUTED_ANSWERS = "computed again: {counts} ({stages}); all other answers stay, and results follow"
LOCAL_ANSWERS_REPEAT = (
    "greedy answers are deterministic and sampled ones are seeded: expect the same answers; another `seed:` samples others"
)
SERVED_ANSWERS_DIFFER = "a server may answer differently each time, above all at a temperature above 0"
RECOMPUTED_SUMMARY = "{answers} computed again: {same:,} the same, {changed:,} changed"
SAME_GREEDY_ANSWER = "same greedy answer"
SAMPLED_ANSWERS_CHANGED = ", {changed} of {n} sampled answers changed"

# qualm show

NO_SCORE_MATCHES = "no score matches these filters"
CONFORMAL_ROWS = "n of [{setting}] and [{setting}/...]: rows that this conformal setting does not calibrate on; of other metrics: all rows"
WITH_UNREAD_ANSWERS = "{dataset}: {metric} would be {values}"
INTERVALS = "{levels} intervals, each by itself"
INTERVALS_BY_RESAMPLES = "{levels} intervals, each by itself, from {resamples} resamples of whole groups"
AND = " and "
OR = " or "
COVERAGES_WITHIN = "{n:,} of {of:,} coverages shown lie within their target's band"
WARNING = "WARNING "
NOT_RUN_HERE = "not known: it was not run here"
MAY_BE_BEST = (
    "may be best: no estimator of the model is significantly better, by paired differences over resamples of whole groups, {correction}"
)
ESTIMATORS_NOT_RANKED = "{place}: not ranked: {why}"
BEST_ESTIMATOR = "{place}: best: {estimator}; {others}"
BETTER_THAN_ALL = "significantly better than all {n:,} others"
BETTER_THAN_OTHER = "significantly better than the other"
MAY_BE_BEST_TOO = "may be best too: {estimators}"
OTHERS_ARE_WORSE = "each of the others is significantly worse than a better one"

# qualm view, qualm show --failures

PUBLISHED_PAGE = "{file}: {size}; put the folder on any web server, or open the file"
PUBLISHING_ANSWERS = "{part}: {n:,} answers"
PUBLISHING_IMAGES = "{part}: images"
SERVED_PAGE = "{url}\nonly for this machine; Ctrl-C ends it"
FAILURES_SUMMARY = "{shown:,} of {wrong:,} wrong answers, the most confident first; {answers:,} answers in all"
FAILURES_UNSCORED = ", {n:,} of them unscored"
NO_CONFIDENCE = "none"

# The page of qualm view

TESTS_OF_THE_RUN = "{test} tests over whole groups, {correction}. These are the tests of the run."
NO_MODELS_COMPARED = "The spec compares no models; `compare: {baseline: MODEL}` in the spec tests each against MODEL."
ESTIMATOR_TESTS = "Tests of the paired difference over resamples of whole groups, {correction}."
NO_ESTIMATORS_COMPARED = "A test needs two estimators with values of one model, and {groups} groups of questions."
ALL_TESTS = "all tests of this comparison"
TESTED_NOW = "Tested now, as by qualm compare: {test} tests over whole groups, {correction}."
WRONG_HOST = "Open the address that the terminal shows: this page answers to that one alone."
NO_SUCH_FILE = "There is no such file."

# qualm compare, and the comparisons of qualm show

STARS = "* p < .05, ** p < .01, *** p < .001 by a {test} test, {correction}; intervals are uncorrected"
COMPARED_BY = "{metrics}: compared by {quantity}, since the plain estimate is biased by an amount that depends on the model"
NOT_TESTED = "{metric}: not tested{where}: {why}"
NOT_TESTED_IN = " in {n:,} of {of:,} comparisons"
TABLES_NOT_PAIRED = "score tables hold no samples, so nothing is paired: differences stand without intervals; for intervals, compare specs"
QUESTIONS_NOT_SHARED = "{dataset}: {n:,} questions are not the same on both sides and were left out"
MCNEMAR_ASSUMES = "{dataset}: McNemar's test assumes independent questions; the intervals resample whole groups"
METRICS_OF_CHECKOUT = "answers and judgements are those of each revision, metrics those of this checkout"
COMPARISON_TEST = "p: {test} tests over whole groups, {correction}"
MARGIN_TESTS = "equal, not worse: p (small: b is within {margins} of a; is not worse by more), corrected alike"
DIM_IS_TIED = "dim: statistically tied at this number of questions ({n} of {of}), which does not prove equality"
MCNEMAR = "McNemar, exact, {place}: {metric}, n = {n:,}: only a right {only_a:,}, only b right {only_b:,}: p = {p:.3g}{corrected}"
MCNEMAR_HOLM = ", Holm {p:.3g}"
UNEQUAL_SHARES = (
    "(!) {place}: a is scored on {a} of its answers and b on {b} ({metrics}); the comparison is over the questions scored on both sides, "
    "which need not be typical of either"
)

# qualm diff, qualm experiments

DIFF_TITLE = "[bold]{spec}[/]: {revision} -> working tree"
DIFF_TEST = "[dim]p: {test} test on the questions that both sides share, corrected over the changes shown; dim: statistically tied[/]"
NO_DIFFERENCE = "no difference"
NO_EXPERIMENTS = "no experiments start from this commit; `dvc exp run -S ... --name NAME` makes one (docs/how-to/experiments.md)"
NO_TEST = "no test of these changes: {why}"
CHANGES_NOT_TESTED = "{n} of these changes are not tested: recomputed on the questions both sides share, values differ from those shown"
NO_VARIANT_RESULTS = "no results under variants: {why}"
VARIANTS_NOT_TESTED = "changes under variants are not tested"
WORKING_TREE = "the working tree"

# qualm diff --markdown

COMMENT_TITLE = "### Results of {spec} against {revision}"
COMMENT_OTHERS = "{n:,} other results that changed"
COMMENT_RESULTS = "{n:,} results"
COMMENT_PARAMETERS = "{n:,} parameters"
COMMENT_SPEC = "the spec"
COMMENT_TEST = (
    "{level:.0%} intervals; p of a {test} test on the questions that both sides share, corrected over these changes. “Better” and “worse” "
    "stand where that test is significant."
)
NO_RESULT_CHANGED = "No result changed."
RESULTS_CHANGED = "{n:,} results changed: {counts}."
N_BETTER = "{n:,} better"
N_WORSE = "{n:,} worse"
N_DIFFERENT = "{n:,} significantly different, of metrics without a better direction"
N_TIED = "{n:,} statistically tied"
N_WITHOUT_TEST = "{n:,} without a test"
N_NEW = "{n:,} new"
N_GONE = "{n:,} gone"
COMMENT_MORE = "… and {n:,} more."

# Results that differ from dvc.lock

HASHES_NOT_COMPARED = "results could not be compared with their recorded hashes: {error}"
RESULT_DIFFERS = "{files} differs from what was recorded in {lock}; `qualm run {spec}` restores it"
RESULTS_DIFFER = "{files} differ from what was recorded in {lock}; `qualm run {spec}` restores them"
PUBLISH_REFUSED = "nothing was written; --force writes these results, with a notice that they differ"
RESULT_NOT_RECORDED = "{files}: not recorded in a dvc.lock, so no hash shows which spec and data made it"
RESULTS_NOT_RECORDED = "{files}: not recorded in a dvc.lock, so no hash shows which spec and data made them"
RESULTS_OF_EARLIER_SPEC = (
    "results are of an earlier version of specs/{spec}.yaml or params.yaml ({stage}: {edit}); `qualm plan {spec}` shows what would run"
)

# qualm stats

DATASET_NOT_HERE = "{dataset}: not on disk; `dvc pull {folder}` or `qualm run {spec}`"
PAIRS_LEFT_OUT = "  left out of the set: {pairs}, {why}"
LOOK_ALIKE = "  images that look alike across splits (at most {bits} of 64 bits differ): {counts}; {outcome}"
LOOK_ALIKE_BETWEEN = "{n:,} between {splits}"
LOOK_ALIKE_LEFT_OUT = "those of the earlier split were left out"
LOOK_ALIKE_KEPT = "kept"
WITHOUT_LOOKING = "without looking: {column}"

# qualm verify

REVIEW_PAGE = "{reviewer} reviews {title} at {url}\n{advice}\nCtrl-C here ends the review and writes the decisions to registry/data"
PAGE_IS_OPEN = "Anyone on this machine who has this address can decide here; it ends with this command"
DECISIONS_UNCHANGED = "registry/data/{entry}: nothing new"
DECISIONS_PUBLISHED = "registry/data/{entry}: {outcome}, version {version}"
USE_DECISIONS = "to score only what it accepts, write `curated: {entry}` under {section} of the spec"

# qualm strength

CALIBRATION_PAGE = "{reviewer} chooses the strength of {title} at {url}\n{advice}\nCtrl-C here ends it; votes are in {votes}"
ANSWERS_OF_TO = "{model}'s answers to "
CURVE_AT = "curve: {file}"
ENGINE_COUNTS = "engine: {counts}"
NO_STRENGTH = "no strength: {why}"
CHOSEN_STRENGTH = "chosen: {parameter} {summary}"
CHOSEN_STRENGTH_WITH_REASON = "chosen: {parameter} {summary} ({why})"
CALIBRATION_COMMENT = "{summary} for {answers}{dataset}; `qualm strength --auto {options}`, seed {seed}"
VALUE_SET = "{file}: {plugin}: {parameter}: set {value}"
VALUE_ADDED = "{file}: {plugin}: {parameter}: added {value}"
WRITTEN_COMPILE_NEXT = "{written}; next: qualm compile {spec}"

# qualm ls

OWN_MODELS = "a model of your own: docs/how-to/models.md; those of the hub: `qualm ls models --published`"
OWN_DATA = "data of your own: `qualm data new NAME --from FOLDER` (docs/how-to/data.md); every card: `qualm data ls`"
LS_KIND_EXPLAINS = "`qualm ls {kind} NAME` explains one"
LS_EXPLAINS = "`qualm ls KIND NAME` explains one; `qualm ls KIND` names parameters"
LS_NAME_EXPLAINS = "`qualm ls NAME` explains one"
TAKES_PARAMETERS = "\ntakes: {parameters}"
FOREIGN_NAME = "{name} is here, among {kind}, {plugin}\n"
PLUGINS_THAT_MENTION = "no plugin is called '{name}'; these speak of it:"
NO_HELP = "(no help)"
ON_COMMAND_LINE = "On the command line"
IN_A_SPEC = "In a spec"
PLACEHOLDERS = {
    "my-model": "an entry of registry/data/ (`qualm data ls`), or SPEC:MODEL",
    "my-answers": "an entry of registry/data/ with recorded answers",
    "my-labels": "an entry of registry/data/ with people's ratings of answers",
    "my-llm": "an entry of registry/data/ with a language model",
    "my-card": "the card that this command writes",
    "scenes": "a dataset of the spec",
    "base": "a model of the spec",
    "epistemic/extraneous": "a category of the spec's taxonomy",
}
"""Names in examples that readers replace -> their meaning."""
PUBLISHED_MODELS_NOTE = (
    "\nbf16, int8, 4 bit: GiB of weights; cache: KiB per token of each answer, in bfloat16; image: tokens of a 640 x 480 image.\n"
    "No model of this list is verified on this machine: run `qualm doctor model NAME`. More in docs/how-to/models.md."
)
MODEL_NOT_SUPPORTED = "not supported: {why}"
ALL_SIGNALS = "all signals"
ALL_SIGNALS_BUT = "all but {signals}"
NEEDS_TEMPLATE = "needs a `template`"

# qualm doctor

DOCTOR_VERDICT = "[bold]{model}[/] as {dtype}: {verdict} ({counts})"

# qualm share

SHARE_CLONING = "cloning this commit, pulling and hashing all that it needs..."
SHARE_LOST_HISTORY = "neither here nor at the remote: {objects} of earlier commits: {names}"
SHARE_LOST_HISTORY_TODO = "nothing, unless those commits are needed: `dvc checkout` there is incomplete"
SHARE_UNREADABLE_HISTORY = "cannot be read in some earlier commits, so that the objects they name were not checked: {files}"
SHARE_UNREADABLE_HISTORY_TODO = "nothing, unless somebody needs those commits"
SHARE_NO_RUN_CACHE = "this kind of remote keeps no run cache: clones can pull this commit, but run again what was run before it"
SHARE_NO_RUN_CACHE_TODO = "use a folder, ssh://, s3:// or webdavs://"
SHARE_DAMAGED_HERE = "damaged in DVC's cache and not sent: {objects}: {names}"
SHARE_DAMAGED_HERE_TODO = (
    "results: `qualm data verify --set-aside`, then `qualm run SPEC`; data: remove the object from DVC's cache and add or pull it again; "
    "then `qualm share` again"
)
SHARE_MISSING = "neither here nor at the remote: {objects} that a clone needs: {names}"
SHARE_MISSING_TODO = "`dvc pull` where they still are and `qualm share` from there, or `qualm run SPEC`"
SHARE_UNSENT = "could not be sent: {objects}: {names}"
SHARE_UNSENT_TODO = "`qualm share` again; `dvc push -A -r {remote} -v` says more"
SHARE_DAMAGED_THERE = "damaged or gone at the remote: {objects}: {names}"
SHARE_DAMAGED_THERE_TODO = "`qualm share {remote} --repair`, run where they are still intact, sends them again"
SHARE_PULL_FAILED = "`dvc pull` in a clone failed: {error}"
SHARE_PULL_FAILED_TODO = "`git clone {folder} ELSEWHERE` and try"
SHARE_NO_PLAN = "{spec} cannot be planned in a clone: {error}"
SHARE_NO_PLAN_TODO = "`qualm plan {spec}`"
SHARE_CLONE_RUNS = "{spec}: a clone that pulled everything would still run or restore {stages}"
SHARE_CLONE_RUNS_TODO = "`qualm run {spec}`, commit, share again"
SHARE_OUT_OF_DATE = "{spec}: in a clone, `qualm run {spec}` would run {stages}, then any that depend on them ({first})"
SHARE_OUT_OF_DATE_TODO = "`qualm run {spec}`, then commit its dvc.lock and results"
SHARE_CANNOT_RUN = "{spec}: in a clone, {stages} could not run ({first})"
SHARE_CANNOT_RUN_TODO = "`qualm plan {spec}` says what is missing"
SHARE_UNCOMMITTED = "not committed: {files}"
SHARE_UNCOMMITTED_TODO = "commit them (`git add`, `git commit`), or put them aside"
SHARE_LEAK = "remote '{remote}': {settings} {verb} in .dvc/config, which git shares"
SHARE_LEAK_TODO = "`dvc remote modify --unset {remote} {setting}`, set it with --local; if it was ever committed, change it"
SHARE_HIDDEN_REMOTE = "remote '{remote}' is known on this machine only: clones will not find it"
SHARE_HIDDEN_REMOTE_TODO = "`dvc remote add {remote} {url}` without --local, and commit .dvc/config"
SHARE_LOCAL_REMOTE = "remote '{remote}' is the folder {folder}: only machines that have it at that path can pull"
SHARE_LOCAL_REMOTE_TODO = "share a disk, or use ssh://, s3:// or webdavs://"
SHARE_UNVERIFIED = "remote '{remote}' is trusted: DVC does not check what it downloads, so a damaged object goes unnoticed"
SHARE_UNVERIFIED_TODO = "`dvc remote modify {remote} verify true`, and commit .dvc/config"
SHARE_CHANGED_TODO = "restore them before you share: clones get what was recorded"
SHARE_NOT_IN_GIT = "a clone will lack, since neither git nor DVC keeps them: {files}"
SHARE_NOT_IN_GIT_TODO = "`git add -f` them, or `dvc add` them"
SHARE_REPLACED = "replaced at {remote}: {objects}"
SHARE_READY = "{remote}: ready to share; nothing was sent"
SHARE_NOT_READY = "{remote}: not ready; nothing was sent"
SHARE_NOT_SENT = "nothing was sent to {remote}; `--anyway` sends it as it is"
SHARE_SENT = "{remote}: {objects} sent, {runs}; a clone needs {needed}"
RUN_RECORDS = "{n:,} records of runs"
NO_RUN_RECORDS = "no records of runs"
SHARE_NOTHING_RUNS = (
    "[green]a clone of this commit runs nothing[/] of {specs} ({how}). A colleague types: git clone ..., then qualm run {specs}"
)
SHARE_NO_SPEC_HAS_RUN = "no spec has run here; `qualm run SPEC` first"
SHARE_CHECKED = "cloned, pulled and verified"
SHARE_THERE_BY_NAME = "all there by name; `--check` clones, pulls and verifies"

# qualm export

EXPORTED_ANSWERS = "{answers:,} answers to {questions:,} questions in {parts:,} combinations of model, dataset and variant"
EXPORTED_FIGURES = "{n:,} figures"
EXPORTED_TABLES = "{n:,} tables"
EXPORTED_SCORES = "{n:,} scores"
EXPORTED_QUESTIONS = "{n:,} questions of {datasets}"
EXPORTED_FILES = "{folder}: {files}, {contents}"
EXPORT_WITHOUT_ANSWER = "qualm: {n:,} samples have no answer and no row"
EXPORT_LEAVES_OUT = "qualm: not in the {format} files: {what} ({n:,})"

# qualm cite

CITED_SOFTWARE_FOR = "the compiler, its runners, and the benchmark {spec} as declared at that commit"
NOTHING_TO_CITE = "% nothing on record to cite for {what}\n"
CARD_SAYS = ", whose card says: {words}"

# qualm clean

WOULD_REMOVE = "would remove: {path}"
CLEAN_REMOVES = "`qualm clean {spec} --yes` removes this"

# qualm cache

STORE_IS_EMPTY = "the store is empty"
STORE_SIZE = "{size} in all"
STORE_UNUSED = "{size} that no run uses (`qualm cache gc --unused` removes it{later})"
STORE_UNUSED_LATER = ", once no spec has mistakes"
STORE_REFUSED = "{folder} is refused: {why} (`qualm cache accept {folder}`)"
SPEC_HAS_MISTAKES = "specs/{spec}.yaml has mistakes (`qualm validate {spec}`)"
STORE_SEGMENTS = "{n:,} segments (`qualm cache gc` merges them)"
STORE_DAMAGED = "{segments}, whose answers are computed again when they are asked for"
USED_BY = "[bold]used by[/]"
SEGMENTS_MERGED = "{n:,} segments {would}merged into {into:,}"
REPEATS_DROPPED = "{n:,} repeated answers {would}dropped"
LEFTOVERS_REMOVED = "{n:,} damaged or half-written files {would}removed"
ANSWERS_REMOVED = "{n:,} answers of '{model}' by {engine} {would}removed"
ANSWERS_IN_USE = "answers of '{model}' were used minutes ago and are kept; try again later"
SPACE_FREED = "{size} {would}freed"
WOULD_BE = "would be "
NOTHING_TO_DO = "nothing to do"
FOLDER_ACCEPTED = "{folder}: accepted"
FOLDER_NOT_REFUSED = "{folder}: was not refused"

# qualm cache audit

AUDIT_MARKED = "[bold red]{folder}[/] is marked as not to be used (`qualm cache accept {folder}` reverses it): {why}"
AUDIT_WOULD_MARK = "[bold red]{folder}[/] would be marked as not to be used: {why}"
AUDIT_FIRST_EXAMPLE = "; the first: {example}"
AUDIT_NOT_COMPUTED = "not computed: {folder}: {why}"
AUDIT_NOT_ASKED = "not computed: {folder}: none of the inference stages examined asks for them; used by {stages}"
AUDIT_SKIPPED_SPEC = "specs/{spec}.yaml has mistakes (`qualm validate {spec}`); what it asks for was not looked at"
AUDIT_FAILED = "{parts} computed again: [bold red]{failed} of {folders} failed[/]"
AUDIT_AGREES = "{parts} computed again: [green]all agree[/]"
AUDIT_TITLE = "{folder}: {model}, version {version}, {libraries}"
TODAYS_LIBRARIES = "today's libraries"
