"""The `pair` stage: run one recipe and lay its pairs down as tables, with what was dropped and why.

The folder holds `samples.parquet` (whole pairs only), `images/` (new images only; the source's own stay where they are) and
`recipe.json` (what was made of what, how many, what was dropped by reason).
"""

import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from qualm.registry.plugins.registry import get, load
from qualm.registry.sample import IMAGES, SAMPLES, Image, Sample
from qualm.runners.contracts.pairs import PairContext, PairError
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.rows import as_row
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.records import ShardWriter, write_json, write_table
from qualm.runners.runtime.stage import Stage, StageError

KIND = StageKind(
    title="Pairs of {pairs}: {recipe}",
    reads=("datasets",),
    writes={"pairs": "pairs/{pairs}/{recipe}"},
    colour="#e377c2",
    seeded=True,
    costly=True,
)


def run(stage: Stage) -> None:
    """Make the recipe's pairs; publish samples, new images and recipe.json as one folder."""
    params = stage.params
    plugin = get("pairs", params["plugin"])
    datasets = {name: Path(path) for name, path in stage.inputs["datasets"].items()}
    context = PairContext(datasets, stage.seed, params["label"], stage.settings, params["about"], limit=params.get("limit", {}))
    folder = stage.scratch / "pairs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        samples = _write(stage, folder, load("pairs", plugin.name)(context, **params["args"]), context)
    except PairError as error:
        raise StageError(str(error)) from error
    if not samples:
        why = ", ".join(f"{reason}: {n}" for reason, n in context.dropped.most_common()) or "nothing was dropped either"
        raise StageError(f"recipe {params['label']}: made no pair of {', '.join(datasets)} ({why})")
    splits = Counter(s.split for s in samples if s.answerable)
    recipe = {
        "recipe": plugin.name,
        "args": params["args"],
        "parents": sorted(datasets),
        "pairs": len(samples) // 2,
        "pairs_by_split": dict(sorted(splits.items())),
        "dropped": dict(sorted(context.dropped.items())),
        **({"limit": params["limit"]} if context.limit else {}),
        **context.notes,
    }
    write_json(folder / "recipe.json", recipe)
    stage.count(pairs=len(samples) // 2, **{f"dropped ({reason})": n for reason, n in sorted(context.dropped.items())})
    stage.count(**context.counters)
    stage.publish(folder, stage.outputs["pairs"])


def _write(stage: Stage, folder: Path, items: Iterable[Image | Sample], context: PairContext) -> list[Sample]:
    """Write a recipe's pairs, count those beyond the limit; return samples; StageError if bad."""
    images: set[str] = set()
    ids: set[str] = set()
    samples: list[Sample] = []
    new_images: list[Image] = []
    label = stage.params["label"]
    with progress(stage.settings, f"{label}: pairs") as advance, ShardWriter(folder / "images", IMAGES) as pictures:
        for item in items:
            if isinstance(item, Image):
                if item.image_id in images:
                    raise StageError(f"recipe {label}: image '{item.image_id}' comes twice; ids must be unique")
                images.add(item.image_id)
                new_images.append(item)
                continue
            if item.sample_id in ids:
                raise StageError(f"recipe {label}: sample '{item.sample_id}' comes twice; ids must be unique")
            ids.add(item.sample_id)
            samples.append(item)
            if item.answerable:
                continue
            _check_pair(label, samples)
            if context.takes(item.split):
                pictures.extend({"image_id": i.image_id, "image": {"bytes": i.data, "path": i.path}} for i in new_images)
                advance()
            else:
                context.drop("beyond the limit")
                del samples[-2:]
            new_images.clear()
    if len(samples) % 2:
        raise StageError(f"recipe {label}: the last pair, '{samples[-1].pair_id}', has one member; expected two")
    write_table(folder / "samples.parquet", [as_row(s) for s in samples], SAMPLES, stage.provenance)
    return samples


def _check_pair(label: str, samples: list[Sample]) -> None:
    second = samples[-1]
    first = samples[-2] if len(samples) > 1 else None
    if first is None or not first.answerable or first.pair_id != second.pair_id or second.pair_id is None:
        raise StageError(f"recipe {label}: '{second.sample_id}' does not follow the answerable member of its pair")
    if (first.split, first.group, first.category) != (second.split, second.group, second.category):
        raise StageError(f"recipe {label}: the members of '{second.pair_id}' differ in split, group or category")
    if not first.references or not second.references:
        raise StageError(f"recipe {label}: pair '{second.pair_id}': a member has no answer; both need one, if only to decline")
