"""At float64 a network computes in double precision throughout, whatever its own code casts to."""

import pytest
import torch

from qualm.runners.contracts.models import Decoding, ModelContext, Request
from qualm.runners.inference.hf.double import computing
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import messages
from tests.support.models.each_family import EACH_FAMILY
from tests.support.models.plain_vlm import picture
from tests.support.models.tiny_models import TEMPLATES

QUESTIONS = ["What color is the cube ?", "How many objects are there left of the big red metal sphere in the picture ?", "What ?"]
DOUBLE = 1e-11
SINGLE = 1e-9
"""What two orders of summing differ by: less than the first in double precision, more than the second if anything was done in single."""


def spread(folder, family, dtype):
    """How far log-probabilities of the same answers lie apart when asked in a padded batch and one by one."""
    model = hf_vlm(ModelContext(family, folder), dtype=dtype, template=TEMPLATES.get(family))
    model.load()
    image = picture(0, (40, 40))
    asked = [Request(model.render(messages(q, n_images=True)), image, question=q, parts=("answer", "draw 1"), stream=5) for q in QUESTIONS]
    together = model.answer(model.encode(asked), Decoding(4, 0.9))
    worst = 0.0
    for request, parts in zip(asked, together, strict=True):
        (alone,) = model.answer(model.encode([request]), Decoding(4, 0.9))
        for name, part in parts.items():
            assert part.tokens == alone[name].tokens
            pairs = [*zip(part.logprobs, alone[name].logprobs, strict=True), *zip(part.entropies, alone[name].entropies, strict=True)]
            worst = max(worst, *(abs(a - b) for a, b in pairs))
    return worst


@pytest.mark.parametrize("family", EACH_FAMILY)
def test_the_order_of_sums_does_not_reach_what_is_kept(family, family_folder):
    assert spread(family_folder(family), family, "float64") < DOUBLE


def test_at_float32_it_does(family_folder):
    assert spread(family_folder("llava"), "llava", "float32") > SINGLE


def test_nothing_is_cast_to_single_precision():
    number = torch.tensor([0.1], dtype=torch.float64)
    with computing("float64"):
        casts = [
            number.float(),
            number.to(torch.float32),
            number.type(torch.float32),
            torch.nn.functional.softmax(number, dim=0, dtype=torch.float32),
            torch.arange(3, dtype=torch.float32),
            torch.zeros(2, dtype=torch.float),
            torch.zeros(2),
            torch.full((2,), torch.finfo(torch.float64).min),
        ]
    assert {cast.dtype for cast in casts} == {torch.float64}
    with computing("float32"):
        assert number.float().dtype == torch.float32
