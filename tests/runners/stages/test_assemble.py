"""Assembling: recipes merged into one dataset, every check in its words, statistics counted by hand."""

import io
import json
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow.parquet as pq
import pytest
import yaml

from qualm.registry.sample import IMAGES, SAMPLES, SHORTCUTS
from qualm.runners.data.curation import Decision, content_of, pixels_of, write_decisions
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.recipes import read_recipe
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.stages import assemble
from tests.support.data.scenes_folder import write_card_of

K, E = "epistemic/knowledge", "epistemic/extraneous"


def picture(seed: int, change: int = 0) -> bytes:
    """Smooth noise; `change` pixels of another colour leave its perceptual hash close to what it was."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    image = PIL.Image.fromarray(small).resize((64, 64), PIL.Image.Resampling.BICUBIC)
    for i in range(change):
        image.putpixel((i, 0), (255, 0, 0))
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def write_images(folder: Path, images: dict[str, bytes]) -> None:
    rows = [{"image_id": name, "image": {"bytes": data, "path": f"{name}.png"}} for name, data in images.items()]
    write_table(folder / "images" / "00000.parquet", rows, IMAGES)


def member(pair: str, answerable: bool, image: str, split: str, category: str = K, group: str | None = None) -> dict:
    return {
        "sample_id": f"{pair}-{'a' if answerable else 'u'}", "image_id": image, "question": f"What of {pair}?", "choices": [],
        "references": ["red" if answerable else "I don't know."], "answer_index": None, "category": category, "answerable": answerable,
        "split": split, "source": "recipe", "group": image if group is None else group, "meta": [], "pair_id": pair,
    }  # fmt: skip


def pair(name: str, image: str, split: str, category: str = K, other: str | None = None) -> list[dict]:
    return [member(name, True, image, split, category), member(name, False, other or image, split, category, image)]


class Project:
    """A source of pictures s0..s5 and a recipe on captions and one that removes objects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recipes: dict[str, tuple[list[dict], dict[str, bytes]]] = {
            "talk": ([*pair("k0", "s0", "train"), *pair("k1", "s1", "train"), *pair("k2", "s2", "test")], {}),
            "erase": (
                [*pair("e0", "s0", "train", E, "new0"), *pair("e1", "s3", "test", E, "new1")],
                {"new0": picture(0, 2), "new1": picture(3, 2)},
            ),
        }
        self.sources = {"photos": {f"s{i}": picture(i) for i in range(6)}}
        self.params = {"dataset": "ours", "recipes": ["talk", "erase"], "near_duplicates": {"distance": 4, "drop": False}}
        self.inputs: dict = {}

    def run(self) -> Stage:
        with chdir(self.folder):
            for name, images in self.sources.items():
                write_images(Path("data") / name, images)
            for label, (samples, images) in self.recipes.items():
                place = Path("pairs") / label
                write_table(place / "samples.parquet", samples, SAMPLES)
                write_images(place, images)
                record = {"recipe": label, "parents": sorted(self.sources), "pairs": len(samples) // 2, "dropped": {"no box": 3}}
                (place / "recipe.json").write_text(json.dumps(record))
            inputs = {
                "recipes": {label: f"pairs/{label}" for label in self.recipes},
                "datasets": {name: f"data/{name}" for name in self.sources},
            }
            inputs["cards"] = {name: write_card_of(Path(f"data/{name}.md")) for name in self.sources}
            outputs = {"dataset": "results/t/data/ours", "card": "results/t/data/ours.md"}
            outputs["shortcuts"] = "results/t/data/ours.shortcuts.parquet"
            settings = Settings(progress=False, workers=2)
            stage = Stage("t/data-ours", "t", "data-ours", "assemble", self.params, {**inputs, **self.inputs}, outputs, 0, settings)
            assemble.run(stage)
            return stage

    @property
    def made(self) -> Path:
        return self.folder / "results/t/data/ours"

    def ids(self) -> list[str]:
        return read_table(self.made / "samples.parquet", SAMPLES)["sample_id"].to_pylist()

    def statistics(self) -> dict:
        return json.loads((self.made / "statistics.json").read_text())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_recipes_are_merged_in_the_spec_s_order_with_the_pictures_they_need(project: Project) -> None:
    stage = project.run()
    assert project.ids() == [f"{p}-{m}" for p in ("k0", "k1", "k2", "e0", "e1") for m in "au"]
    images = read_table(project.made / "images", IMAGES)["image_id"].to_pylist()
    assert images == ["new0", "new1", "s0", "s1", "s2", "s3"], "recipes' pictures first; s4 and s5 are not needed"
    assert stage.counters == {"samples": 10, "images": 6, "pairs": 5, "near-duplicates": 0, "shortcuts": 0}
    dataset = DatasetFolder("ours", project.made)
    assert all(dataset.image(row) is not None for row in range(len(dataset)))
    assert json.loads((project.made / "recipes/erase.json").read_text())["dropped"] == {"no box": 3}


def test_what_can_be_told_without_looking_is_beside_the_set_in_its_card_and_said_aloud(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = [m for i in range(40) for m in pair(f"k{i}", f"s{i}", "train" if i < 20 else "test")]
    for m in talk:
        m["question"] = f"What colour is it{'' if m['answerable'] else ' tomorrow'}?"
    project.recipes = {"talk": (talk, {})}
    project.sources = {"photos": {f"s{i}": picture(i) for i in range(40)}}
    project.params = {**project.params, "recipes": ["talk"]}
    stage = project.run()
    rows = read_table(project.folder / stage.outputs["shortcuts"], SHORTCUTS).to_pylist()
    assert {(r["sees"], r["balanced_accuracy"], r["above_limit"]) for r in rows} == {
        ("nothing", 0.5, False), ("question", 1.0, True), ("picture", 0.5, False),
    }  # fmt: skip
    said = capsys.readouterr().err
    assert "t/data-ours: shortcut: all categories together: a classifier of the question alone separates " in said
    assert "with a balanced accuracy of 1.000 (0.8" in said and stage.counters["shortcuts"] == 1
    card = (project.folder / stage.outputs["card"]).read_text()
    section = card.partition("## What can be told without looking")[2].partition("## ")[0]
    assert "| all | 40 | 100.0% | 0.500 | 1.000 (0.8" in section and " * | 0.500 = |" in section and "How well a classifier" in section
    assert not list(project.made.glob("*shortcuts*")), "beside the folder: what models are asked does not change with it"


def test_the_same_inputs_give_the_same_bytes(project: Project) -> None:
    project.run()
    before = {p.relative_to(project.made): p.read_bytes() for p in project.made.rglob("*") if p.is_file()}
    project.run()
    assert before == {p.relative_to(project.made): p.read_bytes() for p in project.made.rglob("*") if p.is_file()}


def test_statistics_are_those_of_table_1(project: Project) -> None:
    project.run()
    found = project.statistics()
    assert found["splits"] == ["train", "test"]
    assert found["categories"] == [E, K]
    cell = lambda split, category: found["cells"][split][category]  # noqa: E731
    assert cell("train", K) == {"perturbed": 0, "clean": 2, "idk": 2, "answerable": 2, "pairs": 2}
    assert cell("train", E) == {"perturbed": 1, "clean": 1, "idk": 1, "answerable": 1, "pairs": 1}
    assert cell("train", "all") == {"perturbed": 1, "clean": 2, "idk": 3, "answerable": 3, "pairs": 3}, "s0 is one picture"
    assert cell("test", "all") == {"perturbed": 1, "clean": 2, "idk": 2, "answerable": 2, "pairs": 2}
    assert cell("all", "all") == {"perturbed": 2, "clean": 4, "idk": 5, "answerable": 5, "pairs": 5}
    card = yaml.safe_load(project.made.with_suffix(".md").read_text(encoding="utf-8").split("---")[1])
    assert card["qualm"]["counts"]["train"] == cell("train", "all"), "the card counts as the table does"
    assert found["recipes"][1] == {
        "label": "erase", "recipe": "erase", "pairs": 2, "dropped": {"no box": 3}, "parents": ["photos"], "record": "recipes/erase.json",
    }  # fmt: skip
    assert found["dropped"] == {}
    assert found["near_duplicates"] == {"distance": 4, "dropped": False, "pairs": 0, "between": {}, "closest": []}


def test_pictures_that_look_alike_across_splits_are_counted_and_may_be_left_out(project: Project) -> None:
    project.sources["photos"]["s2"] = picture(1, 3)  # of the test split, and s1 of train looks like it
    project.run()
    near = project.statistics()["near_duplicates"]
    assert (near["pairs"], near["between"]) == (1, {"train/test": 1})
    (closest,) = near["closest"]
    assert {**closest, "bits": None} == {"bits": None, "train": "s1", "test": "s2"}
    assert closest["bits"] <= 4
    assert len(project.ids()) == 10
    project.params["near_duplicates"]["drop"] = True
    stage = project.run()
    assert [i for i in project.ids() if i.startswith("k1")] == []
    assert len(project.ids()) == 8
    assert stage.counters["dropped (near-duplicate of another split)"] == 1
    assert project.statistics()["dropped"] == {"near-duplicate of another split": 1}
    assert "s1" not in read_table(project.made / "images", IMAGES)["image_id"].to_pylist()


def test_a_picture_that_cannot_be_decoded_costs_its_pairs(project: Project) -> None:
    project.sources["photos"]["s1"] = b"not a picture"
    stage = project.run()
    assert "k1-a" not in project.ids()
    assert stage.counters["dropped (image cannot be decoded)"] == 1


def test_people_s_decisions_filter_the_test_split(project: Project) -> None:
    rows = {r["sample_id"]: r for r in project.recipes["talk"][0] + project.recipes["erase"][0]}
    pixels = {**project.sources["photos"], **project.recipes["erase"][1]}
    said = {"k2-a": "valid", "k2-u": "valid", "e1-a": "valid", "e1-u": "invalid"}
    decisions = [Decision(i, content_of(rows[i], pixels_of(pixels[rows[i]["image_id"]])), "ann", d) for i, d in said.items()]
    write_decisions(project.folder / "reviews" / "decisions.csv", decisions)
    project.inputs["reviews"] = "reviews"
    project.params |= {"unreviewed": "drop", "lone": "drop"}
    project.run()
    assert [i for i in project.ids() if i.endswith("-a")] == ["k0-a", "k1-a", "k2-a", "e0-a"]
    assert project.statistics()["dropped"] == {"review: invalid": 1}
    assert json.loads((project.made / "verification.json").read_text())["decisions"]["applied"] == 4
    (project.folder / "reviews" / "decisions.csv").write_text("who,what\n")
    with pytest.raises(StageError, match=r"decisions.csv: expected columns sample_id,content,"):
        project.run()


def test_lone_members_that_people_found_valid_make_table_1(project: Project) -> None:
    """The paper's extraneous test questions: a perturbed image for each IDK question, a clean one for each answerable question."""
    rows, images = project.recipes["erase"]
    rows += [row for n in range(2, 8) for row in pair(f"e{n}", f"t{n}", "test", E, f"e{n}-without")]
    images |= {f"e{n}-without": picture(100 + n) for n in range(2, 8)}
    project.sources["photos"] |= {f"t{n}": picture(200 + n) for n in range(2, 8)}
    people = [r for r in rows if r["split"] == "test"]
    pixels = {**project.sources["photos"], **images}
    said = {r["sample_id"]: "invalid" if r["sample_id"] in ("e2-u", "e5-u") else "valid" for r in people}
    decisions = [Decision(r["sample_id"], content_of(r, pixels_of(pixels[r["image_id"]])), "ann", said[r["sample_id"]]) for r in people]
    write_decisions(project.folder / "reviews" / "decisions.csv", decisions)
    project.inputs["reviews"] = "reviews"
    project.params |= {"unreviewed": "keep", "lone": "keep"}
    project.run()
    cell = project.statistics()["cells"]["test"][E]
    assert (cell["answerable"], cell["idk"]) == (len(people) // 2, len(people) // 2 - 2)
    assert (cell["clean"], cell["perturbed"], cell["pairs"]) == (len(people) // 2, len(people) // 2 - 2, len(people) // 2 - 2)
    assert project.statistics()["dropped"] == {"review: invalid (questions)": 2}
    pairs = {r["sample_id"]: r["pair_id"] for r in read_table(project.made / "samples.parquet", SAMPLES).to_pylist()}
    assert (pairs["e2-a"], pairs["e3-a"]) == (None, "e3") and "e2-u" not in pairs


def _two_splits(p: Project) -> None:
    p.recipes["erase"][0].extend(pair("e2", "s1", "test", E))


def _group_on_two_splits(p: Project) -> None:
    p.recipes["erase"][0].extend([member("e2", True, "s4", "test", E, "s1"), member("e2", False, "s4", "test", E, "s1")])


def _same_id(p: Project) -> None:
    p.recipes["erase"][0].extend(pair("k0", "s0", "train", E))


def _lone(p: Project) -> None:
    p.recipes["talk"][0].append(member("k9", True, "s0", "train"))


def _nowhere(p: Project) -> None:
    p.recipes["talk"][0].extend(pair("k9", "s9", "train"))


def _two_pictures_of_one_name(p: Project) -> None:
    p.recipes["erase"][1]["s1"] = picture(77)
    p.recipes["erase"][0].extend(pair("e2", "s1", "train", E))


def _nothing_left(p: Project) -> None:
    p.sources["photos"] = dict.fromkeys(p.sources["photos"], b"not a picture")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (
            _two_splits,
            "image 's1' is in two splits: train (recipe talk, sample 'k1-a') and test (recipe erase, sample 'e2-a'); what is trained on "
            "would be tested on. Make the pairs from a dataset whose splits share no image",
        ),
        (
            _group_on_two_splits,
            "group 's1' is in two splits: train (recipe talk, sample 'k1-a') and test (recipe erase, sample 'e2-a'); what is trained on "
            "would be tested on. Make the pairs from a dataset whose splits share no image",
        ),
        (_same_id, "sample 'k0-a' is made by two recipes, talk and erase; a pair's id must hold its recipe's label"),
        (_lone, "recipe talk: pair 'k9' has 1 answerable and 0 unanswerable members; expected one of each"),
        (
            _nowhere,
            "recipe talk: sample 'k9-a': its image 's9' is not in pairs/talk/images, data/photos/images; run `dvc repro`",
        ),
        (
            _two_pictures_of_one_name,
            "the id 's1' names different images in pairs/erase/images and data/photos/images; each needs its own",
        ),
        (_nothing_left, "pair set ours: no pair is left of 2 recipes (image cannot be decoded: 5)"),
    ],
)
def test_what_would_make_the_set_untrue_stops_it(project: Project, spoil: Callable[[Project], None], expected: str) -> None:
    spoil(project)
    with pytest.raises(StageError) as caught:
        project.run()
    assert str(caught.value) == expected
    assert not project.made.exists()


def test_a_recipe_that_does_not_say_what_it_did_is_named(project: Project) -> None:
    project.run()
    (project.folder / "pairs/talk/recipe.json").write_text("{")
    with pytest.raises(StageError, match=r"^pairs/talk/recipe.json: expected the description of recipe 'talk': "), chdir(project.folder):
        read_recipe("talk", Path("pairs/talk"))


def test_pictures_are_written_in_shards_that_other_libraries_open(project: Project) -> None:
    project.run()
    assert b"huggingface" in pq.read_schema(project.made / "images" / "00000.parquet").metadata
