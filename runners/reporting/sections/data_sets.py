"""The data: taxonomy, counts and recipes of pair sets, dropped samples, quality of image edits, and reviews by people."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from qualm.registry.formats.picture_lists import all_ids
from qualm.runners.data.aligned import read_samples
from qualm.runners.data.statistics import ALL, FILE, VERIFICATION
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.text import aside, between, number, percent, visible
from qualm.runners.results import shortcuts
from qualm.runners.runtime.stage import StageError


@dataclass
class Sheet:
    """A plain table: headings, column groups, rows named by their first cell, and a note."""

    caption: str
    header: list[str]
    rows: list[list[str]]
    groups: list[tuple[str, int]] = field(default_factory=list)
    note: str = ""
    wordy: bool = False
    """Cells hold words rather than numbers."""


@dataclass
class DataSet:
    """Tables and sentences of the report about one dataset."""

    name: str
    id: str
    sheets: list[Sheet] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)


@dataclass
class CategoryRow:
    main: str
    name: str
    definition: str
    answer: str
    examples: list[str]
    first: int = 0
    """Rows that the main kind spans, on its first row; else 0."""


def taxonomy(results: Report) -> list[CategoryRow]:
    """Return a CategoryRow per category of the spec's taxonomy, in its order."""
    entries = []
    for main, categories in (results.stage.params.get("taxonomy") or {}).items():
        for i, (name, about) in enumerate(categories.items()):
            texts = [visible(about.get(k) or "", 600) for k in ("definition", "answer")]
            examples = [visible(e, 160) for e in (about.get("examples") or [])[:2]]
            entries.append(CategoryRow(visible(main, 60), visible(name, 60), texts[0], texts[1], examples, 0 if i else len(categories)))
    return entries


def data_sets(results: Report) -> list[DataSet]:
    """Return a DataSet (tables, sentences) per dataset that was assembled or reviewed."""
    blocks = []
    order = [f"{main}/{name}" for main, below in (results.stage.params.get("taxonomy") or {}).items() for name in below]
    for place, (name, folder) in enumerate(results.stage.inputs.get("datasets", {}).items()):
        statistics, verification = (read_record(Path(folder) / file) for file in (FILE, VERIFICATION))
        if statistics is None and verification is None:
            continue
        block = DataSet(visible(name, 80), f"data-{place}")
        if statistics is not None:
            block.sheets.append(counts_table(statistics, order))
            block.sheets += [s for s in (_recipes_table(statistics),) if s.rows]
            block.sentences += _near_duplicates(statistics)
            block.sheets += [s for s in (_removal_sheet(statistics, Path(folder)), _shortcut_sheet(results, name, Path(folder))) if s.rows]
        if verification is not None:
            block.sheets.append(_review_table(verification))
            block.sentences += _agreement(verification)
        blocks.append(block)
    return blocks


def read_record(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if missing or no object; StageError if no JSON."""
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StageError(f"{path}: not JSON ({error}); run `dvc repro`") from error
    return record if isinstance(record, dict) else None


def counts_table(statistics: Mapping[str, Any], category_order: Sequence[str] = ()) -> Sheet:
    """Return image and question counts by split and category (the paper's Table 1)."""
    names = sorted(statistics["categories"], key=lambda c: (category_order.index(c) if c in category_order else len(category_order), c))
    categories = [*names, *([ALL] if len(names) > 1 else [])]
    splits = [*statistics["splits"], *([ALL] if len(statistics["splits"]) > 1 else [])]
    rows = []
    for split in splits:
        cells = [statistics["cells"][split][c] for c in categories]
        kinds = {
            say.IMAGES_COUNTED: [f"{c['perturbed']:,} / {c['clean']:,}" for c in cells],
            say.QUESTIONS_COUNTED: [f"{c['idk']:,} / {c['answerable']:,}" for c in cells],
        }
        rows += [[f"{say.ALL_SPLITS if split == ALL else visible(split, 40)}: {kind}", *values] for kind, values in kinds.items()]
    mains = [c.rpartition("/")[0] for c in categories]
    groups = [(visible(m, 60), mains.count(m)) for m in dict.fromkeys(mains)] if any(mains) else []
    header = ["", *(visible(c.rpartition("/")[2] or say.NO_CATEGORY, 60) for c in categories)]
    return Sheet(say.IMAGES_AND_QUESTIONS, header, rows, groups, say.PAIRS_NOTE)


def _recipes_table(statistics: Mapping[str, Any]) -> Sheet:
    """Return a table of recipes: pairs, and dropped candidates by reason."""
    rows = []
    for recipe in statistics.get("recipes", []):
        dropped = "; ".join(f"{visible(reason, 80)}: {n:,}" for reason, n in sorted(recipe["dropped"].items(), key=lambda d: (-d[1], d[0])))
        rows.append([visible(recipe["label"], 90), visible(", ".join(recipe["parents"]), 90), f"{recipe['pairs']:,}", dropped or "nothing"])
    later = statistics.get("dropped") or {}
    if later:
        reasons = "; ".join(f"{visible(reason, 80)}: {n:,}" for reason, n in sorted(later.items(), key=lambda d: (-d[1], d[0])))
        rows.append([say.WHEN_ASSEMBLED, say.ALL_RECIPES, "–", reasons])
    return Sheet("Recipes", ["recipe", "source", "pairs", "dropped"], rows, note=say.RECIPES_NOTE, wordy=True)


def _near_duplicates(statistics: Mapping[str, Any]) -> list[str]:
    duplicates = statistics.get("near_duplicates")
    if not duplicates:
        return []
    between = ", ".join(f"{n:,} between {' and '.join(visible(s, 40).split('/'))}" for s, n in duplicates.get("between", {}).items())
    fate = say.DUPLICATES_DROPPED if duplicates.get("dropped") and duplicates["pairs"] else ""
    where, distance = f": {between}" if between else "", duplicates.get("distance", "?")
    return [say.DUPLICATES.format(n=duplicates["pairs"], distance=distance, between=where, fate=fate)]


REMOVAL = ("psnr_inside", "psnr_outside", "ssim_inside", "ssim_outside", "detected", "pictures")


def _removal_sheet(statistics: Mapping[str, Any], folder: Path) -> Sheet:
    """Return a table of how well recipes removed objects, where the true image is known."""
    rows = []
    for recipe in statistics.get("recipes", []):
        record = read_record(folder / recipe["record"]) or {}
        for value in _nested_records(record):
            if set(REMOVAL) <= set(value):
                alike = {k: say.NO_PIXEL_DIFFERS for k in REMOVAL[:2] if value[k] is None and value["pictures"]}  # no pixel differs
                numbers = [alike.get(k) or number(value[k], 1 if k.startswith("psnr") else 3) for k in REMOVAL[:4]]
                detected = "undefined" if value["detected"] is None else percent(value["detected"])
                rows.append([visible(recipe["label"], 90), *numbers, detected, f"{value['pictures']:,}"])
    return Sheet(say.REMOVAL, [*say.REMOVAL_COLUMNS], rows, note=say.REMOVAL_NOTE)


def _nested_records(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a mapping and all mappings nested in its values, but not those in lists."""
    yield record
    for value in record.values():
        if isinstance(value, Mapping):
            yield from _nested_records(value)


def _shortcut_sheet(results: Report, dataset: str, samples_folder: Path) -> Sheet:
    """Return a table of how well question or image alone predicts answerability in a dataset."""
    rows = results.source.shortcuts(dataset).collect().to_dicts()
    rows = shortcuts.with_design(rows, read_samples(dataset, samples_folder)) if rows else []
    body = [[visible(category, 90), *rest] for category, *rest in shortcuts.format_cells(rows)]
    return Sheet(say.SHORTCUTS, list(shortcuts.HEADER), body, note=shortcuts.NOTE)


WORDS = {"misplaced": say.WRONG_SUBSET, "unresolved": say.TIED}


def _review_table(verification: Mapping[str, Any]) -> Sheet:
    """Return a table of how many questions people found valid (the paper's Table 7)."""
    parts = [(c["category"] or say.NO_CATEGORY, c) for c in verification["categories"]]
    parts += [(f"subset {c['category']}", c) for c in verification["subsets"]]
    kinds = ["valid", "invalid", *(["misplaced"] if verification["subsets"] else []), "unresolved", "unreviewed"]
    rows = []
    for name, c in parts:
        share = say.NONE_DECIDED if c["share"] is None else percent(c["share"]) + aside(between(c, 1, form=percent))
        rows.append([visible(name, 90), share, *(f"{c[k]:,}" for k in kinds)])
    units, unit, splits = verification["units"], verification["unit"], " and ".join(verification["splits"])
    lost = ", ".join(f"{n:,} {WORDS.get(reason, reason)}" for reason, n in units["dropped"].items())
    together = say.DROPPED_TOGETHER if unit == "pair" else ""
    stale = verification["decisions"]["stale"] + verification["decisions"]["gone"]
    old = say.STALE_DECISIONS.format(n=stale) if stale else ""
    clauses = {"dropped": lost and say.DROPPED.format(reasons=lost), "together": together, "stale": old}
    note = say.REVIEW_NOTE.format(splits=visible(splits, 40), n=units["all"], unit=unit, kept=units["kept"], **clauses)
    return Sheet(say.REVIEW, ["category", say.SHARE_VALID, *(WORDS.get(k, k) for k in kinds)], rows, note=note)


def _agreement(verification: Mapping[str, Any]) -> list[str]:
    agreement = verification["agreement"]
    people = agreement["reviewers"]
    if len(people) < 2:
        who = say.ONE_REVIEWER.format(name=visible(people[0]["reviewer"], 40)) if people else "Nobody"
        return [say.TWO_REVIEWERS_NEEDED.format(who=who)]
    if not agreement["shared"]:
        return [say.NO_SHARED_QUESTIONS.format(n=len(people))]

    def coefficient(name: str) -> str:
        value, interval = agreement[name], agreement.get(f"{name}_interval")
        if value is None:
            return say.EXPECTED_AGREEMENT_1
        return number(value, 2) + (f" ({number(interval[0], 2)} to {number(interval[1], 2)})" if interval else say.NO_INTERVAL_ASIDE)

    coefficients = [f"raw {percent(agreement['raw'])}"]
    coefficients.append(f"Cohen’s κ {coefficient('cohen_kappa')}" if len(people) == 2 else f"Fleiss’ κ {coefficient('fleiss_kappa')}")
    coefficients.append(f"Krippendorff’s α {coefficient('krippendorff_alpha')}")
    names = ", ".join(visible(p["reviewer"], 40) for p in people)
    return [say.AGREEMENT.format(n=len(people), names=names, shared=agreement["shared"], coefficients="; ".join(coefficients))]


READS = ("shortcuts",)


def describe_samples(results: Report, dataset: str) -> str:
    """Return counts as text, `600 open-ended questions · 200 images`, or that none are there."""
    samples = results.samples.get(dataset)
    if samples is None:
        return say.SAMPLES_NOT_AVAILABLE
    choice = int((samples["choices"].list.len().fill_null(0) > 0).sum())
    of_both = say.CHOICE_AND_OPEN if 0 < choice < samples.height else say.CHOICE if choice else say.OPEN_ENDED
    parts = [of_both.format(n=samples.height, choice=choice, open=samples.height - choice)]
    images = len(all_ids(samples["image_id"].unique().to_list()))
    parts.append(say.IMAGES.format(n=images) if images else say.TEXT_ONLY)
    groups = samples.filter(pl.col("group").fill_null("") != "")["group"].n_unique()
    if groups:
        parts.append(say.GROUPS.format(n=groups))
    unanswerable = int((~samples["answerable"].fill_null(True)).sum())
    if unanswerable:
        parts.append(say.UNANSWERABLE.format(n=unanswerable))
    return " · ".join(parts)
