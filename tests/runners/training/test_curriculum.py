"""The curriculum: which pictures a step may show, which questions it asks, and where each question is to look."""

from functools import partial

import numpy as np
import pytest

from qualm.registry import LETTERS
from qualm.registry.scenes.render import render
from qualm.registry.scenes.world import make_scene
from qualm.runners.training.curriculum import CROWDS, JUDGING_FROM, OPTIONS_FROM, Curriculum
from qualm.runners.training.data import ASSISTANT, END, build_tokenizer, description_question, option_question, vocabulary
from qualm.runners.training.packing import IGNORE
from qualm.runners.training.pictures import ScenePictures, label_cells, normalise

PATCH, LOOKING, STEPS = 16, 20, 120


@pytest.fixture(scope="module")
def pictures():
    scenes = [make_scene(5, "easy", "train", i) for i in range(60)]
    few = [{**scene, "objects": scene["objects"][:1]} for scene in scenes[:20]]
    every = [*few, *scenes]
    labels = [label_cells(scene, PATCH) for scene in every]
    return ScenePictures(np.stack([render(s) for s in every]), every, np.stack([c for c, _ in labels]), np.stack([o for _, o in labels]))


@pytest.fixture(scope="module")
def curriculum(pictures):
    side = pictures.pixels.shape[1] // PATCH
    return Curriculum(pictures, build_tokenizer(vocabulary()), 7, side * side, LOOKING, STEPS, 6, 2, 3)


def texts(curriculum, batch):
    """Question and answer of everything asked, by picture."""
    decode = partial(curriculum.tokenizer.decode, clean_up_tokenization_spaces=False)
    rows = []
    for ids, labels, segment in zip(batch["input_ids"], batch["labels"], batch["segment"], strict=True):
        rows.append([
            (decode(ids[(segment == k) & ~_answer(labels, segment == k)]), decode(labels[(segment == k) & (labels != IGNORE)]))
            for k in range(1, int(segment.max()) + 1)
        ])  # fmt: skip
    return rows


def _answer(labels, own):
    """Places of the answer's own tokens: one behind their labels."""
    import torch

    return torch.cat([torch.zeros(1, dtype=torch.bool), (labels != IGNORE)[:-1]]) & own


def test_constants():
    assert CROWDS == ((0.04, 1), (0.12, 2), (0.25, 3), (1.0, 99)) and (JUDGING_FROM, OPTIONS_FROM) == (0.25, 0.3)


def test_a_step_is_the_same_whenever_it_is_made(curriculum):
    for step in (0, 19, 20, 60, 119):
        one, two = curriculum(step), curriculum(step)
        assert one.keys() == two.keys() and all((one[name] == two[name]).all() for name in one)
    assert (curriculum(60)["pixel_values"] != curriculum(61)["pixel_values"]).any()


def test_looking_shows_twice_as_many_pictures_and_asks_nothing(curriculum, pictures):
    for step in (0, 19):
        batch = curriculum(step)
        assert set(batch) == {"pixel_values", "cells"} and len(batch["pixel_values"]) == len(batch["cells"]) == 12
    asked = curriculum(20)
    assert len(asked["pixel_values"]) == 6 and "input_ids" in asked
    whole = normalise(pictures.pixels)
    for pixels, cells in zip(asked["pixel_values"].numpy(), asked["cells"].numpy(), strict=True):
        places = [i for i in range(len(whole)) if np.array_equal(whole[i], pixels)]
        assert any(np.array_equal(pictures.cells[i], cells) for i in places)


@pytest.mark.parametrize(("step", "objects"), [(20, 1), (23, 1), (24, 2), (31, 2), (32, 3), (44, 3), (45, 99), (119, 99)])
def test_pictures_become_more_crowded(curriculum, pictures, monkeypatch, step, objects):
    """Of 100 steps of questions the first 4 show one object, up to 12 two, up to 25 three."""
    pools = []
    monkeypatch.setitem(curriculum.__dict__, "_pools", _Pools(pools, pictures))
    curriculum(step)
    assert pools == [objects]


class _Pools(dict):
    """Remembers which pool was asked for."""

    def __init__(self, asked, pictures):
        super().__init__()
        self.asked, self.pictures = asked, pictures

    def __getitem__(self, objects):
        self.asked.append(objects)
        return self.pictures.upto(99)


def test_pools_hold_what_is_no_more_crowded(curriculum, pictures):
    pools = Curriculum(**{f: getattr(curriculum, f) for f in curriculum.__dataclass_fields__})._pools
    for objects, pool in pools.items():
        assert all(len(pictures.scenes[i]["objects"]) <= objects for i in pool)
    assert [len(pools[n]) for n in (1, 99)] == [sum(len(s["objects"]) <= n for s in pictures.scenes) for n in (1, 99)]
    assert len(pools[99]) == 80 > len(pools[1]) >= 20


def counts(curriculum, share, index=30, seeds=40):
    """How many examples a picture has at a share of the steps, over some seeds, and of which kinds."""
    made = [curriculum._examples(np.random.default_rng(seed), index, share) for seed in range(seeds)]
    told = sum(description_question(curriculum.pictures.scenes[index]) in row for row in made)
    options = [sum(answer in LETTERS for _, answer, _ in row) for row in made]
    return {len(row) for row in made}, told, options


def test_kinds_of_questions_join_one_after_the_other(curriculum):
    start, told, options = counts(curriculum, 0.03)
    assert start == {4} and told == 40 and options == [0] * 40, "two open ones, a place, a description"
    lengths, told, options = counts(curriculum, 0.04)
    assert max(lengths) == 4 and told < 25 and options == [0] * 40
    lengths, told, _ = counts(curriculum, 0.2)
    assert min(lengths) >= 3 and max(lengths) <= 6 and 2 <= told < 25
    before, _, _ = counts(curriculum, 0.25)
    after, _, options = counts(curriculum, 0.26)
    assert {n + 1 for n in before} == after and options == [0] * 40
    _, _, options = counts(curriculum, 0.3)
    assert options == [0] * 40
    _, _, options = counts(curriculum, 0.31)
    assert options == [3] * 40


def test_everything_asked_ends_with_its_marks(curriculum):
    for row in texts(curriculum, curriculum(119)):
        assert len(row) >= 7
        assert all(question.rstrip().endswith(ASSISTANT) and answer.rstrip().endswith(END) for question, answer in row)


def test_the_prefix_is_the_users_mark_and_the_picture(curriculum):
    tokens = curriculum.tokenizer.convert_ids_to_tokens(curriculum.prefix)
    assert tokens == ["<user>", *["<image>"] * curriculum.cells]


def test_where_to_look_from_the_last_token_of_each_prompt(curriculum, pictures):
    scene, owner = pictures.scenes[30], pictures.owner[30]
    examples = [[("What color is the cube?", "red", ((0,), (), (0, 1))), ("Is it?", "no", ())], [("Who?", "3", ((1,),))]]
    packed = curriculum._pack(examples)
    looks = curriculum._attention_targets(examples, [30, 30], packed)
    assert (
        len(scene["objects"]) > 1 and looks["option_from"].shape == (0, 3) and looks["option_to"].shape == (0, packed["input_ids"].shape[1])
    )
    last = [int(np.flatnonzero((packed["segment"][b] == k) & (packed["labels"][b] != IGNORE))[0]) for b, k in ((0, 1), (1, 1))]
    assert looks["cells_from"].tolist() == [[0, 0, last[0]], [0, 2, last[0]], [1, 0, last[1]]]
    assert curriculum.tokenizer.convert_ids_to_tokens([int(packed["input_ids"][0, last[0]])]) == [ASSISTANT.strip() or ASSISTANT]
    for mask, objects in zip(looks["cells_to"], ((0,), (0, 1), (1,)), strict=True):
        inside = mask[1 : 1 + curriculum.cells]
        assert (inside == np.isin(owner, objects)).all() and mask.sum() == inside.sum()


def test_an_option_is_looked_at_from_its_letter_to_the_next(curriculum):
    question, answer, _ = option_question(np.random.default_rng(0), curriculum.pictures.scenes[30])
    examples = [[("Is it?", "no", ()), (question, answer, ())]]
    packed = curriculum._pack(examples)
    looks = curriculum._attention_targets(examples, [30], packed)
    ((b, head, last),) = looks["option_from"].tolist()
    assert (b, head) == (0, 0) and packed["segment"][0][last] == 2 and packed["labels"][0][last] != IGNORE
    tokens = curriculum.tokenizer.convert_ids_to_tokens(packed["input_ids"][0][looks["option_to"][0]].tolist())
    assert tokens[0] == answer and not set(tokens[1:]) & set(LETTERS[:6])
    line = next(line for line in question.splitlines() if line.startswith(f"{answer}. "))
    assert "".join(tokens).replace("Ġ", "").startswith(line.replace(" ", "")[:3])
