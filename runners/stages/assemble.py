"""The `assemble` stage: the recipes' pairs and the images they need, merged into one dataset folder.

What comes out is a dataset like any other: `samples.parquet`, `images/`, and beside them `statistics.json` (the paper's Table 1,
what was dropped and why), each recipe's own record under `recipes/`, and `verification.json` where people decided. Beside its folder:
how far answerability shows in the question or the image alone, of which a warning is printed.
An image or group on two splits, a lone member of a recipe, an id that comes twice and an image that is nowhere stop it: each would
make the test set say something that is not so.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry.formats.picture_lists import all_ids
from qualm.registry.sample import IMAGES, SAMPLES, SHORTCUTS
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import read_samples
from qualm.runners.data.assembled_images import AssembledPictures
from qualm.runners.data.curation import without_lone_pairs
from qualm.runners.data.data_cards import CardTable, DataCard, parents_and_sources, write_card
from qualm.runners.data.leakage import check_splits, near_duplicates
from qualm.runners.data.recipes import MergedPairs, RecipeOutput, check_ids, read_recipe
from qualm.runners.data.statistics import FILE, VERIFICATION, read_counted_samples, statistics
from qualm.runners.results import shortcuts
from qualm.runners.runtime.records import ShardWriter, publish_table, write_json, write_table
from qualm.runners.runtime.stage import Stage, StageError

KIND = StageKind(
    title="Assemble the pairs of {dataset}",
    reads=("recipes", "datasets", "cards", "reviews"),
    writes={"dataset": "data/{dataset}", "card": "data/{dataset}.md", "shortcuts": "data/{dataset}.shortcuts.parquet"},
    colour="#17becf",
)


def run(stage: Stage) -> None:
    """Merge, check and filter the recipes' pairs; publish dataset folder, card and shortcuts."""
    folder = stage.scratch / "dataset"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    recipes = [read_recipe(label, Path(stage.inputs["recipes"][label])) for label in stage.params["recipes"]]
    sources = {name: Path(path) for name, path in stage.inputs["datasets"].items()}
    merged = MergedPairs(pa.concat_tables([r.samples for r in recipes]))
    check_ids(recipes)
    check_splits([(r.label, r.samples) for r in recipes])
    facts: dict[str, Any] | None = None
    if "reviews" in stage.inputs:
        folders = [*(r.folder for r in recipes), *sources.values()]
        facts = merged.curate(folders, Path(stage.inputs["reviews"]), stage.params["unreviewed"], stage.params["lone"])
    pictures = AssembledPictures(stage, [(r.label, r.folder, list(r.record["parents"]), r.samples) for r in recipes], sources)
    rule = stage.params["near_duplicates"]
    hashes = pictures.hashes(all_ids(merged.samples["image_id"].to_pylist()))
    merged.drop_broken(hashes)
    alike, twins = near_duplicates(merged.samples, {i: h for i, h in hashes.items() if h is not None}, rule["distance"])
    if rule["drop"]:
        merged.drop(twins, "near-duplicate of another split")
    if stage.params.get("lone") == "keep":
        merged.samples = without_lone_pairs(merged.samples)
    if not merged.samples.num_rows:
        why = ", ".join(f"{reason}: {n}" for reason, n in merged.dropped.most_common())
        raise StageError(f"pair set {stage.params['dataset']}: no pair is left of {len(recipes)} recipes ({why or 'they made none'})")
    write_table(folder / "samples.parquet", merged.samples, SAMPLES, stage.provenance)
    with ShardWriter(folder / "images", IMAGES) as out:
        out.extend(pictures.rows(all_ids(merged.samples["image_id"].to_pylist())))
    perturbed = {i for r in recipes for i in pictures.made_by(r.label)}
    _write_facts(folder, recipes, merged, perturbed, {"distance": rule["distance"], "dropped": rule["drop"], **alike}, facts)
    stage.count(samples=merged.samples.num_rows, images=out.rows, pairs=pc.count_distinct(merged.samples["pair_id"]).as_py())
    stage.count(**{f"dropped ({reason})": n for reason, n in sorted(merged.dropped.items())}, **{"near-duplicates": alike["pairs"]})
    blind = _shortcuts(stage, folder)
    write_card(stage, _card(stage, recipes, merged, blind), folder, stage.outputs["card"], perturbed)
    stage.publish(folder, stage.outputs["dataset"])


def _shortcuts(stage: Stage, folder: Path) -> list[dict[str, Any]]:
    """Publish and return rows on text-only and image-only classifiers; print shortcuts."""
    name = stage.params["dataset"]
    rows = shortcuts.measure_shortcuts(name, folder)
    publish_table(stage, "shortcuts", rows, SHORTCUTS)
    rows = shortcuts.with_design(rows, read_samples(name, folder))
    for line in shortcuts.describe_shortcuts(rows):
        print(f"{stage.key}: shortcut: {line}", file=sys.stderr)
    for line in shortcuts.describe_undecided(rows):
        print(f"{stage.key}: without looking: {line}", file=sys.stderr)
    stage.count(shortcuts=sum(bool(row["above_limit"]) for row in rows))
    return rows


def _card(stage: Stage, recipes: list[RecipeOutput], merged: MergedPairs, blind: list[dict[str, Any]]) -> DataCard:
    """Return the dataset card: recipes, sources, dropped pairs by reason, and shortcuts."""
    made_of, sources = parents_and_sources(stage.inputs["datasets"], stage.inputs["cards"].values())
    how = {"recipes": {r.label: r.record["recipe"] for r in recipes}, "near_duplicates": stage.params["near_duplicates"]}
    left_out = {f"pairs, {r.label}: {reason}": n for r in recipes for reason, n in sorted(r.record["dropped"].items())}
    left_out |= {f"pairs: {reason}": n for reason, n in sorted(merged.dropped.items())}
    table = CardTable("What can be told without looking", shortcuts.HEADER, shortcuts.format_cells(blind), shortcuts.NOTE)
    return DataCard(stage.params["dataset"], stage.key, "pairs", how, made_of, sources, left_out, [table])


def _write_facts(
    folder: Path, recipes: list[RecipeOutput], merged: MergedPairs, perturbed: set[str], alike: dict[str, Any], facts: dict[str, Any] | None
) -> None:
    (folder / "recipes").mkdir()
    for recipe in recipes:
        shutil.copyfile(recipe.folder / "recipe.json", folder / "recipes" / f"{recipe.folder.name}.json")
    about_recipes = [
        {
            "label": r.label,
            "recipe": r.record["recipe"],
            "pairs": r.record["pairs"],
            "dropped": r.record["dropped"],
            "parents": r.record["parents"],
            "record": f"recipes/{r.folder.name}.json",
        }
        for r in recipes
    ]
    counts = statistics(read_counted_samples(folder), perturbed)
    whole = {**counts, "recipes": about_recipes, "dropped": dict(sorted(merged.dropped.items())), "near_duplicates": alike}
    for name, content in ((FILE, whole), (VERIFICATION, facts)):
        if content is not None:
            write_json(folder / name, content)
