"""Did a perturbation do it, or chance? Tests of every model, variant and estimator of the grid.

A metric's file says by which test it is asked (`TEST`):

- `exchange`: if the perturbation did nothing, it would change nothing to call a sample's clean answer the perturbed one. Whole groups
  are exchanged at random, and the metric as it is, less the metric with all exchanged, is set against the same after random
  exchanges, two-sided. For the uncertainty reflection rate that is a sign test, for the hallucination rate McNemar's, both with
  groups kept together.
- `independence`: if what the metric correlates had nothing to do with each other, one of them could be dealt out anew. It is,
  between groups of equal size, group by group, and the correlation set against those of random deals, two-sided. What the sizes of
  groups alone make of it, the mean over all deals, counts for nothing.

p = (1 + as large or larger ones) / (1 + random ones). The grid's p-values are then corrected together, as `compare:` says.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins import rule
from qualm.runners.data.aligned import Floats
from qualm.runners.scoring import paired_tests
from qualm.runners.scoring.bootstrap import BLOCK
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.families import Evidence, standardised
from qualm.runners.scoring.measuring.evaluate import tasks_of
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.measuring.metrics import Metric
from qualm.runners.scoring.power import fewest

EXCHANGE, INDEPENDENCE = "exchange", "independence"
SLACK = 1e-12
Correlated = Callable[..., tuple[NDArray[np.bool_], Floats, Floats]]


@dataclass(frozen=True)
class Effect:
    """One metric of one perturbed cell and slice."""

    metric: str
    value: float
    reference: float
    """What it would be without an effect: with clean and perturbed exchanged, or a correlation of 0."""
    p: float
    evidence: Evidence = field(default=Evidence(np.nan), repr=False, compare=False)


def with_a_test(metrics: Sequence[Metric]) -> list[Metric]:
    """Those whose files name a test."""
    return [m for m in metrics if _test_of(m) is not None]


def is_of_correlation(metric: Metric) -> bool:
    """Whether it is tested by deals. A sample that no perturbation changed adds nothing to an exchange, but counts among what is dealt."""
    return _test_of(metric) == INDEPENDENCE


def effects(metrics: Sequence[Metric], cell: Cell, part: Slice, permutations: int, seed: int) -> Iterator[Effect]:
    """Every tested metric that applies to a perturbed cell, on one slice."""
    by_exchange = [m for m in metrics if _test_of(m) == EXCHANGE]
    swapped = _swapped(cell)
    for test in paired_tests.compare(by_exchange, swapped, cell, part, 0.95, permutations, seed):
        yield Effect(test.metric, test.value_b, test.value_a, test.p, test.evidence)
    for metric in (m for m in metrics if _test_of(m) == INDEPENDENCE):
        tasks, labels = tasks_of([metric], cell, part)
        tested: dict[int, Evidence] = {id(task): Evidence(np.nan) for task in tasks}
        alike: dict[tuple[bytes, bytes], list[tuple[int, Floats]]] = {}  # what is correlated with the same y shares its deals
        for task in tasks:
            if not np.isnan(task.measured.value):
                rows_over, x, y = correlated(metric)(*task.arrays, **metric.args)
                alike.setdefault((task.rows[rows_over].tobytes(), y[rows_over].tobytes()), []).append((id(task), x[rows_over]))
        for (rows, y_bytes), of in alike.items():
            group = part.bootstrap.seen_on(np.frombuffer(rows, dtype=np.int64)).group
            columns = np.column_stack([x for _, x in of])
            evidence = independence(columns, np.frombuffer(y_bytes), group, permutations, _entropy(seed, cell, part))
            tested |= dict(zip([name for name, _ in of], evidence, strict=True))
        for label, (task, *_) in labels:
            yield Effect(label, task.measured.value, 0.0, tested[id(task)].p, tested[id(task)])


def independence(x: Floats, y: Floats, group: NDArray[np.int64], permutations: int, entropy: int) -> list[Evidence]:
    """Tests of correlations with y, which is dealt out anew between groups of equal size, in whole groups.

    NaN where that can change nothing (one group of each size), or either is constant.

    Args:
        x: (n, m), what y is correlated with.
        y: (n,).
        group: (n,), the group of each row.
        permutations: how many random deals.
        entropy: seed of the deals.
    """
    order = np.argsort(group, kind="stable")
    # With x centred, the product with y is the covariance, and its spread is the same under every deal: no correlation has to be made.
    x, y = (x - x.mean(axis=0))[order], y[order]
    _, starts, sizes = np.unique(group[order], return_index=True, return_counts=True)
    # Groups are dealt whole, so only to a place of their own size.
    blocks = [starts[sizes == size][:, None] + np.arange(size) for size in np.unique(sizes)]
    spread = np.sqrt((x**2).sum(axis=0) * ((y - y.mean()) ** 2).sum())
    if all(len(block) < 2 for block in blocks) or not permutations:
        return [Evidence(np.nan)] * x.shape[1]
    sign = np.sign(y @ x)
    # Where both go with the size of a group, deals keep that part of the covariance. The rest is tested, which is 0 on average.
    for block in blocks:
        y[block] -= y[block].mean(axis=0)
    rng, as_extreme, chance = np.random.default_rng(entropy), np.zeros(x.shape[1]), []
    observed = np.maximum(sign * (y @ x), 0)  # what contradicts the correlation's sign is no evidence for it
    step = max(1, BLOCK // len(x))
    for start in range(0, permutations, step):
        dealt = np.empty((min(step, permutations - start), len(y)))
        for block in blocks:
            turns = rng.permuted(np.tile(np.arange(len(block)), (len(dealt), 1)), axis=1)
            dealt[:, block.ravel()] = y[block[turns].reshape(len(dealt), -1)]
        chance.append(dealt @ x)
        as_extreme += (np.abs(chance[-1]) >= observed - SLACK * spread).sum(axis=0)
    p, by_deal, shared = (1 + as_extreme) / (1 + permutations), np.concatenate(chance), np.arange(fewest(permutations))
    return [
        Evidence(float(p[k]), *standardised(observed[k], by_deal[:, k], shared, SLACK * spread[k])) if spread[k] > 0 else Evidence(np.nan)
        for k in range(x.shape[1])
    ]


def correlated(metric: Metric) -> Correlated:
    """The function `correlated` of a metric's file: the columns it reads -> (rows it is over, x, y)."""
    function: Correlated = vars(sys.modules[metric.function.__module__])["correlated"]
    return function


def _swapped(cell: Cell) -> Cell:
    """As if the clean answers were the perturbed ones and the other way round."""
    columns = cell.columns | {"correct": cell.columns["clean_correct"], "clean_correct": cell.columns["correct"]}
    return replace(cell, columns=columns, uncertainties=cell.clean_uncertainties, clean_uncertainties=cell.uncertainties)


def _test_of(metric: Metric) -> str | None:
    name = rule.get("metrics", metric.function.__name__).declares.get("TEST")
    return None if name is None else str(name)


def _entropy(seed: int, cell: Cell, part: Slice) -> int:
    text = json.dumps(["independence", seed, cell.samples.name, part.label], ensure_ascii=False)
    return int.from_bytes(hashlib.sha256(text.encode()).digest())
