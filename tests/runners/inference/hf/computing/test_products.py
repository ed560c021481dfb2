"""Products by oneDNN: the same within rounding, only where they pay, and only while asked for."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch.nn import Linear
from torch.utils._python_dispatch import TorchDispatchMode

from qualm.runners.inference.hf.computing import products as code
from qualm.runners.inference.hf.computing.double import computing
from qualm.runners.inference.hf.computing.products import SMALLEST, available, product, products, suits

PLAIN = Linear.forward
here = pytest.mark.skipif(not available(), reason="PyTorch's products of oneDNN are not in this build, or not for this processor")


class Operations(TorchDispatchMode):
    """Names of what is computed."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def near(made, wanted):
    assert made.shape == wanted.shape and made.dtype == wanted.dtype
    assert torch.allclose(made, wanted, rtol=0, atol=1e-5 * float(wanted.abs().amax()) if wanted.numel() else 0)


@pytest.mark.parametrize("tokens", [0, 1, 3, 200])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("how", [None, "add", "mul"])
def test_a_product_is_what_it_says(tokens, biased, how):
    states, weight, bias = drawn(tokens, 96), drawn(160, 96, seed=1), drawn(160, seed=2) if biased else None
    other = drawn(tokens, 160, seed=3)
    wanted = states @ weight.T + (0 if bias is None else bias)
    wanted = {None: wanted, "add": wanted + other, "mul": wanted * other}[how]
    before = other.clone()
    with torch.inference_mode():
        near(product(states, weight, bias) if how is None else product(states, weight, bias, other, how), wanted)
    assert torch.equal(other, before)


@pytest.mark.parametrize(
    "states",
    [
        drawn(300, 256)[:, 64:192],
        drawn(128, 300).T,
        drawn(40, 128).expand(8, -1, -1),
        drawn(1, 128).expand(300, -1),
        drawn(300, 1).expand(-1, 128),
        drawn(8, 128, 40).transpose(1, 2),
        drawn(16, 40, 128)[::2],
        drawn(2, 2, 80, 128)[:, 1],
    ],
    ids=lambda states: f"{tuple(states.shape)} {states.stride()}",
)
def test_however_states_lie_in_memory(states):
    weight, bias = drawn(384, 128, seed=1)[100:300], drawn(200, seed=2)
    with torch.inference_mode():
        assert suits(states, weight) == available()
        near(product(states, weight, bias), states @ weight.T + bias)


@here
def test_the_linear_layers_of_a_network_compute_so_while_it_is_open():
    layer, states = Linear(128, 256), drawn(4, 64, 128)
    with torch.inference_mode():
        wanted = layer(states)
        with Operations() as seen, computing("float32"):
            made = layer(states)
        assert seen.names == ["mkldnn::_linear_pointwise"]
        near(made, wanted)
        with Operations() as seen:
            assert torch.equal(layer(states), wanted)
    assert "mkldnn::_linear_pointwise" not in seen.names and Linear.forward is PLAIN


def test_small_ones_other_types_gradients_and_autocast_are_left_to_pytorch():
    states, weight = drawn(200, 128), drawn(128, 128, seed=1)
    assert weight.numel() == SMALLEST
    assert not suits(states, weight)  # gradients may be wanted
    with torch.no_grad():
        assert suits(states, weight) == available()
        assert not suits(drawn(4096), drawn(4096, 4096))
        assert not suits(states, weight[:127]) and not suits(states.double(), weight.double()) and not suits(states, weight.T)
        assert not suits(states.bfloat16(), weight.bfloat16()) and not suits(states.to("meta"), weight.to("meta"))
        assert not suits(states, weight.as_subclass(type("Share", (torch.Tensor,), {})))
        with torch.autocast("cpu"):
            assert not suits(states, weight)


@here
def test_a_token_s_product_is_the_same_in_every_batch():
    states, weight = drawn(300, 512), drawn(256, 512, seed=1)
    with torch.inference_mode():
        whole = product(states, weight)
        for start, end in ((0, 2), (7, 20), (150, 300)):
            assert torch.equal(product(states[start:end], weight), whole[start:end])


def test_gradients_flow_while_it_is_open():
    layer, states = Linear(128, 128), drawn(200, 128)
    with products():
        layer(states).sum().backward()
    assert layer.weight.grad is not None


def test_in_double_precision_nothing_is_replaced():
    with computing("float64"):
        assert Linear.forward is PLAIN


def test_it_stays_open_until_the_last_thread_is_through():
    both, first_out = Barrier(2), Barrier(2)

    def run(last):
        with products():
            both.wait()
            if last:
                first_out.wait()
                return Linear.forward is not PLAIN
        first_out.wait()
        return True

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(run, [True, False])) or not available()
    assert Linear.forward is PLAIN


def test_where_it_is_missing_results_are_pytorchs_own(monkeypatch):
    monkeypatch.setattr(code, "available", lambda: False)
    states, weight = drawn(200, 128), drawn(128, 128, seed=1)
    with torch.inference_mode(), products():
        assert Linear.forward is PLAIN
        assert torch.equal(product(states, weight), torch.nn.functional.linear(states, weight))


def test_an_error_closes_it():
    with pytest.raises(ValueError, match="away"), products():
        raise ValueError("away")
    assert Linear.forward is PLAIN
