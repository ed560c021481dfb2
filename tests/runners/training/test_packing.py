import numpy as np
import torch

from qualm.runners.training.data import build_tokenizer, vocabulary
from qualm.runners.training.network import build_model
from qualm.runners.training.packing import IGNORE, attention_mask, pack


def test_layout():
    packed = pack([7, 8, 8], [[([1, 2], [3, 0]), ([4], [5, 0])], [([1], [6, 0])]], pad=9, multiple=4)
    assert packed["input_ids"].tolist() == [[7, 8, 8, 1, 2, 3, 0, 4, 5, 0, 9, 9], [7, 8, 8, 1, 6, 0, 9, 9, 9, 9, 9, 9]]
    assert packed["position_ids"][0, :10].tolist() == [0, 1, 2, 3, 4, 5, 6, 3, 4, 5]
    assert packed["segment"][0].tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, -1, -1]
    labels = packed["labels"][0]
    assert {int(i): int(labels[i]) for i in np.flatnonzero(labels != IGNORE)} == {4: 3, 5: 0, 7: 5, 8: 0}


def test_questions_see_the_prefix_and_themselves_alone():
    segment = torch.tensor([[0, 0, 1, 1, 2, -1]])
    seen = (attention_mask(segment)[0, 0] == 0).tolist()
    assert seen[3] == [True, True, True, True, False, False]
    assert seen[4] == [True, True, False, False, True, False]
    assert seen[0] == [True, False, False, False, False, False]


def test_a_packed_question_is_answered_as_if_asked_alone():
    torch.manual_seed(0)
    tokenizer = build_tokenizer(vocabulary())
    model = build_model(tokenizer, pixels=32, patch=16, width=32, layers=2, heads=2, vision_layers=1).eval()
    prefix = tokenizer.convert_tokens_to_ids(["<user>"] + ["<image>"] * 4)
    texts = [("What color is the cube?", "red"), ("How many objects are there?", "3"), ("Is there a cone?", "no")]
    pairs = [tuple(tokenizer.encode(t, add_special_tokens=False) for t in (q + "<assistant>", a + "</s>")) for q, a in texts]
    pixels = torch.rand(1, 3, 32, 32)
    packed = {k: torch.from_numpy(v) for k, v in pack(prefix, [pairs], tokenizer.pad_token_id).items()}
    mask = attention_mask(packed["segment"])
    with torch.no_grad():
        together = model(
            input_ids=packed["input_ids"], pixel_values=pixels, position_ids=packed["position_ids"], attention_mask=mask
        ).logits
        for k, (prompt, answer) in enumerate(pairs, 1):
            alone = model(input_ids=torch.tensor([[*prefix, *prompt, *answer]]), pixel_values=pixels).logits[0, len(prefix) :]
            torch.testing.assert_close(together[0, packed["segment"][0] == k], alone, atol=1e-5, rtol=1e-4)
