"""Targets -> masks -> painted pictures: what is dropped and why, which controls are taken, in what batches all of it goes."""

import io

import numpy as np
import PIL.Image
import pytest

from qualm.registry.scenes.contrast import parse_query, possible_answers
from qualm.registry.scenes.removal import remove_objects, silhouette
from qualm.registry.scenes.render import render
from qualm.runners.contracts.masks import dilated
from qualm.runners.contracts.saliency import Target
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.data.removal_quality import measure_removal
from qualm.runners.plugins.pairs._painting import CHUNK, Painter, batches, prove_control, prove_removal
from tests.support.data.targets import context, hole, noise, scene_and_picture, thing
from tests.support.projects.asking import png, sample, write_samples

WIDTH, HEIGHT = 40, 30


def grey(jobs):
    """Paints every picture grey under its mask."""
    pictures = []
    for job in jobs:
        pixels = np.asarray(job.picture).copy()
        pixels[job.mask] = 128
        pictures.append(PIL.Image.fromarray(pixels))
    return pictures


class Holes:
    """A masker that gives each thing the mask of its name, and remembers what it was asked for."""

    def __init__(self, **masks):
        self.masks, self.asked = masks, []

    def __call__(self, requests):
        self.asked.append([(r.target.key, r.thing.name) for r in requests])
        return [self.masks[r.thing.name] for r in requests]


@pytest.fixture
def source(tmp_path):
    pictures = {f"p{i}": png(noise(WIDTH, HEIGHT, i)) for i in range(40)} | {"bad": b"no picture"}
    rows = [sample(f"s{i}", f"p{i}", "What?") for i in range(40)]
    return DatasetFolder("d", write_samples(tmp_path / "d", [*rows, sample("broken", "bad", "?"), sample("none", None, "?")], pictures))


def target(number=0, name="dog", others=(), row=None):
    return Target(f"key{number}", {"sample_id": row or f"s{number}"}, "What?", "red", thing(name), others=tuple(map(thing, others)))


def painter(source, masker, inpainter=grey, dilate=0, largest=1.0, control=False, **settings):
    return Painter(context(**settings), source, masker, inpainter, dilate, largest, control)


def decoded(data):
    return np.asarray(PIL.Image.open(io.BytesIO(data)))


def test_a_target_becomes_its_picture_painted_under_its_dilated_mask(source):
    hands = painter(source, Holes(dog=hole(WIDTH, HEIGHT)), dilate=5)
    (painted,) = hands.paint([target(3)])
    (job,) = painted.plan.jobs
    assert (job.mask == dilated(hole(WIDTH, HEIGHT), 5)).all() and job.thing.name == "dog" and painted.plan.proofs == ("",)
    expected = np.asarray(noise(WIDTH, HEIGHT, 3)).copy()
    expected[dilated(hole(WIDTH, HEIGHT), 5)] = 128
    assert (decoded(painted.pictures[0]) == expected).all() and painted.removal is None
    assert not hands.context.dropped


def test_what_cannot_be_painted_is_dropped_by_its_reason(source):
    full, almost = np.ones((HEIGHT, WIDTH), bool), np.ones((HEIGHT, WIDTH), bool)
    almost[0, 0] = False
    masker = Holes(dog=hole(WIDTH, HEIGHT), sky=full, ground=almost, ghost="no box")
    hands = painter(source, masker)
    targets = [
        target(0), target(1, "sky"), target(2, "ghost"), target(3, "ground"), target(4, row="broken"), target(5, row="none"), target(6),
    ]  # fmt: skip
    assert [p.plan.target.key for p in hands.paint(targets)] == ["key0", "key3", "key6"]
    assert hands.context.dropped == {"mask covers the image": 1, "no box": 1, "image cannot be decoded": 2}


def test_a_mask_may_cover_as_much_as_is_allowed_and_no_more(source):
    share = 36 / (WIDTH * HEIGHT)
    for largest, painted in ((share, 1), (share - 1e-9, 0)):
        hands = painter(source, Holes(dog=hole(WIDTH, HEIGHT)), largest=largest)
        assert len(list(hands.paint([target()]))) == painted and hands.context.dropped.total() == 1 - painted


def test_nothing_to_paint_asks_for_no_mask(source):
    masker = Holes()
    assert list(painter(source, masker).paint([])) == [] == list(painter(source, masker).paint([target(row="broken")]))
    assert masker.asked == []


@pytest.mark.parametrize(("batch_size", "sizes"), [(1, [16, 16, 8]), (16, [16, 16, 8]), (20, [20, 20]), (64, [40])])
def test_masks_are_made_in_batches_of_at_least_a_chunk(source, batch_size, sizes):
    masker, painted = Holes(dog=hole(WIDTH, HEIGHT)), []
    hands = painter(source, masker, lambda jobs: painted.append(len(jobs)) or grey(jobs), batch_size=batch_size, workers=1)
    assert [p.plan.target.key for p in hands.paint(map(target, range(40)))] == [f"key{i}" for i in range(40)]
    assert [len(asked) for asked in masker.asked] == sizes
    assert max(painted) <= CHUNK == 16 and sum(painted) == 40


def test_what_comes_out_is_the_same_for_any_number_of_threads(source):
    everything = []
    for workers in (1, 4):
        hands = painter(source, Holes(dog=hole(WIDTH, HEIGHT), cat=hole(WIDTH, HEIGHT, 20)), control=True, workers=workers)
        everything.append([(p.plan.target.key, p.pictures) for p in hands.paint(target(i, others=["cat"]) for i in range(40))])
    assert everything[0] == everything[1] and len(everything[0]) == 40


def test_a_control_is_another_thing_that_leaves_the_targets_own_pixels_alone(source):
    own, beside = hole(WIDTH, HEIGHT), hole(WIDTH, HEIGHT, 20)
    overlapping = hole(WIDTH, HEIGHT, 10)  # from column 10 on: the dog ends at column 10
    touching = hole(WIDTH, HEIGHT, 11)
    masker = Holes(dog=own, cat=beside, hat=overlapping, bone=touching)
    hands = painter(source, masker, control=True)
    painted = list(hands.paint([target(0, others=["hat"]), target(1, others=["cat"]), target(2, others=["bone"])]))
    assert [(p.plan.target.key, [j.thing.name for j in p.plan.jobs]) for p in painted] == [
        ("key1", ["dog", "cat"]), ("key2", ["dog", "bone"]),
    ]  # fmt: skip
    assert hands.context.dropped == {"no other thing as a control": 1} and painted[0].plan.proofs == ("", "")
    for p in painted:
        assert len(p.pictures) == 2 and (p.plan.jobs[0].mask == own).all()
        rest = decoded(p.pictures[1])[~p.plan.jobs[1].mask]
        assert (rest == np.asarray(p.plan.jobs[0].picture)[~p.plan.jobs[1].mask]).all()


def test_a_control_is_grown_as_the_thing_is_and_kept_from_its_shape_before_it_grew(source):
    """Both grow by two to each side: they may then overlap, but neither covers what the other one is."""
    for left, taken in ((12, False), (13, True)):
        hands = painter(source, Holes(dog=hole(WIDTH, HEIGHT), cat=hole(WIDTH, HEIGHT, left)), dilate=5, control=True)
        painted = list(hands.paint([target(others=["cat"])]))
        assert len(painted) == taken
        if taken:
            first, second = painted[0].plan.jobs
            assert (second.mask == dilated(hole(WIDTH, HEIGHT, left), 5)).all() and (first.mask & second.mask).any()


def test_where_no_other_thing_is_known_the_mask_is_moved(source):
    own = hole(WIDTH, HEIGHT)
    own[3, 4] = False  # a shape that can be told from a square
    hands = painter(source, Holes(dog=own), dilate=0, control=True)
    painted = list(hands.paint(map(target, range(40))))
    moved = [p.plan.jobs[1].mask for p in painted]
    assert {p.plan.jobs[1].thing.name for p in painted} == {"another place"} and not any((m & own).any() for m in moved)
    corners = set()
    for mask in moved:
        rows, columns = np.nonzero(mask)
        top, left = rows.min(), columns.min()
        assert (mask[top : top + 6, left : left + 6] == own[np.nonzero(own)[0].min() :, np.nonzero(own)[1].min() :][:6, :6]).all()
        assert mask.sum() == own.sum()
        corners.add((int(top), int(left)))
    assert len(corners) > 30 and len(painted) + hands.context.dropped["no other thing as a control"] == 40
    assert len(painted) > 35


def test_a_mask_with_no_room_beside_it_has_no_control(source):
    wide = np.zeros((HEIGHT, WIDTH), bool)
    wide[:20, :30] = True
    hands = painter(source, Holes(dog=wide), control=True)
    assert list(hands.paint([target()])) == [] and hands.context.dropped == {"no other thing as a control": 1}


def test_four_others_are_tried_in_an_order_drawn_for_each_target(source):
    bad = hole(WIDTH, HEIGHT)
    masker = Holes(dog=bad, **{f"o{i}": bad for i in range(6)})
    hands = painter(source, masker, control=True)
    assert list(hands.paint([target(0, others=[f"o{i}" for i in range(6)])])) == []
    order = context().rng("control", "key0").permutation(6).tolist()
    assert [asked[0][1] for asked in masker.asked] == ["dog", *(f"o{i}" for i in order[:4])]


def test_who_has_a_control_is_asked_for_no_other(source):
    bad, good = hole(WIDTH, HEIGHT), hole(WIDTH, HEIGHT, 20)
    masker = Holes(dog=bad, bad=bad, good=good, mute="no box")
    hands = painter(source, masker, control=True)
    painted = list(hands.paint([target(0, others=["good"]), target(1, others=["bad", "mute"]), target(2, others=["good", "good", "good"])]))
    assert [p.plan.target.key for p in painted] == ["key0", "key2"]
    assert [[key for key, _ in asked] for asked in masker.asked[1:]] == [["key0", "key1", "key2"], ["key1"]]


QUESTION, BROWN, CYAN = "What material is the brown object?", (0,), (1,)
"""The scene has a brown and a cyan cylinder, both of rubber."""


def of_scene(question=QUESTION, answer="rubber", objects=BROWN, others=()):
    scene, _ = scene_and_picture()
    return Target("key", {"sample_id": "s"}, question, answer, thing(objects=objects), others=others, scene=scene)


def test_a_pair_is_proved_by_its_scene_graph():
    scene, _ = scene_and_picture()
    assert [o["color"] for o in scene["objects"]] == ["brown", "cyan"]
    assert possible_answers(parse_query(QUESTION), scene) == ("rubber",) and not possible_answers(
        parse_query(QUESTION), remove_objects(scene, BROWN)
    )
    assert prove_removal(of_scene()).startswith("one image has the only answer 'rubber'; in the other ")
    assert prove_removal(of_scene(objects=CYAN)) is None, "without that the question still has its answer"
    assert prove_removal(of_scene(answer="metal")) is None and prove_removal(of_scene("What now?")) is None


def test_a_control_is_proved_by_the_answer_that_stays():
    cyan = thing("cyan cylinder", objects=CYAN)
    assert prove_control(of_scene(), cyan) == "without the cyan cylinder, 'rubber' is still the only possible answer"
    assert prove_control(of_scene(), thing(objects=BROWN)) is None
    assert prove_control(of_scene("How many cylinders are there now?", "2"), cyan) is None, "another answer is not the same answer"
    assert prove_control(Target("k", {}, QUESTION, "rubber", thing()), cyan) == ""


def test_removal_is_measured_where_the_truth_is_known(tmp_path):
    scene, picture = scene_and_picture()
    folder = DatasetFolder("d", write_samples(tmp_path / "d", [sample("s", "p", QUESTION)], {"p": png(picture)}))
    mask = silhouette(scene, BROWN)
    hands = painter(folder, Holes(dog=mask), dilate=3)
    (painted,) = hands.paint([of_scene(), of_scene(answer="metal")])
    truth = render(remove_objects(scene, BROWN))
    assert painted.removal == measure_removal(decoded(painted.pictures[0]), np.asarray(picture), truth, dilated(mask, 3), mask)
    assert hands.context.dropped == {"cannot be proved": 1} and painted.plan.proofs == (prove_removal(of_scene()),)


def test_batches():
    assert list(batches(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(batches(range(6), 3)) == [[0, 1, 2], [3, 4, 5]] and list(batches([], 3)) == []
