"""What a config says of how a model is read, held to transformers' own configs."""

import json

import pytest

from qualm.registry.plugins.model_configs import plain_reason, text_of, unavailable_columns
from qualm.runners.inference.hf.plain import plain_reason as of_transformers
from tests.support.models.tiny_models import FAMILIES, PLAIN

COLUMNS = (
    "hidden_states/2/answer_last",
    "draw_hidden_states/-1/answer_mean",
    "attention/1:2/previous",
    "evidence/conflict",
    "token_ends",
    "text",
)


@pytest.mark.parametrize("family", ["llava", "qwen2_vl", "gemma3", *PLAIN])
def test_the_file_says_what_transformers_knows(family, tmp_path):
    from transformers import AutoConfig

    folder = {**FAMILIES, **PLAIN}[family](tmp_path)
    config = json.loads((folder / "config.json").read_text())
    assert plain_reason(config) == of_transformers(AutoConfig.from_pretrained(folder))
    wrong = list(unavailable_columns(COLUMNS, config))
    assert bool(wrong) == (family in PLAIN) and all("plain passes, does not give, since" in one for one in wrong)


def test_layers_that_there_are_not():
    config = {"text_config": {"num_hidden_layers": 4}}
    assert text_of(config)["num_hidden_layers"] == 4 and list(unavailable_columns(COLUMNS, config)) == []
    asked = ["hidden_states/5/answer_last", "attention/3:9/image_share", "image_information/all/0.5", "hidden_states/-6/prompt_last"]
    asked += ["gradient/0.5:-2/-1", "gradient/4:-2/-1"]
    assert list(unavailable_columns(asked, config)) == [f"{asked[i]}, and it has 4 layers" for i in (0, 1, 3, 5)]
    assert list(unavailable_columns(asked, {})) == []


def test_types_of_which_a_config_may_leave_it_unsaid():
    assert plain_reason({"model_type": "qwen3_5", "text_config": {}}) == "it has layers of linear attention"
    assert plain_reason({"model_type": "llava"}) == ""
