"""The `curate` stage: a dataset without the questions that people found invalid, or in the wrong subset.

What comes out is a dataset like the one that went in, with `verification.json` beside it. Only rows that are scored are filtered;
images that no sample names any more go, and whatever else the adapter left stays.
"""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry.formats.picture_lists import all_ids
from qualm.registry.sample import IMAGES, SAMPLES
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import Samples
from qualm.runners.data.balance import balance_samples
from qualm.runners.data.claims import ClaimError, claims_function
from qualm.runners.data.curation import CurationError, curate, without_lone_pairs
from qualm.runners.data.data_cards import DataCard, parents_and_sources, write_card
from qualm.runners.data.rows import with_ids
from qualm.runners.data.splits import split_rule
from qualm.runners.data.statistics import VERIFICATION
from qualm.runners.runtime.records import ShardWriter, iterate_rows, read_table, write_json, write_table
from qualm.runners.runtime.stage import Stage, StageError

KIND = StageKind(
    title="What people kept of {dataset}",
    reads=("dataset", "card", "reviews"),
    writes={"dataset": "curated/{dataset}", "card": "curated/{dataset}.md"},
    colour="#86bcb6",
)

TABLES = ("samples.parquet", "images", VERIFICATION)
"""Files that this stage writes itself."""


def run(stage: Stage) -> None:
    """Drop scored questions by their reviews; publish the dataset folder and its card.

    Rejected questions are dropped; unreviewed ones too with `unreviewed: drop`, and the other members of their pairs with `lone: drop`.
    `balance:` then draws from what remains.

    Raises:
        StageError: the reviews are malformed, or no question remains.
    """
    name, source = stage.params["dataset"], Path(stage.inputs["dataset"])
    folder = stage.scratch / "dataset"
    shutil.rmtree(folder, ignore_errors=True)
    samples = read_table(source / "samples.parquet", SAMPLES)
    scored = split_rule(stage.params, name).scored(name, samples["split"])
    try:
        curated = curate(
            samples.to_pylist(),
            [source],
            Path(stage.inputs["reviews"]),
            unreviewed=stage.params["unreviewed"],
            lone=stage.params["lone"],
            splits=set(pc.unique(samples["split"].filter(scored)).to_pylist()),
            claims=claims_function(stage.params.get("subsets", {})),
        )
    except (CurationError, ClaimError) as error:
        raise StageError(f"dataset {name}: {error}") from error
    remaining = with_ids(samples, curated.remaining)
    if not remaining.num_rows:
        why = ", ".join(f"{n:,} {reason}" for reason, n in curated.facts["units"]["dropped"].items())
        raise StageError(
            f"dataset {name}: no question is left of {samples.num_rows:,} ({why}); review some with `qualm verify {stage.spec} {name}`"
        )
    if stage.params["lone"] == "keep":
        remaining = without_lone_pairs(remaining)
    if "balance" in stage.params:
        remaining = _balanced(stage, remaining)
    _write(stage, source, folder, remaining, curated.facts)
    for reason, n in curated.facts["units"]["dropped"].items():
        stage.count(**{f"dropped (review: {reason})": n})
    made_of, sources = parents_and_sources({name: stage.inputs["dataset"]}, [stage.inputs["card"]])
    how = {name: stage.params[name] for name in ("unreviewed", "lone")} | {"reviews": stage.inputs["reviews"]}
    left_out = {f"review: {reason}": n for reason, n in curated.facts["units"]["dropped"].items()}
    write_card(stage, DataCard(name, stage.key, "curated", how, made_of, sources, left_out), folder, stage.outputs["card"])
    stage.publish(folder, stage.outputs["dataset"])


def _balanced(stage: Stage, remaining: pa.Table) -> pa.Table:
    """Return the scored rows that `balance:` draws, and all unscored rows; count the draws."""
    name = stage.params["dataset"]
    scored = split_rule(stage.params, name).scored(name, remaining["split"]).to_numpy()
    drawn = balance_samples(Samples(name, remaining), scored, stage.params["balance"])
    stage.count(**drawn.counts)
    return with_ids(remaining, drawn.ids)


def _write(stage: Stage, source: Path, folder: Path, remaining: pa.Table, facts: dict[str, Any]) -> None:
    shutil.copytree(source, folder, ignore=lambda at, names: [n for n in names if Path(at) == source and n in TABLES])
    write_table(folder / "samples.parquet", remaining, SAMPLES, stage.provenance)
    needed = all_ids(remaining["image_id"].to_pylist())
    with ShardWriter(folder / "images", IMAGES) as pictures:
        pictures.extend(row for row in iterate_rows(source / "images", IMAGES, batch_size=64) if row["image_id"] in needed)
    write_json(folder / VERIFICATION, facts)
    stage.count(samples=remaining.num_rows, images=pictures.rows)
