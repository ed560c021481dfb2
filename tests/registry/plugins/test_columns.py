from pathlib import Path

import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns, signals
from qualm.registry.plugins.registry import PluginError
from tests.support.checks.plugin_files import made_up

SOURCE = '''
"""Reads by its arguments."""
NEEDS = {needs}
def reader(context, text, prior, *, without: str = "both", mode: str = "a"): ...
'''


def reader(folder: Path, needs: str, **args):
    with made_up(folder) as add:
        add("estimators", "reader", SOURCE.format(needs=needs))
        return columns(registry.get("estimators", "reader"), {"without": "both", "mode": "a"} | args)


def test_by_name_by_template_and_by_value(tmp_path):
    assert reader(tmp_path, '["text", "prior"]') == {"text": "text", "prior": "prior"}
    needs = '{"text": {"mode": {"b": "draw_texts"}}, "prior": "logprobs_without_{without}"}'
    assert reader(tmp_path, needs, without="image") == {"text": None, "prior": "logprobs_without_image"}
    assert reader(tmp_path, needs, mode="b")["text"] == "draw_texts"


def test_what_does_not_exist(tmp_path):
    with pytest.raises(PluginError, match="NEEDS names priro; expected positional parameters: text, prior"):
        reader(tmp_path, '{"priro": "text"}')
    for needs in ('{"prior": "x_{withot}"}', '{"prior": {"withot": {"b": "text"}}}'):
        with pytest.raises(PluginError, match="NEEDS depends on 'withot'; expected a parameter of reader"):
            reader(tmp_path, needs)


def test_what_a_model_must_give():
    assert signals(["text", "p_true", "question"]) == {"text", "p_true"}
    assert signals(["p_true_sampling"]) == {"p_true_sampling", "draws"}
    assert signals(["draw_texts"]) == {"draws", "text"}
    assert signals(["draw_entropies", "draw_logprobs"]) == {"draws", "token_entropies", "token_logprobs"}
    assert signals([]) == frozenset()


def test_hidden_states_of_a_layer_that_an_argument_names(tmp_path):
    needs = '{"text": "draw_hidden_states/{mode}/answer_last", "prior": "hidden_states/-1/prompt_last"}'
    read = reader(tmp_path, needs, mode="middle")
    assert read == {"text": "draw_hidden_states/0.5/answer_last", "prior": "hidden_states/-1/prompt_last"}
    assert signals(read.values()) == {*read.values(), "draws"}
    assert signals([read["prior"]]) == {read["prior"]}
    with pytest.raises(PluginError, match=r"reader reads draw_hidden_states/deep/answer_last: expected a layer as `middle`"):
        reader(tmp_path, needs, mode="deep")
