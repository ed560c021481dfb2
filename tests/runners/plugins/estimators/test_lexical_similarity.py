import numpy as np
import pytest

from qualm.runners.plugins.estimators.lexical_similarity import lexical_similarity

REFERENCE = ["a red car", "a red car", "the red cars", "a blue truck"]


def test_worked_example():
    assert lexical_similarity([["a red car", "a red truck", "blue car", "a red car"]])[0] == pytest.approx(-0.522222, abs=1e-6)


@pytest.mark.parametrize(("metric", "expected"), [("rougeL", -0.5), ("rouge1", -0.5), ("rouge2", -1 / 3)])
def test_values_of_lm_polygraph(metric, expected):
    assert lexical_similarity([REFERENCE], metric=metric)[0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("metric", ["rougeL", "rouge1", "rouge2"])
def test_against_rouge_score_pair_by_pair(metric):
    from rouge_score.rouge_scorer import RougeScorer

    rng = np.random.default_rng(3)
    words = ["a", "the", "red", "cars", "car", "running", "runs", "blue", "truck", "trucks", "it", "is"]
    rows = [[" ".join(rng.choice(words, rng.integers(1, 7))) for _ in range(6)] for _ in range(20)]
    scorer = RougeScorer([metric], use_stemmer=True)
    expected = [-np.mean([scorer.score(r[i], r[j])[metric].fmeasure for i in range(6) for j in range(i + 1, 6)]) for r in rows]
    np.testing.assert_allclose(lexical_similarity(rows, metric=metric), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("texts", "words", "expected"),
    [
        (["red"], "latin", np.nan),
        ([], "latin", np.nan),
        (["Yes.", "yes"], "latin", -1.0),
        (["cats", "cat"], "latin", -1.0),
        (["cats", "cat"], "unicode", 0.0),
        (["红色", "红色"], "latin", np.nan),
        (["红色", "red", "red"], "latin", np.nan),
        (["红色", "红色"], "unicode", -1.0),
        (["红色的车", "红车"], "unicode", -2 / 3),
        (["нет", "нет"], "unicode", -1.0),
        (["", ""], "latin", -1.0),
        (["", "red"], "latin", 0.0),
        (["🙂", "🙂"], "latin", np.nan),
    ],
)
def test_edges(texts, words, expected):
    np.testing.assert_allclose(lexical_similarity([texts], words=words), [expected])
