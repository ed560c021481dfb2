"""`qualm show --failures N`: wrong answers in the terminal, the most confident first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from qualm.compiler.project.checkout import Project
from qualm.compiler.results.integrity import report_changed
from qualm.compiler.results.scores import read_spec_results
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.registry import CLEAN, option_label
from qualm.registry.parameters import nested_paths
from qualm.registry.system.console import Console
from qualm.registry.text import print_json

MAX_TEXT = 500
"""Characters of a question or answer that are printed."""
FIELDS = ("model", "dataset", "variant", "sample_id", "category", "question", "text", "confidence")


def show_failures(
    project: Project,
    spec: str | None,
    limit: int,
    models: Sequence[str] | None,
    datasets: Sequence[str] | None,
    variants: Sequence[str] | None,
    as_json: bool,
) -> None:
    """Print the `limit` most confident wrong answers, to clean questions by default.

    Raises:
        ProjectError: a name is none of this spec's, or nothing was run yet.
    """
    import polars as pl

    results = read_spec_results(project, spec)
    for name in datasets or ():
        if name not in results.datasets:
            raise ProjectError(f"'{results.spec}' has no dataset '{name}'; {nearest(name, results.datasets)}")
    report_changed(project.root, nested_paths(results.inputs))
    parts = [results.answers(model, variant=variant) for variant in variants or [CLEAN] for model in models or (None,)]
    answers = pl.concat(parts, how="diagonal_relaxed").filter(pl.col("dataset").is_in(datasets or results.datasets))
    wrong = answers.filter(pl.col("correct") <= 0).sort("confidence", descending=True, nulls_last=True, maintain_order=True)
    shown = [_failure(row) for row in wrong.head(limit).iter_rows(named=True)]
    if as_json:
        print_json(shown)
        return
    console = Console()
    for failure in shown:
        place = [failure["model"], failure["dataset"], *([failure["variant"]] if failure["variant"] != CLEAN else []), failure["sample_id"]]
        console.print(Text(" · ".join(filter(None, [*place, failure["category"]])), style="dim"), soft_wrap=True)
        for name in ("question", "expected", "answer"):
            console.print(Text.assemble((f"  {name:<10} ", "dim"), " ".join(failure[name].split())[:MAX_TEXT]), soft_wrap=True)
        sure = failure["confidence"]
        console.print(Text.assemble(("  confidence ", "dim"), say.NO_CONFIDENCE if sure is None else f"{sure:.3f}"))
        console.print()
    unscored = answers["correct"].null_count()
    counts = say.FAILURES_SUMMARY.format(shown=len(shown), wrong=wrong.height, answers=answers.height)
    console.print(Text(counts + (say.FAILURES_UNSCORED.format(n=unscored) if unscored else ""), style="dim"))


def _failure(row: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: row[name] for name in FIELDS}
    return found | {"question": row["question"] or "", "expected": expected_answer(row), "answer": given_answer(row)}


def expected_answer(sample: Mapping[str, Any]) -> str:
    """Return the reference answer as text: option, references, "an abstention" or "".

    >>> expected_answer({"choices": ["red", "blue"], "answer_index": 1})
    'B. blue'
    >>> expected_answer({"references": ["2", "two", "2"], "choices": []})
    '2 / two'
    >>> expected_answer({"references": [], "answerable": False})
    'an abstention'
    """
    choices, index = sample.get("choices") or [], sample.get("answer_index")
    if index is not None and 0 <= index < len(choices):
        return option(choices, index)
    references = " / ".join(dict.fromkeys(sample.get("references") or ()))
    return references or ("an abstention" if sample.get("answerable") is False else "")


def given_answer(answer: Mapping[str, Any]) -> str:
    """Return the answer's text, its option if the text is under 2 characters, or "no answer".

    "no answer" is followed by the reason, if one is known.
    """
    text, choices, index = (answer["text"] or "").strip(), answer["choices"] or [], answer.get("predicted")
    if index is not None and 0 <= index < len(choices) and len(text) < 2:
        return option(choices, index)
    return text or f"no answer{f': {reason}' if (reason := answer.get('no_answer')) else ''}"


def option(choices: Sequence[str], index: int) -> str:
    return f"{option_label(index)}. {choices[index]}"
