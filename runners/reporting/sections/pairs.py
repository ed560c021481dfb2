"""Contrastive pairs to look at, both members side by side with what every model said: the paper's figure 11, for any spec."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import polars as pl

from qualm.registry.formats.picture_lists import all_ids, picture_ids
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.examples import confidence_bar, images_of, thumbnail, verdict
from qualm.runners.reporting.text import number, visible

BUDGET = 900_000
"""Bytes of all thumbnails together."""


@dataclass
class MemberAnswer:
    """One model's answer to one question of a pair, as the page shows it."""

    model: str
    text: str
    verdict: str
    declined: bool
    confidence: str
    width: int
    worth: str
    """Contribution of the answer to confidence-weighted accuracy, in [-1, 1]."""


@dataclass
class MemberView:
    """One question of a pair with every model's answer, as the page shows it."""

    claim: str
    question: str
    answer: list[str]
    thumbnail: str = ""
    no_image: str = ""
    answers: list[MemberAnswer] = field(default_factory=list)


@dataclass
class PairView:
    dataset: str
    category: str
    proof: list[tuple[str, str]]
    members: list[MemberView]
    shared: str = ""
    """The image, where both members have the same one."""
    no_image: str = ""


def pairs(results: Report, how_many: int) -> list[PairView]:
    """Return up to `how_many` pairs, by dataset and, within it, by category in turn.

    Datasets share the number equally. Pairs with the most different outcomes of models come first in each category.
    """
    datasets = [d for d in results.datasets if has_pairs(results, d)]
    views: list[PairView] = []
    spent = 0
    for place, dataset in enumerate(datasets):
        share = how_many // len(datasets) + (place < how_many % len(datasets))
        chosen = _choose(results, dataset, share)
        folder = Path(results.stage.inputs["datasets"][dataset]) / "images"
        images = images_of(folder, all_ids(m["image_id"] for members in chosen for m in members))
        rows = results.answers_to(dataset, [m["sample_id"] for members in chosen for m in members]).to_dicts()
        answers = {(r["model"], r["sample_id"]): r for r in rows}
        for members in chosen:
            view = _pair_view(dataset, members, answers, results.models)
            pictures = [m["image_id"] for m in members]
            if pictures[0] and pictures[0] == pictures[1]:
                view.shared, view.no_image = thumbnail([images.get(n) for n in picture_ids(pictures[0])], BUDGET - spent)
                spent += len(view.shared)
            else:
                for member, picture in zip(view.members, pictures, strict=True):
                    if picture:
                        member.thumbnail, member.no_image = thumbnail([images.get(n) for n in picture_ids(picture)], BUDGET - spent)
                        spent += len(member.thumbnail)
            views.append(view)
    return views


def has_pairs(results: Report, dataset: str) -> bool:
    """Return true if a dataset has contrastive pairs."""
    samples = results.samples.get(dataset)
    return samples is not None and bool(samples["pair_id"].is_not_null().any())


def _choose(results: Report, dataset: str, how_many: int) -> list[list[dict[str, Any]]]:
    """Return up to `how_many` pairs by category in turn, the most different outcomes first."""
    members: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in results.samples[dataset].filter(pl.col("pair_id").is_not_null()).sort("answerable", descending=True).iter_rows(named=True):
        members[row["pair_id"]].append(row)
    fared: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    owner = {m["sample_id"]: pair for pair, rows in members.items() for m in rows}
    for r in results.answers.filter(pl.col("dataset") == dataset).select("model", "sample_id", "correct").iter_rows(named=True):
        if r["sample_id"] in owner and r["correct"] is not None:
            fared[owner[r["sample_id"]]][r["model"]].append(r["correct"])
    queues: dict[str, list[str]] = defaultdict(list)
    whole = [pair for pair, rows in members.items() if len(rows) == 2]
    n_outcomes = {pair: len({tuple(sorted(correct)) for correct in fared[pair].values()}) for pair in whole}
    for pair in sorted(whole, key=lambda p: (-n_outcomes[p], _draw(results.stage.seed, dataset, p))):
        queues[members[pair][0]["category"] or ""].append(pair)
    in_turn = zip_longest(*(queues[category] for category in sorted(queues)))
    return [members[pair] for turn in in_turn for pair in turn if pair is not None][:how_many]


def _draw(seed: int, dataset: str, pair: str) -> bytes:
    return hashlib.sha256(f"{seed}\x00{dataset}\x00{pair}".encode()).digest()


def _pair_view(
    dataset: str, members: list[dict[str, Any]], answers: Mapping[tuple[str, str], dict[str, Any]], models: list[str]
) -> PairView:
    first = members[0]
    proof = [(visible(k, 40), visible(v, 400)) for m in members for k, v in _meta(m).items()]
    view = PairView(visible(dataset, 80), visible(first["category"] or "", 80), list(dict.fromkeys(proof)), [])
    for row in members:
        member = MemberView(
            "answerable" if row["answerable"] is not False else "unanswerable",
            visible(row["question"] or ""),
            [visible(r, 200) for r in (row["references"] or [])[:4]],
        )
        member.answers = [_member_answer(r) for m in models if (r := answers.get((m, row["sample_id"]))) is not None]
        view.members.append(member)
    return view


def _meta(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a sample's `meta` as a dict, also where polars gives a list of keys and values."""
    meta = row["meta"] or {}
    entries = meta.items() if isinstance(meta, Mapping) else ((e["key"], e["value"]) for e in meta)
    return {str(key): str(value) for key, value in entries}


def _member_answer(row: Mapping[str, Any]) -> MemberAnswer:
    confidence, correct = row["confidence"], row["correct"]
    scored = all(value is not None and math.isfinite(value) for value in (confidence, correct))
    worth = number(correct * confidence if correct > 0 else -confidence, 2) if scored else "–"
    texts = visible(row["model"], 80), visible(row["text"], 240), verdict(correct)
    return MemberAnswer(*texts, row["pred_is_idk"] is True, *confidence_bar(confidence), worth)
