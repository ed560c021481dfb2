"""The `report` stage: one self-contained HTML page with the results of a spec.

It opens from disk without network, holds no time and no host, and is the same bytes for the same tables. Dataset text
is hostile: Jinja2 escapes all of it, and a content security policy allows no script but the page's own.
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from qualm.registry import baseline_model
from qualm.registry.formats.picture_lists import all_ids
from qualm.runners.contracts.stages import StageKind
from qualm.runners.reporting import endings, estimators, figures
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.appendix import appendix, facts_of
from qualm.runners.reporting.compared_models import compared_models
from qualm.runners.reporting.findings import MAX_FINDINGS, findings
from qualm.runners.reporting.findings_figure import findings_figure
from qualm.runners.reporting.load import Report, read_report
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
from qualm.runners.reporting.summary import Summary, summary
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

ASSETS = [
    "../reporting/templates/report.html",
    "../reporting/templates/sheet.html",
    "../reporting/templates/data.html",
    "../reporting/templates/idk.html",
    "../reporting/templates/filters.html",
    "../reporting/templates/pairs.html",
    "../reporting/templates/heat.html",
    "../reporting/templates/examples.html",
    "../reporting/templates/style.css",
    "../reporting/templates/browse.js",
]
"""Files beside the Python modules: the compiler reads this list, and the stage depends on them."""

TEMPLATES = Path(__file__).parents[1] / "reporting" / "templates"
MOST_BYTES = 5 * 2**20
"""A larger page shows fewer examples. Images and panels are bounded well below it; tables grow with the number of models."""
PICKED = ("examples", "pairs")
"""Parts of the page that show a selection of questions."""
MIN_PICKED = 4
"""Questions that each of them keeps, however large the page is."""


def run(stage: Stage) -> None:
    """Write the report page, and images with the record and times of the run."""
    page = render(read_report(stage))
    file = stage.scratch / "report.html"
    file.write_bytes(page)
    stage.count(bytes=len(page))
    stage.publish(file, stage.outputs["report"])
    write_stamp(stage.spec)
    write_times(stage.spec)


def render(results: Report) -> bytes:
    """Return the page as HTML bytes; equal inputs give equal bytes."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    style, script = ((TEMPLATES / f).read_text(encoding="utf-8") for f in ("style.css", "browse.js"))
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = visible
    environment.filters["described"] = add_description
    environment.filters["with_code"] = code_to_html
    environment.filters["rich"] = sentence_to_html
    environment.filters["bdi"] = isolate_direction
    environment.globals["say"] = say
    template = environment.get_template("report.html")
    content: dict[str, Any] = {"style": style, "script": script, "policy": _policy(script), "fewer": "", **_content(results)}
    total = sum(len(content[part]) for part in PICKED)
    while True:
        page = template.render(content).encode("utf-8")
        if len(page) <= MOST_BYTES or all(len(content[part]) <= MIN_PICKED for part in PICKED):
            return page
        # Every second example: those of a dataset are neighbours, and each dataset keeps some.
        content |= {part: content[part][::2] if len(content[part]) > MIN_PICKED else content[part] for part in PICKED}
        n = sum(len(content[part]) for part in PICKED)
        content["fewer"] = say.EXAMPLES_SHOWN.format(shown=n, n=total, mebibytes=MOST_BYTES / 2**20)


def add_description(svg: str, text: str) -> str:
    """Return an SVG drawing with `text` as its `aria-label`, for screen readers."""
    return svg.replace('role="img"', f'role="img" aria-label="{escape(text.strip())}"', 1)


def code_to_html(text: str) -> str:
    """Return a text as HTML in which text between backticks is marked up as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def sentence_to_html(text: str, **fields: object) -> Markup:
    """Return a sentence with `code`, **strong** and *emphasis* as HTML; fields are escaped."""
    html = re.sub(r"\*\*([^\s*][^*]*)\*\*", r'<b class="best">\1</b>', code_to_html(text))
    html = re.sub(r"\*([^\s*][^*]*)\*", r"<i>\1</i>", html)
    return Markup(html).format(**fields) if fields else Markup(html)  # noqa: S704 - escaped above


def isolate_direction(text: object) -> Markup:
    """Return a text as HTML whose writing direction does not affect its surroundings."""
    return Markup("<bdi>{}</bdi>").format(text)


def _policy(script: str) -> str:
    """Return the page's content security policy: no network, frames, or foreign scripts."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; img-src data: 'self' file:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


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
        "facts": _facts(results),
        "summary": first_table,
        "findings": found[:MAX_FINDINGS],
        "further_findings": found[MAX_FINDINGS:],
        "findings_figure": findings_figure(results),
        "warnings": [visible(line, 600) for line in score_warnings.unscored_warnings(results.overall.iter_rows(named=True))],
        "collapses": [visible(line, 3000) for line in score_warnings.collapse_warnings(whole.iter_rows(named=True))],
        "cautions": [visible(line, 600) for line in score_warnings.lexical_warnings(results.overall.iter_rows(named=True))],
        "disputes": [visible(line, 2000) for line in score_warnings.dispute_warnings(results.overall.iter_rows(named=True))],
        "notes": [
            visible(line, 600)
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
        "libraries": _libraries(results),
        "metrics": _metrics(results),
    }


def _perturbations(variants: Sequence[Mapping[str, Any]]) -> str:
    kinds = len({variant["plugin"] for variant in variants})
    return f"{kinds:,}" if kinds == len(variants) else say.IN_VARIANTS.format(kinds=kinds, variants=len(variants))


def _facts(results: Report) -> list[tuple[str, str]]:
    scored = int(results.overall["n"].max() or 0)  # type: ignore[arg-type]
    facts = [
        (say.SPEC, results.stage.spec),
        (say.MODELS_FACT, _models(results)),
        (say.DATASETS, f"{len(results.datasets)}"),
    ]
    if variants := results.stage.params.get("variants"):
        facts.append((say.PERTURBATIONS, _perturbations(variants)))
    answers = f"{results.answers.height:,}" if results.answers.height else say.UP_TO_EACH.format(n=scored)
    facts.append((say.CLEAN_ANSWERS if variants else say.ANSWERS, answers))
    if results.judge:
        facts.append((say.JUDGE, results.judge))
    if results.main_setting:
        facts.append((say.CONFORMAL, results.main_setting))
    return [(k, visible(v, 120)) for k, v in facts]


def _models(results: Report) -> str:
    """Return text: numbers of models, of abstaining or recalibrated ones, and of baselines."""
    blind = sum(map(bool, map(baseline_model, results.models)))
    versions = sum(m in results.abstaining and not baseline_model(m) for m in results.models)
    counts = [(versions, say.WITH_ABSTENTION_OR_RECALIBRATION), (blind, say.BASELINES_IGNORING_THE_IMAGE)]
    return " + ".join([f"{len(results.models) - versions - blind:,}", *(f"{n:,} {what}" for n, what in counts if n)])


def _dataset(results: Report, dataset: str, first_table: Summary, folded: bool) -> dict[str, Any]:
    return {
        "folded": folded,
        "name": visible(dataset, 80),
        "id": figures.figure_id("dataset", dataset),
        "counts": _counts(results, dataset),
        "parts": leaderboard.describe_rows(results, dataset),
        "tables": [t for t in leaderboard.leaderboards(results, dataset) if not first_table.covers(dataset, t)],
        "estimators": estimators.best_estimator_tests(results, dataset),
        "models": compared_models(results, dataset),
    }


def _counts(results: Report, dataset: str) -> str:
    """Return counts of a dataset as text: `600 questions (600 open-ended) · 200 images`."""
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


def _libraries(results: Report) -> list[tuple[str, str]]:
    """Return (library, versions) from the tables' provenance; several if machines differ."""
    versions_of: dict[str, set[str]] = {}
    for record in results.provenance:
        versions: Mapping[str, str] = record.get("libraries", {})
        for library, version in versions.items():
            versions_of.setdefault(visible(library, 40), set()).add(visible(version, 40))
    return [(library, ", ".join(sorted(versions_of[library]))) for library in sorted(versions_of)]


def _metrics(results: Report) -> list[tuple[str, str, str]]:
    """Return (title, direction, summary) of every metric on the page."""
    by_plugin = {a.plugin: a for a in results.labels.values()}
    direction = {True: say.HIGHER_IS_BETTER, False: say.LOWER_IS_BETTER, None: say.NO_DIRECTION}
    return [(a.title, direction[a.higher_is_better], visible(a.summary, 300)) for a in by_plugin.values()]
