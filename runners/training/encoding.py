"""Encode examples as token ids and image tensors with the processor and template of inference, once each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.contracts.models import Request
from qualm.runners.data.dataset import BrokenSampleError, DatasetFolder
from qualm.runners.inference.hf.layout import PicturePrefix
from qualm.runners.training.examples import TrainingExample

if TYPE_CHECKING:
    from qualm.runners.inference.hf.model import HfVlm

PICTURES_IN_MEMORY = 2 * 2**30
"""Bytes of processed images that are cached."""
_PROMPT = ("input_ids", "attention_mask")


@dataclass(frozen=True)
class EncodedExample:
    """A training example as token ids and image tensors."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    per_token: dict[str, tuple[int, ...]]
    """Further processor output per prompt token, such as token types."""
    picture: Mapping[str, Any]
    """Image tensors, with a first axis of images or patches."""

    def __len__(self) -> int:
        return len(self.prompt) + len(self.answer)


class Encoder:
    """Function from a training example to its ids and tensors; cached and thread-safe."""

    def __init__(self, model: HfVlm, datasets: Mapping[str, DatasetFolder], memory: int = PICTURES_IN_MEMORY) -> None:
        self.model, self.datasets, self.memory = model, datasets, memory
        self._texts: dict[tuple[str, int, str], tuple[tuple[int, ...], dict[str, tuple[int, ...]]]] = {}
        self._answers: dict[tuple[str, str], tuple[int, ...]] = {}
        self._prompts: dict[int, tuple[TrainingExample, str]] = {}
        self._prefixes: dict[tuple[str, str | None], PicturePrefix] = {}
        self._pictures: OrderedDict[tuple[str, str | None], Mapping[str, Any]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def answer(self, example: TrainingExample, text: str | None = None) -> tuple[int, ...]:
        """Return the token ids of the example's answer, or of `text`, with the end of turn."""
        answer = example.answer if text is None else text
        key = (self._prompt(example), answer)
        if key not in self._answers:
            self._answers[key] = tuple(self.model.answer_ids(list(example.conversation), answer))
        return self._answers[key]

    def image_of(self, example: TrainingExample) -> tuple[str, str | None]:
        """Return the (dataset, image id or None) of an example."""
        return example.dataset, self.datasets[example.dataset].samples[example.row]["image_id"]

    def __call__(self, example: TrainingExample, text: str | None = None) -> EncodedExample:
        """Encode an example, with another answer if `text` is given."""
        prompt = self._prompt(example)
        key = (example.dataset, example.row, prompt)
        image = self.image_of(example)
        with self._lock:
            encoding, picture = self._texts.get(key), self._pictures.get(image) if image[1] is not None else {}
            prefix = self._prefixes.get(image)
        if encoding is None and picture and prefix is not None and (followed := prefix.follow(self.model, prompt)) is not None:
            encoding = self._texts[key] = followed[0], {}
        if encoding is None or picture is None:
            encoding, picture = self._encode(example, prompt)
            picture = self._keep(key, encoding, image, picture)
        return EncodedExample(encoding[0], self.answer(example, text), encoding[1], picture)

    def _prompt(self, example: TrainingExample) -> str:
        rendered = self._prompts.get(id(example))
        if rendered is None or rendered[0] is not example:
            rendered = self._prompts[id(example)] = example, self.model.render(list(example.conversation))
        return rendered[1]

    def _encode(self, example: TrainingExample, prompt: str) -> tuple[Any, Mapping[str, Any]]:
        try:
            images = self.datasets[example.dataset].item(example.row).images()
        except BrokenSampleError as error:
            raise FinetuneError(f"{error}; correct it, or leave the sample out by `where:`") from error
        tensors = self.model.encode([Request(prompt, images[0] if images else None, more=images[1:])]).tensors
        ids = tensors["input_ids"]
        per_token = {n: tuple(t[0].tolist()) for n, t in tensors.items() if n not in _PROMPT and t.shape == ids.shape}
        picture = {n: t for n, t in tensors.items() if n not in _PROMPT and n not in per_token}
        if images and not per_token and self.model.shares(images):  # other prompts about it need no processor
            self._prefixes[self.image_of(example)] = PicturePrefix(prompt, self.model.written(prompt), tuple(ids[0].tolist()))
        return (tuple(ids[0].tolist()), per_token), picture

    def _keep(self, key: Any, encoding: Any, image: tuple[str, str | None], picture: Mapping[str, Any]) -> Mapping[str, Any]:
        """Cache an encoding and image tensors, dropping old images; return the cached tensors."""
        with self._lock:
            self._texts[key] = encoding
            if not picture or image in self._pictures:
                return self._pictures.get(image, picture)
            self._pictures[image] = picture
            self._bytes += _bytes(picture)
            while self._bytes > self.memory and len(self._pictures) > 1:
                self._bytes -= _bytes(self._pictures.popitem(last=False)[1])
            return picture


def _bytes(tensors: Mapping[str, Any]) -> int:
    return sum(t.element_size() * t.nelement() for t in tensors.values())
