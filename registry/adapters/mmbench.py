"""MMBench: multiple-choice questions in twenty abilities, asked once for every rotation of their options. Liu et al., 2023."""

from collections.abc import Iterator
from dataclasses import replace

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import read_rows, require_choice, require_record
from qualm.registry.adapters._table_pictures import TablePictures
from qualm.registry.recordings.vlmevalkit import ROTATION
from qualm.registry.sample import Image, Sample
from qualm.registry.system.dvc_objects import lies_in

TABLE_NAME = "a table of MMBench"
META = ["rotation", "base_index", "options", "l2-category", "hint"]
LETTERS = "ABCD"
MAX_INDEX_DIGITS = 18
KEYS = ("index", "question", "A", "B", "category", "image")
OPTIONAL_COLUMNS = ("hint", "C", "D", "answer", "source", "l2-category", "comment", "split")


def mmbench(context: AdapterContext, *, table: str = "mmbench_dev_20230712.tsv", rotations: bool = True) -> Iterator[Image | Sample]:
    """Yield one MMBench table's questions in file order, with or without rotated options.

    Images are base64, or the index of the row that holds the image. `sample_id` is the row's index. Rows whose indices differ by a
    multiple of 1,000,000 are rotations of one question and one group; `meta.base_index` is the question's index, and `meta.rotation`
    counts from 0. Options end at the first empty one. A hint is a line above the question and `meta.hint`. The category is the table's;
    `meta` has `l2-category` and the number of options. A table without `answer` (the test split) gives samples without a right option.

    The circular score (`group_accuracy: {by: base_index}`) needs all rotations. `where: rotation == 0`, or `rotations: false`, is the
    vanilla evaluation.

    Args:
        table: Which of the source's files.
        rotations: Take the rotated copies too; false leaves them out before their images are read.

    Raises:
        AdapterError: the table, a row or an image is not as in the release. Nothing is guessed.
    """
    source = context.need_source("mmbench")
    path = source / table
    if not lies_in(source, path) or not path.is_file():
        there = ", ".join(sorted(p.name for p in source.glob("*.tsv"))) or "none"
        raise AdapterError(f"{source}: no table '{table}'; there are: {there}")
    pictures = TablePictures(path, context, TABLE_NAME)
    for where, row in read_rows(path, TABLE_NAME, KEYS, context):
        with context.record():
            sample = _sample(require_record(row, KEYS, where, OPTIONAL_COLUMNS), where)
            taken, pointed_at = rotations or sample.meta["rotation"] == "0", sample.sample_id in pictures.pointed_at
            if not taken and not pointed_at:
                continue
            image_id, image = pictures.read(sample.sample_id, row["image"], where)
            sample = replace(sample, image_id=image_id)
            if image is not None and pointed_at:
                yield pictures.give(image, where)
            if taken:
                yield from context.selected(sample, pictures.give, image, where)


def _sample(row: dict[str, str], where: str) -> Sample:
    index = row["index"]
    if not index.isdecimal() or len(index) > MAX_INDEX_DIGITS:
        raise AdapterError(f"{where}: index: expected a whole number, got {index!r:.60}")
    rotation, base = divmod(int(index), ROTATION)
    empty = [key for key in ("question", "category", "image") if not row[key]]
    if empty:
        raise AdapterError(f"{where}: {', '.join(empty)}: expected text, got an empty cell")
    options = _options(row, where)
    more = {key: row[key] for key in ("l2-category", "hint") if row.get(key)}
    return Sample(
        sample_id=index,
        question=f"{row['hint']}\n{row['question']}" if row.get("hint") else row["question"],
        choices=options,
        answer_index=LETTERS.index(require_choice(row, "answer", LETTERS[: len(options)], where)) if "answer" in row else None,
        category=row["category"],
        split=row.get("split") or "test",
        source="mmbench",
        group=f"question {base}",
        meta={"rotation": str(rotation), "base_index": str(base), "options": str(len(options)), **more},
    )


def _options(row: dict[str, str], where: str) -> tuple[str, ...]:
    cells = [row.get(letter, "") for letter in LETTERS]
    n = next((i for i, cell in enumerate(cells) if not cell), len(cells))
    if n < 2 or any(cells[n:]):
        raise AdapterError(f"{where}: A to D: expected two to four options without a gap, got {cells!r:.120}")
    return tuple(cells[:n])
