import torch
from hypothesis import given
from hypothesis import strategies as st

from qualm.runners.inference.hf.rows import _left_padded, _positions, first_stop


@given(st.lists(st.integers(0, 4), max_size=8), st.sets(st.integers(0, 4)))
def test_the_first_stop(tokens, stops):
    found = first_stop(tokens, stops)
    places = [i for i, token in enumerate(tokens) if token in stops]
    assert found == (places[0] if places else None)


def test_texts_of_several_lengths_end_together_and_count_from_their_own_beginning():
    tokens, mask = _left_padded([[5, 6, 7], [8]], torch.device("cpu"))
    assert tokens.tolist() == [[5, 6, 7], [0, 0, 8]] and mask.tolist() == [[True] * 3, [False, False, True]]
    assert _positions(mask).tolist() == [[0, 1, 2], [0, 0, 0]]
