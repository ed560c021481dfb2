"""States as they pass: which layers, which positions, and what is undefined."""

import numpy as np
import pytest
import torch

from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.inference.hf.taps import AnswerStates, Taps, as_part, collect_states, decoder
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from tests.support.models.tiny_models import tiny_llava


def test_positions_from_the_end_are_copied_out_of_a_prompt():
    taps = Taps([0, 2])
    whole = torch.arange(24.0).reshape(1, 4, 6)
    taps.keep = 2
    taps.note(0, whole)
    taps.note(2, whole[:, :2])
    assert taps.states.shape == (2, 1, 2, 6) and torch.equal(taps.states[0], whole[:, 2:]) and torch.equal(taps.states[1], whole[:, :2])


def test_the_last_and_the_mean_of_answers_that_end_at_different_times():
    taps = Taps([1])
    written = AnswerStates(taps, 3)
    assert written.part(0, 1, "answer_last").states is None
    taps.keep = 2
    taps.note(1, torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    written.add(torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([2, 0]))
    taps.note(1, torch.tensor([[[5.0, 6.0], [9.0, 9.0]]]))
    written.add(torch.tensor([0]), torch.tensor([0]), torch.tensor([2]))
    assert written.part(2, 1, "answer_last").states.tolist() == [5, 6] and written.part(2, 1, "answer_mean").states.tolist() == [3, 4]
    assert written.part(0, 1, "answer_mean").states.tolist() == [3, 4] and written.part(1, 1, "answer_last").states is None


def test_what_float16_does_not_hold_is_undefined():
    assert as_part(torch.tensor([65504.0, 1.0])).states.tolist() == [65504, 1] and as_part(torch.tensor([70000.0, 1.0])).states is None
    assert as_part(torch.tensor([float("nan")])).states is None and as_part(torch.tensor([1.0])).states.dtype == np.float16


def test_layers_are_those_of_the_language_model(tmp_path):
    model = hf_vlm(ModelContext("m", tiny_llava(tmp_path, layers=3)))
    module = model.load()
    inner, layers = decoder(module)
    assert len(layers) == 3 and layers[0] is module.model.language_model.layers[0] and inner is module.model.language_model
    with collect_states(module, [3, 1, 1]) as taps:
        assert taps.layers == [1, 3] and len(layers[1]._forward_pre_hooks) == 1 and len(inner._forward_hooks) == 1
    assert not layers[1]._forward_pre_hooks and not inner._forward_hooks
    module.config.text_config.num_hidden_layers = 4
    with pytest.raises(ModelError, match="LlavaForConditionalGeneration has 3 layers here, and 4 by its config"):
        decoder(module)
