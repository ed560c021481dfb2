"""The `assemble` stage: the recipes' pairs and the images they need, merged into one dataset folder.

What comes out is a dataset like any other: `samples.parquet`, `images/`, and beside them `statistics.json` (the paper's Table 1,
what was dropped and why), each recipe's own record under `recipes/`, and `verification.json` where people decided. Beside its folder:
how far answerability shows in the question or the image alone, of which a warning is printed.
An image or group on two splits, a lone member of a recipe, an id that comes twice and an image that is nowhere stop it: each would
make the test set say something that is not so.
"""

import json
import shutil
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry.formats.picture_lists import all_ids, picture_ids
from qualm.registry.sample import IMAGES, SAMPLES, SHORTCUTS
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import read_samples
from qualm.runners.data.curation import CurationError, curate, without_lone_pairs
from qualm.runners.data.data_cards import CardTable, DataCard, parents_and_sources, write_card
from qualm.runners.data.leakage import check_splits, near_duplicates
from qualm.runners.data.statistics import FILE, VERIFICATION, read_counted_samples, statistics
from qualm.runners.data.writing.assembled_images import AssembledPictures
from qualm.runners.results import shortcuts
from qualm.runners.runtime.records import ShardWriter, publish_table, read_table, write_json, write_table
from qualm.runners.runtime.stage import Stage, StageError

KIND = StageKind(
    title="Assemble the pairs of {dataset}",
    reads=("recipes", "datasets", "cards", "reviews"),
    writes={"dataset": "data/{dataset}", "card": "data/{dataset}.md", "shortcuts": "data/{dataset}.shortcuts.parquet"},
    colour="#17becf",
)


@dataclass
class RecipeOutput:
    label: str
    folder: Path
    samples: pa.Table
    record: dict[str, Any]
    """Its recipe.json."""


@dataclass
class Merged:
    """The merged samples of all recipes, and the number of dropped pairs by reason."""

    samples: pa.Table
    dropped: Counter[str] = field(default_factory=Counter)

    def keep(self, mask: pa.Array, reason: str) -> None:
        """Keep the rows of `mask`, and count the pairs of the others under `reason`."""
        gone = self.samples.filter(pc.invert(mask))
        if gone.num_rows:
            self.dropped[reason] += pc.count_distinct(gone["pair_id"]).as_py()
            self.samples = self.samples.filter(mask)

    def drop(self, pairs: set[str], reason: str) -> None:
        """Drop these pairs, by pair id, and count them under `reason`."""
        self.keep(pc.invert(pc.is_in(self.samples["pair_id"], value_set=pa.array(sorted(pairs), pa.string()))), reason)


def run(stage: Stage) -> None:
    """Merge, check and filter the recipes' pairs; publish one dataset folder."""
    folder = stage.scratch / "dataset"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    recipes = [_read(label, Path(stage.inputs["recipes"][label])) for label in stage.params["recipes"]]
    sources = {name: Path(path) for name, path in stage.inputs["datasets"].items()}
    merged = Merged(pa.concat_tables([r.samples for r in recipes]))
    _check_ids(recipes)
    check_splits([(r.label, r.samples) for r in recipes])
    facts: dict[str, Any] = {}
    if "reviews" in stage.inputs:
        facts["verification"] = _curate(stage, merged, [*(r.folder for r in recipes), *sources.values()])
    pictures = AssembledPictures(stage, [(r.label, r.folder, list(r.record["parents"]), r.samples) for r in recipes], sources)
    rule = stage.params["near_duplicates"]
    hashes = pictures.hashes(all_ids(merged.samples["image_id"].to_pylist()))
    _drop_broken(merged, hashes)
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
    """Publish and return rows on text-only and image-only classifiers; warn about shortcuts."""
    name = stage.params["dataset"]
    rows = shortcuts.read_shortcuts(name, folder)
    publish_table(stage, "shortcuts", rows, SHORTCUTS)
    rows = shortcuts.with_design(rows, read_samples(name, folder))
    for line in shortcuts.describe_shortcuts(rows):
        print(f"{stage.key}: shortcut: {line}", file=sys.stderr)
    for line in shortcuts.describe_undecided(rows):
        print(f"{stage.key}: without looking: {line}", file=sys.stderr)
    stage.count(shortcuts=sum(bool(row["above_limit"]) for row in rows))
    return rows


def _card(stage: Stage, recipes: list[RecipeOutput], merged: Merged, blind: list[dict[str, Any]]) -> DataCard:
    """Return the dataset card: recipes, sources, and dropped pairs by reason."""
    made_of, sources = parents_and_sources(stage.inputs["datasets"], stage.inputs["cards"].values())
    how = {"recipes": {r.label: r.record["recipe"] for r in recipes}, "near_duplicates": stage.params["near_duplicates"]}
    left_out = {f"pairs, {r.label}: {reason}": n for r in recipes for reason, n in sorted(r.record["dropped"].items())}
    left_out |= {f"pairs: {reason}": n for reason, n in sorted(merged.dropped.items())}
    table = CardTable("What can be told without looking", shortcuts.HEADER, shortcuts.format_cells(blind), shortcuts.NOTE)
    return DataCard(stage.params["dataset"], stage.key, "pairs", how, made_of, sources, left_out, [table])


def _read(label: str, folder: Path) -> RecipeOutput:
    samples = read_table(folder / "samples.parquet", SAMPLES)
    try:
        record = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StageError(f"{folder}/recipe.json: expected the description of recipe '{label}': {error}; run `dvc repro`") from error
    return RecipeOutput(label, folder, samples, record)


def _check_ids(recipes: list[RecipeOutput]) -> None:
    """Raise StageError if two recipes share a sample id or a pair lacks a member."""
    owner: dict[str, str] = {}
    for recipe in recipes:
        members: dict[str | None, list[bool]] = {}
        rows = recipe.samples.select(["sample_id", "pair_id", "answerable"]).to_pylist()
        for row in rows:
            other = owner.setdefault(row["sample_id"], recipe.label)
            if other != recipe.label:
                both = f"{other} and {recipe.label}"
                raise StageError(f"sample '{row['sample_id']}' is made by two recipes, {both}; a pair's id must hold its recipe's label")
            members.setdefault(row["pair_id"], []).append(row["answerable"])
        for pair, answerable in members.items():
            if pair is None or sorted(answerable) != [False, True]:
                counts = f"{sum(answerable)} answerable and {len(answerable) - sum(answerable)} unanswerable"
                raise StageError(f"recipe {recipe.label}: pair '{pair}' has {counts} members; expected one of each")


def _curate(stage: Stage, merged: Merged, folders: list[Path]) -> dict[str, Any]:
    """Drop the test questions that people rejected; return the facts of the review."""
    try:
        rules = {name: stage.params[name] for name in ("unreviewed", "lone")}
        curated = curate(merged.samples.to_pylist(), folders, Path(stage.inputs["reviews"]), **rules)
    except CurationError as error:
        raise StageError(str(error)) from error
    before = merged.samples
    merged.samples = before.filter(pc.is_in(before["sample_id"], value_set=pa.array(sorted(curated.remaining), pa.string())))
    for reason, n in curated.facts["units"]["dropped"].items():
        merged.dropped[f"review: {reason}" + (" (questions)" if rules["lone"] == "keep" else "")] += n
    return curated.facts


def _drop_broken(merged: Merged, hashes: dict[str, int | None]) -> None:
    """Drop pairs with an image that cannot be decoded."""
    broken = {i for i, h in hashes.items() if h is None}
    if broken:
        rows = merged.samples.select(["image_id", "pair_id"]).to_pylist()
        merged.drop({r["pair_id"] for r in rows if not broken.isdisjoint(picture_ids(r["image_id"]))}, "image cannot be decoded")


def _write_facts(
    folder: Path, recipes: list[RecipeOutput], merged: Merged, perturbed: set[str], alike: dict[str, Any], facts: dict[str, Any]
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
    for name, content in ((FILE, whole), (VERIFICATION, facts.get("verification"))):
        if content is not None:
            write_json(folder / name, content)
