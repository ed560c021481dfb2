import numpy as np

from qualm.runners.plugins.metrics.hallucinated_sentence_ratio import hallucinated_sentence_ratio


def test_over_all_sentences_together():
    made_up, sentences = np.array([1.0, 0, 3]), np.array([4.0, 2, 4])
    found = hallucinated_sentence_ratio(made_up, sentences, np.array([[1.0, 1, 1], [2, 0, 0], [0, 0, 0]]))
    np.testing.assert_allclose(found, [0.4, 0.25, np.nan])
