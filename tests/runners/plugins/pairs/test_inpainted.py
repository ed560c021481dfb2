import io
import json
from collections import Counter
from dataclasses import asdict

import numpy as np
import PIL.Image
import pytest

import qualm.runners.stages.pair as pair
from qualm.registry.sample import IMAGES, SAMPLES, Image, Sample
from qualm.registry.scenes.contrast import parse_query, possible_answers
from qualm.registry.scenes.removal import remove_objects
from qualm.registry.scenes.render import render
from qualm.runners.contracts.pairs import PairContext, PairError
from qualm.runners.data.scene_graphs import read_scenes
from qualm.runners.plugins.pairs.inpainted import IDK, inpainted
from qualm.runners.runtime.records import iterate_rows, read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from tests.support.data.scenes_folder import scenes_folder

SCENES = {"dataset": "scenes", "saliency": "scene_graph", "mask": "scene_graph", "dilate": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        return scenes_folder(root, train=12, test=48)


def make(folder, workers=1, batch_size=32, seed=7, **args):
    context = PairContext({"scenes": folder}, seed, "erased", Settings(workers=workers, batch_size=batch_size, progress=False))
    made = list(inpainted(context, **{**SCENES, **args}))
    return context, [m for m in made if isinstance(m, Sample)], {m.image_id: m for m in made if isinstance(m, Image)}


@pytest.fixture(scope="module")
def plain(folder):
    """All pairs of the folder by the usual arguments."""
    return make(folder)


@pytest.fixture(scope="module")
def controlled(folder):
    return make(folder, control=True)


@pytest.fixture(scope="module")
def redrawn(folder):
    return make(folder, inpaint="rerender")


def decoded(data):
    return np.asarray(PIL.Image.open(io.BytesIO(data)))


def test_pairs_are_proved_and_carry_what_the_source_says(folder, plain):
    context, samples, images = plain
    scenes = read_scenes(folder)
    rows = {r["image_id"]: r for r in read_table(folder / "samples.parquet", SAMPLES).to_pylist()}
    assert len(samples) == 2 * len(images) > 20
    assert len(samples) // 2 + sum(context.dropped.values()) == len(rows)
    assert set(context.dropped) <= {"no object that is unique", "nothing else in the image"}
    for first, second in zip(samples[::2], samples[1::2], strict=True):
        assert first.pair_id == second.pair_id and (first.sample_id, second.sample_id) == (f"{first.pair_id}-a", f"{first.pair_id}-u")
        assert first.answerable and not second.answerable and first.question == second.question
        row = rows[first.image_id]
        assert {(s.split, s.group, s.category, s.source) for s in (first, second)} == {
            (row["split"], row["group"], "epistemic/extraneous", "inpainted")
        }
        scene = scenes[first.image_id]
        query = parse_query(first.question)
        assert possible_answers(query, scene) == first.references
        gone = [i for i, o in enumerate(scene["objects"]) if all(o[a] == v for a, v in query.of.items())]
        assert possible_answers(query, remove_objects(scene, gone)) == ()
        assert first.meta["proof"] == second.meta["proof"] and "nothing here is a" in first.meta["proof"]
        assert second.image_id in images


def test_drawn_again_it_is_the_renderer_on_the_reduced_graph(folder, redrawn):
    _, samples, images = redrawn
    scenes = read_scenes(folder)
    assert len({image.data for image in images.values()}) == len(images)  # no empty table, which would be one picture on all splits
    for first, second in zip(samples[::2], samples[1::2], strict=True):
        scene = scenes[first.image_id]
        query = parse_query(first.question)
        left = [o for o in scene["objects"] if not all(o[a] == v for a, v in query.of.items())]
        assert (decoded(images[second.image_id].data) == render({**scene, "objects": left})).all()


def test_declining_is_put_in_the_papers_four_ways_or_in_those_chosen(folder, plain):
    _, samples, _ = plain
    used = Counter(s.meta["idk"] for s in samples if not s.answerable)
    assert set(used) == set(IDK) and min(used.values()) > sum(used.values()) / 8
    for s in samples[1::2]:
        name = s.meta["object"]
        assert s.references == (IDK[s.meta["idk"]].format(x=name, xs=name + "s"),)
    assert IDK["there_is_no"].format(x="cat", xs="cats") == "There is no cat in the image."
    _, samples, _ = make(folder, idk=["cant_see"])
    assert all(s.references[0].startswith("I can't see any ") for s in samples[1::2])
    with pytest.raises(PairError, match="at least one way to decline"):
        make(folder, idk=[])


def test_controls_show_both_members_painted_and_stay_answerable(folder, plain, controlled):
    context, samples, images = controlled
    scenes = read_scenes(folder)
    assert len(images) == len(samples) and context.notes["inpainting"]["control"]
    assert 0 < context.dropped["no other thing as a control"] == (len(plain[1]) - len(samples)) // 2
    assert {s.sample_id for s in samples} < {s.sample_id for s in plain[1]}
    for first, second in zip(samples[::2], samples[1::2], strict=True):
        assert first.answerable and first.meta["control"] == "true" and "control" not in second.meta
        assert first.meta["removed"] != second.meta["removed"] == first.meta["object"]
        assert first.image_id in images and second.image_id in images
        scene = scenes[first.image_id.removesuffix("-control").removesuffix("-erased").rpartition("-")[0]]
        query = parse_query(first.question)
        away = [i for i, o in enumerate(scene["objects"]) if f"{o['color']} {o['shape']}" == first.meta["removed"]]
        assert any(possible_answers(query, remove_objects(scene, [i])) == first.references for i in away)
        assert f"{first.references[0]!r} is still the only possible answer" in first.meta["control_proof"]


def test_the_control_leaves_the_things_own_pixels_alone(folder, controlled):
    from qualm.registry.scenes.removal import silhouette

    _, samples, images = controlled
    pictures = {r["image_id"]: decoded(r["image"]["bytes"]) for r in iterate_rows(folder / "images", IMAGES)}
    for first in samples[::2]:
        source = first.group
        scene = read_scenes(folder, {source})[source] if first is samples[0] else None
        if scene is not None:
            query = parse_query(first.question)
            own = [i for i, o in enumerate(scene["objects"]) if all(o[a] == v for a, v in query.of.items())]
            shown = silhouette(scene, own)
            assert (decoded(images[first.image_id].data)[shown] == pictures[source][shown]).all()
        assert (decoded(images[first.image_id].data) != pictures[source]).any()


def test_templates_ask_something_else(folder, plain):
    _, same, _ = plain
    _, other, _ = make(folder, question="templates")
    scenes = read_scenes(folder)
    assert [s.sample_id for s in same] == [s.sample_id for s in other]
    assert sum(a.question != b.question for a, b in zip(same, other, strict=True)) == len(same)
    assert all(possible_answers(parse_query(s.question), scenes[s.image_id]) == s.references for s in other[::2])


@pytest.mark.slow
@pytest.mark.parametrize("args", [{}, {"control": True, "inpaint": "navier_stokes"}])
def test_workers_and_batches_change_no_byte(folder, args):
    seen = []
    for workers, batch_size in ((1, 32), (3, 5)):
        context, samples, images = make(folder, workers, batch_size, **args)
        seen.append(([asdict(s) for s in samples], {k: v.data for k, v in images.items()}, context.dropped, context.notes))
    assert seen[0] == seen[1]


def test_seeds_differ_and_labels_keep_recipes_apart(folder, plain):
    assert [s.question for s in make(folder, seed=1)[1]] != [s.question for s in plain[1]]


def test_what_a_telea_leaves_is_told_against_the_scene_drawn_again(folder, plain, redrawn):
    context, samples, _ = plain
    told = context.notes["inpainting"]
    assert told["dilation"] == {"kernel": 5, "grows": {"left": 2, "up": 2, "right": 2, "down": 2}, "off_centre": False}
    assert told["removal"]["pictures"] == len(samples) // 2
    assert 18 < told["removal"]["psnr_inside"] < 30 < told["removal"]["psnr_outside"]
    assert 0 < told["removal"]["left"] < 0.2 and told["removal"]["detected"] < 0.05
    bare = make(folder, dilate=0)[0].notes["inpainting"]
    assert bare["removal"]["left"] > told["removal"]["left"] and bare["removal"]["psnr_inside"] < told["removal"]["psnr_inside"]
    even = make(folder, dilate=20)[0].notes["inpainting"]["dilation"]
    assert even["off_centre"] and even["grows"] == {"left": 9, "up": 9, "right": 10, "down": 10}
    exact = redrawn[0].notes["inpainting"]["removal"]
    assert (exact["left"], exact["psnr_inside"], exact["ssim_inside"]) == (0.0, None, 1.0)


def test_broken_pictures_and_masks_of_everything_are_counted(folder, plain, tmp_path):
    whole = plain
    damaged, missing = whole[1][0].group, whole[1][-1].group
    rows = [r for r in iterate_rows(folder / "images", IMAGES) if r["image_id"] != missing]
    next(r for r in rows if r["image_id"] == damaged)["image"]["bytes"] = b"no picture"
    write_table(tmp_path / "images" / "00000.parquet", rows, IMAGES)
    (tmp_path / "samples.parquet").write_bytes((folder / "samples.parquet").read_bytes())
    for name in ("CLEVR_test_scenes.json", "CLEVR_train_scenes.json"):
        (tmp_path / "scenes").mkdir(exist_ok=True)
        (tmp_path / "scenes" / name).write_bytes((folder / "scenes" / name).read_bytes())
    context, samples, _ = make(tmp_path)
    lost = sum(context.dropped.values()) - sum(whole[0].dropped.values())
    assert context.dropped["image cannot be decoded"] + context.dropped["no scene graph"] == lost == 2
    assert {s.group for s in whole[1]} - {s.group for s in samples} == {damaged, missing}
    context, samples, _ = make(folder, largest=0.05)
    assert 0 < context.dropped["mask covers the image"] == (len(whole[1]) - len(samples)) // 2
    context, samples, _ = make(folder, dilate=140)
    assert not samples and context.dropped["mask covers the image"] == len(whole[1]) // 2


def test_the_stage_writes_whole_pairs_and_its_record(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = {**{k: v for k, v in SCENES.items()}, "category": "epistemic/extraneous", "control": True}
    args["inpaint"] = {"plugin": "telea", "args": {"radius": 2.0}}
    params = {"plugin": "inpainted", "label": "erased", "args": args, "about": {}}
    one = Stage("s/p", "s", "p", "pair", params, {"datasets": {"scenes": str(folder)}}, {"pairs": "out"}, 7, Settings(progress=False))
    pair.run(one)
    record = json.loads((tmp_path / "out/recipe.json").read_text())
    samples = read_table(tmp_path / "out/samples.parquet", SAMPLES)
    images = read_table(tmp_path / "out/images", IMAGES)
    assert record["pairs"] == samples.num_rows // 2 == images.num_rows // 2 == sum(record["pairs_by_split"].values())
    assert record["inpainting"]["removal"]["against"] == "rerender"
    assert record["dropped"]["no other thing as a control"] > 0
