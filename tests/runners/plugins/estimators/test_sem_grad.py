import numpy as np
import pytest
import torch

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns, signals
from qualm.registry.plugins.internals import layer_range, parse_internal
from qualm.runners.plugins.estimators.sem_grad import sem_grad


def test_worked_example():
    assert sem_grad([np.array([0.02])], [np.zeros(3)])[0] == pytest.approx(-3.912023, abs=1e-6)


def test_length_normalised_is_of_the_mean_loss_per_token():
    """The authors' code differentiates torch's mean over tokens of the weighted negative log-likelihood, the paper a sum."""
    torch.manual_seed(0)
    state, weights = torch.randn(6, dtype=torch.float64, requires_grad=True), torch.randn(4, 9, 6, dtype=torch.float64)
    tokens = torch.tensor([1, 8, 0, 3])
    logprobs = (weights @ state).log_softmax(-1)
    entropies = torch.special.entr(logprobs.detach().exp()).sum(-1, keepdim=True)
    (summed,) = torch.autograd.grad((entropies[:, 0] * logprobs.gather(1, tokens[:, None])[:, 0]).sum(), state, retain_graph=True)
    (averaged,) = torch.autograd.grad(torch.nn.functional.nll_loss(logprobs * entropies, tokens), state)
    own = [np.array([float(summed.abs().mean())])], [np.zeros(4)]
    assert sem_grad(*own)[0] == pytest.approx(np.log(float(summed.abs().mean())))
    assert sem_grad(*own, length_normalised=True)[0] == pytest.approx(np.log(float(averaged.abs().mean())))


def test_the_layers_of_the_paper():
    """L/2 + 1 to L - 1, of the models that it examines: Qwen3 4B, Llama 3.1 8B, Mistral Nemo."""
    (column, _) = columns(registry.get("estimators", "sem_grad"), {}).values()
    assert column == "gradient/0.5:-2/-1" and signals([column]) == {column}
    for layers in (36, 32, 40):
        assert layer_range(parse_internal(column).layer, layers) == list(range(layers // 2 + 1, layers))


def test_edges():
    values = sem_grad([np.empty(0), np.array([0.0]), np.array([0.5])], [np.empty(0), np.zeros(1), np.zeros(2)], length_normalised=True)
    np.testing.assert_array_equal(values, [np.nan, -np.inf, np.log(0.25)])
