"""Models: what answers a prompt, or what answered it elsewhere.

A model plugin is one file here holding one function of the file's name. It returns an object of one of two kinds:

    def hf_vlm(context: ModelContext, *, artifact: Artifact | None = None, ...) -> Model: ...        # answers
    def recorded(context: ModelContext, *, artifact: Artifact, ...) -> Recording: ...                # looks up

`GIVES = [...]` declares which columns of GENERATIONS it can fill, so that the compiler refuses a spec whose estimators
need what the model cannot give.

What `infer` relies on, and every `Model` keeps:

- `digest` changes whenever anything changes that the answers depend on: weights, config, tokenizer, processor, dtype.
  The code that makes the answers is digested beside it (`runners.code.engine_digest`), not in it.
- Building the object reads no weights: `load` does, and is called only when there is something to compute.
- `render` returns the exact text the processor is given; together with the pixels it is all that a model sees.
- `encode` runs on a loader thread while the device works; `answer` runs on the device and draws no random number.
- An answer depends on its own prompt alone, whatever else is in the batch (to rounding; the text, at float32, exactly).
- What was not asked for or does not exist is None. Nothing is ever filled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import PIL.Image
    import pyarrow as pa
    import torch

COLUMNS = ("text", "token_logprobs", "token_entropies", "prior_logprobs", "option_logits", "p_true", "p_yes")
"""The columns of GENERATIONS that a model may fill, which are the words of `needs` and of GIVES."""


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


@dataclass(frozen=True)
class Request:
    """One prompt as the model will see it, and what is wanted."""

    prompt: str
    """Rendered by the model's own chat template."""
    image: PIL.Image.Image | None
    """RGB, after any perturbation."""
    options: int = 0
    """How many lettered options to read logits of; 0 for an open-ended question."""
    question: str = ""
    """The question as the prompt has it, for conversations that go on after the answer."""


@dataclass
class Answer:
    """The greedy answer to one request, every signal that was asked for, and None for every other."""

    text: str | None = None
    token_logprobs: list[float] | None = None
    """Natural log of the probability, under the full softmax of the raw logits, of each generated token, end-of-sequence included."""
    token_entropies: list[float] | None = None
    """Nats, over the full vocabulary, one per generated token."""
    prior_logprobs: list[float] | None = None
    option_logits: list[float] | None = None
    """Raw logits of the options' letters at the answer's first position."""
    p_true: float | None = None
    p_yes: float | None = None
    """P(yes) / (P(yes) + P(no)) when asked whether this answer is right; None where both are impossible."""


@dataclass(frozen=True)
class Encoded:
    """A batch after tokenizer and image processor, still on the CPU."""

    tensors: dict[str, Any]
    requests: tuple[Request, ...] = field(default=())


@runtime_checkable
class Model(Protocol):
    """A model that answers."""

    digest: str
    """SHA-256 over weights, config, tokenizer, processor and dtype."""

    def render(self, messages: list[dict[str, Any]]) -> str:
        """The text the processor is given for this conversation (`runners.prompts.messages`), up to where the answer begins."""

    def encode(self, requests: Sequence[Request]) -> Encoded:
        """Tokenise and process the images of a batch. Called from several threads."""

    def load(self) -> torch.nn.Module:
        """Read the weights, once; the module is moved to the device by the caller."""

    def answer(self, encoded: Encoded, needs: frozenset[str], max_new_tokens: int) -> list[Answer]:
        """Answers in the order of the requests; every request of a batch has options, or none has."""


@runtime_checkable
class Recording(Protocol):
    """Answers that were made elsewhere."""

    def lookup(self, dataset: str, samples: pa.Table) -> pa.Table:
        """Rows of GENERATIONS for these SAMPLES, in their order; a sample that was not recorded has no row.

        Raises:
            ModelError: the recording is not of this dataset, or is damaged.
        """
