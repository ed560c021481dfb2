"""The `report` stage: one self-contained HTML page with the results of a spec.

It opens from disk without network, holds no time and no host, and is the same bytes for the same tables. Dataset text
is hostile: Jinja2 escapes all of it, and a content security policy allows no script but the page's own.
"""

from typing import Any

import polars as pl

from qualm.runners.contracts.stages import StageKind
from qualm.runners.reporting import endings, estimators, figures
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.appendix import appendix, facts_of, library_versions, metric_list
from qualm.runners.reporting.compared_models import compared_models
from qualm.runners.reporting.findings import MAX_FINDINGS, findings
from qualm.runners.reporting.findings_figure import findings_figure
from qualm.runners.reporting.load import Report, read_report
from qualm.runners.reporting.page import html_page
from qualm.runners.reporting.sections import (
    coverage_by_part,
    data_sets,
    judging,
    leaderboard,
    metric_study,
    perturbed,
    published,
    recalibrated,
    shown_tables,
    strategies,
    studies,
    uncertain_questions,
)
from qualm.runners.reporting.sections.examples import examples
from qualm.runners.reporting.sections.pairs import has_pairs, pairs
from qualm.runners.reporting.summary import Summary, page_facts, summary
from qualm.runners.reporting.text import visible
from qualm.runners.runtime.run_times import write_times
from qualm.runners.runtime.stage import Stage
from qualm.runners.runtime.stamp import write_stamp
from qualm.runners.scoring import score_warnings
from qualm.runners.scoring.families import describe_correction

KIND = StageKind(
    title="Report",
    parts=("../reporting", "../reporting/sections"),
    writes={"report": "report.html"},
    colour="#79706e",
    seeded=True,
)
SECTIONS = (
    figures.CALIBRATION,
    recalibrated.SECTION,
    figures.UNCERTAINTY,
    coverage_by_part.SECTION,
    figures.BREAKDOWN,
    uncertain_questions.SECTION,
    perturbed.SECTION,
    published.SECTION,
    studies.SECTION,
    shown_tables.SECTION,
    judging.SECTION,
    endings.SECTION,
)
"""Sections between the leaderboard and the data, in the order of the page."""


def run(stage: Stage) -> None:
    """Write the report page, the run's facts (JSON and SVG), and its times (SVG)."""
    page = render(read_report(stage))
    file = stage.scratch / "report.html"
    file.write_bytes(page)
    stage.count(bytes=len(page))
    stage.publish(file, stage.outputs["report"])
    write_stamp(stage.spec)
    write_times(stage.spec)


def render(results: Report) -> bytes:
    """Return the report page as HTML bytes; equal inputs give equal bytes."""
    return html_page(_content(results))


def _content(results: Report) -> dict[str, Any]:
    params = results.stage.params
    n_examples = int(params.get("examples", 24))
    with_pairs = [d for d in results.datasets if has_pairs(results, d)]
    singles = [d for d in results.datasets if d in results.samples and d not in with_pairs]
    each = n_examples // (len(with_pairs) + len(singles) or 1)
    tables = strategies.strategies(results)
    found = findings(results)
    whole = results.scores.filter(pl.col("slice") == score_warnings.ALL)
    first_table = summary(results)
    averages = leaderboard.macro_averages(results)
    of_datasets = [_dataset(results, name, first_table, bool(tables) or place > 0) for place, name in enumerate(results.datasets)]
    return {
        "title": visible(params.get("title") or results.stage.spec, 200),
        "description": visible(params.get("description") or "", 4000),
        "facts": page_facts(results),
        "summary": first_table,
        "findings": found[:MAX_FINDINGS],
        "further_findings": found[MAX_FINDINGS:],
        "findings_figure": findings_figure(results),
        "warnings": [visible(line, 3000) for line in score_warnings.unscored_warnings(results.overall.iter_rows(named=True))],
        "collapses": [visible(line, 3000) for line in score_warnings.collapse_warnings(whole.iter_rows(named=True))],
        "cautions": [visible(line, 600) for line in score_warnings.lexical_warnings(results.overall.iter_rows(named=True))],
        "disputes": [visible(line, 2000) for line in score_warnings.dispute_warnings(results.overall.iter_rows(named=True))],
        "notes": [
            visible(line, 3000)
            for lines in (score_warnings.metric_notes, score_warnings.few_group_warnings)
            for line in lines([*results.overall.iter_rows(named=True), *results.averages.iter_rows(named=True)])
        ],
        "datasets": of_datasets,
        "macro_averages": averages,
        "leaderboard": averages or any(of["tables"] or of["estimators"] or of["models"] for of in of_datasets),
        "chance": any(table.chance for of in of_datasets for table in of["tables"]),
        "taxonomy": data_sets.taxonomy(results),
        "data_sets": data_sets.data_sets(results),
        "sections": [(section, value) for section in SECTIONS if (value := section.make(results))],
        "strategies": tables,
        "cost": strategies.cost_table(results) if tables else None,
        "idk_figures": metric_study.category_figures(results) if tables else [],
        "study": metric_study.metric_study(results) if tables else [],
        "study_claims": metric_study.study_claims(results) if tables else [],
        "pairs": pairs(results, (n_examples - each * len(singles)) // 2) if with_pairs else [],
        "examples": examples(results, n_examples - each * len(with_pairs) if singles else 0, singles),
        "made": appendix(results),
        "models": [visible(m, 80) for m in results.models],
        "intervals": next((f" ({text})" for name, text in facts_of(params["made"]) if name == say.INTERVALS_FACT), "")
        if "made" in params
        else "",
        "ranked": describe_correction({"correction": "max_t", "family": params.get("family", "study")}),
        "libraries": library_versions(results),
        "metrics": metric_list(results),
    }


def _dataset(results: Report, dataset: str, first_table: Summary, folded: bool) -> dict[str, Any]:
    return {
        "folded": folded,
        "name": visible(dataset, 80),
        "id": figures.figure_id("dataset", dataset),
        "counts": data_sets.describe_samples(results, dataset),
        "parts": leaderboard.describe_rows(results, dataset),
        "tables": [t for t in leaderboard.leaderboards(results, dataset) if not first_table.covers(dataset, t)],
        "estimators": estimators.best_estimator_tests(results, dataset),
        "models": compared_models(results, dataset),
    }
