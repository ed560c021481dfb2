"""Local models of transformers as generators: a causal language model, or a vision-language model for images.

The same request gives the same text whatever its batch (at float32): batches are left-padded, and tokens are sampled with random numbers
that belong to the request alone (`qualm.runners.inference.hf.sampling`). The common beginning of prompts is read once, and a finished reply
leaves its batch.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qualm.registry.entries.model_folders import FolderError, complete_folder, folder_digest
from qualm.registry.formats.pictures import PictureError, decoded
from qualm.runners.contracts.generators import ChatRequest, GeneratorContext, GeneratorError, Message, Reply
from qualm.runners.contracts.models import ModelError
from qualm.runners.inference.devices import out_of_memory, torch_device
from qualm.runners.inference.hf.double import computing
from qualm.runners.inference.hf.layout import common_prefix_length
from qualm.runners.inference.hf.plain import plain_reason
from qualm.runners.inference.hf.rows import Network, Rows, first_stop
from qualm.runners.inference.hf.sampling import Chooser
from qualm.runners.inference.hf.still_images import still_images_only
from qualm.runners.inference.hf.weights import read_weights, silence
from qualm.runners.prompts.chat_template import DEFAULT_DATE, fix_date, parse_date
from qualm.runners.runtime.code_digest import engine_digest

if TYPE_CHECKING:
    import torch

    from qualm.registry.plugins.registry import Artifact

_WORTH = 16
"""Least number of common tokens of prompts that is worth reading separately."""

EXTRA = "models"


def hf(
    context: GeneratorContext,
    *,
    artifact: Artifact | None = None,
    hub: str | None = None,
    revision: str | None = None,
    dtype: Literal["float64", "float32", "bfloat16", "float16"] | None = None,
) -> HfGenerator:
    """Return a generator from a transformers model's folder; weights are read when needed.

    Args:
        artifact: the entry of registry/data/ that holds it.
        hub: or its name on the Hugging Face hub; `qualm fetch SPEC` downloads it.
        revision: branch, tag or commit of the hub repository, `main` unless given. `qualm fetch` pins its commit in registry/fetch.lock.
        dtype: of the weights; null is float32, at which a text does not depend on its batch. At float64 all is computed in double
            precision, and it depends on no machine either.

    Raises:
        GeneratorError: files are missing, or there is no chat template.
    """
    try:
        folder = complete_folder(artifact, hub, revision)
    except FolderError as error:
        raise GeneratorError(f"generator hf: {error}") from None
    return HfGenerator(hub or folder.name, folder, dtype or "float32", context.settings.device, context.settings.batch)


class HfGenerator:
    """A local transformers model that generates text (`GeneratorEngine`)."""

    def __init__(self, name: str, folder: Path, dtype: str, device: str, batch_size: int) -> None:
        self.folder, self.dtype, self.device, self.batch_size = folder, dtype, device, batch_size
        self.name = f"hf ({name})"
        self.identity = hashlib.sha256(json.dumps(["hf", folder_digest(folder), dtype, engine_digest(__name__)]).encode()).hexdigest()
        self.sees = any((folder / name).is_file() for name in ("preprocessor_config.json", "processor_config.json"))
        self._reader: Any = None
        self._model: Any = None
        self.counters: Counter[str] = Counter()
        self._network: Network | None = None
        self._head: tuple[list[int], Rows] | None = None
        """Common beginning of the last batch's prompts, and the cache after it."""

    def answer(self, requests: Sequence[ChatRequest]) -> Iterator[list[tuple[int, Reply]]]:
        self._open()
        if not self.sees and any(m.images for r in requests for m in r.messages):
            raise GeneratorError(
                f"{self.name}: is asked about images, but its folder has no processor, so it reads text only; name one that reads both"
            )
        prompts = [_Prompt(i, r, prompt := self._render(r), len(self._ids(prompt))) for i, r in enumerate(requests)]
        order = sorted(prompts, key=lambda a: (a.kind, a.length, a.place))
        while order:
            batch = [a for a in order[: self.batch_size] if a.kind == order[0].kind]
            faults = {a.place: fault for a in batch if (fault := self._fault(a))}
            good = [a for a in batch if a.place not in faults]
            try:
                replies = list(zip([a.place for a in good], self._batch(good) if good else [], strict=True))
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error) or len(batch) == 1:
                    raise
                self.batch_size = len(batch) // 2
                self.counters["batches halved for want of memory"] += 1
                self._head = None
                continue
            order = order[len(batch) :]
            yield replies + [(place, Reply(None, "rejected", error=fault)) for place, fault in faults.items()]

    def _fault(self, prompt: _Prompt) -> str:
        limit = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        if limit and prompt.length + prompt.request.max_new_tokens > limit:
            return f"{prompt.length} tokens of text and {prompt.request.max_new_tokens} of reply exceed the model's {limit}"
        try:
            prompt.pictures = [decoded(image) for m in prompt.request.messages for image in m.images]
        except PictureError as error:
            return f"an image cannot be decoded: {error}"
        return ""

    def _open(self) -> None:
        if self._model is not None:
            return
        from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

        silence()
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
        self._reader.chat_template = fix_date(self._reader.chat_template, parse_date(DEFAULT_DATE))
        tokenizer.padding_side = "left"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        try:
            kind = AutoModelForImageTextToText if self.sees else AutoModelForCausalLM
            model, self._stops = read_weights(self.name, kind, place, self.dtype, tokenizer)
        except ModelError as error:
            raise GeneratorError(str(error)) from error
        self._model = model.to(torch_device(self.device, self.dtype))
        self._network = None if plain_reason(model.config) else Network(self._model)

    def _render(self, request: ChatRequest) -> str:
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

    def _batch(self, prompts: Sequence[_Prompt]) -> list[Reply]:
        import torch

        steps = prompts[0].request.max_new_tokens
        temperature = prompts[0].request.temperature
        draws = [(_stream(a.request, a.prompt), 1 if temperature else 0) for a in prompts]
        chooser = Chooser(draws, steps, temperature, 1.0, self._model.device)
        with torch.inference_mode(), computing(self.dtype), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self._network is None or prompts[0].sees:
                tokens, read = self._generate(prompts, steps, chooser)
            else:
                ids = [self._ids(a.prompt) for a in prompts]
                tokens, read = self._read(ids).decode(1, chooser, steps, self._stops)[0], [len(own) for own in ids]
        return [self._reply(row, n) for row, n in zip(tokens, read, strict=True)]

    def _ids(self, prompt: str) -> list[int]:
        ids: list[int] = self._tokenizer(prompt, **self._special(prompt))["input_ids"]
        return ids

    def _special(self, prompt: str) -> dict[str, Any]:
        begins = self._tokenizer.bos_token
        # As in `HfVlm`: the template of a text-only model writes all special tokens.
        return {"add_special_tokens": False} if not self.sees or (begins and prompt.startswith(begins)) else {}

    def _read(self, ids: Sequence[Sequence[int]]) -> Rows:
        """Read prompts (lists of token ids) into cache rows; keep a long common start for reuse."""
        assert self._network is not None
        shared = list(ids[0][: min(min(common_prefix_length(ids[0], own), len(own) - 1) for own in ids)])
        if len(shared) < _WORTH:
            return self._network.begin(ids)
        overlap = len(self._head[0]) if self._head is not None and shared[: len(self._head[0])] == self._head[0] else 0
        if self._head is None or len(shared) - overlap >= _WORTH:
            self._head = (shared, self._network.begin([shared]))
        prefix, head = self._head
        every = head.select(head.lengths.new_zeros(len(ids)))
        return every.extend([own[len(prefix) :] for own in ids], [len(prefix)] * len(ids))[0]

    def _generate(self, prompts: Sequence[_Prompt], max_new_tokens: int, chooser: Chooser) -> tuple[list[list[int]], list[int]]:
        """Return (new token ids per prompt, padded; prompt lengths) by transformers' own loop.

        Returns:
            The new tokens of each prompt, padded to the longest, and the number of tokens in each prompt.
        """
        from transformers import LogitsProcessorList

        options = self._special(prompts[0].prompt)
        if prompts[0].sees:
            options["images"] = [a.pictures for a in prompts]
        batch = self._reader(text=[a.prompt for a in prompts], padding=True, return_tensors="pt", **options)
        device = self._model.device
        tensors = {
            name: value.to(device, self._model.dtype if value.is_floating_point() else None)
            for name, value in batch.items()
            if name != "token_type_ids"
        }
        out = self._model.generate(
            **tensors, do_sample=False, max_new_tokens=max_new_tokens, logits_processor=LogitsProcessorList([_Process(chooser)])
        )
        return out[:, tensors["input_ids"].shape[1] :].tolist(), tensors["attention_mask"].sum(dim=1).tolist()

    def _reply(self, tokens: list[int], read: int) -> Reply:
        end = first_stop(tokens, self._stops)
        answer = tokens[:end]
        text = str(self._tokenizer.decode(answer, skip_special_tokens=True)).strip()
        return Reply(text, "length" if end is None else "stop", read, len(answer))


@dataclass
class _Prompt:
    place: int
    request: ChatRequest
    prompt: str
    length: int
    """Prompt tokens without those of images."""
    pictures: list[Any] = field(default_factory=list)

    @property
    def sees(self) -> bool:
        return any(m.images for m in self.request.messages)

    @property
    def kind(self) -> tuple[int, bool, float]:
        """Return (maximum new tokens, has images, temperature), which are equal within a batch."""
        return self.request.max_new_tokens, self.sees, self.request.temperature


class _Process:
    """Logits processor of transformers that lets a `Chooser` choose every token."""

    def __init__(self, chooser: Chooser) -> None:
        self.chooser, self.step = chooser, 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        import torch

        chosen = self.chooser(self.step, scores, torch.arange(len(scores), device=scores.device))
        self.step += 1
        return torch.full_like(scores, float("-inf")).scatter_(1, chosen.unsqueeze(1), 0.0)


def _stream(request: ChatRequest, prompt: str) -> int:
    """Return the 128 bits that seed a request's random numbers, from its seed and prompt."""
    return int.from_bytes(hashlib.sha256(f"{request.seed} {prompt}".encode()).digest()[:16])
