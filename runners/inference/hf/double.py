"""Networks in double precision throughout, so that their output does not depend on the machine.

Another order of summation (more threads, wider vectors, another BLAS, a GPU) moves logits in single precision by about 1e-5, in double
precision by about 1e-15, nine digits below what is kept (`qualm.runners.runtime.precision`). Weights of type float64 do not suffice:
networks of transformers cast to float32 within (rotary positions, norms, softmax).
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any


def computing(dtype: str) -> AbstractContextManager[Any]:
    """Return a context in which networks compute in float64; an empty one for other dtypes."""
    double: AbstractContextManager[Any] = _context_class()() if dtype == "float64" else nullcontext()
    return double


@cache
def _context_class() -> type[Any]:
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
