"""`qualm.score` and `qualm.compare`: metrics with intervals, and paired tests, of answers in any table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from qualm.compiler.results.array_columns import INDICES, ArgumentError, check_values, floats, frame
from qualm.compiler.results.array_functions import check_settings, reference
from qualm.compiler.spec.errors import nearest
from qualm.compiler.spec.language import Margin
from qualm.registry.plugins.column_names import CODE_OF, GROUP_OF, MARKED_BY, RATED_BY, SCORED, SET_COLUMNS
from qualm.registry.plugins.columns import field_of
from qualm.registry.plugins.registry import MAX_EXACT, MAX_NUMBER
from qualm.registry.sample import SAMPLES
from qualm.runners.scoring.measuring.labels import Labels

if TYPE_CHECKING:
    import polars as pl

    from qualm.runners.scoring.cells import Cell
    from qualm.runners.scoring.measuring.metrics import Metric

_KEYS = {"metric": str, "parameters": str, "uncertainty": str}
_ENDS = {"low": float, "high": float, "level": float}
MetricName = str | Mapping[str, Any]
UNCERTAINTY = "uncertainty"


class Resampling(BaseModel):
    """Validator of the arguments of `score` and `compare` on intervals and tests."""

    model_config = ConfigDict(strict=True)
    level: float = Field(gt=0, lt=1)
    resamples: int = Field(ge=0, le=MAX_NUMBER)
    seed: int = Field(ge=0, le=MAX_EXACT)
    correction: Literal["max_t", "holm", "benjamini_hochberg", "none"] = "none"
    margin: Margin | dict[str, Margin] | None = None


def score(
    table: Any,
    metrics: Sequence[MetricName],
    *,
    uncertainties: Sequence[str] = (UNCERTAINTY,),
    groups: str | None = None,
    by: Sequence[str] = (),
    macro_averages: Sequence[str] = (),
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> pl.DataFrame:
    """Return a data frame: one row per metric, uncertainty and slice, with interval.

    The interval is the one that a spec's report has: resamples of whole groups, by the method that the metric declares
    (`qualm.runners.scoring.limits`). Rows that lack what a metric reads are left out of it and counted.

    Args:
        table: A row for each answer (Polars, pandas, Arrow, or a mapping of columns), with columns named as metrics read them: `correct`
            and `confidence` in [0, 1], `answerable`, `uncertain`, `option_probabilities`, `right_option`, `pred_is_idk`... `qualm ls
            metrics NAME` says what a metric reads. Of options `correct`, `confidence` and `predicted` follow where they are not there.
            `people_rating` holds people's ratings in [0, 1], null for answers without one; `labelled` follows from it.
        metrics: Names, or {name: {parameters}}, as in a spec.
        uncertainties: Columns that hold uncertainties, HIGHER = MORE UNCERTAIN; a metric that reads `uncertainty` is computed for each.
        groups: The column by which rows belong together (of one image, say); without it every row is taken for independent.
        by: Columns by whose values every metric is computed too.
        macro_averages: Columns over whose values every metric is averaged too, each value counting alike (slice `macro:COLUMN`). It is
            undefined if one of the values is.
        level: Of the intervals.
        resamples: How many.
        seed: Of the resamples.

    Returns:
        A row for each slice, metric and uncertainty: `slice`, `metric`, `parameters` (JSON), `uncertainty`, `value`, `low`, `high`,
        `level`, `interval` (its method), `n`, `n_unscored`, `n_groups`, `n_resamples`, `n_undefined_resamples`, `scored_share`,
        `value_if_wrong` and `value_if_right` (if all unread answers were), `chance` (of an uncertainty without information),
        `higher_is_better`, `why` (it is undefined), `why_no_interval`. What is undefined is null.

    Raises:
        ArgumentError: a metric reads a column that the table does not have, a column holds a value that it cannot have (the message names
            the row), the table is empty, or another argument is out of its range.

    Example:
        >>> import qualm
        >>> answers = {"correct": [1, 1, 0, 1, 0, 1, 1, 0], "confidence": [.9, .8, .7, .9, .4, .6, .9, .5]}
        >>> table = qualm.score(answers, ["accuracy", {"ece": {"bins": 5}}], resamples=200)
        >>> [(row["metric"], round(row["value"], 3), row["n"]) for row in table.to_dicts()]
        [('accuracy', 0.625, 8), ('ece', 0.212, 8)]
    """
    import polars as pl

    from qualm.runners.runtime.threads import one_thread
    from qualm.runners.scoring.measuring.evaluate import evaluate
    from qualm.runners.scoring.measuring.intervals import interval_columns, intervals
    from qualm.runners.scoring.measuring.slices import make_slices

    check_settings(Resampling, level=level, resamples=resamples, seed=seed)
    chosen = _metrics(metrics)
    answers = frame(table)
    cell = _build_cell(answers, "", uncertainties, groups, [*by, *macro_averages, *_fields(chosen)])
    _check_columns(chosen, [cell], uncertainties)
    labels, rows = _labels(chosen), list[dict[str, Any]]()
    with one_thread():
        for part in make_slices(cell.samples, list(by), resamples, seed, macro_averages):
            with _argument_errors():
                values = evaluate(chosen, cell, part)
            limits = intervals([measured for _, measured in values], level, part.bootstrap.groups)
            for (label, measured), ends in zip(values, limits, strict=True):
                facts = interval_columns(measured, ends, level)
                rows.append(
                    {
                        "slice": part.label,
                        **_named(label, labels),
                        "value": measured.value,
                        "low": ends.low,
                        "high": ends.high,
                        "level": level,
                    }
                    | {"interval": facts["interval"], "n": measured.n, "n_unscored": measured.n_unscored}
                    | {
                        name: facts[name]
                        for name in (
                            "scored_share",
                            "value_if_wrong",
                            "value_if_right",
                            "chance",
                            "n_groups",
                            "n_resamples",
                            "n_undefined_resamples",
                        )
                    }
                    | {"why": measured.why or measured.why_unscored or None, "why_no_interval": facts["why_no_interval"]}
                )
    return pl.DataFrame(rows, schema=_scores_schema()).with_columns(pl.col("value", "low", "high").fill_nan(None))


def compare(
    a: Any,
    b: Any,
    metrics: Sequence[MetricName],
    *,
    on: str | None = None,
    uncertainties: Sequence[str] = (UNCERTAINTY,),
    groups: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    margin: float | dict[str, float] | None = None,
    correction: str = "max_t",
    seed: int = 0,
) -> pl.DataFrame:
    """Return a data frame: b minus a for each metric, with interval and paired test.

    The test is Student's t over whole groups (`qualm.runners.scoring.paired_tests`); p-values are corrected over all metrics of the call,
    together. That none is found is no evidence that there is no difference: `margin` tests for that. Calibration errors are compared by
    the squared bias-corrected one.

    Args:
        a: The answers of one model, as `score` takes them.
        b: Those of the other, to the same questions.
        metrics: Names, or {name: {parameters}}.
        on: The column that names the question; without it row i of both is the same question.
        uncertainties: Columns that hold uncertainties.
        groups: The column by which rows belong together, in `a`.
        level: Of the intervals.
        resamples: Of the intervals.
        margin: Largest difference that does not matter, of all shares and correlations or by metric.
        correction: `max_t`, `holm`, `benjamini_hochberg` or `none`.
        seed: Of both.

    Returns:
        A row for each metric and uncertainty: `metric`, `parameters`, `uncertainty`, `a`, `b`, `difference`, `low`, `high`, `level`, `p`,
        `margin`, `p_equivalent` and `p_not_worse` (corrected: below .05, b is equal to a within the margin, or not worse by more), `why`
        (reason without p), `compared_by` (the unbiased metric, squared, whose values these are),
        `p_adjusted`, `n`, `scored_share_a` and `scored_share_b` (of each side by itself; the test is over rows that both have),
        `higher_is_better`, and `better`: "a" or "b" where the corrected test finds a difference, else null.

    Raises:
        ArgumentError: the tables do not fit together, a metric reads what they do not have, or a margin is of no metric here.

    Example:
        >>> import qualm
        >>> a, b = {"correct": [0, 1, 0, 0, 0, 0, 0, 0]}, {"correct": [1, 1, 1, 1, 1, 1, 1, 0]}
        >>> table = qualm.compare(a, b, ["accuracy"], resamples=200)
        >>> table.select("difference", "better").rows()
        [(0.75, 'b')]
    """
    import polars as pl

    from qualm.runners.runtime.threads import one_thread
    from qualm.runners.scoring.bootstrap import Bootstrap
    from qualm.runners.scoring.families import Family, verdict
    from qualm.runners.scoring.measuring.measured import Slice
    from qualm.runners.scoring.paired_tests import compare as tested

    check_settings(Resampling, level=level, resamples=resamples, seed=seed, correction=correction, margin=margin)
    chosen = _metrics(metrics)
    _check_margins(margin, chosen)
    mine, yours = _aligned(frame(a), frame(b), on)
    fields = _fields(chosen)
    if groups is not None and groups not in yours.columns and groups in mine.columns:
        yours = yours.with_columns(mine[groups])
    cells = [_build_cell(answers, name, uncertainties, groups, fields) for answers, name in ((mine, "a"), (yours, "b"))]
    _check_columns(chosen, cells, uncertainties)
    one, other = cells
    part = Slice("all", np.arange(one.samples.n), Bootstrap(one.samples.groups, resamples, seed, one.samples.name, "all"))
    family = Family(correction, "study")
    labels, rows = _labels(chosen), list[dict[str, Any]]()
    with one_thread(), _argument_errors():
        for test in tested(chosen, one, other, part, level, margin):
            rows.append({"dataset": "", "slice": "all", "level": level, **test.row})
            family.add(rows[-1], test.evidence)
    family.correct()
    sides = {"better": "b", "worse": "a", "different": None, "": None}
    for row in rows:
        row["better"] = sides[verdict(row["p_adjusted"], row["difference"], row["higher_is_better"])]
        row |= {"a": row["value_a"], "b": row["value_b"], **_named(row["metric"], labels)}
    schema = _differences_schema()
    return pl.DataFrame([{name: row[name] for name in schema} for row in rows], schema=schema)


def _scores_schema() -> dict[str, Any]:
    import polars as pl

    counts = {name: pl.Int64 for name in ("n", "n_unscored", "n_groups", "n_resamples", "n_undefined_resamples")}
    shares = {name: pl.Float64 for name in ("scored_share", "value_if_wrong", "value_if_right", "chance")}
    why = shares | {"higher_is_better": pl.Boolean, "why": pl.String, "why_no_interval": pl.String}
    return {"slice": pl.String, **_KEYS, "value": pl.Float64, **_ENDS, "interval": pl.String, **counts, **why}


def _differences_schema() -> dict[str, Any]:
    import polars as pl

    shares = {"scored_share_a": pl.Float64, "scored_share_b": pl.Float64}
    margins = {name: pl.Float64 for name in ("margin", "p_equivalent", "p_not_worse")}
    p = {"p": pl.Float64, "p_adjusted": pl.Float64, "n": pl.Int64, **shares, "higher_is_better": pl.Boolean, "better": pl.String}
    p |= margins | {"why": pl.String, "compared_by": pl.String}
    return {**_KEYS, "a": pl.Float64, "b": pl.Float64, "difference": pl.Float64, **_ENDS, **p}


@contextmanager
def _argument_errors() -> Iterator[None]:
    """Turn a StageError in the block into an ArgumentError."""
    from qualm.runners.runtime.stage import StageError

    try:
        yield
    except StageError as error:
        raise ArgumentError(str(error)) from error


def _metrics(metrics: Sequence[MetricName]) -> list[Metric]:
    from qualm.runners.scoring.cells import INPUT_CHANGED, PAIRED
    from qualm.runners.scoring.measuring.metrics import read_metrics

    if isinstance(metrics, str | Mapping):
        metrics = [metrics]
    if not metrics:
        raise ArgumentError("metrics: expected at least one, got none")
    refs = [reference("metrics", item) for item in metrics]
    labels = [ref.label for ref in refs]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise ArgumentError(f"metrics: got {', '.join(twice)} twice; name each once")
    for ref in refs:
        if SET_COLUMNS & set(ref.reads):
            raise ArgumentError(f"{ref.label} is over conformal sets: see `qualm.conformal.calibrate`, or write a spec with `conformal:`")
        if paired := (PAIRED | {INPUT_CHANGED}) & set(ref.reads):
            raise ArgumentError(f"{ref.label} reads {', '.join(sorted(paired))} of perturbed answers: write a spec with `perturbations:`")
    return read_metrics([ref.as_json() for ref in refs])


def _check_margins(margin: float | Mapping[str, float] | None, metrics: Sequence[Metric]) -> None:
    """Raise ArgumentError if a margin names no metric of the call, or one without margins."""
    of_label = {metric.label: metric for metric in metrics}
    for label in margin if isinstance(margin, Mapping) else ():
        if label not in of_label:
            raise ArgumentError(f"margin: expected one of `metrics`, got '{label}'; {nearest(label, of_label)}")
        if by := of_label[label].plugin.declares.get("compared_by"):
            raise ArgumentError(f"margin: {label} is compared by the square of {by}, to which no margin applies; leave it out")


def _fields(metrics: Sequence[Metric]) -> list[str]:
    return [field_of(column) for metric in metrics for column in metric.reads if column.startswith((GROUP_OF, CODE_OF))]


def _build_cell(answers: pl.DataFrame, model: str, uncertainties: Sequence[str], groups: str | None, fields: Sequence[str]) -> Cell:
    """Return a table of one model's answers as a `Cell`; ArgumentError if invalid.

    Args:
        answers: a row per answer.
        model: the model's name, "" if unknown.
        uncertainties: names of the columns of uncertainties; missing ones are skipped.
        groups: the column that names each row's group, None without groups.
        fields: further columns to keep, as text.

    Raises:
        ArgumentError: the table has no rows, lacks a column or has invalid values.
    """
    from qualm.runners.data.aligned import Samples
    from qualm.runners.scoring.cells import Cell

    for name in (*([groups] if groups else []), *(field for field in fields if field != "group")):
        if name not in answers.columns:
            raise ArgumentError(f"the table has no column '{name}'; {nearest(name, answers.columns)}")
    n = answers.height
    if not n:
        raise ArgumentError(f"the table{f' {model}' * bool(model)} has no rows")
    own = {name: floats(name, answers[name]) for name in answers.columns if name in SCORED or name.startswith((RATED_BY, MARKED_BY))}
    own.pop("weights", None)
    own.pop(UNCERTAINTY, None)
    for name, values in own.items():
        check_values(name, values)
    if "people_rating" in own:
        own.setdefault("labelled", (~np.isnan(own["people_rating"])).astype(np.float64))
        own["people_rating"] = np.where(own["labelled"] == 0, 0.0, own["people_rating"])
    probabilities = own.get("option_probabilities")
    sizes = np.zeros(n, dtype=np.int64)
    if probabilities is not None:
        sizes = np.array([0 if row is None else len(row) for row in answers["option_probabilities"].to_list()])
        _check_options(own, probabilities, sizes)
        own = _of_options(own, probabilities, sizes)
    truth = own.get("right_option", np.full(n, np.nan))
    samples = {name: pa.nulls(n, SAMPLES.field(name).type) for name in SAMPLES.names}
    samples |= {
        "sample_id": pa.array([str(place) for place in range(n)]),
        "choices": pa.array([[""] * size or None for size in sizes.tolist()], pa.list_(pa.string())),
        "answer_index": pa.array([None if value != value else int(value) for value in truth.tolist()], pa.int16()),
    }
    for name in dict.fromkeys(field for field in fields if field != "group"):
        samples[name] = pa.array([None if value is None else str(value) for value in answers[name].to_list()], pa.string())
    if groups:
        samples["group"] = pa.array([None if value is None else str(value) for value in answers[groups].to_list()], pa.string())
    rows = Samples("", pa.table(samples))
    own = {"fold": rows.fold, **own}
    named = {name: floats(name, answers[name]) for name in uncertainties if name in answers.columns}
    return Cell(model, rows, "clean", own, {}, named)


def _check_options(columns: Mapping[str, Any], probabilities: Any, n_options: Any) -> None:
    """Raise ArgumentError unless probabilities (n, K) sum to 1 and option indices exist.

    `columns` is {name: values (n,)}, `n_options` (n,); rows without options are not checked.
    """
    if probabilities.ndim != 2 or not probabilities.shape[1]:
        raise ArgumentError("option_probabilities: expected a list of numbers for each row, or null")
    sums = probabilities.sum(axis=1)
    if (wrong := np.flatnonzero((n_options > 0) & (np.abs(sums - 1) > 1e-3))).size:
        raise ArgumentError(f"option_probabilities: row {wrong[0]}: expected numbers that sum to 1, got a sum of {sums[wrong[0]]:g}")
    for name in INDICES:
        if name in columns and (wrong := np.flatnonzero((n_options > 0) & (columns[name] >= n_options))).size:
            place = wrong[0]
            raise ArgumentError(
                f"{name}: row {place}: expected an option index from 0 to {n_options[place] - 1} ({n_options[place]} options), "
                f"got {columns[name][place]:g}"
            )


def _of_options(columns: dict[str, Any], probabilities: Any, n_options: Any) -> dict[str, Any]:
    """Return the columns and those that follow from option probabilities (n, K).

    `columns` is {name: values (n,)}, whose values are kept; `n_options` is (n,).
    """
    from qualm.runners.scoring.measuring.columns import option_columns

    known = np.where(np.isnan(probabilities).any(axis=1)[:, None], np.nan, probabilities)
    derived = option_columns(known, n_options, columns.get("right_option", np.full(len(n_options), np.nan)))
    if "right_option" not in columns:
        del derived["correct"]
    return {**derived, **columns}


def _check_columns(metrics: Sequence[Metric], cells: Sequence[Cell], uncertainties: Sequence[str]) -> None:
    """Raise ArgumentError if a metric reads a column that a cell lacks."""
    for cell in cells:
        for metric in metrics:
            reads = frozenset(metric.reads)
            if missing := sorted(reads - cell.available_columns(reads)):
                where = f" of {cell.model}" if cell.model else ""
                hint = f" (none of {', '.join(uncertainties)})" if UNCERTAINTY in missing else ""
                raise ArgumentError(
                    f"{metric.label} reads {', '.join(missing)}{hint}, which the table{where} does not have; "
                    f"it has {', '.join(sorted({*cell.columns} - {'fold'})) or 'no column that metrics read'}"
                )


def _labels(metrics: Sequence[Metric]) -> Labels:
    return Labels({"metrics": [{"label": m.label, "plugin": m.plugin.name, "args": m.args} for m in metrics]})


def _named(label: str, labels: Labels) -> dict[str, Any]:
    parts = labels.parts(label)
    return {name: parts[name] for name in ("metric", "parameters", "higher_is_better")} | {UNCERTAINTY: parts["estimator"]}


def _aligned(a: pl.DataFrame, b: pl.DataFrame, on: str | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return (a, b) with shared values of `on` in a's order, all if None; else ArgumentError."""
    if on is None:
        if a.height != b.height:
            raise ArgumentError(f"expected as many answers of both, got {a.height:,} and {b.height:,}; name the question's column by `on`")
        return a, b
    for name, table in (("a", a), ("b", b)):
        if on not in table.columns:
            raise ArgumentError(f"{name} has no column '{on}'; {nearest(on, table.columns)}")
        if table[on].n_unique() < table.height:
            raise ArgumentError(
                f"{name}: values of '{on}' are not distinct, so rows cannot be paired by it; name a column that is different in every row"
            )
    import polars as pl

    try:
        shared = a.join(b.select(on), on=on, how="semi", maintain_order="left")
    except (pl.exceptions.SchemaError, pl.exceptions.InvalidOperationError):
        raise ArgumentError(
            f"'{on}' is of type {a[on].dtype} in a and {b[on].dtype} in b, so rows cannot be paired by it; convert one of the two"
        ) from None
    if not shared.height:
        raise ArgumentError(f"a and b have no value of '{on}' in common; name the question's column by `on`")
    return shared, shared.select(on).join(b, on=on, how="left", maintain_order="left")
