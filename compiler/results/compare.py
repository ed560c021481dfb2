"""`qualm compare A B`: two models, two specs or two score tables; paired by sample wherever samples are at hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.integrity import report_changed
from qualm.compiler.results.scores import Row, read_scores, read_spec_results, select
from qualm.compiler.results.tables import format_measure
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.compiler.spec.language import Compare, Interval
from qualm.registry import CLEAN
from qualm.registry.parameters import nested_paths
from qualm.registry.system.console import Console
from qualm.registry.system.grids import Grid
from qualm.registry.text import print_json
from qualm.runners.scoring.measuring.labels import main_setting

if TYPE_CHECKING:
    from qualm.runners.results.results import Results
    from qualm.runners.runtime.stage import Stage
    from qualm.runners.scoring.cells import Cell


def compare_results(
    project: Project,
    spec: str | None,
    a: str,
    b: str,
    as_json: bool,
    revision: str | None,
    pull: bool,
    metrics: Sequence[str] | None,
) -> None:
    """Print how b differs from a (models, specs or score tables), as tables or JSON."""
    comparison = compare_scores(project, spec, a, b, revision, pull, metrics)
    if as_json:
        print_json(comparison)
        return
    print_comparison(comparison, Console())


def compare_scores(
    project: Project,
    spec: str | None,
    a: str,
    b: str,
    revision: str | None = None,
    pull: bool = False,
    metrics: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Compare a and b on clean answers: return a dict of differences b - a, tests and notes.

    Args:
        project: whose results they are.
        spec: that models without one are of; None for the default one.
        a: a model, a spec, `SPEC:MODEL`, `REVISION:SPEC`, `REVISION:SPEC:MODEL`, or a score table.
        b: the same, to compare it with.
        revision: at which `a` is taken, where it names none itself.
        pull: fetch what DVC's cache lacks of earlier revisions.
        metrics: these alone, by plugin or label; p-values are then corrected for their number.

    Returns:
        `a`, `b`, `paired`, `level`, `test` (name, margin, correction, family), `notes`, `changed_results`,
        `differences` (dataset, metric, a, b, delta, low, high, n, p, p_adjusted, significant, better, why, compared_by, margin,
        p_equivalent, p_not_worse; significant is None without a test)
        and `mcnemar` (dataset, metric, n, both_right, only_a, only_b, both_wrong, p, p_holm).

    Raises:
        ProjectError: a name is neither a model, a spec nor a file, or nothing is shared by the two.
    """
    files = [Path(x) for x in (a, b)]
    if all(f.suffix == ".parquet" for f in files):
        changed = report_changed(project.root, [f.resolve() for f in files])
        tables = (select(read_scores(f), metrics=metrics) if metrics else read_scores(f) for f in files)
        return _unpaired(a, b, *tables) | {"changed_results": changed}
    one, other = _load_side(project, spec, a, revision, pull), _load_side(project, spec, b, None, pull)
    if one.model and other.model:
        return _paired((one, {one.name: one.model}), (other, {one.name: other.model}), one.name, other.name, metrics)
    if one.model or other.model:
        raise ProjectError(f"'{a}' and '{b}': one is a model, the other a spec; name two models, two specs or two scores.parquet")
    mine, yours = one.results.models, other.results.models
    shared = {m: m for m in mine if m in yours} or ({mine[0]: yours[0]} if len(mine) == len(yours) == 1 else {})
    if not shared:
        raise ProjectError(
            f"specs '{a}' and '{b}' have no model in common: {', '.join(mine)} against {', '.join(yours)}; "
            "name one of each: SPEC:MODEL SPEC:MODEL"
        )
    return _paired((one, {m: m for m in shared}), (other, shared), one.name, other.name, metrics)


def compare_models(results: Results, a: str, b: str) -> dict[str, Any]:
    """Return the differences of model b from model a of one spec, like `compare_scores`."""
    side = ComparisonSide(results.spec, results)
    return _paired((side, {a: a}), (side, {a: b}), a, b)


@dataclass(frozen=True)
class ComparisonSide:
    """One side of a comparison: a spec's results, or one model of them."""

    name: str
    results: Results
    model: str | None = None
    """The one that is meant; None where the spec is."""


def _load_side(project: Project, spec: str | None, text: str, revision: str | None, pull: bool) -> ComparisonSide:
    """Load the side SPEC, MODEL, SPEC:MODEL, REV:SPEC or REV:SPEC:MODEL; else ProjectError.

    `A:B` is a spec and its model if there is such a one, else a revision and its spec.
    """
    first, *others = text.split(":", 2)
    if len(others) == 2:
        return _then(project, first, others[0] or spec, others[1] or None, text, pull)
    if others and not (first in project.specs() and others[0] in side_here(project, first).results.models):
        return _then(project, first, others[0] or spec, None, text, pull)
    if others:
        spec, model = first, others[0]
    else:
        model = text
    if revision is not None:
        from qualm.compiler.results.at_revision import commit_of, specs_at

        is_spec = not others and text in specs_at(project, commit_of(project, revision))
        return _then(project, revision, text if is_spec else spec, None if is_spec else model, f"{revision}:{text}", pull)
    here = side_here(project, spec)
    if model in here.results.models:
        return replace(here, name=text, model=model)
    if text in project.specs():
        return replace(side_here(project, text), name=text)
    hint = nearest(text, [*here.results.models, *project.specs()])
    raise ProjectError(f"'{text}' is neither a model of this spec, nor a spec, nor a .parquet file; {hint}")


def _then(project: Project, revision: str, spec: str | None, model: str | None, name: str, pull: bool) -> ComparisonSide:
    from qualm.compiler.results.at_revision import benchmark_at

    results = benchmark_at(project, revision, spec or project.plan(None).spec, pull).results
    if model is not None and model not in results.models:
        raise ProjectError(f"{name}: '{model}' is no model of that spec; {nearest(model, results.models)}")
    return ComparisonSide(name, results, model)


def against_revision(
    project: Project, spec: str, revision: str, models: Sequence[str], labels: Sequence[str], pull: bool = False
) -> dict[str, Any]:
    """Return how models changed since a revision, like `compare_scores`; else ProjectError.

    Raises:
        ProjectError: the revision's answers are missing, or the two share no model or metric.
    """
    then, now = _then(project, revision, spec, None, revision, pull), side_here(project, spec)
    shared = {m: m for m in models if m in then.results.models and m in now.results.models}
    mine, yours = ({m["label"] for m in side.results.stage.params["metrics"]} for side in (then, now))
    names = [name for name in sorted(mine & yours) if any(label == name or label.startswith(f"{name}[") for label in labels)]
    if not shared or not names:
        raise ProjectError("no metric changed for a model that both sides have")
    return _paired((then, shared), (now, shared), revision, "working tree", names)


def side_here(project: Project, spec: str | None) -> ComparisonSide:
    return ComparisonSide(spec or "", read_spec_results(project, spec))


def _unpaired(a: str, b: str, mine: Sequence[Row], yours: Sequence[Row]) -> dict[str, Any]:
    """Return a comparison of clean rows in both, `yours` minus `mine`; ProjectError if none.

    It is a dict as `compare_scores` returns.

    Without samples there is no pairing and so no interval of the difference.
    """
    keys = ("model", "dataset", "variant", "slice", "metric")
    others = {tuple(r[k] for k in keys): r for r in yours}
    differences = []
    for row in mine:
        other = others.get(tuple(row[k] for k in keys))
        if other and (row["variant"], row["slice"]) == ("clean", "all"):
            delta = None if row["value"] is None or other["value"] is None else other["value"] - row["value"]
            named = {"dataset": row["dataset"], "model": row["model"], "metric": row["metric"], "n": min(row["n"], other["n"])}
            differences.append(named | {"a": row["value"], "b": other["value"], "delta": delta, "low": None, "high": None})
    if not differences:
        raise ProjectError(f"{a} and {b}: expected at least one score of the same model, dataset and metric in both, found none")
    notes = [say.TABLES_NOT_PAIRED]
    return {"a": a, "b": b, "paired": False, "level": None, "test": None, "notes": notes, "differences": differences, "mcnemar": []}


Chosen = tuple[ComparisonSide, Mapping[str, str]]
"""A side, and which of its models stands for which name."""


def _paired(one: Chosen, other: Chosen, a: str, b: str, names: Sequence[str] | None = None) -> dict[str, Any]:
    from qualm.runners.runtime.threads import one_thread

    with one_thread():
        return _tested(one, other, a, b, names)


def _tested(one: Chosen, other: Chosen, a: str, b: str, names: Sequence[str] | None) -> dict[str, Any]:
    from qualm.compiler.results.paired import align, as_json, differences, mcnemar_tests
    from qualm.runners.scoring.families import Family
    from qualm.runners.scoring.measuring.metrics import read_metrics

    stage = one[0].results.stage
    theirs = {json.dumps(m, sort_keys=True) for m in other[0].results.stage.params["metrics"]}
    shared = [m for m in stage.params["metrics"] if json.dumps(m, sort_keys=True) in theirs]
    metrics = read_metrics(chosen_metrics(shared, names))
    interval, test = stage.params["interval"], _test_of(stage)
    result: dict[str, Any] = {"a": a, "b": b, "paired": True, "level": interval["level"], "test": test, "notes": []}
    result |= {"differences": [], "mcnemar": []}
    result["changed_results"] = report_inputs(one, other)
    cells = [clean_cells(*side) for side in (one, other)]
    family, rows = Family(test["correction"], test["family"]), list[dict[str, Any]]()
    for name in one[1]:
        pairs = []
        for dataset in [d for n, d in cells[0] if n == name and (n, d) in cells[1]]:
            mine, yours, dropped = align(cells[0][name, dataset], cells[1][name, dataset])
            if dropped:
                result["notes"].append(say.QUESTIONS_NOT_SHARED.format(dataset=dataset, n=dropped))
            if mine.samples.n:
                pairs.append((mine, yours))
        model = {} if a in one[1] else {"model": name}
        for mine, yours in pairs:
            sizes = interval["bootstrap"], interval["level"], stage.seed, test["margin"]
            for row, evidence in differences(mine, yours, metrics, *sizes):
                rows.append(row | model)
                family.add(rows[-1], evidence)
        tests = mcnemar_tests(pairs, metrics)
        result["mcnemar"] += [t.as_json() | model for t in tests]
        grouped = {mine.samples.name for mine, _ in pairs if len(set(mine.samples.groups)) < mine.samples.n}
        for dataset in dict.fromkeys(t.dataset for t in tests if t.dataset in grouped):
            result["notes"].append(say.MCNEMAR_ASSUMES.format(dataset=dataset))
    family.correct()
    result["differences"] = [as_json(row) for row in rows]
    if one[0].results.root != other[0].results.root:
        result["notes"].append(say.METRICS_OF_CHECKOUT)
    if not result["differences"]:
        raise ProjectError(f"'{a}' and '{b}' have no dataset and metric in common; name sides that were scored alike")
    return result


def chosen_metrics(metrics: Sequence[dict[str, Any]], chosen: Sequence[str] | None) -> list[dict[str, Any]]:
    """Return metrics whose label or plugin is in `chosen`, all if empty; else ProjectError."""
    names = {name for m in metrics for name in (m["label"], m["plugin"])}
    for name in chosen or ():
        if name not in names:
            raise ProjectError(f"no metric '{name}' that both sides have; {nearest(name, names)}")
    return [m for m in metrics if not chosen or {m["label"], m["plugin"]} & set(chosen)]


def _test_of(stage: Stage) -> dict[str, Any]:
    """Return a score stage's test (name, margin, correction, family), or the default one."""
    from qualm.runners.scoring.families import PAIRED_TEST

    default = Compare(interval=Interval(**stage.params["interval"]))
    settings = stage.params.get("compare") or default.model_dump() | {"correction": default.applied_correction}
    return {"name": PAIRED_TEST, **{key: settings[key] for key in ("margin", "correction", "family")}}


def report_inputs(*sides: Chosen) -> list[str]:
    """Print and return a warning per spec whose answers or judgements differ from dvc.lock."""
    files: dict[Path, list[str]] = {}
    for side, models in sides:
        files.setdefault(side.results.root, []).extend(nested_paths(side.results.located_stage(set(models.values())).inputs))
    return [notice for root, paths in files.items() for notice in report_changed(root, paths)]


def clean_cells(side: ComparisonSide, models: Mapping[str, str]) -> dict[tuple[str, str], Cell]:
    """Return {(name, dataset): clean `Cell`}, main setting only; `models` is {name: model}."""
    cells = {}
    for cell in side.results.cells(set(models.values()), variant=CLEAN):
        main = main_setting(list(cell.settings))
        cell.settings = {name: s for name, s in cell.settings.items() if name == main}
        cells.update({(name, cell.samples.name): cell for name, model in models.items() if model == cell.model})
    return cells


def print_comparison(comparison: Mapping[str, Any], console: Console) -> None:
    """Print a comparison as a table per model and dataset, with notes.

    They are green where b is better and red where a is.
    """
    console.print(Text.assemble(("a ", "dim"), (comparison["a"], "bold"), ("   b ", "dim"), (comparison["b"], "bold")))
    for group in dict.fromkeys((d.get("model", ""), d["dataset"]) for d in comparison["differences"]):
        _differences([d for d in comparison["differences"] if (d.get("model", ""), d["dataset"]) == group], group, comparison).print(
            console
        )
        console.print()
    if test := comparison["test"]:
        from qualm.compiler.results.comparisons import remarks
        from qualm.runners.scoring.families import describe_correction

        how = describe_correction(test, study=say.ALL_TESTS)
        console.print(Text(say.COMPARISON_TEST.format(test=test["name"], correction=how), style="dim"))

        lines = remarks([d | {name: comparison[name] for name in "ab"} for d in comparison["differences"]])
        if margins := sorted({d["margin"] for d in comparison["differences"] if d.get("margin") is not None}):
            named_margins = ", ".join(f"{margin:g}" for margin in margins)
            lines.append(say.MARGIN_TESTS.format(margins=named_margins))
        tested = [d["significant"] for d in comparison["differences"] if d["significant"] is not None]
        if dim := tested.count(False):
            lines.append(say.DIM_IS_TIED.format(n=dim, of=len(tested)))
        for line in lines:
            console.print(Text(line, style="dim"))
    for text in unequal_share_warnings(comparison["differences"]):
        console.print(Text(text, style="yellow"))
    for t in comparison["mcnemar"]:
        where = " · ".join(x for x in (t.get("model", ""), t["dataset"]) if x)
        corrected = say.MCNEMAR_HOLM.format(p=t["p_holm"]) if t["p_holm"] != t["p"] else ""
        text = say.MCNEMAR.format(
            place=where, metric=t["metric"], n=t["n"], only_a=t["only_a"], only_b=t["only_b"], p=t["p"], corrected=corrected
        )
        console.print(Text(text))
    for note in comparison["notes"]:
        console.print(Text(note, style="dim"))


def _differences(rows: Sequence[Mapping[str, Any]], group: tuple[str, str], comparison: Mapping[str, Any]) -> Grid:
    """Return a grid with a row per metric: a, b, b - a, interval, p; `group` is its title."""
    from qualm.compiler.results.comparisons import metric_in_words
    from qualm.runners.scoring.scored_share import shares_differ

    counts, correction = {d["n"] for d in rows}, comparison["test"]["correction"] if comparison["test"] else None
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "a": lambda d: format_measure(d["a"]),
        "b": lambda d: format_measure(d["b"]),
        "b − a": lambda d: _plain(d["delta"], "+.3f"),
    }
    if comparison["level"]:
        columns[f"{comparison['level']:.0%} interval"] = lambda d: "" if d["low"] is None else f"{d['low']:+.3f} to {d['high']:+.3f}"
    if correction:
        columns["p"] = lambda d: _p(d, "p") or ("not tested" if d.get("why") else "undefined")
        columns |= {} if correction == "none" else {"corr. p": lambda d: _p(d, "p_adjusted")}
    if any(d.get("margin") is not None for d in rows):
        columns |= {"equal": lambda d: _p(d, "p_equivalent"), "not worse": lambda d: _p(d, "p_not_worse")}
    if any(shares_differ([d.get("scored_share_a"), d.get("scored_share_b")]) for d in rows):
        columns["scored a / b"] = _shares
    if len(counts) > 1:
        columns["n"] = lambda d: f"{d['n']:,}"
    title = Text(" · ".join(x for x in group if x), style="bold")
    title.append(f"  n = {rows[0]['n']:,}" if len(counts) == 1 else "", style="dim")
    grid = Grid([("metric", "left"), *((name, "right") for name in columns)], title)
    for d in rows:
        style = {"a": "red", "b": "green"}.get(d.get("better") or "", "" if d.get("significant") else "dim")
        grid.add(metric_in_words(d), *(cell(d) for cell in columns.values()), style=style)
    return grid


def unequal_share_warnings(differences: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return warnings, one per place and pair of scored shares over 2 points apart; or []."""
    from qualm.runners.scoring.scored_share import format_share, shares_differ

    metrics_of: dict[tuple[str, str, str], list[str]] = {}
    for d in differences:
        shares = [d.get("scored_share_a"), d.get("scored_share_b")]
        if shares_differ(shares):
            where = " · ".join(x for x in (d.get("model", ""), d["dataset"]) if x)
            a, b = map(format_share, shares)
            metrics_of.setdefault((where, a, b), []).append(d["metric"])
    return [say.UNEQUAL_SHARES.format(place=where, a=a, b=b, metrics=", ".join(metrics)) for (where, a, b), metrics in metrics_of.items()]


def _shares(difference: Mapping[str, Any]) -> str:
    """Return "SHARE A / SHARE B" of scored answers, with " (!)" if too unequal."""
    from qualm.runners.scoring.scored_share import format_share, shares_differ

    shares = [difference.get("scored_share_a"), difference.get("scored_share_b")]
    return " / ".join(map(format_share, shares)) + (" (!)" if shares_differ(shares) else "")


def _p(difference: Mapping[str, Any], name: str) -> str:
    """Return the p-value under key `name` with four decimals; "" if there is none."""
    value = difference.get(name)
    return "" if value is None or math.isnan(value) else format(value, ".4f")


def _plain(value: float | None, form: str = ".3f") -> str:
    return "undefined" if value is None or math.isnan(value) else format(value, form)
