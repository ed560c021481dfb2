"""Collect everything about single questions: prompts, answers, signals, judgements."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import polars as pl

from qualm.compiler.viewing.answers import AnswerTable
from qualm.compiler.viewing.chunks import finite
from qualm.compiler.viewing.model_inputs import ModelInputs
from qualm.registry import LETTERS
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.sample import CLEAN, GREEDY
from qualm.runners.prompts.few_shot import user_turn

OF_GREEDY = (
    *("text", "thinking", "no_answer", "token_logprobs", "token_entropies", "option_logits"),
    *("p_true", "p_true_sampling", "p_yes", "said_confidence", "input_digest"),
)
OF_JUDGES = ("judge", "rating", "pred_is_idk", "gt_is_idk", "hedges", "reply", "parse_ok", "marks")
MEASURED = ("correct", "confidence", "predicted", "clean_correct", "input_changed")
MAX_TEXT = 20_000
"""Maximum characters of a text on a sample's page."""
SETS = ("setting", "score", "is_calibration", "covered", "set_mask", "set_size")

Key = tuple[str, str, str]
"""Model, variant, sample."""


def details(answers: AnswerTable, model_inputs: ModelInputs, samples: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a JSON record per question: texts, prompts, and the values of all answers."""
    rows = answers.rows.hstack(answers.percentiles).filter(pl.col("sample").is_in(samples["sample"].implode()))
    of: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for (dataset,), part in rows.partition_by("dataset", as_dict=True, maintain_order=True).items():
        ids = part["sample_id"].unique().to_list()
        generations = _generations(answers, dataset, part["model"].unique(maintain_order=True).to_list(), ids)
        judged = _table(answers, "judgements", dataset, ids, (*OF_JUDGES, "draw"))
        sets = _table(answers, "sets", dataset, ids, SETS)
        for row in part.iter_rows(named=True):
            key = (*answers.results.answer_source(row["model"], row["variant"]), row["sample_id"])
            row_key = (row["model"], row["variant"], row["sample_id"])
            of[row["sample"]].append(_answer(row, generations.get(key, []), judged.get(key, []), sets.get(row_key, [])))
    return [_question(model_inputs, row, of[row["sample"]]) for row in samples.iter_rows(named=True)]


def _question(model_inputs: ModelInputs, row: Mapping[str, Any], answer_rows: list[dict[str, Any]]) -> dict[str, Any]:
    question = row["question"] or ""
    sample = {"question": question, "choices": row["choices"] or [], "meta": dict(_pairs(row.get("meta")))}
    of_models = model_inputs.prompts.get(row["dataset"], [{}])

    def user_messages(text: str) -> list[str]:
        """Return the distinct user turns, shortened; [] for more options than prompts can letter."""
        if len(sample["choices"]) > len(LETTERS):
            return []
        return [_cut(turn) for turn in dict.fromkeys(user_turn(prompt, sample, text) for prompt in of_models)]

    variants = dict.fromkeys(answer["variant"] for answer in answer_rows)
    texts = model_inputs.questions(row["dataset"], row["sample_id"], variants)
    return {
        "id": row["sample_id"],
        "dataset": row["dataset"],
        "question": _cut(question),
        "prompts": user_messages(question),
        "variants": {
            name: {"question": _cut(text), "prompts": user_messages(text), "changes": changed_words(question, text)}
            for name, text in texts.items()
            if text != question
        },
        "missing": model_inputs.missing(row["dataset"], picture_ids(row["image_id"])),
        "category": row["category"],
        "answerable": row["answerable"],
        "source": row["source"],
        "group": row["group"],
        "pair": row["pair_id"],
        "image": row["image_id"],
        "meta": {key: _cut(value) for key, value in _pairs(row.get("meta"))},
        "answers": answer_rows,
    }


def changed_words(old: str, new: str) -> list[tuple[str, str, str]]:
    """Return the words of two texts in order, as (common, removed, added) runs.

    >>> changed_words("What is the size?", "Ahar is teh old size?")
    [('', 'What', 'Ahar'), ('is', '', ''), ('', 'the', 'teh old'), ('size?', '', '')]
    """
    a, b = (re.findall(r"\S+|\n", _cut(text)) for text in (old, new))
    runs = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    words = [(" ".join(a[i:j]), " ".join(b[k:m]), what == "equal") for what, i, j, k, m in runs]
    return [(one, "", "") if is_same else ("", one, other) for one, other, is_same in words]


def _answer(
    row: Mapping[str, Any], generations: list[dict[str, Any]], judged: list[dict[str, Any]], sets: list[dict[str, Any]]
) -> dict[str, Any]:
    greedy: dict[str, Any] = next((g for g in generations if g["draw"] == GREEDY), {})
    answer: dict[str, Any] = {"model": row["model"], "variant": row["variant"]}
    answer |= {name: row[name] for name in MEASURED if row.get(name) is not None}
    answer |= {name: _cut(value) if isinstance(value, str) else value for name in OF_GREEDY if (value := greedy.get(name)) is not None}
    answer["text"] = answer.get("text") or row.get("text")
    if (logits := answer.pop("option_logits", None)) is not None:
        answer["options"] = _softmax(logits)
    answer["draws"] = [
        {"text": _cut(g["text"] or ""), "logprob": _sum(g["token_logprobs"])}
        | ({"no_answer": g["no_answer"]} if g.get("no_answer") else {})
        for g in generations
        if g["draw"] != GREEDY
    ]
    for name in ("uncertainty", "percentile"):
        answer[name] = {k[len(name) + 1 : -1]: v for k, v in row.items() if k.startswith(f"{name}[") and v is not None}
    answer["judges"] = [
        {k: _cut(v) if isinstance(v, str) else v for k, v in j.items() if k in OF_JUDGES and v is not None}
        | {"marks": dict(_pairs(j["marks"]))}
        for j in judged
        if j["draw"] == GREEDY
    ]
    answer["sets"] = [
        {k: s[k] for k in SETS if k != "set_mask" and s[k] is not None} | {"options": _options_in_set(s["set_mask"])} for s in sets
    ]
    cleaned: dict[str, Any] = finite({k: v for k, v in answer.items() if v not in (None, [], {})})
    return cleaned


def _generations(answers: AnswerTable, dataset: str, models: Iterable[str], ids: list[str]) -> dict[Key, list[dict[str, Any]]]:
    rows: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for base in dict.fromkeys(answers.results.answer_source(model, CLEAN)[0] for model in models):
        scan = answers.results.scan_generations(base, dataset).select("sample_id", "variant", "draw", *OF_GREEDY)
        part = scan.filter(pl.col("sample_id").is_in(ids)).sort("draw", maintain_order=True).collect()
        for row in part.iter_rows(named=True):
            rows[base, row["variant"], row["sample_id"]].append(row)
    return rows


def _table(answers: AnswerTable, name: str, dataset: str, ids: list[str], columns: tuple[str, ...]) -> dict[Key, list[dict[str, Any]]]:
    rows: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    scan = answers.results.scan(name).filter((pl.col("dataset") == dataset) & pl.col("sample_id").is_in(ids))
    for row in scan.select("model", "variant", "sample_id", *columns).collect().iter_rows(named=True):
        rows[row["model"], row["variant"], row["sample_id"]].append(row)
    return rows


def _softmax(logits: list[float | None]) -> list[float | None]:
    values = np.array([np.nan if x is None else x for x in logits], dtype=float)
    if np.isnan(values).all():
        return [None for _ in logits]
    weights = np.exp(values - np.nanmax(values))
    return list((weights / np.nansum(weights)).tolist())


def _sum(logprobs: list[float] | None) -> float | None:
    return None if not logprobs else float(np.sum(logprobs))


def _options_in_set(mask: int | None) -> list[int]:
    """Return the indices of the options in a bit mask; [] for None.

    >>> _options_in_set(9)
    [0, 3]
    """
    return [] if mask is None else [i for i in range(mask.bit_length()) if mask >> i & 1]


def _pairs(entries: Any) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of a map column's value: a dict, a list of entries, or None."""
    if isinstance(entries, dict):
        yield from entries.items()
        return
    for entry in entries or ():
        yield (entry["key"], entry["value"]) if isinstance(entry, dict) else tuple(entry)


def _cut(text: Any) -> Any:
    if not isinstance(text, str) or len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}… ({len(text):,} characters)"
