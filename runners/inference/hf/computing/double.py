"""Networks computed in double precision throughout, so that their output does not depend on the machine.

Sums in another order (more threads, wider vectors, another BLAS, a GPU) move the logits of a network in single precision by some
1e-5, which no rounding hides in a table of many numbers: it only makes the changes rarer and larger. In double precision they
move by some 1e-15, nine digits below what is kept (`qualm.runners.runtime.precision`). Weights of type float64 alone do not do it: networks
of transformers cast to float32 within (rotary positions, norms, softmax), whatever their type.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any


def computing(dtype: str) -> AbstractContextManager[Any]:
    """Return a context in which a network of this dtype computes: at float64 every request for a float32 becomes a float64."""
    double: AbstractContextManager[Any] = _in_double()() if dtype == "float64" else nullcontext()
    return double


@cache
def _in_double() -> type[Any]:
    """Return the context class; inside a function, so that importing this file does not import torch."""
    import torch
    from torch.overrides import TorchFunctionMode

    def widened(value: Any) -> Any:
        return torch.float64 if value is torch.float32 else value

    makers = {torch.empty, torch.eye, torch.linspace, torch.ones, torch.rand, torch.randn, torch.zeros}

    class InDouble(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = {name: widened(value) for name, value in (kwargs or {}).items()}
            filled = function is torch.full and isinstance(named.get("fill_value", args[-1] if args else 0), float)
            if filled or function in makers:
                named.setdefault("dtype", torch.float64)  # the default dtype itself is every thread's
            if function is torch.Tensor.float:
                function = torch.Tensor.double
            return function(*map(widened, args), **named)

    return InDouble
