"""Batches from made-up ids: what is in a row, what sees what, and that a shared picture is there once."""

import pytest
import torch

from qualm.runners.training.batching import IGNORE, _assign_rows, pack, pack_in_batches, pad
from qualm.runners.training.encoding import EncodedExample

IMAGE, FILL = 9, 0


def coded(prompt, answer, picture=None, per_token=None):
    return EncodedExample(tuple(prompt), tuple(answer), per_token or {}, picture or {})


ONE, TWO = {"pixel_values": torch.ones(1, 3, 2, 2)}, {"pixel_values": torch.full((1, 3, 2, 2), 2.0)}
EXAMPLES = [
    coded([1, IMAGE, IMAGE, 4, 5], [6, 2], ONE),
    coded([1, IMAGE, IMAGE, 4, 7, 5], [8, 2], ONE),
    coded([1, IMAGE, IMAGE, 4, 5], [3, 2], TWO),
]


def test_padding_is_on_the_left_and_labels_are_the_next_answer_token():
    batch = pad(EXAMPLES, FILL)
    assert batch["input_ids"].tolist()[0] == [FILL, 1, IMAGE, IMAGE, 4, 5, 6, 2]
    assert batch["labels"].tolist()[0] == [IGNORE] * 5 + [6, 2, IGNORE]
    assert batch["attention_mask"].tolist()[0] == [0] + [1] * 7 and batch["position_ids"].tolist()[0] == [0, *range(7)]
    assert batch["pixel_values"].shape == (3, 3, 2, 2)
    assert batch["owner"].tolist() == [[-1, *[0] * 7], [1] * 8, [-1, *[2] * 7]]


TYPED = [
    coded([1, IMAGE, IMAGE, 4, 5], [6, 2], ONE, {"types": (3, 7, 7, 4, 5)}),
    coded([1, IMAGE, IMAGE, 4, 8, 5], [2], ONE, {"types": (3, 7, 7, 4, 6, 8)}),
    coded([1], [2], TWO, {"types": (9,)}),
]


def test_what_the_processor_says_of_prompt_tokens_stands_beside_them():
    assert pad(TYPED, FILL)["types"].tolist() == [[3, 7, 7, 4, 5, 0, 0], [3, 7, 7, 4, 6, 8, 0], [0, 0, 0, 0, 0, 9, 0]]
    batch = pack(TYPED, FILL, IMAGE)
    assert batch["input_ids"].tolist() == [[1, IMAGE, IMAGE, 4, 5, 6, 2, 8, 5, 2], [1, 2, *[FILL] * 8]]
    assert batch["types"].tolist() == [[3, 7, 7, 4, 5, 0, 0, 6, 8, 0], [9, *[0] * 9]]


def seen(batch, row, place):
    return (batch["attention_mask"][row, 0, place] == 0).nonzero().flatten().tolist()


def test_examples_on_one_picture_share_its_tokens():
    batch = pack(EXAMPLES, FILL, IMAGE)
    (row,) = [r for r, ids in enumerate(batch["input_ids"].tolist()) if ids.count(5) == 2]
    assert batch["input_ids"].tolist()[row] == [1, IMAGE, IMAGE, 4, 5, 6, 2, 7, 5, 8, 2]
    assert batch["position_ids"].tolist()[row] == [0, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7]
    assert batch["owner"].tolist()[row] == [-1] * 4 + [0] * 3 + [1] * 4
    assert batch["labels"].tolist()[row] == [IGNORE] * 4 + [6, 2, IGNORE, IGNORE, 8, 2, IGNORE]
    assert seen(batch, row, 6) == [0, 1, 2, 3, 4, 5, 6] and seen(batch, row, 10) == [0, 1, 2, 3, 7, 8, 9, 10]
    assert batch["pixel_values"][:, 0, 0, 0].tolist() in ([1.0, 2.0], [2.0, 1.0])
    assert seen(batch, row, 3) == [0, 1, 2, 3], "what is shared sees no example"
    assert seen(batch, 1 - row, 6) == [*range(7)] and seen(batch, 1 - row, 8) == [7, 8], "padding sees padding"


def test_rows_much_shorter_than_the_longest_are_a_batch_of_their_own():
    long = coded([1, *[7] * 16, 5], [6, 2])
    short = [coded([1, *[4] * 8, k], [8, 2], {"pixel_values": torch.full((1, 3, 2, 2), float(k))}) for k in range(4, 12)]
    first, second = pack_in_batches([*short, long], FILL, IMAGE)
    assert first["input_ids"].tolist() == [[1, *[7] * 16, 5, 6, 2]] and set(first["owner"].flatten().tolist()) == {8}
    assert "pixel_values" not in first and second["pixel_values"][:, 0, 0, 0].tolist() == [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]
    assert second["input_ids"].shape == (8, 12), "two would not fit into one of 20"
    (only,) = pack_in_batches(EXAMPLES[::2], FILL, IMAGE)
    assert all((only[name] == values).all() for name, values in pack(EXAMPLES[::2], FILL, IMAGE).items())


def text(length, first):
    return coded([first] * (length - 1), [2])


@pytest.mark.parametrize(
    ("lengths", "batches"),
    [
        ((20, 17), [[20, 17]]),
        ((20, 16), [[20], [16]]),  # 36 places instead of 40
        ((16, 20), [[20], [16]]),
        ((20, 19, 5, 15), [[20, 19, 20]]),  # the shorter two share a row
        ((20, 19, 6), [[20, 19], [6]]),
        ((20, 6, 19, 15), [[20, 19, 15], [6]]),
        ((20, 10, 10), [[20, 20]]),
        ((20, 11, 10, 10), [[20, 20], [11]]),
        ((20,), [[20]]),
    ],
)
def test_a_second_batch_is_worth_a_tenth_of_the_places(lengths, batches):
    made = pack_in_batches([text(length, 3 + place) for place, length in enumerate(lengths)], FILL, None)
    assert [(one["owner"] >= 0).sum(1).tolist() for one in made] == batches


def test_pieces_go_into_the_first_row_that_has_room():
    assert _assign_rows([3, 5, 2, 5, 1]) == [[1], [3], [0, 2], [4]]
    assert _assign_rows([1, 1]) == [[0], [1]] and _assign_rows([1, 4, 3]) == [[1], [2, 0]]


def test_equal_prompts_keep_their_last_token_to_themselves():
    """The two answers of a preference: the token before the answer predicts another one in each."""
    batch = pack([coded([1, IMAGE, 5], [6, 2], ONE), coded([1, IMAGE, 5], [7, 2], ONE)], FILL, IMAGE)
    assert batch["input_ids"].tolist() == [[1, IMAGE, 5, 6, 2, 5, 7, 2]]
    assert batch["labels"].tolist() == [[IGNORE, IGNORE, 6, 2, IGNORE, 7, 2, IGNORE]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 4, 2, 3, 4]]


def test_pictures_after_where_prompts_part_are_not_shared():
    apart = [coded([4, 1, IMAGE, 5], [6, 2], ONE), coded([7, 1, IMAGE, 5], [8, 2], ONE)]
    assert pack(apart, FILL, IMAGE)["pixel_values"].shape[0] == 2
    assert pack(EXAMPLES, FILL)["pixel_values"].shape[0] == 3
    again = [coded([1, IMAGE, 4, 5], [6, 2], ONE), coded([1, IMAGE, 4, IMAGE, 5], [8, 2], ONE)]
    assert pack(again, FILL, IMAGE)["pixel_values"].shape[0] == 2, "one of them has it a second time"


def test_examples_without_a_picture_stay_apart():
    texts = [coded([1, 4, 5], [6, 2]), coded([1, 4, 7], [8, 2]), coded([1], [2])]
    batch = pack(texts, FILL, IMAGE)
    assert sorted(batch["owner"].flatten().tolist()) == sorted([0] * 5 + [1] * 5 + [2] * 2 + [-1] * 3)


def test_pictures_of_different_sizes_are_filled_up():
    tall = {"pixel_values": torch.ones(1, 2, 4)}
    made = pad([coded([1], [2], {"pixel_values": torch.ones(1, 3, 1)}), coded([1], [2], tall)], FILL)["pixel_values"]
    assert made.shape == (2, 3, 4) and made.sum() == 3 + 8 and made[0, :, 0].sum() == 3 and made[1, :2].sum() == 8
