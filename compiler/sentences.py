"""All fixed sentences that the commands print, by command: to read in one go, and to translate.

A text in braces is a field, which `str.format` fills in. Tags in brackets (`[bold]`) are Rich markup. Messages of errors stand where they
are raised, help texts where the commands and options are declared, and sentences of `qualm data` in `registry/entries/sentences.py`.
"""


def count(n: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> count(1, "stage"), count(2000, "stage"), count(2, "entry", "entries")
    ('1 stage', '2,000 stages', '2 entries')
    """
    return f"{n:,} {singular if n == 1 else plural or f'{singular}s'}"


# All commands

INTERRUPTED = "interrupted"
NEXT_COMMAND = "next: {command}"
WROTE_FILE = "wrote {file}"
AND_MORE = "{first} and {n:,} more"
MORE_LINES = "  and {n:,} more"

# qualm --help

PANEL_RUN = "From a spec to its results"
PANEL_LOOK = "Look at results"
PANEL_PEOPLE = "People decide"
PANEL_FIND = "Plugins, data, models"
PANEL_SHARE = "Share and clean up"
EXIT_CODES = (
    "Exit codes: 0 success, 1 the answer is no, 2 the command cannot be carried out as typed or as things are here, 130 interrupted."
)

# Faults, in place of a traceback

NESTED_TOO_DEEP = "something that was read is nested too deep"
OUT_OF_MEMORY = "something that was read takes more memory than there is"
TABLE_DAMAGED = "a table that was read is damaged ({error}); `dvc status` names it, `qualm run` re-creates it"
UNEXPECTED_ERROR = "unexpected {error}; this is a fault of Qualm or of a library, please report it"
EXPECTED_UTF8 = "expected UTF-8 text: {error}"

# qualm validate, qualm plan

SPEC_IS_VALID = "{spec}: valid ({counts})"
NOTE = "Note: {note}"

# qualm run

LOCK_CUT_SHORT = "[yellow]{lock}: a killed DVC has cut it short; its last entry is dropped and its stage is restored from the cache[/]"
RUN_SUMMARY = "[bold]{spec}[/]: {stages} stages, {to_run} to run, {perhaps} perhaps, {to_restore} to restore, {unchanged} up to date"
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
STAGE_DONE = "{stage}: {outcome} ({seconds:.1f} s)"

# qualm run --again

RECOMPUTED_ANSWERS = "computed again: {counts} ({stages}); all other answers stay, and results follow"
LOCAL_ANSWERS_REPEAT = (
    "greedy answers are deterministic and sampled ones are seeded: expect the same answers; another `seed:` samples others"
)
SERVED_ANSWERS_DIFFER = "a server may answer differently each time, above all at a temperature above 0"
RECOMPUTED_SUMMARY = "{n:,} answers computed again: {same:,} the same, {changed:,} changed"
SAME_GREEDY_ANSWER = "same greedy answer"
SAMPLED_ANSWERS_CHANGED = ", {changed} of {n} sampled answers changed"

# qualm cache

STORE_IS_EMPTY = "the store is empty: nothing was answered here yet"
STORE_SIZE = "{size} in all"
STORE_UNUSED = "{size} that no run uses (`qualm cache gc --unused` removes them)"
STORE_REFUSED = "{folder} is refused: {why} (`qualm cache accept {folder}`)"
SPEC_HAS_MISTAKES = "specs/{spec}.yaml has mistakes (`qualm validate {spec}`)"
STORE_SEGMENTS = "{n:,} segments (`qualm cache gc` merges them)"
STORE_DAMAGED = "{n} damaged segments, whose answers are computed again when they are asked for"
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
AUDIT_FAILED = "{n:,} parts computed again: [bold red]{failed} of {folders} folders failed[/]"
AUDIT_AGREES = "{n:,} parts computed again: [green]all agree[/]"
AUDIT_TITLE = "{folder}: {model}, version {version}, {libraries}"
TODAYS_LIBRARIES = "today's libraries"

# qualm calibrate

CALIBRATION_PAGE = "{reviewer} calibrates {title} at {url}\n{advice}\nCtrl-C here ends it; votes are in {votes}"
ANSWERS_OF_TO = "{model}'s answers to "
CURVE_AT = "curve: {file}"
ENGINE_COUNTS = "engine: {counts}"
NO_STRENGTH = "no strength: {why}"
CHOSEN_STRENGTH = "chosen: {parameter} {summary}"
CHOSEN_STRENGTH_WITH_REASON = "chosen: {parameter} {summary} ({why})"
CALIBRATION_COMMENT = "{summary} for {answers}{dataset}; `qualm calibrate --auto {options}`, seed {seed}"
VALUE_SET = "{file}: {plugin}: {parameter}: set {value}"
VALUE_ADDED = "{file}: {plugin}: {parameter}: added {value}"
WRITTEN_COMPILE_NEXT = "{written}; next: qualm compile {spec}"

# qualm clean

REMOVED = "removed: {path}"
WOULD_REMOVE = "would remove: {path}"
CLEAN_REMOVES = "`qualm clean {spec} --yes` removes this"

# qualm doctor

DOCTOR_VERDICT = "[bold]{model}[/] as {dtype}: {verdict} ({counts})"

# qualm export

EXPORTED_ANSWERS = "{answers:,} answers to {questions:,} questions of {pairs} model and dataset pairs"
EXPORTED_FIGURES = "{n:,} figures"
EXPORTED_TABLES = "{n:,} tables"
EXPORTED_SCORES = "{n:,} scores"
EXPORTED_QUESTIONS = "{n:,} questions of {datasets}"
EXPORTED_FILES = "{folder}: {n} files, {contents}"
EXPORT_WITHOUT_ANSWER = "qualm: {n:,} samples have no answer and no row"
EXPORT_LEAVES_OUT = "qualm: not in the {format} files: {what} ({n:,})"

# qualm fetch

NEEDS_NO_FILES = "{title}: needs no files from outside"
ADDRESSES_NOT_TRIED = "[bold]addresses not tried when their cards were written[/]: {names}"
TO_FETCH = "to fetch: {n} of {of}, {size}"
TO_FETCH_AND_UNKNOWN = "to fetch: {n} of {of}, {size}, and {unknown:,} files of unknown size"
TERMS_OF = "{name}: {terms} ({licence})"
ACCEPT_TERMS = "Do you accept this?"
FETCHED_PINNED = "commits and checksums are pinned in {file}; commit it with registry/data/*.dvc, and everyone gets the same files"
NOT_FETCHED = "not fetched, for the reasons above: {names}"
SPEC_TRAINS_MODELS = "makes the models {models}; `qualm run {spec}` runs it first, and what it needs is in this table"
SPEC_TRAINS_OTHER_MODELS = (
    "makes models that other specs of this table read; `qualm run {spec}` runs it first, and what it needs is in this table"
)
MORE_IMAGES_NEEDED = "{n:,} more single files are needed"
FETCH_BY_HAND = "get it from {source}, then `qualm data add {name} --from PATH --card {card}`"
FETCH_LEAVES_OUT = "not fetched: {what}"
FETCHED_WHOLE_FOR_LIMIT = "fetched whole: a limit needs all of it"
FETCHED_WHOLE_FOR_SOURCE = "fetched whole: its source has no addresses of single images"
FETCHED_CHOSEN_IMAGES = "annotations whole, and only the images that the chosen questions show"
FETCHED_ENTRY = "{outcome} version {version}, {files:,} files, {size}{part}"
FETCHED_IN_PART = ", in part ({problems})"
FETCHED_MODEL = "{files:,} files at {commit}, in {folder}"
HUB_ASKS_TERMS = "asks you to accept terms at {page}; set HF_TOKEN to a token of that account ({tokens})"

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
EXPORT_COMMAND = "qualm export SPEC OUT --to {format}{options}"
NEW_CARD_COMMAND = "qualm data new my-card --from FOLDER --adapter {adapter}"
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

# qualm share

SHARE_CLONING = "cloning this commit, pulling and hashing all that it needs..."
SHARE_LOST_HISTORY = "neither here nor at the remote: {objects} of earlier commits: {names}"
SHARE_LOST_HISTORY_TODO = "nothing, unless somebody needs those commits: they cannot be checked out in full"
SHARE_UNREADABLE_HISTORY = "cannot be read in some earlier commits, so that the objects they name were not checked: {files}"
SHARE_UNREADABLE_HISTORY_TODO = "nothing, unless somebody needs those commits"
SHARE_NO_RUN_CACHE = "this kind of remote keeps no run cache: clones can pull this commit, but run again what was run before it"
SHARE_NO_RUN_CACHE_TODO = "use a folder, ssh://, s3:// or webdavs://"
SHARE_DAMAGED_HERE = "damaged in DVC's cache and not sent: {objects}: {names}"
SHARE_DAMAGED_HERE_TODO = "`qualm data verify --set-aside`, `qualm run`, which makes them again, and `qualm share` again"
SHARE_MISSING = "neither here nor at the remote: {objects} that a clone needs: {names}"
SHARE_MISSING_TODO = "`dvc pull` where they still are and `qualm share` from there, or `qualm run`"
SHARE_UNSENT = "could not be sent: {objects} of earlier commits or runs: {names}"
SHARE_UNSENT_TODO = "`qualm share` again; `dvc push -A -r {remote} -v` says more"
SHARE_DAMAGED_THERE = "damaged or gone at the remote: {objects}: {names}"
SHARE_DAMAGED_THERE_TODO = "`qualm share --repair`, run where they are still intact, sends them again"
SHARE_PULL_FAILED = "`dvc pull` in a clone failed: {error}"
SHARE_PULL_FAILED_TODO = "`git clone {folder} ELSEWHERE` and try"
SHARE_NO_PLAN = "{spec} cannot be planned in a clone: {error}"
SHARE_NO_PLAN_TODO = "`qualm plan {spec}`"
SHARE_CLONE_RUNS = "{spec}: a clone that pulled everything would still run or restore {stages}"
SHARE_CLONE_RUNS_TODO = "`qualm run {spec}`, commit, share again"
SHARE_OUT_OF_DATE = "{spec}: a colleague's `dvc repro` would run {n} stages, and what follows from them ({first})"
SHARE_OUT_OF_DATE_TODO = "`qualm run {spec}`, then commit its dvc.lock and results"
SHARE_UNCOMMITTED = "not committed: {files}"
SHARE_UNCOMMITTED_TODO = "commit them (`git add`, `git commit`), or put them aside"
SHARE_LEAK = "remote '{remote}': {settings} stands in .dvc/config, which git shares"
SHARE_LEAK_TODO = "`dvc remote modify --unset {remote} {setting}`, set it with --local; if it was ever committed, change it"
SHARE_HIDDEN_REMOTE = "remote '{remote}' is known on this machine only: clones will not find it"
SHARE_HIDDEN_REMOTE_TODO = "`dvc remote add {remote} {url}` without --local, and commit .dvc/config"
SHARE_LOCAL_REMOTE = "remote '{remote}' is the folder {folder}: only machines that have it at that path can pull"
SHARE_LOCAL_REMOTE_TODO = "share a disk, or use ssh://, s3:// or webdavs://"
SHARE_UNVERIFIED = "remote '{remote}' is trusted: DVC does not check what it downloads, so a damaged object goes unnoticed"
SHARE_UNVERIFIED_TODO = "`dvc remote modify {remote} verify true`, and commit .dvc/config"
SHARE_CHANGED_TODO = "`qualm run`; clones get what was recorded"
SHARE_NOT_IN_GIT = "a clone will lack, since neither git nor DVC keeps it: {files}"
SHARE_NOT_IN_GIT_TODO = "`git add -f` it, or `dvc add` it"
SHARE_REPLACED = "replaced at {remote}: {objects}"
SHARE_READY = "{remote}: ready to share; nothing was sent"
SHARE_NOT_READY = "{remote}: not ready; nothing was sent"
SHARE_NOT_SENT = "nothing was sent to {remote}; `--anyway` sends it as it is"
SHARE_SENT = "{remote}: {objects} sent, {runs}; a clone needs {needed}"
RUN_RECORDS = "{n:,} records of runs"
NO_RUN_RECORDS = "no records of runs"
SHARE_CHECKED = "[green]a clone of this commit runs nothing[/] (cloned, pulled and verified). A colleague types: git clone ..., qualm run"
SHARE_THERE_BY_NAME = (
    "[green]a clone of this commit runs nothing[/] (all there by name; `--check` clones, pulls and verifies). "
    "A colleague types: git clone ..., qualm run"
)

# qualm verify

REVIEW_PAGE = "{reviewer} reviews {title} at {url}\n{advice}\nCtrl-C here ends the review and publishes it"
PAGE_IS_OPEN = "Anyone who has this address can decide here; it ends with this command"
DECISIONS_UNCHANGED = "registry/data/{entry}: nothing new"
DECISIONS_PUBLISHED = "registry/data/{entry}: {outcome}, version {version}"
USE_DECISIONS = "to score only what it accepts, write `curated: {entry}` under {section} of the spec"

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
NO_MODELS_COMPARED = "The spec compares no models; `compare: {{baseline: MODEL}}` in the spec tests each against MODEL."
ESTIMATOR_TESTS = "Tests of the paired difference over resamples of whole groups, {correction}."
NO_ESTIMATORS_COMPARED = "A test needs two estimators with values of one model, and {groups} groups of questions."
ALL_TESTS = "all tests of this comparison"
TESTED_NOW = "Tested now, as by qualm compare: {test} tests over whole groups, {correction}."
WRONG_HOST = "Open the address that the terminal shows: this page answers to that one alone."
NO_SUCH_FILE = "There is no such file."
