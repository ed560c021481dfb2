"""A spec's pair sets from YAML to a dataset on disk, with real recipes: and a category that nobody's code has heard of."""

import importlib
import json
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.results.stats import read_statistics
from qualm.compiler.spec.canonical_json import canonical
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from qualm.compiler.spec.resolved import Resolved
from qualm.registry.sample import SAMPLES
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.splits import read_scored, split_rule
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, read_stage
from qualm.runners.scoring.measuring.slices import make_slices

SPEC = """\
qualm: 1
name: t
taxonomy:
  epistemic:
    extraneous: {definition: What the question is about is not in the picture.}
    knowledge: {definition: One cannot know it by looking.}
  aleatoric:
    temporal: {definition: It has not happened yet.}
  social:                                        # nothing in the code knows this
    vanished: {definition: Somebody took it away., answer: Say that it is gone., examples: [What color was the ball?]}
datasets:
  scenes: {card: synthetic_scenes, train: 16, val: 6, test: 8, questions: 1}
pairs:
  ours:
    recipes:
      - inpainted: {dataset: scenes, saliency: scene_graph, mask: scene_graph, inpaint: telea, dilate: 4}
      - inpainted: {dataset: scenes, category: social/vanished, saliency: scene_graph, mask: scene_graph, inpaint: rerender, dilate: 4}
        as: stolen
      - from_caption: {dataset: scenes, category: [epistemic/knowledge, aleatoric/temporal], generator: rules}
slices: [category]
"""


class World:
    """A project folder in which the spec's stages are run one after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "t.yaml").write_text(SPEC)
        self.resolved: Resolved = resolve_file(folder / "t.yaml", folder, RunWide(default="t"))
        self.plan: Plan = make_plan(self.resolved)
        with chdir(folder):
            self.stages: dict[str, Stage] = {s.name: self._run(s.name, canonical(s.as_json())) for s in self.plan.stages}

    def _run(self, name: str, text: str) -> Stage:
        path = Path("specs/t/stages") / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        stage = read_stage(f"t/{name}", Settings(progress=False, workers=2))
        importlib.import_module(f"qualm.runners.stages.{stage.kind}").run(stage)
        return stage


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield World(tmp_path_factory.mktemp("pairs"))


def test_every_stage_of_the_plan_ran_and_its_outputs_are_there(world: World) -> None:
    assert [s.name for s in world.plan.stages] == [
        "data-scenes",
        "pair-ours-inpainted",
        "pair-ours-stolen",
        "pair-ours-from_caption-category-epistemic-knowledge",
        "pair-ours-from_caption-category-aleatoric-temporal",
        "data-ours",
    ]
    assert all((world.folder / out).exists() for s in world.plan.stages for out in s.outs)


def test_a_category_made_up_in_yaml_has_its_pairs_statistics_and_slices(world: World) -> None:
    counts = read_statistics(world.folder / "results/t/data/ours")
    assert counts is not None
    assert counts["categories"] == ["aleatoric/temporal", "epistemic/extraneous", "epistemic/knowledge", "social/vanished"]
    cell = counts["cells"]["train"]["social/vanished"]
    assert cell["idk"] == cell["answerable"] == cell["pairs"] == cell["perturbed"] > 0
    with chdir(world.folder):
        samples = read_scored(world.stages["data-ours"], "ours", "results/t/data/ours")
    labels = [s.label for s in make_slices(samples, ["category"], 0, 0)]
    assert labels[-2:] == ["category=social", "category=social/vanished"]
    assert world.plan.stage("pair-ours-stolen").params["about"]["answer"] == "Say that it is gone."


def test_the_set_is_whole_and_its_splits_are_the_source_s(world: World) -> None:
    folder = world.folder / "results/t/data/ours"
    rows = read_table(folder / "samples.parquet", SAMPLES).to_pylist()
    source = {r["image_id"]: r for r in read_table(world.folder / "results/t/data/scenes/samples.parquet", SAMPLES).to_pylist()}
    assert {r["split"] for r in rows} == {"train", "val", "test"}
    for row in rows:
        assert row["split"] == source.get(row["image_id"], row)["split"]
    everything = DatasetFolder("ours", folder)
    assert all(everything.image(i) is not None for i in range(len(everything)))
    asked = DatasetFolder("ours", folder, split_rule({}, "ours"))
    assert 0 < len(asked) == sum(r["split"] == "test" for r in rows) < len(everything)
    assert json.loads((folder / "recipes" / "stolen.json").read_text())["pairs"] > 0


def test_a_category_that_no_recipe_makes_is_met_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(SPEC.replace("category: social/vanished, ", ""))
    with pytest.raises(SpecError) as caught:
        resolve_file(tmp_path / "t.yaml", tmp_path, RunWide(default="t"))
    assert str(caught.value) == (
        "t.yaml:10:5: taxonomy.social.vanished: a category no pair produces: no recipe makes pairs of 'social/vanished' "
        "(add a recipe with `category: social/vanished` under `pairs:`, or take it out of the taxonomy)"
    )
