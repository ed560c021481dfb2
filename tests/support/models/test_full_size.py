"""Models of published sizes: their weights and picture tokens are those of the published ones."""

import PIL.Image
import pytest

from qualm.registry.entries.published_models import published
from qualm.runners.contracts.models import Request
from qualm.runners.prompts.question import messages
from tests.support.models.full_size import SIZES, full_size


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_weights_and_picture_tokens_are_the_published_ones(name, tmp_path):
    model, table = full_size(name, tmp_path, "meta", "bfloat16"), published()[SIZES[name].hub]
    assert sum(p.numel() for p in model.module.parameters()) / 1e9 == pytest.approx(table.parameters.published, rel=0.01)
    asked = Request(model.render(messages("What is it?")), PIL.Image.new("RGB", (640, 480)))
    tokens = model.encode([asked]).tensors["input_ids"]
    assert int((tokens == model.picture_token).sum()) == table.image_tokens
