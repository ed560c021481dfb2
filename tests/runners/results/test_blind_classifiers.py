"""Classifiers that do not look: planted cues are found, cues that are not there are not, and nothing is learnt from one class."""

from itertools import pairwise

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import laplace
from sklearn.linear_model import LogisticRegression

from qualm.runners.results.blind_classifiers import (
    _SIDE,
    cross_fitted,
    image_classifier,
    picture_features,
    predicts_unanswerable,
    question_classifier,
    why_too_few,
)


def test_a_word_that_only_unanswerable_questions_have_is_learnt():
    questions = [f"What colour is thing {i % 7}{' tomorrow' * (i % 2)}?" for i in range(80)]
    truth = np.arange(80) % 2 == 1
    said = question_classifier(questions, truth)(np.arange(40), np.arange(40, 80))
    assert (predicts_unanswerable(said) == truth[40:]).all()


def test_words_that_stand_on_both_sides_as_often_say_nothing():
    questions = [f"What colour is thing {i // 2 % 5}?" for i in range(80)]
    said = question_classifier(questions, np.arange(80) % 2 == 1)(np.arange(40), np.arange(40, 80))
    assert said == pytest.approx(0.5, abs=1e-6)


def test_questions_are_bags_of_words_and_of_neighbours():
    """As logistic regression on a column for each word and each pair of neighbours, written out: 1 where a question has it."""
    questions = ["Red, red then blue?", "blue then red?", "BLUE then red?", "red then blue", "Is it red?", "it is red", "red", "red?"] * 3
    truth = np.array([True, False, False, True, True, False, True, False] * 2 + [False] * 8)
    words = [["\x02", *q.lower().replace(",", " ,").replace("?", " ?").split()] for q in questions]
    bags = [{*of, *(f"{a} {b}" for a, b in pairwise(of))} for of in words]
    names = sorted(set().union(*bags))
    x = np.array([[name in bag for name in names] for bag in bags], dtype=float)
    model = LogisticRegression(max_iter=1000, tol=1e-8).fit(x, truth)
    said = question_classifier(questions, truth)(np.arange(24), np.arange(24))
    np.testing.assert_allclose(said, model.predict_proba(x)[:, 1], atol=2e-3)
    assert predicts_unanswerable(np.array([0.5, 0.500001])).tolist() == [False, True], "what it cannot tell is answered"


def test_questions_without_a_word_or_with_new_ones_only_have_the_probability_that_no_word_gives():
    said = question_classifier(["", "", "a", "b", "новый", "  "], np.array([True, False] * 3))(np.arange(4), np.array([4, 5]))
    assert np.isfinite(said).all()


@pytest.mark.slow
@given(st.lists(st.tuples(st.text(max_size=12), st.booleans()), min_size=4, max_size=30))
def test_any_text_is_a_question(pairs):
    truth = np.array([t for _, t in pairs])
    if not why_too_few(np.tile(truth, 10)):
        said = question_classifier([q for q, _ in pairs], truth)(np.arange(len(pairs)), np.arange(len(pairs)))
        assert ((said >= 0) & (said <= 1)).all()


def picture(level: int, seed: int) -> PIL.Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    pixels[10:20, 10:20] = level
    return PIL.Image.fromarray(pixels)


@pytest.mark.slow
def test_a_patch_that_only_unanswerable_pictures_have_is_learnt():
    truth = np.arange(240) % 2 == 1
    features = np.stack([picture_features(picture(255 * t, i)) for i, t in enumerate(truth)])
    said = image_classifier(features, truth, 0)(np.arange(160), np.arange(160, 240))
    assert (predicts_unanswerable(said) == truth[160:]).mean() > 0.95


def test_pictures_that_stand_on_both_sides_as_often_say_nothing():
    features = np.repeat([picture_features(picture(0, i)) for i in range(30)], 2, axis=0)
    said = image_classifier(features, np.arange(60) % 2 == 1, 0)(np.arange(40), np.arange(40, 60))
    assert said.tolist() == [0.5] * 20


def test_pictures_are_told_of_alike_whatever_the_seed():
    """All rows are learnt from: none is put aside at random. And any whole number is a seed."""
    rng = np.random.default_rng(5)
    features, truth = rng.random((60, 3)), rng.random(60) < 0.5
    said = [image_classifier(features, truth, seed)(np.arange(40), np.arange(40, 60)).tolist() for seed in (0, 1, 2**40)]
    assert said[0] == said[1] == said[2] and len(set(said[0])) > 3


@pytest.mark.parametrize("size", [(1, 1), (3, 200), (300, 200)])
def test_pictures_of_any_size_have_equally_many_features(size):
    black = picture_features(PIL.Image.new("RGB", size))
    assert len(black) == 8 * 8 * 5 + 24 and black[:-24].max() == 0
    assert black[-24:].reshape(3, 8)[:, 0].tolist() == [1, 1, 1], "all pixels are in the darkest bin"


def test_features_are_colours_edges_and_histograms_by_hand():
    """Means of each cell's colours, mean and least size of SciPy's Laplacian of its grey, and shares of each colour's eighths."""
    pixels = np.random.default_rng(4).integers(0, 256, (_SIDE, _SIDE, 3), dtype=np.uint8)
    features = picture_features(PIL.Image.fromarray(pixels))
    values = pixels / 255
    edges = np.zeros((_SIDE, _SIDE))
    edges[1:-1, 1:-1] = np.abs(laplace(values.mean(axis=2)))[1:-1, 1:-1]
    step = _SIDE // 8
    cells = [(slice(i, i + step), slice(j, j + step)) for i in range(0, _SIDE, step) for j in range(0, _SIDE, step)]
    expected = [values[cell][..., c].mean() for cell in cells for c in range(3)]
    expected += [edges[cell].mean() for cell in cells] + [edges[cell].min() for cell in cells]
    expected += [np.mean((values[..., c] >= k / 8) & ((values[..., c] < (k + 1) / 8) | (k == 7))) for c in range(3) for k in range(8)]
    np.testing.assert_allclose(features, expected, atol=1e-12)


def test_what_cannot_be_learnt_from_says_why():
    assert why_too_few(np.ones(30, dtype=bool)) == "one class only: all 30 rows to learn from are unanswerable"
    assert why_too_few(np.zeros(30, dtype=bool)) == "one class only: all 30 rows to learn from are answerable"
    assert why_too_few(np.arange(30) < 9) == "too few: 9 rows of the rarer class to learn from, expected 10"
    assert why_too_few(np.arange(30) < 10) == ""


def test_groups_are_told_of_by_what_others_teach():
    groups = np.repeat(np.arange(30), 4)
    truth = np.arange(120) % 2 == 1
    seen = []

    def fitted(learn, tell):
        seen.append((set(groups[learn]), set(groups[tell])))
        return np.full(len(tell), 0.25)

    said, why = cross_fitted(groups, truth, fitted, 3)
    assert why == "" and (said == 0.25).all()
    assert all(not learnt & told for learnt, told in seen)
    assert sorted(g for _, told in seen for g in told) == list(range(30))


def test_too_few_groups_or_one_class_in_a_fold_are_not_told_of():
    truth = np.arange(8) % 2 == 1
    said, why = cross_fitted(np.arange(8) // 2, truth, lambda _, tell: np.zeros(len(tell)), 0)
    assert np.isnan(said).all() and why == "too few: 4 groups to learn and to tell from in turn, expected 5"
    said, why = cross_fitted(np.arange(60) // 12, np.arange(60) % 2 == 1, lambda _, tell: np.zeros(len(tell)), 0)
    assert (said == 0).all() and why == "", "five are enough"
    said, why = cross_fitted(np.arange(8), truth, lambda _, tell: np.zeros(len(tell)), 0)
    assert np.isnan(said).all() and why.startswith("too few: ")
