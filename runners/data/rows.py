"""Samples as rows of a table and back, and the choice among them that a data set's stage makes."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import pyarrow as pa

from qualm.registry.sample import Sample
from qualm.runners.runtime.stage import Stage

_FIELDS = tuple(f.name for f in fields(Sample))


def as_row(sample: Sample) -> dict[str, Any]:
    """A sample as a row of SAMPLES."""
    return {**{name: getattr(sample, name) for name in _FIELDS}, "meta": list(sample.meta.items())}


def as_sample(row: Mapping[str, Any]) -> Sample:
    """A row of SAMPLES as a sample."""
    listed = {key: tuple(row[key] or ()) for key in ("references", "choices")}
    return Sample(**{f.name: row[f.name] for f in fields(Sample)} | listed | {"meta": dict(row["meta"] or ())})


def choose(samples: Iterable[tuple[str, str]], limit: int, seed: int) -> set[str]:
    """A share of every category, by seed; a larger limit chooses a superset.

    Samples of a category are put in the order of a hash of seed and id. The r-th of n gets the rank (r + 1/2) / n, and the
    lowest `limit` ranks of all categories are taken: every prefix of that order is stratified as well as it can be.

    Args:
        samples: (sample_id, category) pairs.
        limit: how many to take.
        seed: other seeds choose others.
    """
    groups: dict[str, list[bytes]] = defaultdict(list)
    names: dict[bytes, str] = {}
    for sample_id, category in samples:
        key = hashlib.sha256(f"{seed}\0{sample_id}".encode()).digest()
        names[key] = sample_id
        groups[category].append(key)
    ranked = [((r + 0.5) / len(keys), key) for keys in groups.values() for r, key in enumerate(sorted(keys))]
    return {names[key] for _, key in sorted(ranked)[:limit]}


def with_provenance(stage: Stage, schema: pa.Schema) -> pa.Schema:
    """A schema that says which run its table is of."""
    note = {b"qualm": json.dumps(stage.provenance, sort_keys=True).encode()}
    return schema.with_metadata({**(schema.metadata or {}), **note})
