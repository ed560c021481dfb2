"""Implementation of `qualm.runners.plugins.models.vllm`: requests to vLLM's `LLM.generate` for each part of an answer.

Written against vLLM's public interface (`vllm/entrypoints/llm.py`, `vllm/sampling_params.py`, `vllm/outputs.py`). Prompts
(chat template, tokens, letters of options, spellings of yes) are `hf_vlm`'s own, so that both get the same.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from qualm.registry.formats.picture_lists import remove_marks
from qualm.registry.plugins.extras import install_line
from qualm.runners.contracts.models import ANSWER, OPTIONS, Decoding, Encoded, ModelError, Part, Request, draw_of, is_signal
from qualm.runners.inference.hf.model import HfVlm
from qualm.runners.inference.hf.own_answer import spellings
from qualm.runners.prompts.chat_template import DEFAULT_DATE
from qualm.runners.prompts.question import CONFIDENCE_TOKENS, Prompt, p_true_prompt
from qualm.runners.runtime.libraries import library_version

if TYPE_CHECKING:
    import torch

    from qualm.runners.inference.hf.adapters import Base

NEEDS_SELECTED = ("options", "p_yes", "p_true")
"""Parts that read the log-probabilities of certain tokens."""


@dataclass(frozen=True)
class VllmRequest:
    """A prompt for vLLM, its sampling parameters, and the function that reads the output."""

    prompt: dict[str, Any]
    params: dict[str, Any]
    take: Callable[[Any], Part]
    request: int
    part: str


class VllmModel:
    """A model on vLLM in this process (`qualm.runners.contracts.models.Model`)."""

    plans_batches = True
    """The engine schedules prompts itself: large batches are faster."""
    thinking = None
    thinks = False

    def __init__(
        self,
        label: str,
        base: Base,
        dtype: str,
        remote_code: bool,
        template: str | None,
        quantization: str | None,
        options: Mapping[str, Any],
        date: str = DEFAULT_DATE,
    ) -> None:
        """Set the model up without its engine; `options` of the engine are not in the digest.

        They change speed and memory, and by `max_model_len` which prompts can be read.
        """
        self.label, self.base, self.dtype, self.quantization, self.options = label, base, dtype, quantization, dict(options)
        self.reader = HfVlm(label, base, dtype, remote_code, template, None, date=date)
        self.version = library_version("vllm")
        material = ["vllm", self.version, self.reader.digest, quantization]
        self.digest = hashlib.sha256(json.dumps(material).encode()).hexdigest()
        self._remote_code, self._template = remote_code, template
        self.engine: Any = None
        self._params: Any = None

    @property
    def facts(self) -> dict[str, Any]:
        engine = {"vllm": self.version, "dtype": self.dtype, "quantization": self.quantization, "logprobs_mode": "raw_logprobs"}
        return {**self.reader.facts, "engine": engine}

    def render(self, messages: list[dict[str, Any]]) -> str:
        return self.reader.render(messages)

    def refusal(self, pictures: int) -> str:
        return self.reader.refusal(pictures)

    def misfit(self, prompt: str, n_images: int) -> str:
        """Return why a rendered prompt cannot be read, also by `max_model_len`; "" if it can."""
        most = self.options.get("max_model_len")
        if (why := self.reader.misfit(prompt, n_images)) or most is None:
            return why
        tokens = len(self.reader.written(prompt))
        return f"its prompt has {tokens:,} tokens, and `max_model_len` of [vllm] in qualm.toml is {most:,}" if tokens > most else ""

    def encode(self, requests: Sequence[Request]) -> Encoded:
        return Encoded({}, tuple(requests))

    def load(self) -> torch.nn.Module:
        """Start the engine; return an empty module, since vLLM keeps the weights itself.

        Raises:
            ModelError: vLLM is not installed, or cannot read the model.
        """
        import torch

        who = f"model '{self.label}'"
        try:
            from vllm import LLM, SamplingParams
        except ImportError as error:
            raise ModelError(f"{who}: vLLM cannot be imported ({error}): {install_line('vllm')}") from error
        fixed = {
            "model": self.base.hub or str(self.base.folder),
            "revision": self.base.revision,
            "dtype": self.dtype,
            "quantization": self.quantization,
            "trust_remote_code": self._remote_code,
            "generation_config": "vllm",  # or a model's own penalties and top_k would change greedy answers
            "logprobs_mode": "raw_logprobs",
            "seed": 0,
        }
        try:
            self.engine = LLM(**{**self.options, **fixed})
        except (ValueError, TypeError, OSError, RuntimeError, NotImplementedError) as error:
            raise ModelError(f"{who}: vLLM {self.version} cannot start with it: {error}") from error
        self._params = SamplingParams
        return torch.nn.Module()

    def answer(self, encoded: Encoded, decoding: Decoding) -> list[dict[str, Part]]:
        requests = encoded.requests
        outputs: list[dict[str, Part]] = [{} for _ in requests]
        self._run((ask for i, request in enumerate(requests) for ask in self._initial_asks(i, request, decoding)), outputs)
        self._run((ask for i, request in enumerate(requests) for ask in self._about(i, request, outputs[i])), outputs)
        return outputs

    def _run(self, asks: Iterable[VllmRequest], outputs: list[dict[str, Part]]) -> None:
        these = list(asks)
        if not these:
            return
        if any(ask.part in NEEDS_SELECTED for ask in these) and not hasattr(self._params, "logprob_token_ids"):
            raise ModelError(
                f"model '{self.label}': vLLM {self.version} gives no log-probabilities of named tokens, which option logits, P(yes) and "
                "P(True) are read from; expected `SamplingParams.logprob_token_ids`: install a newer one, or leave those estimators out"
            )
        params = [self._params(**ask.params) for ask in these]
        try:
            results = self.engine.generate([ask.prompt for ask in these], params, use_tqdm=False)
        except (ValueError, TypeError) as error:
            raise ModelError(f"model '{self.label}': vLLM {self.version} refuses a prompt of this batch: {error}") from error
        for ask, result in zip(these, results, strict=True):
            outputs[ask.request][ask.part] = ask.take(result)

    def _initial_asks(self, request_index: int, request: Request, decoding: Decoding) -> Iterable[VllmRequest]:
        """Yield the requests that need no greedy answer: options, the answer, sampled answers."""
        prompt = self._prompt(request.prompt, request)
        for part in request.parts:
            draw = draw_of(part)
            if part == OPTIONS:
                letters = self.reader.option_ids(request.options)
                yield VllmRequest(prompt, self._logprobs_params(letters), partial(self._options, letters), request_index, part)
            elif part == ANSWER:
                params = {"temperature": 0.0, "max_tokens": decoding.max_new_tokens, "logprobs": 0}
                yield VllmRequest(prompt, params, self._text, request_index, part)
            elif draw:
                params = {
                    "temperature": decoding.temperature,
                    "top_p": decoding.top_p,
                    **({"top_k": decoding.top_k} if decoding.top_k else {}),
                    "seed": seed_of(request.stream, draw),
                    "max_tokens": decoding.max_new_tokens,
                    "logprobs": 0,
                }
                yield VllmRequest(prompt, params, self._text, request_index, part)

    def _about(self, number: int, request: Request, parts: dict[str, Part]) -> Iterable[VllmRequest]:
        signals = [part for part in request.parts if is_signal(part)]
        if not signals:
            return
        greedy = parts.get(ANSWER) or request.greedy
        if greedy is None or not greedy.tokens:
            raise ModelError(f"a request for signals about an answer neither holds that answer nor asks for it: {request.prompt[-80:]!r}")
        for part in signals:
            if part in _PRIORS:
                yield self._prior(number, part, request, list(greedy.tokens))
                continue
            if part not in _TALKS:
                raise ModelError(f"model '{self.label}': vLLM does not give '{part}'")
            text = self.render(_TALKS[part](request.asked, request.question, greedy.text or "", request.pictures))
            if greedy.text is None or self.misfit(text, request.pictures):  # what it said spells the mark of an image, or is too long
                parts[part] = Part() if part == "said_confidence" else Part(numbers=[])
                continue
            prompt = self._prompt(text, request)
            if part == "said_confidence":
                params = {"temperature": 0.0, "max_tokens": CONFIDENCE_TOKENS, "logprobs": 0}
                yield VllmRequest(prompt, params, self._text, number, part)
            elif part == "p_yes":
                yes, no = (spellings(self.reader, word, text) for word in ("yes", "no"))
                yield VllmRequest(prompt, self._logprobs_params([*yes, *no]), partial(_p_yes, yes, no), number, part)
            else:
                true = spellings(self.reader, "True", text)
                yield VllmRequest(prompt, self._logprobs_params(true), partial(_p_true, true), number, part)

    def _prior(self, number: int, part: str, request: Request, tokens: list[int]) -> VllmRequest:
        pictures = request.pictures if part == "without_question" else 0
        question = remove_marks(request.question, request.own_pictures) if part == "without_image" else ""
        prompt = self._prompt(self.render(request.asked.messages(question, n_images=pictures)), request if pictures else None)
        whole = {**prompt, "prompt_token_ids": [*prompt["prompt_token_ids"], *tokens]}
        params = {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": 0}

        def take(out: Any) -> Part:
            scored = (out.prompt_logprobs or [])[-len(tokens) :]
            return Part(logprobs=self._numbers([(entry or {}).get(token) for entry, token in zip(scored, tokens, strict=True)]))

        return VllmRequest(whole, params, take, number, part)

    def _prompt(self, text: str, request: Request | None) -> dict[str, Any]:
        """Return a prompt as vLLM takes it: token ids with image marks, and the images."""
        images = list(request.images) if request is not None else []
        return {"prompt_token_ids": list(self.reader.written(text)), **({"multi_modal_data": {"image": images}} if images else {})}

    def _logprobs_params(self, ids: Sequence[int]) -> dict[str, Any]:
        """Return sampling parameters: one greedy token, with the log-probabilities of `ids`."""
        return {"temperature": 0.0, "max_tokens": 1, "logprob_token_ids": sorted(set(ids))}

    def _text(self, out: Any) -> Part:
        completion = out.outputs[0]
        tokens = [int(token) for token in completion.token_ids]
        entries = completion.logprobs or []
        if len(entries) != len(tokens):
            raise ModelError(f"model '{self.label}': vLLM gave {len(entries)} log-probabilities for {len(tokens)} tokens")
        return Part(completion.text.strip(), tokens, self._numbers([entry.get(t) for entry, t in zip(entries, tokens, strict=True)]))

    def _options(self, letter_ids: Sequence[int], out: Any) -> Part:
        """Return the option letters' log-probabilities and the likeliest token as a part."""
        completion = out.outputs[0]
        first = completion.logprobs[0]
        tokens = [int(token) for token in completion.token_ids]
        return Part(
            completion.text.strip(),
            tokens,
            self._numbers([first.get(token) for token in tokens[:1]]),
            numbers=self._numbers([first.get(letter) for letter in letter_ids]),
        )

    def _numbers(self, entries: Sequence[Any]) -> list[float]:
        values = [math.nan if entry is None else float(entry.logprob) for entry in entries]
        if any(value != value for value in values):
            raise ModelError(
                f"model '{self.label}': vLLM gave a log-probability that is missing or no number; float16 overflows, try bfloat16"
            )
        return values


def _asked_true(asked: Prompt, question: str, answer: str, pictures: int) -> list[dict[str, Any]]:
    return asked.ask_text(p_true_prompt(question, answer), pictures)


_PRIORS = ("without_image", "without_question", "without_both")
_TALKS: Mapping[str, Callable[[Prompt, str, str, int], list[dict[str, Any]]]] = {
    "p_yes": Prompt.verification,
    "p_true": _asked_true,
    "said_confidence": Prompt.verbalisation,
}


def seed_of(stream: int, draw: int) -> int:
    """Return vLLM's seed of a sampled answer: 63 bits from the sample's stream and the draw."""
    return int.from_bytes(hashlib.sha256(f"{stream:032x} {draw}".encode()).digest()[:8], "big") >> 1


def _summed_logprob(first: Mapping[int, Any], ids: Iterable[int]) -> float:
    """Return the log of these tokens' summed probability; -inf if none is among `first`."""
    values = [float(first[i].logprob) for i in sorted(set(ids)) if i in first]
    top = max(values, default=-math.inf)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(value - top) for value in values))


def _p_yes(yes: Sequence[int], no: Sequence[int], out: Any) -> Part:
    first = out.outputs[0].logprobs[0]
    one, other = _summed_logprob(first, yes), _summed_logprob(first, no)
    return Part(numbers=[] if one == other == -math.inf else [1 / (1 + math.exp(min(other - one, 700.0)))])


def _p_true(true: Sequence[int], out: Any) -> Part:
    return Part(numbers=[math.exp(_summed_logprob(out.outputs[0].logprobs[0], true))])
