"""The results of a spec as the report orders and looks them up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from qualm.registry import abstaining_name, baseline_model
from qualm.registry.sample import CLEAN, MACRO, MACRO_DATASETS
from qualm.runners.reporting.text import Label, decimals, read_label
from qualm.runners.results import perturbation
from qualm.runners.results.results import Results
from qualm.runners.results.tables import read_points
from qualm.runners.runtime.records import read_provenance
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring.measuring.labels import main_setting

QUALITY = ("confidence_weighted_accuracy", "lave_idk_accuracy", "accuracy")
"""Metrics of answers by which models are sorted and compared first: the first that a dataset has."""


READS = (
    "datasets",
    "generations",
    "judgements",
    "uncertainties",
    "sets",
    "thresholds",
    "abstentions",
    "abstention_rules",
    "scores",
    "comparisons",
    "rankings",
    "estimator_comparisons",
    "calibrator_comparisons",
    "correlations",
    "reliability",
    "risk_coverage",
    "set_sizes",
    "metric_study",
    "sweeps",
    "urr",
    "hcc",
)
"""Inputs of several sections."""
TABLES = (
    *("comparisons", "rankings", "estimator_comparisons", "calibrator_comparisons"),
    *("thresholds", "correlations", "abstention_rules"),
)
"""Tables that a report holds in memory."""
ALL_CLEAN = (pl.col("variant") == CLEAN) & (pl.col("slice") == "all")
IS_AVERAGE = pl.col("slice").str.starts_with(MACRO) | (pl.col("dataset") == MACRO_DATASETS)


@dataclass
class Report:
    """The tables of one spec, with models and metrics in the order of the page."""

    stage: Stage
    scores: pl.DataFrame
    samples: dict[str, pl.DataFrame]
    answers: pl.DataFrame
    """`Results.verdicts` of clean inputs, without baselines; `answers_to` adds the texts of some."""
    plots: dict[str, pl.DataFrame]
    provenance: list[dict[str, Any]]
    averages: pl.DataFrame
    """Macro averages, which `scores` leaves out."""
    comparisons: pl.DataFrame
    """Tests of two models, where the spec has a baseline or names pairs."""
    rankings: pl.DataFrame
    """The best models and estimators, and those statistically tied with them."""
    estimator_comparisons: pl.DataFrame
    """Every pair of estimators of one model."""
    calibrator_comparisons: pl.DataFrame
    """Raw confidences against recalibrated ones, and those against each other."""
    thresholds: pl.DataFrame
    correlations: pl.DataFrame
    abstention_rules: pl.DataFrame
    """Thresholds of each method of abstention, and its guarantee."""

    @cached_property
    def source(self) -> Results:
        """Return the results that the report is about, for tables that one section reads."""
        return Results(self.stage)

    def answers_to(self, dataset: str, sample_ids: Iterable[str]) -> pl.DataFrame:
        """Return all models' answers to some samples, with texts; that of an abstention says so."""
        ids = list(sample_ids)
        rows = self.answers.filter((pl.col("dataset") == dataset) & pl.col("sample_id").is_in(ids))
        if "text" in rows.columns:
            return rows
        parts = [rows.clear().with_columns(text=pl.lit(""), thinking=pl.lit(""), no_answer=pl.lit(""))]
        for (model,), of in rows.group_by("model", maintain_order=True):
            texts = self.source.texts(self.source.answer_source(str(model), CLEAN)[0], dataset).filter(pl.col("sample_id").is_in(ids))
            parts.append(of.join(texts.drop("variant", "option").collect(), on="sample_id", maintain_order="left"))
        text = pl.col("text").fill_null("")
        unanswered = pl.format("abstains (answer without abstention: {})", text)
        return pl.concat(parts).with_columns(text=pl.when("abstains").then(unanswered).otherwise(text))

    @cached_property
    def judge(self) -> str:
        """Return the names of the judges whose ratings metrics read, by commas; "" if none."""
        rated = not self.source.scan("judgements").filter(pl.col("variant") == CLEAN).head(1).collect().is_empty()
        judges = [self.stage.params.get("judge"), *self.stage.params.get("judge_of", {}).values()]
        return ", ".join(dict.fromkeys(filter(None, judges))) if rated else ""

    @cached_property
    def estimators(self) -> dict[str, list[str]]:
        """Return dataset -> its estimators with values of clean inputs, in table order."""
        keys = self.source.scan("uncertainties").filter(pl.col("variant") == CLEAN).select("dataset", "estimator")
        names: dict[str, list[str]] = {}
        for dataset, estimator in keys.unique(maintain_order=True).collect().iter_rows():
            names.setdefault(dataset, []).append(estimator)
        return names

    def uncertainties(self, model: str, dataset: str) -> pl.DataFrame:
        """Return rows (`sample_id`, `estimator`, `value`) of one model's clean answers."""
        own = self.source.scan("uncertainties").filter(model=model, dataset=dataset, variant=CLEAN)
        return own.select("sample_id", "estimator", "value").collect()

    @cached_property
    def models(self) -> list[str]:
        """Return the models in table order: baseline, then most datasets, best mean, spec.

        Models on more datasets precede; ties are in the order of the spec.
        """
        means: dict[str, tuple[int, float]] = {}
        names = self.scores["model"].unique(maintain_order=True).to_list()
        for dataset in self.datasets:
            if label := self.quality(dataset) or next(iter(self.headline(dataset, 1)), None):
                sign = 1 if label.higher_is_better is False else -1
                for model in names:
                    if (value := self.value(model, dataset, label.text)) is not None and math.isfinite(value):
                        n, total = means.get(model, (0, 0.0))
                        means[model] = n + 1, total + sign * value

        def place(model: str) -> tuple[bool, int, float]:
            n, total = means.get(model, (0, 0.0))
            return model != self.baseline, -n, total / max(n, 1)

        return sorted(names, key=place)

    @cached_property
    def palette(self) -> list[str]:
        """Return the models in colour order: spec order, with abstaining and baseline models last."""
        names = self.scores["model"].unique(maintain_order=True).to_list()
        return sorted(names, key=lambda m: bool(m in self.abstaining or baseline_model(m)))

    @cached_property
    def uninformative(self) -> set[tuple[str, str, str, str]]:
        """Return the (model, dataset, setting, score) whose prediction sets all hold every option."""
        rows = self.source.scan("sets").filter((pl.col("variant") == CLEAN) & ~pl.col("is_calibration")).collect()
        if rows.is_empty():
            return set()
        n_options = pl.col("choices").list.len()
        options = [frame.select("sample_id", dataset=pl.lit(name), options=n_options) for name, frame in self.samples.items()]
        keys = ["model", "dataset", "setting", "score"]
        sizes = rows.join(pl.concat(options), on=["dataset", "sample_id"]).group_by(keys)
        full = sizes.agg(is_full=(pl.col("set_size") >= pl.col("options")).all())
        return set(full.filter("is_full").select(keys).iter_rows())

    @cached_property
    def datasets(self) -> list[str]:
        return self.scores["dataset"].unique(maintain_order=True).to_list()

    @cached_property
    def settings(self) -> list[str]:
        return self.thresholds["setting"].unique(maintain_order=True).to_list()

    @cached_property
    def main_setting(self) -> str:
        return main_setting(self.settings)

    @cached_property
    def labels(self) -> dict[str, Label]:
        texts = self.scores["metric"].unique(maintain_order=True).to_list()
        return {text: read_label(text, self.settings, self.stage.params.get("calibrators", ())) for text in texts}

    @cached_property
    def baseline(self) -> str:
        """Return the model that others are tested against; "" if there is none."""
        return str(self.stage.params.get("baseline") or "")

    @cached_property
    def tests(self) -> dict[tuple[str, str, str, str], dict[str, Any]]:
        """Return (model, dataset, slice, metric) -> the model's test against the baseline."""
        rows = self.comparisons.filter(pl.col("a") == self.baseline)
        return {(r["b"], r["dataset"], r["slice"], r["metric"]): r for r in rows.iter_rows(named=True)}

    @cached_property
    def _clean_rankings(self) -> dict[tuple[Any, ...], pl.DataFrame]:
        """Return (dataset, slice) -> rows of the ranked candidates on clean inputs."""
        return self.rankings.filter(pl.col("variant") == CLEAN).partition_by("dataset", "slice", as_dict=True, maintain_order=True)

    def candidates(self, among: str, dataset: str, metric: str, slice_name: str = "all", model: str = "") -> list[dict[str, Any]]:
        """Return the rows of one ranking, the best first; [] without a ranking.

        Models that were run on a subset are ranked among each other; of several such rankings, the one with most candidates is returned.
        """
        by_leader: dict[str, list[dict[str, Any]]] = {}
        if (ranked := self._clean_rankings.get((dataset, slice_name))) is not None:
            for row in ranked.filter((pl.col("metric") == metric) & (pl.col("among") == among)).iter_rows(named=True):
                if (row["model"] or "") == model:
                    by_leader.setdefault(row["leader"], []).append(row)
        return max(by_leader.values(), key=len, default=[])

    def ranks(self, among: str, dataset: str, metric: str, slice_name: str = "all", model: str = "") -> dict[str, str]:
        """Return candidate -> `best`, or `lead` if it may be first; {} if all may, or no ranking."""
        rows = self.candidates(among, dataset, metric, slice_name, model)
        if any(r["is_best"] for r in rows):
            return {rows[0]["candidate"]: "best"}
        leaders = [r["candidate"] for r in rows if r["may_be_best"]]
        return dict.fromkeys(leaders, "lead") if len(leaders) < len(rows) else {}

    @cached_property
    def clean(self) -> dict[tuple[str, str, str, str], dict[str, Any]]:
        """Return (model, dataset, slice, metric) -> score row of clean inputs."""
        rows = pl.concat([self.scores, self.averages]).filter(pl.col("variant") == CLEAN).iter_rows(named=True)
        return {(r["model"], r["dataset"], r["slice"], r["metric"]): r for r in rows}

    @cached_property
    def abstaining(self) -> dict[str, str]:
        """Return abstaining model -> the model whose answers it gives or withholds."""
        pairs = self.abstention_rules.select("model", "method").unique(maintain_order=True).iter_rows()
        return {abstaining_name(model, method): model for model, method in pairs}

    def averaged(self, dataset: str, slice_name: str) -> Report:
        """Return a copy whose scores and rankings are one macro average, as if over all questions."""
        all_questions = pl.lit("all").alias("slice")
        of_average = (pl.col("dataset") == dataset) & (pl.col("slice") == slice_name)
        scores, rankings = (table.filter(of_average).with_columns(all_questions) for table in (self.averages, self.rankings))
        return replace(self, scores=scores, rankings=rankings, averages=self.averages.clear())

    def main_labels(self, dataset: str) -> list[Label]:
        """Return a dataset's metric labels, except of recalibrations and other conformal settings."""
        present = self.overall.filter(pl.col("dataset") == dataset)["metric"].unique(maintain_order=True).to_list()
        return [a for a in (self.labels[t] for t in present) if a.setting in ("", self.main_setting) and not a.calibrator]

    @cached_property
    def overall(self) -> pl.DataFrame:
        """Return the score rows of clean inputs over all questions (slice "all")."""
        return self.scores.filter(ALL_CLEAN)

    @cached_property
    def cells(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        """Return (model, dataset, metric) -> score row of clean inputs over all questions."""
        return {(r["model"], r["dataset"], r["metric"]): r for r in self.overall.iter_rows(named=True)}

    def value(self, model: str, dataset: str, label: str) -> float | None:
        value = self.cells.get((model, dataset, label), {}).get("value")
        return None if value is None else float(value)

    def _mean_auroc(self, dataset: str, label: Label) -> float:
        """Return a label's AUROC averaged over models, to sort estimators; 0 for other metrics."""
        values = [self.value(m, d, t) for m, d, t in self.cells if (d, t) == (dataset, label.text)] if label.plugin == "auroc" else []
        finite = [v for v in values if v is not None and math.isfinite(v)]
        return sum(finite) / len(finite) if finite else 0.0

    def quality(self, dataset: str) -> Label | None:
        """Return the metric that models are compared by first; None if none of QUALITY is there."""
        plain = [a for a in self.main_labels(dataset) if not a.estimator and not a.score]
        return next((a for name in QUALITY for a in plain if a.plugin == name), None)

    def headline(self, dataset: str, max_metrics: int = 3) -> list[Label]:
        """Return up to `max_metrics` labels for small plots: quality, set size, ECE, AUROC."""
        labels = self.main_labels(dataset)
        main = self.quality(dataset)
        rules: list[Callable[[Label], bool]] = [
            lambda a: a == main if main else "accuracy" in a.plugin and not a.score and not a.estimator,
            lambda a: a.plugin == "set_size" and a.score in ("mean", "lac"),
            lambda a: a.plugin == "ece",
            lambda a: a.plugin == "auroc",
        ]
        order = sorted(labels, key=lambda a: (a.score != "mean", "rows=all" in a.sweep, -self._mean_auroc(dataset, a)))
        chosen = [next((a for a in order if rule(a)), None) for rule in rules]
        picks = list(dict.fromkeys(a for a in chosen if a is not None))
        return (picks or labels)[:max_metrics]


def column_decimals(rows: pl.DataFrame) -> dict[str, int]:
    """Return {metric without its brackets: decimals that its narrowest interval supports}."""
    by_metric = rows.filter(pl.col("high") > pl.col("low")).group_by(metric=_family())
    narrowest = by_metric.agg(low=0.0, high=(pl.col("high") - pl.col("low")).min())
    return {row["metric"]: decimals(row) for row in narrowest.iter_rows(named=True)}


def decimals_of(results: Results) -> dict[str, int]:
    """Return {metric without brackets: decimals that its narrowest clean interval supports}."""
    return column_decimals(results.labelled().filter(ALL_CLEAN).collect())


def with_decimals(rows: pl.DataFrame, decimals_by_metric: Mapping[str, int]) -> pl.DataFrame:
    """Return the rows with a column `decimals` by metric; null for an unknown metric."""
    return rows.with_columns(decimals=_family().replace_strict(decimals_by_metric, default=None, return_dtype=pl.Int64))


def _family() -> pl.Expr:
    return pl.col("metric").str.split("[").list.first()


def model_orders(results: Results, params: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the models in (the order of the report, the order of their colours)."""
    tables = {name: results.scan(name).collect() for name in ("thresholds", "abstention_rules")}
    scores, none = results.labelled().filter(~IS_AVERAGE).collect(), pl.DataFrame()
    stage = replace(results.stage, params=dict(params))
    report = Report(stage, scores, {}, none, {}, [], none, none, none, none, none, correlations=none, **tables)
    return report.models, report.palette


def read_report(stage: Stage) -> Report:
    """Return the Report of a report stage's inputs; StageError without scores."""
    inputs, source = stage.inputs, Results(stage)
    scores = source.labelled().collect()
    if scores.is_empty():
        raise StageError(f"{inputs['scores']}: expected at least one score, found none; look at the score stage's metrics and models")
    samples = {name: source.scored_samples(name) for name in inputs.get("datasets", {})}
    names = pl.col("model", "dataset").cast(pl.Categorical)
    answers = source.verdicts().drop("variant").with_columns(names).collect()
    plots = {name: read_points(inputs[name], columns) for name, columns in POINTS.items() if inputs.get(name)}
    tables = [inputs["scores"], *(p for k in ("judgements", "uncertainties", "sets") if (p := inputs.get(k)))]
    tables += [p for files in inputs.get("generations", {}).values() for p in files.values()]
    of = column_decimals(scores.filter(ALL_CLEAN))
    of_tables = {name: source.scan(name).collect() for name in TABLES}
    scores = with_decimals(scores, of)
    return Report(
        stage,
        scores.filter(~IS_AVERAGE),
        samples,
        answers.filter(~pl.col("model").is_in([name for name in answers["model"].unique() if baseline_model(name)])),
        plots,
        [read_provenance(Path(p)) for p in tables],
        scores.filter(IS_AVERAGE),
        **{name: with_decimals(table, of) if "metric" in table.columns else table for name, table in of_tables.items()},
    )


POINTS = {
    "reliability": ("model", "dataset", "bin_low", "bin_high", "confidence", "accuracy", "n"),
    "risk_coverage": ("model", "dataset", "coverage", "risk"),
    "set_sizes": ("model", "dataset", "setting", "score", "size", "count"),
    **{name: tuple(columns) for name, columns in perturbation.FIELDS.items()},
    "metric_study": ("dataset", "slice", "metric", "model", "value", "confidence_weighted_accuracy"),
}
"""Columns of the points of each plot."""
