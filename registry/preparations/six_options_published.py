"""Six options exactly as VLM-Uncertainty-Bench's code makes them, quirks included. Kostumov et al., 2024; its `data_utils/`.

For reproducing published numbers with a model that answers here. It draws from one stream of Python's `random` over the whole dataset in
its order, as that code does, so MMBench's 4,377 and OODCV-VQA's 2,844 released questions come out option by option.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from annotated_types import Ge, Le

from qualm.registry.formats.vub_layout import APPENDED, OPTION_LETTERS
from qualm.registry.preparations import PreparationContext, PreparationError
from qualm.registry.sample import Sample

COUNTS = ("Zero", "One", "Two", "Three", "Four", "Five")
REAL = len(OPTION_LETTERS)
MAX_OPTIONS = {"mmbench": REAL, "scienceqa": 5}
EXACTLY = {"oodcv": 2, "seedbench": REAL, "ai2d": REAL}
"""Number of options of a question, by dataset: at most `MAX_OPTIONS`, exactly `EXACTLY`."""

Four = tuple[list[str | None], int]
"""Texts of A to D, None for an empty cell, and the index of the right one."""

META = ["missing_options"]


def six_options_published(
    context: PreparationContext,
    samples: Sequence[Sample],
    *,
    of: Literal["mmbench", "oodcv", "scienceqa", "seedbench", "ai2d"],
    seed: Annotated[int, Ge(0), Le(9007199254740991)] = 42,
    rotations: Literal["together", "independent"] = "independent",
) -> Iterator[Sample]:
    """Yield each question with six options, exactly as the benchmark's code makes them.

    - `mmbench` (all rows of `mmbench_dev_20230712.tsv`): D, then C, are filled with a cell drawn from a row drawn with replacement,
      itself perhaps already filled: texts repeat, and equal the right one in 8 rows. A cell may be an empty one, in 17 rows:
      options end there, the two last move up, and `meta.missing_options` names the letter, as the recorded outputs' adapter does; a
      last, empty option keeps the number of letters at six. Rotations of a question are rows of their own.
    - `oodcv` (Digits): two numbers that are no options, drawn with replacement (700 questions have two equal options); shuffled.
    - `scienceqa` (`split: val_test, pictures: with, task: closed choice`): fillers stand last, so the right option is never among them;
      of five options the right one comes to A, and three wrong ones are drawn with replacement.
    - `seedbench`, `ai2d`: as they are.

    Every draw depends on all before it: use whole datasets, in the source's order, without `where:` (a `limit` applies afterwards).

    Args:
        of: The dataset.
        seed: 42 is the published one.
        rotations: `together` keeps groups as they are, for splits that keep rotations of one question together.

    Raises:
        PreparationError: a sample that is not from that dataset.
    """
    make = {"mmbench": _mmbench, "oodcv": _oodcv, "scienceqa": _scienceqa}.get(of, _as_they_are)
    for sample in samples:
        _check(context.dataset, sample, of)
    fours = make(samples, random.Random(seed))  # noqa: S311 - the stream of their code
    for sample, (texts, right) in zip(samples, fours, strict=True):
        yield _sample(sample, texts, right, rotations)


def _check(dataset: str, sample: Sample, of: str) -> None:
    n, exactly = len(sample.choices), EXACTLY.get(of)
    right_number = n == exactly if exactly else 2 <= n <= MAX_OPTIONS[of]
    if not right_number or sample.answer_index is None or (of == "oodcv" and not set(sample.choices) <= set(COUNTS)):
        expected = "two numbers as words" if of == "oodcv" else f"{exactly or f'2 to {MAX_OPTIONS[of]}'} options"
        raise PreparationError(
            f"dataset {dataset}: sample '{sample.sample_id}': a question of {of} has {expected} and a right one, "
            f"got {', '.join(sample.choices) or 'none'}; `of:` says which dataset it is, six_options takes any"
        )


def _sample(sample: Sample, texts: list[str | None], right: int, rotations: str) -> Sample:
    there = texts[: texts.index(None)] if None in texts else texts
    missing = "".join(letter for letter, text in zip(OPTION_LETTERS, texts, strict=True) if text is None)
    options = [*(text for text in there if text is not None), *APPENDED]
    return replace(
        sample,
        choices=(*options, *[""] * (REAL + len(APPENDED) - len(options))),
        answer_index=right,
        group=sample.group if rotations == "together" else "",
        meta={**sample.meta, **({"missing_options": missing} if missing else {})},
    )


def _right(sample: Sample) -> int:
    assert sample.answer_index is not None
    return sample.answer_index


def _mmbench(samples: Sequence[Sample], rng: random.Random) -> Iterator[Four]:
    rows: list[list[str | None]] = [[*s.choices, *[None] * (REAL - len(s.choices))] for s in samples]
    for row, sample in zip(rows, samples, strict=True):
        drawn = rng.choices(rows, k=REAL - len(sample.choices))
        for i, other in enumerate(drawn, 1):
            row[-i] = rng.choice(other)
    return ((row, _right(sample)) for row, sample in zip(rows, samples, strict=True))


def _oodcv(samples: Sequence[Sample], rng: random.Random) -> Iterator[Four]:
    for sample in samples:
        numbers = [COUNTS.index(text) for text in sample.choices]
        right = numbers[_right(sample)]
        numbers += rng.choices([n for n in range(len(COUNTS)) if n not in numbers], k=2)
        rng.shuffle(numbers)
        yield [COUNTS[n] for n in numbers], numbers.index(right)


def _scienceqa(samples: Sequence[Sample], rng: random.Random) -> Iterator[Four]:
    for sample in samples:
        texts: list[str | None] = [*sample.choices]
        right = _right(sample)
        if len(texts) <= REAL:
            drawn = rng.choices(samples, k=REAL - len(texts))
            yield [*texts, *(rng.choice(other.choices) for other in drawn)], right
        else:
            texts.remove(sample.choices[right])
            yield [sample.choices[right], *rng.choices(texts, k=REAL - 1)], 0


def _as_they_are(samples: Sequence[Sample], rng: random.Random) -> Iterator[Four]:
    return (([*sample.choices], _right(sample)) for sample in samples)
