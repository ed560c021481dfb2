"""Hidden states of chosen layers, taken as they pass through a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from qualm.registry.plugins.internals import ANSWER_LAST
from qualm.runners.contracts.models import ModelError, Part

if TYPE_CHECKING:
    import torch


class Taps:
    """Hidden states of chosen layers in the last forward pass, numbered as `hidden_states`."""

    def __init__(self, layers: Sequence[int]) -> None:
        self.layers = list(layers)
        self.keep = 1
        """Number of positions, from the end, to keep of the next pass."""
        self.picture: torch.Tensor | None = None
        """(rows, positions): image tokens of the next pass, if their states are wanted."""
        self.pictures: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """Layer -> states (rows, width) of the last image token, and the mean over image tokens."""
        self._passed: dict[int, torch.Tensor] = {}

    def note(self, layer: int, states: torch.Tensor) -> None:
        if self.picture is not None:
            self.pictures[layer] = _image_states(states, self.picture)
        own = states[:, -self.keep :]
        self._passed[layer] = own if own.shape == states.shape else own.clone()  # the rest, of a whole prompt, may go

    @property
    def states(self) -> torch.Tensor:
        """Return the states of the last pass, (layers, rows, keep, width)."""
        import torch

        return torch.stack([self._passed[layer].to(self._passed[self.layers[0]].device) for layer in self.layers])


def _image_states(states: torch.Tensor, picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (states (rows, width) of the last image token, means over all image tokens)."""
    import torch

    # Sums over hundreds of tokens lose digits in half precision.
    wide = torch.float64 if states.dtype == torch.float64 else torch.float32
    picture = picture.to(states.device)
    # Tokens of the image are numbered from 1 and all others are 0, so the largest is the picture's last.
    last = (picture * torch.arange(1, picture.shape[1] + 1, device=states.device)).argmax(dim=1)
    total = (states.to(wide) * picture.unsqueeze(2)).sum(dim=1)
    return states[torch.arange(len(states), device=states.device), last], total / picture.sum(dim=1, keepdim=True)


def decoder(module: Any) -> tuple[Any, list[Any]]:
    """Return (a network's language model, its layers); ModelError if some are not found."""
    inner = module.get_decoder()
    while not hasattr(inner, "layers") and hasattr(inner, "model"):
        inner = inner.model
    layers = list(getattr(inner, "layers", ()))
    expected = module.config.get_text_config().num_hidden_layers
    if len(layers) != expected:
        raise ModelError(
            f"hidden states: {type(module).__name__} has {len(layers)} layers here, and {expected} by its config; "
            "leave out the estimators that read them for this model"
        )
    return inner, layers


@contextmanager
def collect_states(module: Any, layers: Sequence[int]) -> Iterator[Taps]:
    """Yield Taps that collect these layers' states in every forward pass within this context."""
    inner, blocks = decoder(module)
    taps = Taps(sorted(set(layers)))

    def before(layer: int) -> Any:
        def hook(_: Any, args: Any, kwargs: Any) -> None:
            taps.note(layer, args[0] if args else kwargs["hidden_states"])

        return hook

    def behind(_: Any, __: Any, output: Any) -> None:
        # Behind the last layer means after the final norm, as in transformers' `hidden_states`.
        taps.note(len(blocks), output[0] if isinstance(output, tuple) else output.last_hidden_state)

    handles = [blocks[layer].register_forward_pre_hook(before(layer), with_kwargs=True) for layer in taps.layers if layer < len(blocks)]
    if len(blocks) in taps.layers:
        handles.append(inner.register_forward_hook(behind))
    try:
        yield taps
    finally:
        for handle in handles:
            handle.remove()


class AnswerStates:
    """Sums and last values of each answer's hidden states, while answers are decoded."""

    def __init__(self, taps: Taps, answers: int) -> None:
        self.taps, self.answers = taps, answers
        self._last: torch.Tensor | None = None
        self._sum: torch.Tensor
        self._count: torch.Tensor

    def add(self, rows: torch.Tensor, positions: torch.Tensor, answers: torch.Tensor) -> None:
        """Add states at (rows, positions) of the last pass to answers of these indices."""
        import torch

        states = self.taps.states[:, rows, positions]
        if self._last is None:
            wide = torch.float64 if states.dtype == torch.float64 else torch.float32
            shape = (states.shape[0], self.answers, states.shape[2])
            self._last, self._sum = states.new_zeros(shape), states.new_zeros(shape, dtype=wide)
            self._count = torch.zeros(self.answers, device=states.device, dtype=torch.long)
        self._last[:, answers] = states
        self._sum[:, answers] += states.to(self._sum.dtype)
        self._count[answers] += 1

    def part(self, answer: int, layer: int, place: str) -> Part:
        """Return an answer's last (`place` ANSWER_LAST) or mean state; no states if none was read."""
        if self._last is None or not int(self._count[answer]):
            return Part()
        at = self.taps.layers.index(layer)
        return as_part(self._last[at, answer] if place == ANSWER_LAST else self._sum[at, answer] / int(self._count[answer]))


def as_part(states: torch.Tensor) -> Part:
    """Return states in float16 as a part of an answer; `states` None if not all are finite."""
    import torch

    half = states.to(torch.float16)
    return Part(states=half.cpu().numpy() if bool(torch.isfinite(half).all()) else None)
