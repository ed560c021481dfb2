"""Six options for every question, the last two never right. Kostumov et al., 2024 (VLM-Uncertainty-Bench), section on datasets.

It follows the paper's plan, so that no question has two equal options and no position reveals the right one. Each deviation of the
authors' code is a parameter; `six_options_published` reproduces that code exactly.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from annotated_types import Ge, Le

from qualm.registry.formats.vub_layout import APPENDED
from qualm.registry.preparations import PreparationContext, PreparationError
from qualm.registry.sample import Sample

REAL = 4
"""Options of the question itself: the right one and fillers."""
MAX_TRIES = 100
"""Random draws of a filler before all candidates are listed."""

_LETTERS = re.compile(r"\b[A-D]\s*(?:,|&|\+|\band\b|\bor\b)\s*(?:(?:and|or)\s+)?[A-D]\b")
"""Options that refer to others by letter: "both A and C"."""
_REFERS = re.compile(r"\b(?i:all|none|any|both|neither|either)\s+(?i:of\s+)?(?i:the\s+)?(?i:above|below|these|those)\b|" + _LETTERS.pattern)
"""Options that refer to others: "all of the above", or by letter."""

META = ["fillers", "order"]


def six_options(
    context: PreparationContext,
    samples: Sequence[Sample],
    *,
    seed: Annotated[int, Ge(0), Le(9007199254740991)] | None = None,
    fillers: Literal["distinct", "with_replacement"] = "distinct",
    place: Literal["uniform", "as_given"] = "uniform",
    surplus: Literal["drop_wrong", "truth_first"] = "drop_wrong",
    rotations: Literal["together", "independent"] = "together",
) -> Iterator[Sample]:
    """Cut or fill questions to four options, then add "I don't know", "None of the above".

    A question with fewer than four is filled up with options of other questions, one with more loses wrong ones, by a draw that depends
    only on the seed and its id. No two options are equal (letter case and spaces aside), and the right one's place is drawn uniformly from
    A to D. Where an option refers to others ("all of the above", "both A and C") all stay where they are, and `meta.order`
    is `kept` instead of `drawn`; such texts are no fillers. `meta.fillers` counts the fillers.

    Left out are questions whose right option is one of the two last, since these are never right; questions without a known answer; and
    those in which an option names letters whose meaning would change because an option before them goes.

    Args:
        seed: Of the draws; the spec's by default.
        fillers: `with_replacement` draws without regard to the options present, so options repeat, and a filler may equal the right one,
            as in their code (MMBench: 16 rows; OODCV-VQA: 700 of 2,844).
        place: `as_given` leaves options where they are and puts fillers behind them, so the right one is never in a filler's place,
            as in their code for ScienceQA.
        surplus: `truth_first` makes five options into four with the right one at A and three wrong ones drawn with replacement, as in
            their code for ScienceQA, where the paper deletes one wrong option.
        rotations: `independent` makes every sample its own group, so that rotations of one question (MMBench) occur on both sides
            of a calibration split, as in their code.

    Raises:
        PreparationError: a question without options, or too few other options to fill up with.
    """
    for sample in samples:
        if not sample.choices:
            raise PreparationError(
                f"dataset {context.dataset}: sample '{sample.sample_id}' has no options; six_options is for multiple choice, leave it out "
                "of this dataset"
            )
    pool = _Pool(context.dataset, samples)
    for sample in samples:
        if sample.answer_index is None or _plain(sample.choices[sample.answer_index]) in _APPENDED:
            continue
        rng = random.Random(_seed(context.seed if seed is None else seed, sample.sample_id))  # noqa: S311 - no secret
        four = _four_at_most(sample, rng, surplus, fillers)
        if four is not None:
            yield _prepared(sample, *four, rng, pool, fillers, place, rotations)


def _prepared(
    sample: Sample, options: list[str], right: int, rng: random.Random, pool: _Pool, fillers: str, place: str, rotations: str
) -> Sample:
    in_order = place == "as_given" or any(map(_REFERS.search, options))
    n = REAL - len(options)
    for _ in range(n):
        options.append(pool.draw(rng, sample, options if fillers == "distinct" else None))
    if not in_order:
        others = options[:right] + options[right + 1 :]
        rng.shuffle(others)
        truth, right = options[right], rng.randrange(REAL)
        options = [*others[:right], truth, *others[right:]]
    return replace(
        sample,
        choices=(*options, *APPENDED),
        answer_index=right,
        group=sample.group if rotations == "together" else "",
        meta={**sample.meta, "fillers": str(n), "order": "kept" if in_order else "drawn"},
    )


def _four_at_most(sample: Sample, rng: random.Random, surplus: str, fillers: str) -> tuple[list[str], int] | None:
    """Return (up to four options, right index); None if options name letters that change."""
    assert sample.answer_index is not None
    right = sample.choices[sample.answer_index]
    wrong = [i for i in range(len(sample.choices)) if i != sample.answer_index]
    if len(sample.choices) > REAL and surplus == "truth_first":
        return [right, *(sample.choices[i] for i in rng.choices(wrong, k=REAL - 1))], 0
    if fillers == "distinct":
        first = {_plain(sample.choices[i]): i for i in reversed(wrong)}
        wrong = [i for i in wrong if first[text := _plain(sample.choices[i])] == i and text not in (*_APPENDED, _plain(right))]
    named = any(map(_LETTERS.search, sample.choices))
    wrong = wrong[: REAL - 1] if named else rng.sample(wrong, min(len(wrong), REAL - 1))
    stay = sorted([*wrong, sample.answer_index])
    if named and stay != [*range(len(stay))]:
        return None
    return [sample.choices[i] for i in stay], stay.index(sample.answer_index)


class _Pool:
    """All questions' options, from which missing ones are filled."""

    def __init__(self, dataset: str, samples: Sequence[Sample]) -> None:
        self.dataset, self.samples = dataset, samples

    def draw(self, rng: random.Random, sample: Sample, taken: list[str] | None) -> str:
        """Draw an option from another group's question, unlike `taken`; else PreparationError.

        If `taken` is None, any of them fits.
        """
        for _ in range(MAX_TRIES):
            other = self.samples[rng.randrange(len(self.samples))]
            text = other.choices[rng.randrange(len(other.choices))]
            if self._fits(sample, other, text, taken):
                return text
        left = sorted({t for other in self.samples for t in other.choices if self._fits(sample, other, t, taken)})
        if not left:
            have = f"dataset {self.dataset}: sample '{sample.sample_id}' has {len(sample.choices)} options"
            more = "prepare more questions at once, or set `fillers: with_replacement`"
            raise PreparationError(f"{have}, and the other questions have no further options to add; {more}")
        return rng.choice(left)

    @staticmethod
    def _fits(sample: Sample, other: Sample, text: str, taken: list[str] | None) -> bool:
        if other.sample_id == sample.sample_id or (sample.group and other.group == sample.group):
            return False
        if taken is None:
            return True
        plain = _plain(text)
        return plain not in _APPENDED and _REFERS.search(text) is None and all(plain != _plain(t) for t in taken)


def _plain(text: str) -> str:
    return " ".join(text.replace("’", "'").split()).casefold()


_APPENDED = frozenset(map(_plain, APPENDED))


def _seed(seed: int, sample_id: str) -> int:
    return int.from_bytes(hashlib.sha256(f"six_options\0{seed}\0{sample_id}".encode()).digest()[:16], "big")
