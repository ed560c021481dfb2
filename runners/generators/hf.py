"""Any local model of transformers as a generator: a causal language model, or a vision-language model where pictures are asked about.

The same request gives the same text whatever it is batched with (at float32): batches are left-padded, and tokens are drawn as
everywhere here (`runners.models._sampling`), by numbers that belong to the request alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from runners.code import file_digest
from runners.devices import torch_device
from runners.generators import GeneratorContext, GeneratorError, Message, Reply, Request
from runners.models import ModelError
from runners.models._folder import folder_digest, folder_fault
from runners.models._sampling import drawn, uniforms
from runners.models._still_images import still_images_only
from runners.models._weights import read_weights

if TYPE_CHECKING:
    import torch

    from registry.plugins import Artifact


def hf(context: GeneratorContext, *, artifact: Artifact, dtype: Literal["float32", "bfloat16", "float16"] | None = None) -> Hf:
    """A model of transformers in one folder: safetensors, tokenizer (or processor, if it sees) and chat template.

    Args:
        context: of this run.
        artifact: the entry of registry/data/ that holds it.
        dtype: of the weights; null is float32, at which a text does not depend on its batch.

    Raises:
        GeneratorError: files are missing, or there is no chat template.
    """
    folder = Path(artifact)
    fault = folder_fault(folder)
    if fault:
        raise GeneratorError(f"generator hf: {fault}")
    return Hf(folder, dtype or "float32", context.settings.device, context.settings.batch)


class Hf:
    """See `runners.generators.Engine`."""

    def __init__(self, folder: Path, dtype: str, device: str, batch_size: int) -> None:
        self.folder, self.dtype, self.device, self.batch_size = folder, dtype, device, batch_size
        self.name = f"hf ({folder.name})"
        self.identity = hashlib.sha256(json.dumps(["hf", folder_digest(folder), dtype, file_digest(Path(__file__))]).encode()).hexdigest()
        self.sees = any((folder / name).is_file() for name in ("preprocessor_config.json", "processor_config.json"))
        self._reader: Any = None
        self._model: Any = None

    def answer(self, requests: Sequence[Request]) -> Iterator[list[tuple[int, Reply]]]:
        self._open()
        if not self.sees and any(m.images for r in requests for m in r.messages):
            raise GeneratorError(f"{self.name}: is asked about pictures, but its folder has no processor: it reads text only")
        asked = [_Asked(i, r, prompt := self._render(r), len(self._tokenizer(prompt)["input_ids"])) for i, r in enumerate(requests)]
        order = sorted(asked, key=lambda a: (a.request.max_new_tokens, a.sees, a.length, a.place))
        while order:
            batch = [
                a
                for a in order[: self.batch_size]
                if (a.request.max_new_tokens, a.sees) == (order[0].request.max_new_tokens, order[0].sees)
            ]
            order = order[len(batch) :]
            faults = {a.place: fault for a in batch if (fault := self._fault(a))}
            good = [a for a in batch if a.place not in faults]
            made = list(zip([a.place for a in good], self._batch(good) if good else [], strict=True))
            yield made + [(place, Reply(None, "rejected", error=fault)) for place, fault in faults.items()]

    def _fault(self, asked: _Asked) -> str:
        """Why a request cannot be asked at all; empty if it can."""
        limit = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        if limit and asked.length + asked.request.max_new_tokens > limit:
            return f"{asked.length} tokens and {asked.request.max_new_tokens} to come are more than the model's {limit}"
        try:
            asked.pictures = [_picture(image) for m in asked.request.messages for image in m.images]
        except (OSError, ValueError, SyntaxError) as error:
            return f"a picture cannot be decoded: {error}"
        return ""

    def _open(self) -> None:
        """Read tokenizer and weights, once."""
        if self._model is not None:
            return
        from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        place = {"pretrained_model_name_or_path": str(self.folder), "local_files_only": True, "trust_remote_code": False}
        try:
            with still_images_only():
                self._reader = (
                    AutoProcessor.from_pretrained(**place, backend="pil") if self.sees else AutoTokenizer.from_pretrained(**place)
                )
        except (OSError, ValueError, ImportError, KeyError, RuntimeError, TypeError) as error:
            raise GeneratorError(f"{self.name}: cannot be read from {self.folder}: {error}") from error
        tokenizer = self._tokenizer = getattr(self._reader, "tokenizer", self._reader)
        if not getattr(self._reader, "chat_template", None):
            raise GeneratorError(f"{self.name}: has no chat template; add chat_template.jinja to {self.folder}, or take a chat-tuned model")
        tokenizer.padding_side = "left"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        try:
            kind = AutoModelForImageTextToText if self.sees else AutoModelForCausalLM
            model, self._stops = read_weights(self.name, kind, place, self.dtype, tokenizer)
        except ModelError as error:
            raise GeneratorError(str(error)) from error
        self._model = model.to(torch_device(self.device))

    def _render(self, request: Request) -> str:
        turns = [{"role": m.role, "content": self._content(m)} for m in request.messages]
        try:
            return str(self._reader.apply_chat_template(turns, add_generation_prompt=True, tokenize=False))
        except Exception as error:  # a template is a program of its own, and may raise anything
            raise GeneratorError(
                f"{self.name}: its chat template refuses the turns {[m.role for m in request.messages]}: {error}"
            ) from error

    def _content(self, message: Message) -> Any:
        if not self.sees:
            return message.text
        return [*({"type": "image"} for _ in message.images), {"type": "text", "text": message.text}]

    def _batch(self, asked: Sequence[_Asked]) -> list[Reply]:
        import torch
        from transformers import LogitsProcessorList

        begins = self._tokenizer.bos_token
        given: dict[str, Any] = {"add_special_tokens": False} if begins and asked[0].prompt.startswith(begins) else {}
        if asked[0].sees:
            given["images"] = [a.pictures for a in asked]
        batch = self._reader(text=[a.prompt for a in asked], padding=True, return_tensors="pt", **given)
        device = self._model.device
        tensors = {
            name: value.to(device, self._model.dtype if value.is_floating_point() else None)
            for name, value in batch.items()
            if name != "token_type_ids"
        }
        chooser = _Chosen([a.request for a in asked], [a.prompt for a in asked])
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = self._model.generate(
                **tensors, do_sample=False, max_new_tokens=asked[0].request.max_new_tokens, logits_processor=LogitsProcessorList([chooser])
            )
        read = tensors["attention_mask"].sum(dim=1).tolist()
        return [self._reply(row, n) for row, n in zip(out[:, tensors["input_ids"].shape[1] :].tolist(), read, strict=True)]

    def _reply(self, tokens: list[int], read: int) -> Reply:
        end = next((i for i, token in enumerate(tokens) if token in self._stops), None)
        kept = tokens if end is None else tokens[:end]
        text = str(self._tokenizer.decode(kept, skip_special_tokens=True)).strip()
        return Reply(text, "length" if end is None else "stop", read, len(kept))


@dataclass
class _Asked:
    """A request on its way."""

    place: int
    request: Request
    prompt: str
    length: int
    """Tokens of the prompt, those of pictures not counted."""
    pictures: list[Any] = field(default_factory=list)

    @property
    def sees(self) -> bool:
        return any(m.images for m in self.request.messages)


class _Chosen:
    """Chooses the next token of every sampled request by numbers that are its own; leaves the others to the likeliest."""

    def __init__(self, requests: Sequence[Request], prompts: Sequence[str]) -> None:
        self.temperatures = [r.temperature for r in requests]
        steps = requests[0].max_new_tokens
        self.numbers = [uniforms(_stream(r, p), 1, steps) if r.temperature else None for r, p in zip(requests, prompts, strict=True)]
        self.step = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        import torch

        chosen = scores.clone()
        for i, (temperature, numbers) in enumerate(zip(self.temperatures, self.numbers, strict=True)):
            if numbers is not None:
                number = torch.tensor([numbers[self.step]], device=scores.device)
                token = drawn(scores[i : i + 1], number, temperature, 1.0)
                chosen[i] = float("-inf")
                chosen[i, token] = 0.0
        self.step += 1
        return chosen


def _stream(request: Request, prompt: str) -> int:
    """A request's own random numbers: equal seeds of different prompts draw different ones."""
    return int.from_bytes(hashlib.sha256(f"{request.seed} {prompt}".encode()).digest()[:16])


def _picture(data: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(data)).convert("RGB")
