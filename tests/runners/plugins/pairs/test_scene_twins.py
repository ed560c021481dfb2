import io
from collections import Counter
from dataclasses import asdict

import numpy as np
import PIL.Image
import pytest

import qualm.runners.stages.pair as pair
from qualm.registry.sample import SAMPLES, Image, Sample
from qualm.registry.scenes.contrast import CATEGORIES, REFUSALS, parse_query
from qualm.registry.scenes.questions import noun_phrase
from qualm.registry.scenes.twins import is_held_out
from qualm.runners.contracts.pairs import PairContext, PairError
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.pairs.scene_twins import scene_twins
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from tests.support.data.scenes_folder import scenes_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        return scenes_folder(root, train=60, test=40, questions=1)


def make(folder, category="epistemic/extraneous", seed=7, **args):
    context = PairContext({"scenes": folder}, seed, "twins", Settings(workers=1, progress=False))
    made = list(scene_twins(context, dataset="scenes", category=category, **args))
    return context, [m for m in made if isinstance(m, Sample)], {m.image_id: m.data for m in made if isinstance(m, Image)}


@pytest.fixture(scope="module")
def sets(folder):
    return {path: make(folder, path) for path in CATEGORIES.values()}


@pytest.mark.slow
@pytest.mark.parametrize("category", CATEGORIES.values())
def test_every_question_and_every_picture_stands_once_on_each_side(sets, category):
    """Known truth: what is balanced so cannot be distinguished by words or by pixels alone, in any split, by any classifier."""
    _, samples, images = sets[category]
    assert len(images) == len(samples) // 2 > 20
    for split in ("train", "test"):
        part = [s for s in samples if s.split == split]
        assert part
        for key in (lambda s: s.image_id, lambda s: s.question, lambda s: images[s.image_id]):
            sides = [Counter(key(s) for s in part if s.answerable is side) for side in (True, False)]
            assert sides[0] == sides[1]
    assert {(s.image_id, s.question) for s in samples if s.answerable}.isdisjoint(
        (s.image_id, s.question) for s in samples if not s.answerable
    )


def test_classifiers_that_see_one_side_alone_are_right_half_of_the_time(sets):
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    for _, samples, images in sets.values():
        train, test = ([s for s in samples if s.split == split] for split in ("train", "test"))
        truth = [np.array([s.answerable for s in part]) for part in (train, test)]
        bag = CountVectorizer(ngram_range=(1, 2))
        asked = [m(s.question for s in part) for m, part in ((bag.fit_transform, train), (bag.transform, test))]
        small = {k: np.asarray(PIL.Image.open(io.BytesIO(v)).resize((8, 8))).reshape(-1) for k, v in images.items()}
        shown = [np.stack([small[s.image_id] for s in part]) for part in (train, test)]
        for classifier, (learnt, unseen) in ((LogisticRegression(max_iter=200), asked), (KNeighborsClassifier(1), shown)):
            assert classifier.fit(learnt, truth[0]).score(unseen, truth[1]) == 0.5


def test_pairs_carry_what_the_source_says(folder, sets):
    rows = {r["image_id"]: r for r in read_table(folder / "samples.parquet", SAMPLES).to_pylist()}
    for category, (context, samples, images) in sets.items():
        assert len(samples) // 4 + context.dropped["scene offers none"] == len(rows)
        for first, second in zip(samples[::2], samples[1::2], strict=True):
            row = rows[first.group]
            assert {(s.split, s.group, s.category, s.source) for s in (first, second)} == {
                (row["split"], row["group"], category, "scene_twins")
            }
            assert first.answerable and not second.answerable and first.question == second.question
            assert first.pair_id == second.pair_id and {first.image_id, second.image_id} <= images.keys()
            assert first.meta["proof"] == second.meta["proof"] and first.meta["twins"] == second.meta["twins"]
            assert is_refusal(second.references[0], second.question) and not is_refusal(first.references[0], first.question)


def test_names_that_are_asked_about_in_test_are_never_in_train(sets):
    for category in ("epistemic/knowledge", "epistemic/complexity", "aleatoric/temporal"):
        context, samples, _ = sets[category]
        names = {split: {noun_phrase(parse_query(s.question).of) for s in samples if s.split == split} for split in ("train", "test")}
        assert names["test"] <= set(context.notes["held_out"]) and names["train"].isdisjoint(context.notes["held_out"])
        assert all(is_held_out(*name.split()) for name in context.notes["held_out"]) and len(context.notes["held_out"]) == 6


@pytest.mark.slow
def test_names_may_also_be_shared(folder):
    context, samples, _ = make(folder, "epistemic/knowledge", held_out=False)
    names = {split: {noun_phrase(parse_query(s.question).of) for s in samples if s.split == split} for split in ("train", "test")}
    assert names["train"] & names["test"] and context.notes["held_out"] == []


@pytest.mark.slow
def test_more_pairs_change_none_of_the_earlier(folder, sets):
    _, once, pictures = sets["epistemic/extraneous"]
    _, twice, more = make(folder, per_image=2)
    assert {s.sample_id: asdict(s) for s in twice}.items() >= {s.sample_id: asdict(s) for s in once}.items()
    assert more.items() >= pictures.items() and len(twice) > 1.8 * len(once)
    assert make(folder)[1] == once and make(folder, seed=8)[1] != once


def test_declining_in_one_way(folder):
    _, samples, _ = make(folder, decline="first")
    assert {s.references for s in samples if not s.answerable} == {(REFUSALS["extraneous"][0],)}


def test_what_it_needs(folder, tmp_path):
    with pytest.raises(
        PairError, match="expected a category named knowledge, complexity, extraneous, temporal, ambiguity, got 'epistemic/taste'"
    ):
        make(folder, "epistemic/taste")
    row = {
        "sample_id": "a",
        "image_id": "a",
        "question": "?",
        "split": "test",
        "answerable": True,
        "meta": [],
        "group": "",
        "source": "",
        "category": "",
    }
    write_table(tmp_path / "samples.parquet", [row], SAMPLES)
    with pytest.raises(PairError, match="expected scene graphs"):
        make(tmp_path)


@pytest.mark.slow
def test_the_stage_keeps_them_whole(folder, sets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = {"dataset": "scenes", "category": "aleatoric/ambiguity", "per_image": 1, "held_out": True, "decline": "all"}
    params = {"pairs": "ours", "recipe": "twins", "label": "twins", "plugin": "scene_twins", "args": args, "about": {}}
    outputs = {"pairs": "out"}
    pair.run(Stage("s/p", "s", "p", "pair", params, {"datasets": {"scenes": str(folder)}}, outputs, 7, Settings(workers=1, progress=False)))
    rows = read_table(tmp_path / "out" / "samples.parquet", SAMPLES).to_pylist()
    assert len(rows) == len(sets["aleatoric/ambiguity"][1])
