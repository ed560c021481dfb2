"""The head of the report: facts on the spec, and its first table, every model's main metrics, with intervals, marks, n and scored share."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from qualm.registry import baseline_model
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.leaderboard import Table, TableCell, format_counts, models_of, table_cell, undefined_columns
from qualm.runners.reporting.text import Label, visible
from qualm.runners.scoring.rankings import MODELS

CENTRAL = ("f1_idk", "confidence_weighted_accuracy")
"""Shown beside accuracy where a spec has them."""
CALIBRATION = ("ece_idk", "ece")
MAX_ROWS = 12


@dataclass
class Summary:
    columns: list[str]
    """Metrics with their arrows."""
    blocks: list[tuple[str, list[tuple[str, list[TableCell], str]]]] = field(default_factory=list)
    """(dataset, [(model, cells, n and scored share)])."""
    note: str = ""

    @property
    def undefined(self) -> list[tuple[str, str]]:
        """Return (column title, reasons) of the columns with undefined values."""
        return undefined_columns(self.columns, [cells for _, rows in self.blocks for _, cells, _ in rows])

    def covers(self, dataset: str, table: Table) -> bool:
        """Return true if the summary shows all columns and rows of a dataset's leaderboard."""
        titles = {f"{column.title} {column.arrow}".strip() for column in table.columns}
        models = [model for name, rows in self.blocks if name == visible(dataset, 80) for model, _, _ in rows]
        return len(titles) == len(table.columns) and titles <= set(self.columns) and models == [model for model, _ in table.rows]


def summary(results: Report) -> Summary:
    """Return the first table: main metrics of about MAX_ROWS models, two or more per dataset."""
    metrics = {dataset: {_title(label): label for label in _main(results, dataset)} for dataset in results.datasets}
    table = Summary(list(dict.fromkeys(title for of in metrics.values() for title in of)))
    each = max(2, MAX_ROWS // len(results.datasets))
    hidden = 0
    for dataset, labels in metrics.items():
        rows = []
        models = models_of(results, dataset)
        hidden = max(hidden, len(models) - each)
        ranks = {title: results.ranks(MODELS, dataset, label.text) for title, label in labels.items()}
        for model in models[:each]:
            scores = {title: results.cells.get((model, dataset, label.text)) for title, label in labels.items()}
            cells = [
                table_cell(scores[title], ranks[title].get(model, "")) if title in labels else TableCell("–", title=say.NOT_IN_DATASET)
                for title in table.columns
            ]
            rows.append((model, cells, format_counts([row for row in scores.values() if row is not None])))
        table.blocks.append((visible(dataset, 80), rows))
    if hidden > 0:
        table.note = say.MODELS_SHOWN.format(n=each)
    return table


def _main(results: Report, dataset: str) -> Iterator[Label]:
    """Yield labels of main metrics: quality, F1-IDK, weighted accuracy, ECE, set size, AUROC."""
    labels = results.main_labels(dataset)
    plain = {a.plugin: a for a in reversed(labels) if not a.score and not a.estimator}
    yield from filter(None, (results.quality(dataset), *(plain.get(name) for name in CENTRAL)))
    yield from [plain[name] for name in CALIBRATION if name in plain][:1]
    headline = results.headline(dataset, len(labels))
    yield from (a for a in headline if a.plugin in ("auroc", "set_size"))


def _title(label: Label) -> str:
    return f"{label.title} {label.arrow}".strip()


def page_facts(results: Report) -> list[tuple[str, str]]:
    """Return the (name, text) facts below the title, such as spec, models and answer counts."""
    scored = int(results.overall["n"].max() or 0)  # type: ignore[arg-type]
    facts = [(say.SPEC, results.stage.spec), (say.MODELS_FACT, _models(results)), (say.DATASETS, f"{len(results.datasets)}")]
    if variants := results.stage.params.get("variants"):
        kinds = len({variant["plugin"] for variant in variants})
        in_variants = say.IN_VARIANTS.format(kinds=kinds, variants=len(variants))
        facts.append((say.PERTURBATIONS, f"{kinds:,}" if kinds == len(variants) else in_variants))
    answers = f"{results.answers.height:,}" if results.answers.height else say.UP_TO_EACH.format(n=scored)
    facts.append((say.CLEAN_ANSWERS if variants else say.ANSWERS, answers))
    if results.judge:
        facts.append((say.JUDGE, results.judge))
    if results.main_setting:
        facts.append((say.CONFORMAL, results.main_setting))
    return [(k, visible(v, 120)) for k, v in facts]


def _models(results: Report) -> str:
    """Return text "4 + 2 ... + 1 ...": plain models, abstaining or recalibrated, baselines."""
    blind = sum(map(bool, map(baseline_model, results.models)))
    versions = sum(m in results.abstaining and not baseline_model(m) for m in results.models)
    baselines = say.BASELINE_IGNORING_THE_IMAGE if blind == 1 else say.BASELINES_IGNORING_THE_IMAGE
    counts = [(versions, say.WITH_ABSTENTION_OR_RECALIBRATION), (blind, baselines)]
    return " + ".join([f"{len(results.models) - versions - blind:,}", *(f"{n:,} {what}" for n, what in counts if n)])
