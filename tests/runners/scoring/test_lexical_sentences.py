import pytest

from qualm.runners.scoring.score_warnings import lexical_sentences, lexical_warnings


@pytest.mark.parametrize(
    ("texts", "warned"),
    [
        (["The image shows a red car on a road."] * 2 + ["Yes."], True),
        (["a red car parked outside"], False),  # 4 words: articles do not count
        (["red"] * 2 + ["It is the big red car on the left."], False),
        (["图中有一辆红色的车"], True),
        (["", "?"], False),
        ([], False),
    ],
)
def test_sentences_are_those_of_five_words(texts, warned):
    text = lexical_sentences(texts, ["luq", "deg_mat"])
    assert text.startswith("luq, deg_mat: compared by words alone (`nli: lexical`, the default)") is warned == bool(text)
    assert lexical_sentences(texts, []) == ""


def test_a_line_for_each_model():
    row = {"dataset": "d", "model": "m", "caution": "luq: compared"}
    assert lexical_warnings([row, row, row | {"model": "n"}, row | {"model": "o", "caution": None}]) == [
        "d, m: luq: compared",
        "d, n: luq: compared",
    ]
