"""Cards of datasets that a stage made: sources, recipe, counts, what was left out and why.

A Markdown file with a YAML head in the form of Hugging Face's dataset cards. It is beside the dataset's folder, not in it: a corrected
licence must not rerun models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from qualm.registry.formats.markdown import code, fenced, inline
from qualm.registry.system.dvc_objects import hash_path
from qualm.runners.data.statistics import ALL, read_counted_samples, statistics
from qualm.runners.runtime.stage import Stage, StageError

KEY = "qualm"
"""Key of our part of the head."""
FENCE = "---\n"


@dataclass
class DataCard:
    """Facts of a made dataset for its card: recipe, parents, sources, omissions."""

    name: str
    made_by: str
    """SPEC/STAGE."""
    kind: str
    """`data` read by an adapter, `pairs`, `curated`, `perturbed`."""
    recipe: Mapping[str, Any]
    parents: Sequence[Mapping[str, Any]]
    """Datasets it was made of: `name`, `version` (as in DVC)."""
    sources: Sequence[Mapping[str, str]]
    """Original sources: `title`, `licence`, `citation`, `source`."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of samples."""
    tables: Sequence[CardTable] = ()
    """Further tables, behind the counts."""


@dataclass(frozen=True)
class CardTable:
    """A table with a heading; only the first cell of a row may hold untrusted text."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str


def write_card(stage: Stage, card: DataCard, samples: Path, target: str, perturbed: Set[str] = frozenset()) -> None:
    """Publish a dataset's card with its counts; `perturbed`: ids of images a recipe made."""
    counts = statistics(read_counted_samples(samples), perturbed)
    path = stage.scratch / "card.md"
    path.write_text(_text(stage, card, counts), encoding="utf-8", newline="\n")
    stage.publish(path, target)


def read_card(path: str | Path) -> dict[str, Any]:
    """Return the mapping under `qualm` in a card's YAML head; raise StageError without one."""
    try:
        head, _ = Path(path).read_text(encoding="utf-8").removeprefix(FENCE).split(f"\n{FENCE}", 1)
        card = yaml.safe_load(head)[KEY]
        if not isinstance(card, dict):
            raise TypeError(f"'{KEY}' is no mapping")
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        raise StageError(
            f"{path}: expected the card of a dataset, with '{KEY}' in its head ({error}); `qualm run SPEC` rewrites it"
        ) from error
    return card


def parents_and_sources(datasets: Mapping[str, str], card_paths: Iterable[str]) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Return the names and content hashes of datasets, and the distinct sources on cards."""
    versions = [{"name": name, "version": hash_path(Path.cwd(), path)} for name, path in datasets.items()]
    sources: list[dict[str, str]] = []
    for path in card_paths:
        sources += [one for one in read_card(path)["sources"] if one not in sources]
    return versions, sources


def _text(stage: Stage, card: DataCard, counts: Mapping[str, Any]) -> str:
    licences = list(dict.fromkeys(s["licence"] for s in card.sources))
    head = {
        "pretty_name": card.name,
        "license": "other",
        "license_name": "; ".join(licences) or "unknown",
        "task_categories": ["visual-question-answering"],
        KEY: {
            "kind": card.kind,
            "made_by": card.made_by,
            "seed": stage.seed,
            "recipe": dict(card.recipe),
            "parents": [dict(p) for p in card.parents],
            "sources": [dict(s) for s in card.sources],
            "counts": {split: counts["cells"][split][ALL] for split in (*counts["splits"], ALL)},
            "left_out": dict(card.left_out),
        },
    }
    spec = card.made_by.partition("/")[0]
    lines = [
        FENCE + yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120) + FENCE.rstrip(),
        f"# {inline(card.name)}",
        "",
        f"Made by the benchmark {code(spec)}, stage {code(card.made_by)}, seed {stage.seed}. "
        f"{code(f'qualm run {spec}')} makes it again, byte for byte.",
        "",
        "## Recipe",
        "",
        *fenced(yaml.safe_dump(dict(card.recipe), sort_keys=False, allow_unicode=True, width=120), "yaml"),
        "",
        "## Made of",
        "",
        *([f"- {inline(p['name'])}, version {code(p['version'])}" for p in card.parents] or ["- nothing: it is generated"]),
        "",
        "## What it holds",
        "",
        *_table(counts),
        "",
        *(line for table in card.tables for line in _further(table)),
        "## What was left out",
        "",
        *([f"- {inline(reason)}: {n:,}" for reason, n in card.left_out.items()] or ["- nothing"]),
        "",
        "## Licence and citation",
        "",
        *(f"- {inline(s['title'])}: {inline(s['licence'])} ({inline(s['source'])})" for s in card.sources),
        "",
        *(line for s in card.sources if s["citation"] for line in (*fenced(s["citation"].strip(), "bibtex"), "")),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _table(counts: Mapping[str, Any]) -> list[str]:
    """Return a Markdown table's lines: counts of questions and images per split and category.

    Columns count answerable questions, unanswerable questions and images. Rows without questions are left out.
    """
    lines = ["| split | category | answerable | not answerable | images |", "|---|---|---|---|---|"]
    for split in counts["splits"]:
        for category in (*counts["categories"], ALL):
            cell = counts["cells"][split][category]
            if cell["answerable"] + cell["idk"]:
                pictures = cell["clean"] + cell["perturbed"]
                lines.append(
                    f"| {inline(split)} | {inline(category) or '(none)'} | {cell['answerable']:,} | {cell['idk']:,} | {pictures:,} |"
                )
    return lines


def _further(table: CardTable) -> list[str]:
    rows = [f"| {' | '.join([inline(name), *cells])} |" for name, *cells in (table.header, *table.rows)]
    return [f"## {inline(table.title)}", "", rows[0], "|---" * len(table.header) + "|", *rows[1:], "", inline(table.note), ""]
