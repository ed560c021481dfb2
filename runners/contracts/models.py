"""Requests and responses of models, and the three kinds of models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import PIL.Image
import pyarrow as pa

from qualm.registry import DRAWS as DRAWS
from qualm.registry import SHOWN_DRAWS as SHOWN_DRAWS
from qualm.registry.plugins.internals import EVIDENCE, GRADIENT
from qualm.runners.contracts.parts import ANSWER as ANSWER
from qualm.runners.contracts.parts import COLUMNS as COLUMNS
from qualm.runners.contracts.parts import OPTIONS as OPTIONS
from qualm.runners.contracts.parts import PARTS as PARTS
from qualm.runners.contracts.parts import draw_of as draw_of
from qualm.runners.contracts.parts import draw_part as draw_part
from qualm.runners.contracts.parts import internal_of as internal_of
from qualm.runners.contracts.parts import is_signal as is_signal
from qualm.runners.contracts.parts import subjects_of as subjects_of
from qualm.runners.prompts.question import DEFAULT, Prompt
from qualm.runners.runtime.precision import significant, stored_share, stored_value
from qualm.runners.runtime.settings import Settings

if TYPE_CHECKING:
    import torch

    from qualm.runners.runtime.server_config import Server


class ModelError(Exception):
    """Error that a model cannot be loaded or used; the message says why and what to do."""


@dataclass(frozen=True)
class ModelContext:
    """Run-time inputs of a model plugin: label, folder of files, dtype and settings."""

    label: str
    folder: Path | None = None
    """Folder of the model's files; None for a hub model."""
    dtype: str | None = None
    """Dtype of the run, for models without an own one."""
    settings: Settings | None = None


@dataclass
class Part:
    """One part of a model's response to a request; missing values are None."""

    text: str | None = None
    """Text of the part; of `top_tokens` a JSON list: for each position the texts of the likeliest tokens."""
    tokens: list[int] | None = None
    """Generated token ids, including end-of-sequence."""
    logprobs: list[float] | None = None
    """Natural log-probability of each token under the full softmax of the raw logits; for a prior, of the answer's tokens. Of
    image_divergence and uniform_divergence, a divergence per token (`qualm.registry.sample`); of top_logprobs, those of all positions
    behind one another."""
    entropies: list[float] | None = None
    """Entropy per token over the full vocabulary, in nats."""
    numbers: list[float] | None = None
    """Raw logits of the options' letters at the first answer position; or the single number of p_yes or P(True), empty if undefined; or
    gradient, evidence and ends of tokens (`qualm.registry.plugins.internals`); or how many top_logprobs each
    position has."""
    states: Any = None
    """Hidden states or attention (`qualm.registry.plugins.internals`): float16, one number per unit; None if undefined."""
    thinking: str | None = None
    """Thinking before the answer, of a server; that of a local model is among its tokens."""


_SHARES = frozenset({"p_true", "p_true_sampling", "p_yes"})
"""Parts whose number is a probability."""
_ANY_SIZE = (f"{GRADIENT}/", f"{EVIDENCE}/")
"""Beginnings of parts whose numbers may be far below 1e-9."""


def round_part(name: str, part: Part) -> Part:
    """Return a copy of a computed part (an answer or signal), its numbers rounded for storage."""

    def rounded(values: list[float] | None, how: Callable[[float], float] = stored_value) -> list[float] | None:
        return None if values is None else [how(value) for value in values]

    numbers = rounded(part.numbers, stored_share if name in _SHARES else significant if name.startswith(_ANY_SIZE) else stored_value)
    return replace(part, logprobs=rounded(part.logprobs), entropies=rounded(part.entropies), numbers=numbers)


@dataclass(frozen=True)
class Request:
    """A prompt as the model sees it, its images, and the names of the wanted parts."""

    prompt: str
    """Text from the model's own chat template."""
    image: PIL.Image.Image | None
    """First image, RGB, after any perturbation."""
    options: int = 0
    """Number of lettered options whose logits are read; 0 for an open question."""
    question: str = ""
    """The question in the prompt, for conversations that continue after the answer."""
    parts: tuple[str, ...] = ("answer",)
    """Names in `PARTS`, and `draw K`."""
    stream: int = 0
    """128 bits of seed and sample, which with the number of a sampled answer determine its random numbers."""
    pixels: str = ""
    """Digest of the images, by which work on equal images is shared; empty if unknown."""
    greedy: Part | None = None
    """The greedy answer if it is known and only signals about it are wanted."""
    drawn: Mapping[int, str] = field(default_factory=dict)
    """Known sampled answers, by number, for signals that show them; those in `parts` are shown too."""
    drawn_parts: Mapping[int, Part] = field(default_factory=dict)
    """Known sampled answers, by number, of which hidden states or attention are wanted."""
    more: tuple[PIL.Image.Image, ...] = ()
    """Further images, in the order of their places in the prompt."""
    asked: Prompt = DEFAULT
    """Prompt settings of the request, for conversations that continue after the answer."""

    @property
    def images(self) -> tuple[PIL.Image.Image, ...]:
        return () if self.image is None else (self.image, *self.more)

    @property
    def pictures(self) -> int:
        return len(self.images)

    @property
    def own_pictures(self) -> int:
        """Return the number of images of the question, without those of few-shot examples."""
        return self.asked.own_images(self.pictures)


@dataclass(frozen=True)
class Decoding:
    max_new_tokens: int = 16
    temperature: float = 0.7
    """Temperature of sampled answers; the greedy one has none."""
    top_p: float = 1.0
    """Minimum probability of the nucleus for sampled answers."""
    top_k: int = 0
    """Number of most probable tokens for sampled answers; 0 for all."""


@dataclass(frozen=True)
class Encoded:
    """A batch after tokenizer and image processor, still on the CPU."""

    tensors: dict[str, Any]
    requests: tuple[Request, ...] = field(default=())
    notes: Any = None
    """Further data from `encode` for `answer`."""


@runtime_checkable
class Model(Protocol):
    digest: str
    """SHA-256 over weights, config, tokenizer, processor and dtype."""

    facts: Mapping[str, Any]
    """Facts needed to repeat an answer: settings of the processor with limits of pixels, a rendered prompt. Stored with the answers;
    equal for equal digests.
    """

    def render(self, messages: list[dict[str, Any]]) -> str:
        """Return a conversation as text in the model's chat template, up to the answer."""

    def encode(self, requests: Sequence[Request]) -> Encoded:
        """Tokenise prompts and process images of a batch; called from several threads."""

    def load(self) -> torch.nn.Module:
        """Read the weights and return the module; called once; the caller moves it to the device."""

    def answer(self, encoded: Encoded, decoding: Decoding) -> list[dict[str, Part]]:
        """Return a dict part name -> Part for each request, in order.

        Either all requests have options or none has.
        """


@dataclass(frozen=True)
class PartReply:
    """One part of a server's response to a request."""

    part: str
    value: Part
    reason: str = ""
    rejected: bool = False
    """True if the server refused to answer, and would again."""


class Connection(Protocol):
    """The connection to a server of models; see `qualm.runners.servers.client.Client`."""

    name: str
    server: Server

    def pooled(self, items: Sequence[Any], work: Callable[[Any], Iterable[Any]], what: str = ...) -> Iterator[list[tuple[int, Any]]]:
        """Apply `work` to items (`what`, in messages) in parallel; yield lists of (index, result)."""


@runtime_checkable
class Remote(Protocol):
    """A model behind a server; creating it sends nothing."""

    digest: str
    """SHA-256 over the parameters that shape answers."""
    client: Connection
    """`parts` is called within its `pooled`, from several threads."""
    counters: Counter[str]
    served: Counter[str]
    """Number of replies by the server's name and fingerprint of its model."""

    def render(self, messages: list[dict[str, Any]]) -> str:
        """Return a text that identifies a conversation and everything sent with it, except images."""

    def parts(self, request: Request, decoding: Decoding) -> Iterator[PartReply]:
        """Yield the parts of a request, each as soon as it is there.

        Raises:
            RequestFailedError, FatalRequestError: see `qualm.runners.servers.client`; earlier parts stay valid.
        """


@runtime_checkable
class Recording(Protocol):
    def lookup(self, dataset: str, samples: pa.Table) -> pa.Table:
        """Return the recorded rows of GENERATIONS of these SAMPLES, in order; some may be missing.

        Raises:
            ModelError: the recording is not of this dataset, or is damaged.
        """
