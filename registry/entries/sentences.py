"""All fixed sentences that `qualm data` prints, by command: to read in one go, and to translate.

A text in braces is a field, which `str.format` fills in. Tags in brackets (`[bold]`) are Rich markup. Messages of errors stand where they
are raised, and help texts where the commands and options are declared. Problems and notes on a user's data stand where they are found,
since most of them become messages of errors.
"""

# All commands

INTERRUPTED = "interrupted; finished steps stay"
AND_MORE_LISTED = "{indent}and {n:,} more (--json lists them)"
IN_PART = "taken in by --skip-bad: files were left out, or there are not as many records as the card expects"
WAITING_FOR_HOST = "{file}: waiting for {host} ({why}); trying again in {seconds:.0f} s"

# qualm data ls

SPLITS_OF_WHOLE = "in part: {meaning}; splits are those of the whole"
SPLITS_AND_LICENCE = "\n[bold]splits (official number of records); licence[/]"

# qualm data show

TO_HAVE_HERE = "\nTo have it here: [bold]{command}[/]"
READ_BY = "{kind}, read by '{adapter}'"
NOTHING_READS_IT = "nothing here reads it; missing: {what}"
CHECKED_AGAINST_RELEASE = "layout and counts, against a release"
NUMBERS_OF_WHOLE = "{meaning}; the numbers of splits and files below are those of the whole dataset"
ASKS_TERMS = "; asks you to accept its terms (--accept-licence)"
ADDRESSES_NOT_TRIED = "; addresses not tried when the card was written"

# qualm data new

READ_AS = "{folder}: read as {adapter}, {files}"
READ_RIGHT = "Are these read as they should be?"
NEXT_ADD = "next: qualm data add {name} --from {folder}"
THEN_IN_A_SPEC = "      then in a spec: datasets: {{{dataset}: {{card: {name}}}}}"
NO_IMAGE = "no image"
IMAGE_NOT_SHOWN = "image not shown"
N_IMAGES = "{n} images: {images}"
MORE_IMAGES = "{images}; and {n} more"
NOT_A_PICTURE = "{file}, NOT A PICTURE: {size} that begin with {start!r}"

# qualm data add

NOTHING_ADDED = "nothing was added: {problems}"
DATA_CHANGED = "Your data have changed? Take them as a new version, with these counts in the card:\n  {command}"
ON_PURPOSE = (
    "A part of the dataset, on purpose? --skip-bad lets other counts and single bad files pass{which}, and notes it with the entry."
)
SOME_EXCUSABLE = " ({excusable:,} of these {n:,})"
ADDED = "{name}: added version {version}, {files:,} files, {size}"
REPLACED = "{name}: replaced version {previous} by version {version}, {files:,} files, {size}"
UNCHANGED = "{name}: already here, nothing changed: version {version}, {files:,} files, {size}"
SKIP_BAD_ACCEPTED = "  let pass by --skip-bad: {n:,}"
NOT_ON_CARD = "  not named by the card: {n:,} files, {first} the first"
READS_RECORDS = "qualm data check {name}{options}   # reads every record"
SHOWS_CHANGES = "qualm data diff {name}@{version}{options}   # what the new version changes"
PUSHES = "dvc push {file}   # for others to pull"

# qualm data diff

NAME_A_VERSION = "{name} is what lies here; name a version to compare it with, such as {name}@HEAD"
NOT_COMPARED = "  {what}: not compared: {why}"
COUNTS_OF_CHANGES = "{added:,} added, {removed:,} removed, {changed:,} changed"
AND_MORE_NAMED = "    {sign} and {n:,} more (--json names all)"

# qualm data check

NO_SUCH_CARD = "{name}: no card named '{card}'; `qualm data ls` says what there is"
FILES_NOT_HERE = "{name}: its files are not here; get them by {how}, or read others by --from FOLDER"
CHECKED_RECORDS = "{name}: {samples:,} samples ({splits}), {images:,} images, {problems:,} problems"

# qualm data verify

NOTHING_TO_VERIFY = "there is nothing to verify here; `qualm data ls` lists the entries"
AS_RECORDED = "{name}: {n:,} files checked, all as recorded"
NOT_AS_RECORDED = "{name}: {n:,} files checked, NOT all as recorded"
NOT_HERE = "  {n:,} recorded files are not here, and not checked; `dvc pull` fetches them, `qualm run {spec}` makes them"
RESTORE_SET_ASIDE = "  set aside; `qualm run {spec}` restores or re-creates them"
RESTORE_RESULTS = "  `qualm data verify --set-aside {name}`, then `qualm run {spec}` restores or re-creates them"
RESTORE_ENTRY = "  `dvc checkout --force registry/data/{name}.dvc` restores the recorded files, `dvc pull` fetches them"
