"""What is kept of a picture gives the same bits as looking again, is read once, and goes when the batch ends."""

import pytest
import torch
from transformers.modeling_outputs import BaseModelOutputWithPooling

from qualm.runners.contracts.models import Decoding, Request, draw_part
from qualm.runners.inference.hf import model as hf_model
from qualm.runners.inference.hf.once import cache_outputs, shared_encoders
from qualm.runners.prompts.question import messages
from tests.support.models.plain_vlm import picture

DECODING = Decoding(3)
SIGNALS = ("answer", "without_question", "p_true", "p_yes", draw_part(1), draw_part(2))
PARTS = {
    "florence2": ["Florence2VisionBackbone", "BartEncoder"],
    "mllama": ["MllamaVisionModel"],
    "qwen3_5": ["Qwen3_5VisionModel"],
    "paligemma": ["SiglipVisionModel"],
}
LOOKS = {"florence2": [2, 8], "mllama": [2], "qwen3_5": [2], "paligemma": [1]}
"""Two prompts on two pictures, each with three more prompts: PaliGemma reads all rows of a batch at once, plain passes one by one; each
prompt of Florence-2 goes through its encoder once."""


@pytest.fixture(scope="module", params=sorted(PARTS))
def model(request, family_model):
    torch.set_num_threads(1)
    return family_model(request.param)


def values(model, encoded):
    made = model.answer(encoded, DECODING)
    return [{name: (p.text, p.tokens, p.logprobs, p.entropies, p.numbers) for name, p in parts.items()} for parts in made]


@pytest.mark.slow
def test_each_picture_is_looked_at_once_and_every_bit_is_as_without(model, monkeypatch):
    questions = ["What color is the cube ?", "How many are there ?"]
    asked = [Request(model.render(messages(q)), picture(n), 0, q, SIGNALS, 9 + n) for n, q in enumerate(questions)]
    monkeypatch.setattr(model, "is_checked", True)  # the comparison with plain passes looks once more
    encoded, parts = model.encode(asked), shared_encoders(model.module)
    assert [type(part).__name__ for part in parts] == PARTS[model.label]
    looks = [0] * len(parts)

    def counted(number, forward):
        def call(*args, **kwargs):
            looks[number] += 1
            return forward(*args, **kwargs)

        return call

    for number, part in enumerate(parts):
        monkeypatch.setattr(part, "forward", counted(number, part.forward), raising=False)
    kept = values(model, encoded)
    assert looks == LOOKS[model.label]
    looks[:] = [0] * len(parts)
    assert values(model, encoded) == kept and looks == LOOKS[model.label], "nothing is kept from one batch to the next"
    monkeypatch.setattr(hf_model, "shared_encoders", lambda module: [])
    looks[:] = [0] * len(parts)
    assert values(model, encoded) == kept
    assert all(more > few for more, few in zip(looks, LOOKS[model.label], strict=True))


class Seeing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, pixels, scale=1.0, extra=None):
        self.calls += 1
        return BaseModelOutputWithPooling(last_hidden_state=pixels * scale, pooler_output=pixels.sum(1))


def test_only_what_is_the_same_is_kept_and_within_the_room():
    part = Seeing()
    one, two = torch.ones(1, 4), torch.zeros(1, 4)
    with cache_outputs([part]):
        first = part(one)
        first.pooler_output = None  # as get_image_features does
        again = part(one.clone())
        assert part.calls == 1 and again.pooler_output.tolist() == [4.0]
        part(two), part(one, scale=2.0), part(one.double()), part(one[:, :2])
        assert part.calls == 5
        part(two), part(one, scale=2.0)
        assert part.calls == 5
        part(one, extra=object()), part(one, extra=object())
        assert part.calls == 7, "what cannot be compared is computed"
    assert "forward" not in vars(part)
    part.calls = 0
    with cache_outputs([part], max_bytes=one.nbytes * 2):
        part(one), part(one), part(two), part(two)
    assert part.calls == 4, "16 bytes of input and 20 of output do not fit into 32"


def test_a_forward_of_the_part_itself_comes_back():
    part = Seeing()
    own = part.forward = lambda pixels: pixels + 1
    with cache_outputs([part]):
        assert part(torch.zeros(1)).item() == part(torch.zeros(1)).item() == 1.0
    assert part.forward is own
