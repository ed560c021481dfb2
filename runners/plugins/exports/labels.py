"""Labels: a random sample of answers for people to rate, so that scores can be corrected for the judge's errors."""

import csv
import hashlib
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from qualm.registry.formats.pictures import suffix_of, to_displayable
from qualm.registry.formats.text_tables import escape_formula
from qualm.registry.system.atomic import create_folder
from qualm.runners.data.labels import FILE
from qualm.runners.data.splits import split_rule
from qualm.runners.plugins.exports import ExportContext, ExportEntry, ExportError, ExportPart, ModelInput

COLUMNS = ("model", "dataset", "variant", "sample_id", "question", "reference", "pictures", "prediction", "rating", "is_refusal")
"""`rating` and `is_refusal` are empty, for people to fill in."""


def labels(context: ExportContext, *, n: Annotated[int, Ge(1)] = 100, seed: Annotated[int, Ge(0)] = 7) -> None:
    """Write `labels.csv`, a random sample of each model's scored answers, and `pictures/`.

    People fill in `rating`: 1 right, 0 wrong, or between; where `reference` is empty, abstaining is right. `is_refusal` (1 abstains, 0
    does not) may stay empty. Models are asked about the same questions where they answered them. Rows are in random order, so that the
    first rows are a random sample too, and a larger `n` keeps them. The judge's ratings are not in the file.

    Args:
        n: Answers of each model and dataset.
        seed: Of the sample.
    """
    chosen: list[tuple[int, int, list[str]]] = []
    for number, part in enumerate(context.parts):
        inputs = ModelInput(part)
        by_order = sorted(_scored(context, part), key=lambda entry: _shuffled(seed, entry.name))
        chosen += [(place, number, _row(context.folder, part, inputs, entry)) for place, entry in enumerate(by_order[:n])]
    if not chosen:
        raise ExportError("no answers in words, which alone a judge rates; answers to multiple-choice questions may be numbers of options")
    context.counts.update(answers=len(chosen), samples=len({(row[1], row[3]) for _, _, row in chosen}))
    with (context.folder / FILE).open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(row for _, _, row in sorted(chosen, key=lambda one: one[:2]))


def _scored(context: ExportContext, part: ExportPart) -> list[ExportEntry]:
    """Return the entries in scored splits answered in words; count those without words lost."""
    splits = split_rule(dict(context.scoring), part.dataset)
    table = ModelInput(part).dataset.table
    scored = splits.scored(part.dataset, table["split"]).to_pylist()
    entries = list[ExportEntry]()
    for entry in context.entries(part, again=True):
        if not scored[entry.place]:
            continue
        if entry.answers[0]["text"] is None or entry.by_numbers:
            context.lose("answers without words, which no judge rates")
            continue
        entries.append(entry)
    return entries


def _row(folder: Path, part: ExportPart, inputs: ModelInput, entry: ExportEntry) -> list[str]:
    sample: dict[str, Any] = entry.sample
    references = entry.references if sample["answerable"] is not False else []
    question = entry.question
    if entry.choices:
        question = entry.prompt or question
        references = [entry.choices[sample["answer_index"]]] if sample["answer_index"] is not None else references
    pictures = "|".join(_write_picture(folder, data) for data in inputs.pictures(entry))
    texts = [part.model, part.dataset, part.variant.name, entry.name, question, "|".join(references), pictures]
    return [*map(escape_formula, texts), escape_formula(entry.answers[0]["text"]), "", ""]


def _shuffled(seed: int, sample_id: str) -> bytes:
    return hashlib.sha256(f"{seed}\n{sample_id}".encode()).digest()


def _write_picture(folder: Path, data: bytes) -> str:
    """Write an image into `pictures/`, as PNG if browsers cannot show it; return that path."""
    create_folder(folder / "pictures")
    shown = to_displayable(data)
    path = f"pictures/{hashlib.sha256(shown).hexdigest()[:16]}{suffix_of(shown)}"
    (folder / path).write_bytes(shown)
    return path
