"""Samples as table rows and back, and the selection of a `limit`."""

import csv
import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry.formats.faults import Fault
from qualm.registry.formats.text_tables import escape_formula
from qualm.registry.sample import Sample
from qualm.registry.system.atomic import create_folder
from qualm.runners.runtime.stage import LOCAL, Stage

_FIELDS = tuple(f.name for f in fields(Sample))


def as_row(sample: Sample) -> dict[str, Any]:
    return {**{name: getattr(sample, name) for name in _FIELDS}, "meta": list(sample.meta.items())}


def as_sample(row: Mapping[str, Any]) -> Sample:
    listed = {key: tuple(row[key] or ()) for key in ("references", "choices")}
    return Sample(**{f.name: row[f.name] for f in fields(Sample)} | listed | {"meta": dict(row["meta"] or ())})


def with_ids(samples: pa.Table, ids: Set[str]) -> pa.Table:
    """Return the rows of `samples` whose `sample_id` is in `ids`, in the same order."""
    return samples.filter(pc.is_in(samples["sample_id"], value_set=pa.array(sorted(ids), pa.string())))


def choose_stratified(samples: Iterable[tuple[str, str]], limit: int, seed: int) -> set[str]:
    """Return up to `limit` ids of (id, category) pairs, stratified by category, by seed.

    Samples of a category are ordered by a hash of seed and id. The r-th of n gets the rank (r + 1/2) / n, and the
    lowest `limit` ranks of all categories are taken, so a larger limit only adds samples.

    Args:
        samples: (sample_id, category) pairs.
    """
    groups: dict[str, list[bytes]] = defaultdict(list)
    names: dict[bytes, str] = {}
    for sample_id, category in samples:
        key = hashlib.sha256(f"{seed}\0{sample_id}".encode()).digest()
        names[key] = sample_id
        groups[category].append(key)
    ranked = [((r + 0.5) / len(keys), key) for keys in groups.values() for r, key in enumerate(sorted(keys))]
    return {names[key] for _, key in sorted(ranked)[:limit]}


UNITS = {"questions": "sample_id", "images": "image_id", "pairs": "pair_id"}
"""Unit of a `limit` -> the column whose values it counts."""
LIMITED = ("sample_id", "category", "image_id", "pair_id", "answerable", "split")
"""Columns of SAMPLES that a `limit` reads."""


def choose_limited(rows: Iterable[Mapping[str, Any]], limit: int | Mapping[str, Any], seed: int) -> set[str]:
    """Return the ids of the samples that a spec's `limit` takes; see `choose_stratified`.

    Args:
        rows: the columns LIMITED of SAMPLES.
        limit: a number of samples; or `unit` and the numbers `of` it by split, "" = of all other splits together. Splits without a
            number stay whole. `images`: samples without an image are left out. `pairs`: so are samples that are not one of an answerable
            and an unanswerable sample of a pair.
    """
    numbers: Mapping[str, int] = {"": limit} if isinstance(limit, int) else limit["of"]
    unit = "questions" if isinstance(limit, int) else limit["unit"]
    members: dict[str, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    chosen: set[str] = set()
    for row in rows:
        key = row["split"] if row["split"] in numbers else ""
        if key not in numbers:
            chosen.add(row["sample_id"])
        elif row[UNITS[unit]] is not None:
            members[key][row[UNITS[unit]]].append(row)
    for key, by_unit in members.items():
        if unit == "pairs":
            by_unit = {name: two for name, two in by_unit.items() if sorted(row["answerable"] is not False for row in two) == [False, True]}
        names = choose_stratified(((name, group[0]["category"] or "") for name, group in by_unit.items()), numbers[key], seed)
        chosen |= {row["sample_id"] for name in names for row in by_unit[name]}
    return chosen


def with_provenance(stage: Stage, schema: pa.Schema) -> pa.Schema:
    """Return a schema with the stage's provenance in its metadata."""
    note = {b"qualm": json.dumps(stage.provenance, sort_keys=True).encode()}
    return schema.with_metadata({**(schema.metadata or {}), **note})


SHOWN = 5
"""Printed rows per reason; the file lists all."""


def report_left_out(dataset: str, faults: Sequence[Fault], stage: Stage) -> None:
    """Count faults by reason in the stage's record, print some; replace the CSV file of them."""
    path = LOCAL / "runs" / stage.spec / f"{stage.name}.{dataset}.left_out.csv"
    path.unlink(missing_ok=True)
    if not faults:
        return
    create_folder(path.parent)
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["where", "reason", "what"])
        writer.writerows(map(escape_formula, (f.where, f.reason, f.what)) for f in faults)
    for reason, n in Counter(f.reason for f in faults).items():
        stage.count(**{f"left out ({reason})": n})
        mine = [f for f in faults if f.reason == reason]
        if mine[0].harmless:
            continue
        print(f"{stage.key}: {dataset}: {n} x {reason}; all in {path}", file=sys.stderr)
        for fault in mine[:SHOWN]:
            print(f"  {fault.where}" + (f": {fault.what}" if fault.what else ""), file=sys.stderr)
