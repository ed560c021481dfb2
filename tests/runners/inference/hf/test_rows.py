import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from qualm.runners.inference.hf.rows import Network, _left_padded, _positions, first_stop


@given(st.lists(st.integers(0, 4), max_size=8), st.sets(st.integers(0, 4)))
def test_the_first_stop(tokens, stops):
    found = first_stop(tokens, stops)
    places = [i for i, token in enumerate(tokens) if token in stops]
    assert found == (places[0] if places else None)


def test_texts_of_several_lengths_end_together_and_count_from_their_own_beginning():
    tokens, mask = _left_padded([[5, 6, 7], [8]], torch.device("cpu"))
    assert tokens.tolist() == [[5, 6, 7], [0, 0, 8]] and mask.tolist() == [[True] * 3, [False, False, True]]
    assert _positions(mask).tolist() == [[0, 1, 2], [0, 0, 0]]


SHAPE = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 2, "pad_token_id": 0}  # fmt: skip


def network(window=None):
    torch.manual_seed(0)
    if window is None:
        return Network(LlamaForCausalLM(LlamaConfig(**SHAPE)).eval())
    sliding = {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 0}
    return Network(Qwen2ForCausalLM(Qwen2Config(**SHAPE, **sliding, initializer_range=0.3)).eval())


def test_a_peek_is_what_going_on_gives_and_leaves_the_rows_as_they_were():
    with torch.inference_mode():
        rows = network().begin([[5, 6, 7, 8], [9, 10]])
        keys = rows.cache.layers[1].keys.clone()
        branch, expected = rows.extend([[11, 12, 13], [14]], [3, 2], keep=2)
        longer = [[1] * 90, [2] * 70]
        for ids, starts in (([[11, 12, 13], [14]], [3, 2]), (longer, [4, 1]), ([[11, 12, 13], [14]], [3, 2])):
            peeked = rows.peek(ids, starts, keep=2)
            torch.testing.assert_close(peeked, rows.extend(ids, starts, keep=2)[1], rtol=0, atol=1e-6)
        torch.testing.assert_close(peeked, expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(rows.cache.layers[1].keys, keys, rtol=0, atol=0)
        further = branch.select(torch.tensor([1, 0, 1])).peek([[3], [4], [3, 5]], [3, 4, 3])  # rows of what was chosen have no room yet
        ways = branch.extend([[4], [3]], [4, 3])[1]
    torch.testing.assert_close(further[:2, -1], ways.flip(0)[:, -1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("window", [None, 4])
def test_answers_side_by_side_are_those_of_texts_of_their_own(window):
    def chooser(step, logits, answers, at):
        """The most likely token; every second answer begins with the next most likely one."""
        best = logits[at].topk(2).indices
        return torch.where((answers % 2 == 1) & (step == 0), best[:, 1], best[:, 0])

    def alone(number, stops):
        read, noted = list(texts[number // 2]), []
        while len(noted) < steps and not (noted and noted[-1][0] in stops):
            logs = own.module(torch.tensor([read])).logits[0, -1].double().log_softmax(0)
            read.append(int(logs.topk(2).indices[int(number % 2 == 1 and not noted)]))
            noted.append((read[-1], logs[read[-1]], -(logs.exp() * logs).sum()))
        return torch.tensor(noted, dtype=torch.float64).T

    own, texts, steps = network(window), [[5, 6, 7, 8], [9, 10], [11]], 6
    assert own.window == window
    with torch.inference_mode():
        whole = own.begin(texts).decode(2, chooser, steps, set())
        ended = own.begin(texts).decode(2, chooser, steps, some := {whole[0][0][2], whole[0][3][1]})
        at_once = own.begin(texts).decode(2, chooser, steps, every := set(range(50)))
        for found, stops in ((whole, set()), (ended, some), (at_once, every)):
            for number, answer in enumerate(zip(*found, strict=True)):
                torch.testing.assert_close(torch.tensor(answer, dtype=torch.float64), alone(number, stops), rtol=0, atol=1e-5)
    assert {len(tokens) for tokens in whole[0]} == {steps} and len(ended[0][0]) <= 3 and len(ended[0][3]) <= 2


@pytest.mark.parametrize("steps", [3, 90])
def test_writing_answers_leaves_the_rows_as_they_were(steps):
    """They are written into the room that the rows have, or, where that is too little, into room of their own."""

    def chooser(step, logits, answers, at):
        return (logits[at].argmax(1) + answers) % 50

    with torch.inference_mode():
        rows = network().begin([[5, 6, 7, 8], [9, 10], [11]]).extend([[3], [4, 2], [3, 3, 3]], [4, 2, 1])[0]
        before = [(layer.keys.clone(), layer.values.clone()) for layer in rows.cache.layers]
        after = [[1, 2], [3], [4]]
        logits = rows.peek(after, rows.lengths.tolist())
        first = rows.decode(2, chooser, steps, {7})
        assert rows.decode(2, chooser, steps, {7}) == first
        for layer, (keys, values) in zip(rows.cache.layers, before, strict=True):
            assert torch.equal(layer.keys, keys) and torch.equal(layer.values, values)
        assert torch.equal(rows.peek(after, rows.lengths.tolist()), logits)
        further = rows.extend([[1], [1], [1]], rows.lengths.tolist())[0]
        assert further.decode(2, chooser, steps, {7}) == further.decode(2, chooser, steps, {7})


@pytest.mark.parametrize("longer", [3, 90])
def test_what_is_read_in_place_is_what_would_be_read_and_leaves_the_rows_as_they_were(longer):
    with torch.inference_mode():
        rows = network().begin([[5, 6, 7, 8], [9, 10]])
        before = [(layer.keys.clone(), layer.values.clone()) for layer in rows.cache.layers]
        ids, starts = [[3] * longer, [4, 2]], [4, 1]
        copied = rows.extend(ids, starts)[0]
        in_place = rows.extend(ids, starts, in_place=True)[0]
        assert torch.equal(in_place.logits, copied.logits)
        space = rows.cache.layers[0].space[0]
        assert (in_place.cache.layers[0].keys.data_ptr() == space.data_ptr()) == (longer == 3), "in the room, unless that is too small"
        assert copied.cache.layers[0].keys.data_ptr() != space.data_ptr()
        after = [[1, 2], [3]]
        for one, other in ((in_place, copied), (in_place.select(torch.tensor([1, 0])), copied.select(torch.tensor([1, 0])))):
            assert torch.equal(one.peek(after, one.lengths.tolist()), other.peek(after, other.lengths.tolist()))
        for layer, (keys, values) in zip(rows.cache.layers, before, strict=True):
            assert torch.equal(layer.keys, keys) and torch.equal(layer.values, values)
        rows.peek([[7] * 5, [7] * 5], [4, 2])
        assert not torch.equal(in_place.cache.layers[0].keys, copied.cache.layers[0].keys) or longer == 90, "lost when the rows go on"
        assert torch.equal(copied.peek(after, copied.lengths.tolist()), rows.extend(ids, starts)[0].peek(after, copied.lengths.tolist()))
