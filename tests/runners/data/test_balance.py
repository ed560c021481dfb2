"""So many of each class: by seed, of as many groups as there are, and nothing silently short."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.data.balance import balance_samples
from qualm.runners.runtime.stage import StageError

HOW = {"take": 3, "by": "uncertain", "shortfall": "error", "seed": 7}


def samples(*classes: str | None, groups: int = 1000, extra: int = 0) -> Samples:
    """A row of each class in turn (`None` = of no class), `groups` apart; and some that are unscored (train)."""
    rows: list[dict[str, Any]] = []
    for i, mark in enumerate([*classes, *(["1"] * extra)]):
        row = dict.fromkeys(SAMPLES.names) | {
            "sample_id": f"s{i:03d}", "question": "?", "references": [], "choices": [], "category": "c", "answerable": True,
            "split": "train" if i >= len(classes) else "val", "source": "t", "group": f"g{i % groups}",
        }  # fmt: skip
        rows.append(row | {"meta": [] if mark is None else [("uncertain", mark)]})
    return Samples("d", pa.Table.from_pylist(rows, SAMPLES))


def drawn(of: Samples, **how: Any) -> Any:
    return balance_samples(of, np.array([split == "val" for split in of.values("split")]), {**HOW, **how})


def test_so_many_of_each_and_all_that_is_not_scored() -> None:
    of = samples(*"0" * 20, *"1" * 9, None, None, extra=5)
    found = drawn(of)
    marks = dict(zip(of.ids.to_pylist(), zip(of.values("split"), of.values("uncertain"), strict=True), strict=True))
    assert Counter(marks[i] for i in found.ids) == {("val", "0"): 3, ("val", "1"): 3, ("train", "1"): 5}
    counts = {"balanced (not uncertain)": 3, "balanced (uncertain)": 3, "left out (balance)": 23, "left out (of no class)": 2}
    assert list(found.counts.items()) == list(counts.items())
    assert list(drawn(samples(*"1110000")).counts.items()) == [*list(counts.items())[:2], ("left out (balance)", 1)], "in whatever order"


def test_more_only_adds_another_seed_takes_others_and_the_order_of_rows_none() -> None:
    of = samples(*"0" * 30, *"1" * 30)
    assert drawn(of, take=5).ids < drawn(of, take=12).ids
    assert drawn(of).ids != drawn(of, seed=8).ids
    turned = Samples("d", of.table.take(list(range(of.n))[::-1]))
    assert drawn(turned).ids == drawn(of).ids


def test_one_class_is_drawn_alike_whatever_stands_beside_it() -> None:
    """So VizWiz's 150 clean questions are the same beside the image, the text and the cross-modal subset, and alone."""
    clean = samples(*"0" * 30)
    beside = samples(*"0" * 30, *"1" * 10)
    alone = drawn(clean, by="split").ids
    assert alone < drawn(beside).ids and len(alone) == 3


def test_every_group_comes_before_any_comes_twice() -> None:
    of = samples(*"0" * 40, *"1" * 40, groups=4)
    groups = dict(zip(of.ids.to_pylist(), of.groups.tolist(), strict=True))
    marks = dict(zip(of.ids.to_pylist(), of.values("uncertain"), strict=True))
    for take, most in ((4, 1), (8, 2)):
        count = Counter((marks[i], groups[i]) for i in drawn(of, take=take).ids)
        assert len(count) == 8 and set(count.values()) == {most}


def test_without_a_mark_what_cannot_be_answered_is_uncertain() -> None:
    of = samples(*[None] * 8)
    table = of.table.set_column(SAMPLES.names.index("answerable"), "answerable", pa.array([True] * 5 + [False] * 3))
    found = balance_samples(Samples("d", table), np.ones(8, dtype=bool), HOW)
    assert found.taken == {"uncertain": 3, "not uncertain": 3} and found.undefined == 0


@pytest.mark.parametrize(
    ("shortfall", "classes", "taken"),
    [
        ("fewest", "0000011", {"not uncertain": 2, "uncertain": 2}),
        ("keep", "0000011", {"not uncertain": 3, "uncertain": 2}),
        ("keep", "00000", {"not uncertain": 3}),
        ("fewest", "00000111", {"not uncertain": 3, "uncertain": 3}),
    ],
)
def test_a_class_that_is_short(shortfall: str, classes: str, taken: dict[str, int]) -> None:
    assert drawn(samples(*classes), shortfall=shortfall).taken == taken


@pytest.mark.parametrize(
    ("classes", "how", "message"),
    [
        ("0000011", {}, "dataset d: balance: expected 3 of each class of 'uncertain', got 2 uncertain; `take: 2`, or `shortfall: fewest`, "
         "which takes that many of each"),
        ("0011", {"take": 5}, "dataset d: balance: expected 5 of each class of 'uncertain', got 2 not uncertain, 2 uncertain; `take: 2`, "
         "or `shortfall: fewest`, which takes that many of each"),
        ("00000", {"shortfall": "fewest"}, "dataset d: balance: expected 3 of each class of 'uncertain', got 0 uncertain; "
         "`shortfall: keep` takes what there is"),
        ("00000", {"by": "nothing"}, "dataset d: balance: no scored sample has a value of 'nothing'; name another field as `by`"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_said(classes: str, how: dict[str, Any], message: str) -> None:
    with pytest.raises(StageError) as caught:
        drawn(samples(*classes), **how)
    assert str(caught.value) == message


def test_the_floor_of_f1_is_two_thirds() -> None:
    """As in VLM-UQBench's Table 2; over all there is, it moves with the subset."""
    from qualm.runners.plugins.metrics.best_f1_floor import best_f1_floor

    def floor(of: Samples, ids: frozenset[str]) -> float:
        uncertain = np.array([value for value, i in zip(of.uncertain, of.ids.to_pylist(), strict=True) if i in ids])
        return float(best_f1_floor(uncertain, uncertain, np.ones((1, len(uncertain))))[0])

    for positives in (20, 180):
        of = samples(*"0" * 60, *"1" * positives)
        assert floor(of, drawn(of, take=20).ids) == pytest.approx(2 / 3)
        assert floor(of, frozenset(of.ids.to_pylist())) == pytest.approx(2 * positives / (2 * positives + 60))
