"""Stored parts of answers -> GENERATIONS: for every cell the greedy row with all its signals, then its draws."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from qualm.registry.sample import GENERATIONS, GREEDY
from qualm.runners.contracts.models import ANSWER, COLUMNS, PARTS, draw_of
from qualm.runners.inference.keys import stored_keys
from qualm.runners.inference.requests import Asker, SampleVariant
from qualm.runners.store.answers import Store

_FIELD = {
    "text": "text",
    "said_confidence": "text",
    "token_logprobs": "logprobs",
    "token_entropies": "entropies",
    "option_logits": "numbers",
}
"""Which field of a part fills a column; of any other it is `logprobs`."""
_ONE_NUMBER = frozenset({"p_true", "p_true_sampling", "p_yes"})
_CHUNK = 2048


def table(asker: Asker, number: int, cells: Sequence[SampleVariant], store: Store) -> pa.Table:
    """GENERATIONS of one dataset.

    Args:
        asker: says what is wanted.
        number: of the dataset.
        cells: its cells, in the order of the rows.
        store: has all their parts.

    Raises:
        qualm.runners.store.answers.LostError: it has not.
    """
    mine = [cells[at : at + _CHUNK] for at in range(0, len(cells), _CHUNK)]
    return pa.concat_tables([GENERATIONS.empty_table(), *(_rows(asker, number, some, store) for some in mine)])


def _rows(asker: Asker, number: int, cells: Sequence[SampleVariant], store: Store) -> pa.Table:
    samples = asker.datasets[number].samples
    parts = [asker.parts(cell.options) for cell in cells]
    stored = store.take(
        stored_keys(asker, store, [(cell.place, part) for cell, needed in zip(cells, parts, strict=True) for part in needed])
    )
    rows: dict[str, list[Any]] = {name: [] for name in ("sample_id", "variant", "draw", "input_digest")}
    filled: dict[str, list[tuple[int, int]]] = {name: [] for name in COLUMNS}  # column -> (row, place among the parts)
    at = 0
    for cell, needed in zip(cells, parts, strict=True):
        draws = [GREEDY, *(draw for part in needed if (draw := draw_of(part)))]
        greedy = row = len(rows["draw"])
        rows["draw"] += draws
        rows["sample_id"] += [samples[cell.place.row]["sample_id"]] * len(draws)
        rows["variant"] += [asker.variants[cell.place.variant].name] * len(draws)
        rows["input_digest"] += [cell.input_digest] * len(draws)
        for part in needed:
            drawn = draw_of(part) > 0
            row += drawn
            for column in PARTS[ANSWER if drawn else part]:
                filled[column].append((row if drawn else greedy, at))
            at += 1
    total = len(rows["draw"])
    columns = {name: pa.array(values, GENERATIONS.field(name).type) for name, values in rows.items()}
    for name in COLUMNS:
        wanted_column = name == "text" or name in asker.needs
        columns[name] = _column(name, filled[name] if wanted_column else [], total, stored)
    return pa.table([columns[field.name] for field in GENERATIONS], schema=GENERATIONS)


def _column(name: str, filled: Sequence[tuple[int, int]], total: int, stored: pa.Table) -> pa.Array:
    """One column: at each row the value of the part it comes from, null where none fills it."""
    kind = GENERATIONS.field(name).type
    if not filled:
        return pa.nulls(total, kind)
    row, place = np.array(filled).T
    if name in _ONE_NUMBER:
        values: list[float | None] = [None] * total
        for r, numbers in zip(row.tolist(), stored["numbers"].take(pa.array(place)).to_pylist(), strict=True):
            values[r] = next(iter(numbers or ()), None)
        return pa.array(values, kind)
    source = np.full(total, -1)
    source[row] = place
    column = stored[_FIELD.get(name, "logprobs")].combine_chunks()
    return column.take(pa.array(source, mask=source < 0)).cast(kind)
