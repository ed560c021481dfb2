"""Searches for a strength, knobs of perturbations, a reviewer's order, what an audit says, held to tests/golden/tools.json.

After a change that is meant: HELD=write pytest tests/runners/tools/test_golden_tools.py
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qualm.registry.plugins import rule
from qualm.runners.contracts.models import Part
from qualm.runners.tools.audit.comparing import ROUNDING, compared, too_many
from qualm.runners.tools.audit.drawing import Lots
from qualm.runners.tools.review.pool import Pool, PoolError, read_pool
from qualm.runners.tools.strengths.curve import csv_text, phrase
from qualm.runners.tools.strengths.effects import distance_goal, mean_reading, share_goal, share_reading
from qualm.runners.tools.strengths.knobs import Knob, Range, candidates, numeric, range_of
from qualm.runners.tools.strengths.search import Reading, search
from tests.support.checks.held_numbers import held
from tests.support.data.tiny_pairs import write_pairs

RANGES = {
    "open": Range(Knob("radius", False, 0.0, 40.0, True), 0.0, 40.0, "log"),
    "share": Range(Knob("p", False, 0.0, 1.0, False), 0.0, 1.0, "linear"),
    "downwards": Range(Knob("factor", False, 0.05, 1.0, False), 1.0, 0.05, "linear"),
    "whole": Range(Knob("words", True, 0, 12, False), 0, 12, "linear"),
}
CURVES: dict[str, Callable[[float], float]] = {
    "saturates": lambda place: 1 - math.exp(-3 * place),
    "straight": lambda place: 0.6 * place,
    "jumps": lambda place: 0.02 if place < 0.55 else 0.7,
    "turns back": lambda place: 3.2 * place * (1 - place),
    "never": lambda place: 0.05 * place,
    "at once": lambda place: 0.5 + 0.2 * place,
}


@pytest.mark.parametrize("name", RANGES)
def test_a_search_for_a_share_of_answers_ends_as_ever(name: str) -> None:
    where, chances, shown = RANGES[name], np.random.default_rng(3).random(150), {}
    for curve, effect in CURVES.items():
        for target in (0.1, 0.3):

            def measure(strengths: Sequence[float], effect: Callable[[float], float] = effect) -> list[Reading]:
                return [share_reading(s, list(chances < effect(min(1.5, where.place(s)))), 3) for s in strengths]

            goal = share_goal(target)
            result = search(measure, where, goal.target, 14, goal.display)
            strengths = [reading.strength for reading in result.readings]
            chosen = None if result.chosen is None else [result.chosen.strength, phrase(result.chosen, goal)]
            shown[f"{curve} {target}"] = [chosen, result.why, result.range.strong, strengths]
    held("tools.json", f"search: {name}", shown)


def test_a_search_for_a_distance_ends_as_ever() -> None:
    errors, shown = np.random.default_rng(4).gamma(2.0, 0.5, 60), {}
    for metric, value in (("psnr", 22.0), ("1-ssim", 0.2), ("psnr", 99.0)):
        goal = distance_goal(metric, value)

        def measure(strengths: Sequence[float]) -> list[Reading]:
            return [mean_reading(s, list(errors * (s / 200) ** 2), 1) for s in strengths]

        result = search(measure, RANGES["open"], goal.target, 16, goal.display)
        shown[goal.slug] = [result.why, csv_text(result, goal)]
    held("tools.json", "search: distances", shown)


def test_strengths_of_all_perturbations_are_those_they_were() -> None:
    shown = {}
    for name in rule.names("perturbations"):
        plugin = rule.get("perturbations", name)
        defaults = {p.name: p.default for p in plugin.parameters if p.default is not rule.REQUIRED}
        for knob in numeric(plugin, defaults):
            now = float(defaults.get(knob.name, knob.low))
            ends = candidates(knob)
            ranges = [
                range_of(knob, ends[:1], now, knob.low, None, "auto"),
                range_of(knob, [], now, knob.high, (knob.low, (knob.low + knob.high) / 2), "log"),
            ]
            places = [[one.weak, one.strong, one.scale, [one.at(i / 4) for i in range(5)]] for one in ranges]
            shown[f"{name}.{knob.name}"] = [asdict(knob), knob.step, ends, places]
    held("tools.json", "knobs", shown)


def varied(part: Part, draw: random.Random) -> Part:
    """Another computation of a part: numbers that moved, tokens that changed, numbers that are missing."""
    by = draw.choice([0.0, 1e-9, 3e-6, 1e-4, 3e-3, 0.05, 0.5])
    tokens, logprobs, entropies = list(part.tokens or []), list(part.logprobs or []), list(part.entropies or [])
    place = draw.randrange(len(tokens))
    if draw.random() < 0.5:
        logprobs[place] -= by
    if draw.random() < 0.3:
        entropies[draw.randrange(len(entropies))] += by
    text = part.text
    if draw.random() < 0.4:
        tokens[place:], text = [9], "a blue"
        logprobs, entropies = logprobs[: place + 1], entropies[: place + 1]
    changed = replace(part, text=text, tokens=tokens, logprobs=logprobs, entropies=entropies)
    return replace(changed, entropies=None) if draw.random() < 0.1 else changed


def test_two_computations_of_a_part_are_told_apart_as_ever() -> None:
    part = Part("a red cube", [5, 6, 7], [-0.1, -2.0, -0.001], [0.3, 1.5, 0.01])
    shown = {}
    for dtype in ROUNDING:
        draw = random.Random(dtype)
        results = [compared(draw.choice(["answer", "draw 2"]), part, varied(part, draw), dtype) for _ in range(40)]
        shown[dtype] = [[one.verdict, one.largest, one.what] for one in results]
    held("tools.json", "parts", shown)
    limits = {}
    for dtype in ROUNDING:
        limits[dtype] = [next((k for k in range(41) if too_many(k, 40, tokens, dtype)), None) for tokens in (1, 5, 30)]
    held("tools.json", "draws that may differ", limits)


def test_what_an_audit_draws_is_as_ever() -> None:
    lots, shown = Lots[str, str](3, 8), {}
    for stratum, size in (("answers", 30), ("draws", 5), ("signals", 12), ("nothing", 0)):
        for i in range(size):
            lots.add(stratum, f"{stratum} {i}".encode(), f"{stratum} {i}")
            lots.add(stratum, f"{stratum} {i}".encode(), "again")
    for total in (0, 1, 7, 20, 100):
        shown[str(total)] = lots.draw(total)
    held("tools.json", "an audit's draw", shown)


def told(make: Callable[[], Pool]) -> Any:
    try:
        pool = make()
    except PoolError as error:
        return str(error)
    questions = {q.sample_id: [q.content, q.category, q.answerable, q.answers, q.notes, pool.asks(q)] for q in pool.questions.values()}
    return [pool.choices, pool.paired, pool.words, questions, pool.order("ada"), pool.order("bob")]


def test_what_is_reviewed_and_in_which_order_is_as_ever(tmp_path: Path) -> None:
    recipe, source = write_pairs(tmp_path)
    pool = read_pool([recipe], [source])

    def plain(message: str) -> str:
        return message.replace(str(tmp_path), "~")

    shown = {
        "all": told(lambda: pool),
        "of train": told(lambda: read_pool([recipe], [source], "train")),
        "one category": told(lambda: pool.only("temporal", None, 0)),
        "a main kind": told(lambda: pool.only("epistemic", 2, 5)),
        "three pairs": told(lambda: pool.only(None, 3, 7)),
        "no category": told(lambda: pool.only("nothing", None, 0)),
        "no split": plain(told(lambda: read_pool([recipe], [source], "val"))),
        "no pictures": plain(told(lambda: read_pool([recipe], []))),
        "no pairs": plain(told(lambda: read_pool([source], [source]))),
    }
    held("tools.json", "a review", shown)
