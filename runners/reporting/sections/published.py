"""Published tables beside ours: every cell, the largest difference, and what each choice of ours changes.

Reads the layout of VLM-Uncertainty-Bench's `tables/` (Kostumov et al., 2024): one CSV per metric, `model_name` and a
column per dataset. The setting labelled `published` repeats the authors' choices; `ours` makes our own.
"""

import itertools
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qualm.registry.formats import text_tables
from qualm.registry.sample import MACRO_DATASETS
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.section import Section
from qualm.runners.reporting.text import Label, display_name, heading_name, number, signed, small, visible
from qualm.runners.runtime.stage import StageError
from qualm.runners.scoring.measuring.labels import SHARE

PUBLISHED, OURS = "published", "ours"
EQUAL = 1e-6
"""Differences up to this count as equality: the tables are printed from float32 in places."""

TABLES: dict[str, tuple[str, str, dict[str, str]]] = {
    "acc": ("accuracy", "", {}),
    "coverage_all_LAC": ("coverage", "lac", {}),
    "coverage_all_APS": ("coverage", "aps", {}),
    "coverage": ("coverage", "mean", {}),
    "set_sizes_LAC": ("set_size", "lac", {}),
    "set_sizes_APS": ("set_size", "aps", {}),
    "set_sizes": ("set_size", "mean", {}),
    "uacc_LAC": ("uncertainty_aware_accuracy", "lac", {}),
    "uacc_APS": ("uncertainty_aware_accuracy", "aps", {}),
    "uacc": ("uncertainty_aware_accuracy", "mean", {}),
    "ece": ("ece", "", {"rows": "all"}),
    "mce": ("mce", "", {"rows": "all"}),
    "E_ratio": ("option_rate", "", {"option": "E"}),
    "F_ratio": ("option_rate", "", {"option": "F"}),
}
"""File name without .csv -> our metric, conformal score, and the arguments that the authors used."""


@dataclass
class ComparedNumbers:
    """Two numbers in one table cell: the published or new one above, ours or the change below."""

    upper: str
    lower: str
    kind: str = ""
    """`same`, `differs`, `absent` where a side is missing, or empty where nothing is judged."""
    title: str = ""


@dataclass
class Pairs:
    """A table whose cells are pairs of numbers; its rows are models, or changes of setting."""

    caption: str
    tables: list[str]
    rows: list[tuple[str, list[ComparedNumbers]]] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        return [title(t) for t in self.tables]

    @property
    def shorts(self) -> list[str]:
        """Return short column headings: the conformal score, or the metric without one."""
        return [display_name(TABLES[t][1]) if TABLES[t][1] else title(t) for t in self.tables]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Return (metric heading, number of columns) of neighbouring columns of one metric."""
        runs = itertools.groupby(self.tables, key=lambda t: heading_name(TABLES[t][0]) if TABLES[t][1] else "")
        return [(name, len(list(run))) for name, run in runs]


@dataclass
class PublishedComparison:
    """The section on published results; `missing` says why there is nothing to show."""

    missing: str = ""
    verdict: str = ""
    agrees: bool = False
    recomputed: list[Pairs] = field(default_factory=list)
    ours: list[Pairs] = field(default_factory=list)
    sources: list[Pairs] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compare_with_published(results: Report) -> PublishedComparison | None:
    """Return the section on published results; None if the spec names none."""
    folder = results.stage.inputs.get("published") or results.stage.params.get("published")
    if not folder:
        return None
    if PUBLISHED not in results.settings:
        return PublishedComparison(say.NO_PUBLISHED_SETTING.format(setting=PUBLISHED))
    tables = read_tables(Path(folder))
    if not tables:
        return PublishedComparison(say.NO_PUBLISHED_TABLES.format(folder=visible(folder), tables=", ".join(f"{t}.csv" for t in TABLES)))
    comparison = PublishedComparison()
    differences: list[tuple[float, str]] = []
    for of, dataset in _places(results, tables):
        pairs = Pairs(visible(dataset, 80) if of is results else "mean over datasets", [t for t in TABLES if t in tables])
        for model in results.models:
            row = [_cell(of, tables[t], t, model, dataset, differences) for t in TABLES if t in tables]
            if any(p.kind for p in row):
                pairs.rows.append((model, row))
        if pairs.rows:
            comparison.recomputed.append(pairs)
    if not differences:
        return PublishedComparison(say.PUBLISHED_NAMES_NONE)
    _judge(comparison, results, tables, differences)
    _explain(comparison, results)
    return comparison


def _places(results: Report, tables: dict[str, dict[tuple[str, str], float]]) -> list[tuple[Report, str]]:
    """Return (report, dataset) of all datasets, then their mean if tables have just these."""
    over = {dataset for table in tables.values() for _, dataset in table} - {match_key(MACRO_DATASETS)}
    places = [(results, dataset) for dataset in results.datasets]
    if over == set(map(match_key, results.datasets)) and MACRO_DATASETS in results.averages["dataset"]:
        places.append((results.averaged(MACRO_DATASETS, "all"), MACRO_DATASETS))
    return places


def read_tables(folder: Path) -> dict[str, dict[tuple[str, str], float]]:
    """Read the CSV files of TABLES that exist: table -> (model, dataset) -> published value.

    Names are as by `match_key`. StageError for a table without `model_name`, with a cell that is no number, or that is no CSV in UTF-8.
    """
    tables: dict[str, dict[tuple[str, str], float]] = {}
    for name in TABLES:
        path = folder / f"{name}.csv"
        if not path.is_file():
            continue
        tables[name] = {}
        try:
            lines = text_tables.rows(path)
            _, header = next(lines, (1, []))
            if "model_name" not in header:
                raise StageError(f"{path}: expected a column 'model_name', found {', '.join(header) or 'nothing'}")
            for line, cells in lines:
                row = dict(zip(header, cells, strict=False))
                model = match_key(row.pop("model_name", ""))
                for dataset, text in row.items():
                    if dataset and text:
                        place = MACRO_DATASETS if dataset == "avg" else dataset
                        tables[name][model, match_key(place)] = _float(text, f"{path}:{line}: {dataset}")
        except text_tables.TextTableError as error:
            raise StageError(f"{path}: {error}") from error
    return tables


def _float(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise StageError(f"{where}: expected a number, got {text[:40]!r}") from None


def match_key(name: str) -> str:
    """Return the ASCII letters and digits of a name in lower case, to match other spellings."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def title(table: str) -> str:
    plugin, score, arguments = TABLES[table]
    if plugin == "option_rate":
        return f"{arguments['option']} rate"
    return f"{heading_name(plugin)} {display_name(score)}".strip()


def our_label(results: Report, table: str, setting: str, **changed_arguments: str) -> Label | None:
    """Return our metric label for a published table in one setting; None if not measured."""
    plugin, score, arguments = TABLES[table]
    expected = {**arguments, **{k: v for k, v in changed_arguments.items() if k in arguments}}
    candidates = [a for a in results.labels.values() if (a.plugin, a.setting, a.score) == (plugin, setting, score)]
    refs = {r["label"]: r.get("args", {}) for r in results.stage.params.get("metrics", [])}

    def fits(candidate: Label) -> bool:
        name = f"{candidate.plugin}@{candidate.sweep}" if candidate.sweep else candidate.plugin
        given = dict(part.split("=", 1) for part in candidate.sweep.split(",") if "=" in part)
        actual = given | {k: str(v) for k, v in refs.get(name, {}).items()}
        return all(actual.get(k, v) == v for k, v in expected.items())

    return next((a for a in candidates if fits(a)), None)


def _value(results: Report, model: str, dataset: str, metric: Label | None) -> float | None:
    value = results.value(model, dataset, metric.text) if metric else None
    return value if value is not None and math.isfinite(value) else None


def _cell(
    results: Report, table: dict[tuple[str, str], float], name: str, model: str, dataset: str, differences: list[tuple[float, str]]
) -> ComparedNumbers:
    theirs = table.get((match_key(model), match_key(dataset)))
    metric = our_label(results, name, PUBLISHED)
    mine = _value(results, model, dataset, metric)
    if theirs is None:
        return ComparedNumbers("–", number(mine, 4) if mine is not None else "–", title=say.NOT_PUBLISHED)
    if mine is None:
        return ComparedNumbers(number(theirs, 4), say.NOT_MEASURED if metric is None else "undefined", "absent")
    difference = abs(theirs - mine)
    differences.append((difference, f"{visible(model, 60)}, {visible(dataset, 60)}, {title(name)}"))
    kind = "same" if _is_equal(difference) else "differs"
    sentence = say.PUBLISHED_AND_RECOMPUTED.format(published=theirs, recomputed=mine, difference=difference)
    return ComparedNumbers(number(theirs, 4), number(mine, 4), kind, sentence)


def _judge(comparison: PublishedComparison, results: Report, tables: dict[str, Any], differences: list[tuple[float, str]]) -> None:
    equal = sum(_is_equal(d) for d, _ in differences)
    most, where = max(differences)
    comparison.agrees = equal == len(differences)
    comparison.verdict = say.CELLS_AGREE.format(equal=equal, n=len(differences), largest=small(most)) + (f" ({where})." if most else ".")
    unmeasured = [title(t) for t in TABLES if t in tables and our_label(results, t, PUBLISHED) is None]
    if unmeasured:
        comparison.notes.append(say.PUBLISHED_UNMEASURED.format(names=", ".join(unmeasured)))
    cells = {c for t in tables.values() for c in t}
    models, datasets = {m for m, _ in cells}, {d for _, d in cells} - {match_key(MACRO_DATASETS)}
    here = sum(match_key(m) in models for m in results.models), sum(match_key(d) in datasets for d in results.datasets)
    counts = {"models": len(models), "datasets": len(datasets), "models_here": here[0], "datasets_here": here[1]}
    comparison.notes.append(say.PUBLISHED_TABLES.format(**counts))


def _explain(comparison: PublishedComparison, results: Report) -> None:
    """Add to `comparison` the values of our own setting, and what each change of setting does."""
    if OURS not in results.settings:
        comparison.notes.append(say.NO_OWN_SETTING.format(setting=OURS))
        return
    measured = [t for t in TABLES if our_label(results, t, PUBLISHED) and our_label(results, t, OURS, rows="test")]
    steps = _steps(results)
    for dataset in results.datasets:
        beside = Pairs(visible(dataset, 80), measured)
        for model in results.models:
            row = []
            for t in measured:
                ours, theirs = our_label(results, t, OURS, rows="test"), our_label(results, t, PUBLISHED)
                new, old = (_value(results, model, dataset, label) for label in (ours, theirs))
                row.append(ComparedNumbers("–", "–") if new is None or old is None else ComparedNumbers(number(new, 4), _change(new - old)))
            if any(p.upper != "–" for p in row):
                beside.rows.append((model, row))
        if not beside.rows:
            continue
        comparison.ours.append(beside)
        source = Pairs(visible(dataset, 80), measured)
        for text, before, after in steps:
            source.rows.append((text, [_mean_change(results, dataset, t, before, after) for t in measured]))
        total = [_mean_change(results, dataset, t, (PUBLISHED, "all"), (OURS, "test")) for t in measured]
        source.rows.append((say.TOTAL_EFFECT, total))
        comparison.sources.append(source)
    if not steps:
        comparison.notes.append(say.ONLY_TOTAL)


def _is_equal(difference: float) -> bool:
    return abs(difference) <= EQUAL


def _change(difference: float) -> str:
    return "0" if _is_equal(difference) else signed(difference, 4)


Place = tuple[str, str]
"""A setting, and the rows that calibration error is computed on."""


def _steps(results: Report) -> list[tuple[str, Place, Place]]:
    """Return (what changes, before, after) from the published to our setting, one step each."""
    steps = [(what, (a, "all"), (b, "all")) for (a, b), what in _setting_steps(results)]
    tests, alls = (our_label(results, "ece", OURS, rows=r) for r in ("test", "all"))
    if tests and alls and tests != alls:
        steps.append((say.ERROR_ON_TEST_ROWS, (OURS, "all"), (OURS, "test")))
    return steps


def _setting_steps(results: Report) -> list[tuple[tuple[str, str], str]]:
    """Return ((before, after), changes) from `published` to `ours`, or to each other setting."""
    factors = {s["label"]: _factors(s) for s in results.stage.params.get("settings", [])}
    names = [s for s in results.settings if not s.startswith(SHARE)]
    if PUBLISHED not in factors or OURS not in factors:
        between = [s for s in names if s not in (PUBLISHED, OURS)]
        return [((PUBLISHED, s), f"{display_name(PUBLISHED)} → {display_name(s)}") for s in between]
    chain = _chain([n for n in names if n in factors], factors)
    return [((a, b), "; ".join(_changed(factors[a], factors[b])) or "nothing") for a, b in itertools.pairwise(chain)]


def _chain(names: list[str], factors: dict[str, dict[str, Any]]) -> list[str]:
    """Return settings from `published` to `ours`: least sum of squared numbers of changes."""
    best: dict[str, tuple[int, list[str]]] = {PUBLISHED: (0, [PUBLISHED])}
    for _ in names:  # Bellman and Ford: settings are few
        for here in list(best):
            for there in names:
                cost = best[here][0] + len(_changed(factors[here], factors[there])) ** 2
                if here != there and (there not in best or cost < best[there][0]):
                    best[there] = (cost, [*best[here][1], there])
    return best[OURS][1]


def _factors(setting: dict[str, Any]) -> dict[str, Any]:
    calibration = {f"calibration {k}": v for k, v in setting.get("calibration", {}).items()}
    scores = {f"{s['label']} {k}": v for s in setting.get("scores", []) for k, v in s.get("args", {}).items()}
    return {k: v for k, v in setting.items() if k not in ("label", "scores", "calibration")} | calibration | scores


def _changed(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    keys = [*a, *(k for k in b if k not in a)]
    return [f"{display_name(k)}: {display_name(str(a.get(k)))} → {display_name(str(b.get(k)))}" for k in keys if a.get(k) != b.get(k)]


def _mean_change(results: Report, dataset: str, table: str, before: Place, after: Place) -> ComparedNumbers:
    """Return a metric's mean change over models, and the largest change with its sign."""
    changes = []
    for model in results.models:
        old = _value(results, model, dataset, our_label(results, table, before[0], rows=before[1]))
        new = _value(results, model, dataset, our_label(results, table, after[0], rows=after[1]))
        if old is not None and new is not None:
            changes.append(new - old)
    if not changes:
        return ComparedNumbers("–", "")
    largest = max(changes, key=abs)
    if _is_equal(largest):
        return ComparedNumbers("0", "", "absent")
    return ComparedNumbers(signed(sum(changes) / len(changes), 4), signed(largest, 4))


READS = ("published",)
ASSETS = ["../templates/published.html"]
SECTION = Section("published", say.PUBLISHED_RESULTS, compare_with_published, "published.html")
