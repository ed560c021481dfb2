"""Models: they answer prompts, or hold answers recorded elsewhere.

A model plugin is one file here holding one function of the file's name. It returns an object of one of three kinds:

    def hf_vlm(context: ModelContext, *, artifact: Artifact | None = None, ...) -> Model: ...        # answers
    def recorded(context: ModelContext, *, artifact: Artifact, ...) -> Recording: ...                # looks up
    def openai(context: ModelContext, *, model: str, ...) -> Remote: ...                             # answers elsewhere

`GIVES = [...]` declares which columns of GENERATIONS it can fill, so that the compiler refuses a spec whose estimators
need what the model cannot give. It may depend on the model's arguments (`qualm.registry.plugins.rule.gives`).

What `infer` relies on, and every `Model` keeps:

- `digest` changes whenever anything changes that the answers depend on: weights, config, tokenizer, processor, dtype.
  The code that makes the answers is digested beside it (`qualm.runners.runtime.code_digest.engine_digest`), not in it.
- Building the object reads no weights: `load` does, and is called only when there is something to compute.
- `render` returns the exact text the processor is given; together with the pixels it is all that a model sees.
- `encode` runs on a loader thread while the device works; `answer` runs on the device.
- All chance of a sampled answer comes from its request's stream and its number (`qualm.runners.inference.hf.sampling`).
- An answer depends on its own prompt alone, whatever else is in the batch (to rounding; the text, at float32, exactly).
- What was not asked for or does not exist is None. Nothing is ever filled in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import PIL.Image
import pyarrow as pa

from qualm.registry import DRAWS as DRAWS
from qualm.registry import SHOWN_DRAWS as SHOWN_DRAWS
from qualm.runners.contracts.parts import ANSWER as ANSWER
from qualm.runners.contracts.parts import COLUMNS as COLUMNS
from qualm.runners.contracts.parts import OPTIONS as OPTIONS
from qualm.runners.contracts.parts import PARTS as PARTS
from qualm.runners.contracts.parts import draw_of as draw_of
from qualm.runners.contracts.parts import draw_part as draw_part
from qualm.runners.contracts.parts import internal_of as internal_of
from qualm.runners.contracts.parts import is_signal as is_signal
from qualm.runners.contracts.parts import subjects_of as subjects_of
from qualm.runners.runtime.precision import kept, kept_share
from qualm.runners.runtime.settings import Settings

if TYPE_CHECKING:
    import torch

    from qualm.runners.servers.client import Client


class ModelError(Exception):
    """A model that cannot be loaded or cannot do what it is asked. The message says which, why, and what to do."""


@dataclass(frozen=True)
class ModelContext:
    """What `infer` hands every model plugin beside the spec's parameters."""

    label: str
    """The model's name in the spec."""
    folder: Path | None = None
    """Where the model's files lie: an entry of `registry/data/` or what a fine-tune made. None for a hub model."""
    dtype: str | None = None
    """The run's dtype, for a model whose own parameters name none."""
    settings: Settings | None = None
    """Of this run; how servers are reached."""


@dataclass
class Part:
    """One part of what a model gives for a request; what does not exist is None."""

    text: str | None = None
    tokens: list[int] | None = None
    """Generated ids, end-of-sequence included."""
    logprobs: list[float] | None = None
    """Natural log of each token's probability under the full softmax of the raw logits; of a prior, the answer's tokens under it."""
    # or, of image_divergence and uniform_divergence, a divergence per token: see qualm.registry.sample
    entropies: list[float] | None = None
    """Nats, over the full vocabulary, one per token."""
    numbers: list[float] | None = None
    """Raw logits of the options' letters at the answer's first position; or the one number of p_yes or a P(True), none where undefined."""
    states: Any = None
    """Of what is inside the model (`qualm.registry.plugins.internals`): float16, one number for each unit; None where undefined."""


_SHARES = frozenset({"p_true", "p_true_sampling", "p_yes"})
"""Parts whose one number is a probability."""


def as_kept(name: str, part: Part) -> Part:
    """A part that was computed here, its numbers to the precision that is kept (`qualm.runners.runtime.precision`)."""

    def rounded(values: list[float] | None, how: Callable[[float], float] = kept) -> list[float] | None:
        return None if values is None else [how(value) for value in values]

    numbers = rounded(part.numbers, kept_share if name in _SHARES else kept)
    return replace(part, logprobs=rounded(part.logprobs), entropies=rounded(part.entropies), numbers=numbers)


@dataclass(frozen=True)
class Request:
    """One prompt as the model will see it, and what is wanted."""

    prompt: str
    """Rendered by the model's own chat template."""
    image: PIL.Image.Image | None
    """RGB, after any perturbation; the first of several."""
    options: int = 0
    """How many lettered options to read logits of; 0 for an open-ended question."""
    question: str = ""
    """The question as the prompt has it, for conversations that go on after the answer."""
    parts: tuple[str, ...] = ("answer",)
    """Of `PARTS`, and `draw K`."""
    stream: int = 0
    """128 bits from seed and sample, which with a draw's number make its random numbers."""
    pixels: str = ""
    """Digest of the pictures: equal digests are the same ones, whose work is shared. Empty: unknown."""
    greedy: Part | None = None
    """The greedy answer, where it is known and only signals about it are wanted."""
    drawn: Mapping[int, str] = field(default_factory=dict)
    """Sampled answers that are known, by number, where a signal that shows them is wanted; those in `parts` are shown as well."""
    drawn_parts: Mapping[int, Part] = field(default_factory=dict)
    """Sampled answers that are known, by number, where what was inside the model is wanted of them."""
    more: tuple[PIL.Image.Image, ...] = ()
    """Further pictures, in the order of their places in the prompt."""

    @property
    def images(self) -> tuple[PIL.Image.Image, ...]:
        """All its pictures."""
        return () if self.image is None else (self.image, *self.more)

    @property
    def pictures(self) -> int:
        """How many there are."""
        return len(self.images)


@dataclass(frozen=True)
class Decoding:
    max_new_tokens: int = 16
    temperature: float = 0.7
    """Of sampled answers; the greedy one has none."""
    top_p: float = 1.0
    """Sampled answers use the likeliest tokens that together have at least this probability."""


@dataclass(frozen=True)
class Encoded:
    """A batch after tokenizer and image processor, still on the CPU."""

    tensors: dict[str, Any]
    requests: tuple[Request, ...] = field(default=())
    notes: Any = None
    """What else the model's `answer` wants of its `encode`."""


@runtime_checkable
class Model(Protocol):
    digest: str
    """SHA-256 over weights, config, tokenizer, processor and dtype."""

    facts: Mapping[str, Any]
    """What a reader of the answers must know to ask the same again: the processor's settings with its limits of pixels, a rendered
    prompt. Kept with the answers; the same for the same digest."""

    def render(self, messages: list[dict[str, Any]]) -> str:
        """The text the processor is given for a conversation (`qualm.runners.prompts.question.messages`), up to where the answer begins."""

    def encode(self, requests: Sequence[Request]) -> Encoded:
        """Tokenise and process the images of a batch. Called from several threads."""

    def load(self) -> torch.nn.Module:
        """Read the weights, once; the module is moved to the device by the caller."""

    def answer(self, encoded: Encoded, decoding: Decoding) -> list[dict[str, Part]]:
        """The parts of each request, in order; every request of a batch has options, or none has."""


@dataclass(frozen=True)
class PartReply:
    """One part of what a server gave for a request."""

    part: str
    value: Part
    reason: str = ""
    """Why some of it is undefined."""
    rejected: bool = False
    """The server refused to answer, and would again."""


@runtime_checkable
class Remote(Protocol):
    """A model behind a server. Building it sends nothing."""

    digest: str
    """SHA-256 over whatever of its parameters shapes answers."""
    client: Client
    """The connection. All of `parts` is called within its `pooled`, from several threads."""
    counters: Counter[str]
    """What the run's record shall count."""
    served: Counter[str]
    """Replies by the name and fingerprint that the server gives."""

    def render(self, messages: list[dict[str, Any]]) -> str:
        """A text that stands for this conversation and everything that is sent with it but pictures."""

    def parts(self, request: Request, decoding: Decoding) -> Iterator[PartReply]:
        """The parts of one request, each as soon as it is there.

        Raises:
            Failed, Stopped: see `qualm.runners.servers.client`; what was handed over before stays.
        """


@runtime_checkable
class Recording(Protocol):
    """Answers that were made elsewhere."""

    def lookup(self, dataset: str, samples: pa.Table) -> pa.Table:
        """Return rows of GENERATIONS of these SAMPLES, in order; unrecorded samples have none.

        Raises:
            ModelError: the recording is not of this dataset, or is damaged.
        """
