"""Warnings on score tables: many unscored answers, no value, a collapse. For terminal and report."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry.plugins import registry
from qualm.registry.sample import CLEAN, MACRO
from qualm.registry.text import visible
from qualm.runners.data.aligned import Floats, Samples
from qualm.runners.scoring.answer_text import words_of
from qualm.runners.scoring.measuring.labels import in_brackets, metric_of, plugin_of
from qualm.runners.scoring.rankings import MIN_GROUPS

Row = Mapping[str, Any]
ALL = "all"
MAX_NAMES = 4
"""Models that a line of the terminal names."""
SENTENCE_WORDS = 5
"""Words, without articles, from which the median answer counts as a sentence: `lexical` knows no paraphrases."""
MAX_DISPUTED = 0.02
"""Share of answers on which log and judge may disagree without a warning."""
MAX_EXAMPLES = 5
RIGHT_FROM = 0.5
"""The least rating that counts as right, of theirs and ours."""


def unscored_warnings(rows: Iterable[Row], shorten: bool = False) -> list[str]:
    """Return warnings of unscored clean answers, by dataset, share, reason and metrics.

    With `shorten`, only the first two of more than MAX_NAMES models are named.
    """
    metrics_of: dict[tuple[str, str, int, int, str], list[str]] = {}
    for row in rows:
        # With scored rows, `why` of an undefined value is about those and not about the unscored ones.
        about_unscored = row["n_unscored"] and (row["value"] is not None or not row["n"])
        if (row["variant"], row["slice"]) == (CLEAN, ALL) and row.get("why") and about_unscored:
            key = (row["dataset"], row["model"], row["n_unscored"], row["n"] + row["n_unscored"], row["why"])
            metrics_of.setdefault(key, []).append(row["metric"])
    models_of: dict[tuple[str, int, int, str, str], list[str]] = {}
    for (dataset, model, unscored, total, why), metrics in metrics_of.items():
        models_of.setdefault((dataset, unscored, total, why, ", ".join(dict.fromkeys(map(metric_of, metrics)))), []).append(model)
    return [
        f"{dataset}, {_names(models, shorten)}: {_share(unscored, total, ' of each' if len(models) > 1 else '')} not scored "
        f"({metrics}): {why}"
        for (dataset, unscored, total, why, metrics), models in models_of.items()
    ]


def _names(models: Sequence[str], shorten: bool) -> str:
    if not shorten or len(models) <= MAX_NAMES:
        return ", ".join(models)
    return f"{len(models)} models, such as {models[0]} and {models[1]}; the report names all"


def _join_labels(labels: Iterable[str]) -> str:
    """Return metric labels joined by commas; those of one metric share its brackets."""
    settings_of: dict[str, list[str]] = {}
    for label in labels:
        setting = in_brackets(label)
        settings_of.setdefault(metric_of(label), []).extend([setting] if setting else [])
    return ", ".join(name + (f"[{', '.join(settings)}]" if settings else "") for name, settings in settings_of.items())


def collapse_warnings(rows: Iterable[Row]) -> list[str]:
    """Return a warning for each model and dataset with variants under which it collapses."""
    of: dict[tuple[str, str], dict[str, str | None]] = {}
    for row in rows:
        if row["variant"] != CLEAN and row["slice"] == ALL:
            of.setdefault((row["dataset"], row["model"]), {})[row["variant"]] = row.get("collapsed")
    lines = []
    for (dataset, model), reasons in of.items():
        names = [f"{variant} ({why})" for variant, why in reasons.items() if why]
        if names:
            lines.append(
                f"{dataset}, {model}: the model collapses under {len(names):,} of {len(reasons):,} variants, which means over "
                f"perturbations leave out: {'; '.join(names)}"
            )
    return lines


def lexical_warnings(rows: Iterable[Row]) -> list[str]:
    """Return a warning per dataset and model on estimators that compare by words alone."""
    return _of_model(rows, "caution")


def dispute_warnings(rows: Iterable[Row]) -> list[str]:
    """Return a warning per dataset and model whose log disagrees with the judge."""
    return _of_model(rows, "disputed")


def _of_model(rows: Iterable[Row], column: str) -> list[str]:
    texts = {(row["dataset"], row["model"]): row[column] for row in rows if row.get(column)}
    return [f"{dataset}, {model}: {text}" for (dataset, model), text in texts.items()]


def few_group_warnings(rows: Iterable[Row]) -> list[str]:
    """Return a warning per dataset whose ranking of clean answers has too few groups."""
    groups: dict[str, int] = {}
    candidates: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        if (row["variant"], row["slice"]) == (CLEAN, ALL) and row["value"] is not None and row.get("n_groups") is not None:
            groups[row["dataset"]] = max(groups.get(row["dataset"], 0), row["n_groups"])
            candidates.setdefault((row["dataset"], metric_of(row["metric"])), set()).add(f"{row['model']} {row['metric']}")
    several = {dataset for (dataset, _), names in candidates.items() if len(names) > 1}
    return [
        f"{dataset}: no ranking was tested: that needs {MIN_GROUPS} groups of questions, and {n} have a score"
        for dataset, n in groups.items()
        if n < MIN_GROUPS and dataset in several
    ]


def metric_notes(rows: Iterable[Row], intervals: bool = True, shorten: bool = False) -> list[str]:
    """Return sentences on metrics' assumptions, and on values or intervals that are missing.

    A metric of which this holds in several conformal settings has one line, with their names. Macro averages count as all questions. Other
    slices say nothing here: one in which every answer is right has no order of right and wrong ones, and that is no news.

    Without `intervals`, what lacks only an interval is left out. `shorten` names only the first two of more than MAX_NAMES models.
    """
    models_of: dict[tuple[str, str, str, str], list[str]] = {}
    valued: dict[str, None] = {}
    for row in rows:
        if row["value"] is not None:
            valued[plugin_of(row["metric"])] = None
        of_all = row["slice"] == ALL or row["slice"].startswith(MACRO)
        here = row["variant"] == CLEAN and of_all
        if row["value"] is None and row.get("why") and (row["n"] or not row["n_unscored"]) and of_all:
            what, why = "is undefined", row["why"]
        elif intervals and row["value"] is not None and here and row.get("why_no_interval"):
            what, why = "has no interval", row["why_no_interval"]
        else:
            continue
        place = row["dataset"] if row["slice"] == ALL else f"{row['dataset']} {row['slice']}"
        models = models_of.setdefault((place, row["metric"], what, why), [])
        models += [] if row["model"] in models else [row["model"]]
    labels_of: dict[tuple[str, str, str, str, str], list[str]] = {}
    for (dataset, metric, what, why), models in models_of.items():
        labels_of.setdefault((dataset, metric_of(metric), what, _names(models, shorten), why), []).append(metric)
    known = registry.names("metrics")
    assumes = {name: registry.get("metrics", name).declares.get("assumes") for name in valued if name in known}
    return [f"{name} assumes that {condition}" for name, condition in assumes.items() if condition] + [
        f"{dataset}: {_join_labels(labels)} {what} ({who}): {why}" for (dataset, _, what, who, why), labels in labels_of.items()
    ]


def _share(unscored: int, total: int, each: str) -> str:
    return f"all {total:,} answers{each} are" if unscored == total else f"{unscored:,} of {total:,} answers{each} are"


def lexical_sentences(texts: Sequence[str], estimators: Sequence[str]) -> str:
    """Return a warning if estimators compare words alone and answers are sentences, or "".

    `texts` are one model's greedy answers to open questions, `estimators` the labels of those with `nli: lexical` that have values.
    """
    lengths = [len(words) for text in texts if (words := words_of(text))]
    if not estimators or not lengths or np.median(lengths) < SENTENCE_WORDS:
        return ""
    return (
        f"{', '.join(estimators)}: compared by words alone (`nli: lexical`, the default), though the median answer has "
        f"{np.median(lengths):g} words; paraphrases then count as different meanings. Choose `nli: {{hf: {{hub: MODEL}}}}`, an NLI model"
    )


def describe_dispute(samples: Samples, answers: pa.Table, correct: Floats, where: str) -> str:
    """Return a warning if log and judge differ on over 2% of the answers; otherwise "".

    `answers` are one model's greedy answers, with `text` and, if the log has verdicts, `verdict`; `correct` (n,) is NaN where unscored.
    """
    if "verdict" not in answers.column_names or not pc.any(pc.is_valid(answers["verdict"])).as_py():
        return ""
    rows = samples.rows_of(answers["sample_id"], where)
    theirs = np.asarray(pc.fill_null(answers["verdict"], np.nan).to_numpy(), dtype=np.float64)
    ours = correct[rows]
    both = ~np.isnan(theirs) & ~np.isnan(ours)
    others = np.flatnonzero(both & ((theirs >= RIGHT_FROM) != (ours >= RIGHT_FROM)))
    if len(others) <= MAX_DISPUTED * both.sum():
        return ""
    shown = answers.take(pa.array(others[:MAX_EXAMPLES])).select(["sample_id", "text"]).to_pylist()
    references = samples.table["references"].take(pa.array(rows[others[:MAX_EXAMPLES]])).to_pylist()
    examples = [
        f"{_short(row['sample_id'])}: answer {_short(row['text'])}, reference {_short(' | '.join(of or ()))}, "
        f"log {'right' if theirs[k] >= RIGHT_FROM else 'wrong'}, ours {'right' if ours[k] >= RIGHT_FROM else 'wrong'}"
        for row, of, k in zip(shown, references, others, strict=False)
    ]
    return f"on {len(others):,} of {both.sum():,} answers the log's own verdict is another one than the judge's: {'; '.join(examples)}"


def _short(text: str | None) -> str:
    line = " ".join((text or "").split())
    return repr(visible(line if len(line) <= 60 else f"…{line[-58:]}", 60))
