"""An engine with vLLM's interface, as `vllm/entrypoints/llm.py`, `sampling_params.py` and `outputs.py` have it, without its kernels.

Prompts go in as token ids with pictures beside them, marks unexpanded; each is read by a plain forward pass of transformers, whole and
alone. What the real one refuses, this one refuses: unknown parameters, `logprobs` that differ from the number of `logprob_token_ids`.
"""

import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import torch


@dataclass
class SamplingParams:
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    max_tokens: int | None = 16
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None

    def __post_init__(self):
        if not 0.0 < self.top_p <= 1.0 or self.max_tokens < 1:
            raise ValueError("top_p must be in (0, 1]")
        if self.logprob_token_ids is not None and self.logprobs not in (None, len(self.logprob_token_ids)):
            raise ValueError("When both logprobs and logprob_token_ids are set, logprobs must equal len(logprob_token_ids).")


@dataclass
class OldSamplingParams:
    """Of a release that does not know named tokens."""

    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    max_tokens: int | None = 16
    logprobs: int | None = None
    prompt_logprobs: int | None = None


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: str | None = None


@dataclass
class RequestOutput:
    prompt_token_ids: list[int]
    prompt_logprobs: list[dict[int, Logprob] | None] | None
    outputs: list[CompletionOutput] = field(default_factory=list)
    finished: bool = True


class LLM:
    """`made` holds every engine with the arguments that it was started with."""

    made: ClassVar[list] = []

    def __init__(self, model, *, revision=None, dtype="auto", quantization=None, trust_remote_code=False, generation_config="auto",
                 logprobs_mode="raw_logprobs", seed=0, tensor_parallel_size=1, max_model_len=None, gpu_memory_utilization=0.9):  # fmt: skip
        from transformers import AutoModelForImageTextToText, AutoProcessor

        if quantization not in (None, "awq"):
            raise ValueError(f"Unknown quantization method: {quantization}")
        self.arguments = {"model": model, "generation_config": generation_config, "logprobs_mode": logprobs_mode, "seed": seed,
                          "tensor_parallel_size": tensor_parallel_size, "dtype": dtype}  # fmt: skip
        self.processor = AutoProcessor.from_pretrained(Path(model), backend="pil")
        self.network = AutoModelForImageTextToText.from_pretrained(model, dtype=getattr(torch, dtype)).eval()
        stops = self.network.generation_config.eos_token_id
        self.stops = {stops} if isinstance(stops, int) else set(stops or ())
        self.max_model_len = max_model_len or 10**9
        self.batches = []
        LLM.made.append(self)

    def generate(self, prompts, sampling_params=None, *, use_tqdm=True, lora_request=None):
        assert len(prompts) == len(sampling_params)
        self.batches.append(len(prompts))
        return [self._answer(prompt, params) for prompt, params in zip(prompts, sampling_params, strict=True)]

    def _answer(self, prompt, params):
        assert set(prompt) <= {"prompt_token_ids", "multi_modal_data"}
        if len(prompt["prompt_token_ids"]) > self.max_model_len:
            raise ValueError(f"The decoder prompt is longer than the maximum model length of {self.max_model_len}.")
        images = prompt.get("multi_modal_data", {}).get("image", [])
        ids, extra = self._expanded(prompt["prompt_token_ids"], images)
        rows = self._logprobs(ids, extra)
        scored = None
        if params.prompt_logprobs is not None:
            scored = [None, *({token: Logprob(float(rows[i, token]))} for i, token in enumerate(ids[1:]))]
        rng = torch.Generator().manual_seed(params.seed) if params.seed is not None else None
        said, entries, finish = [], [], "length"
        while len(said) < params.max_tokens:
            row = rows[-1]
            token = int(row.argmax()) if params.temperature < 1e-5 else self._drawn(row, params, rng)
            named = getattr(params, "logprob_token_ids", None)
            shown = {token, *(named or ())} if named or params.logprobs is not None else set()
            entries.append({i: Logprob(float(row[i])) for i in shown})
            said.append(token)
            if token in self.stops:
                finish = "stop"
                break
            if len(said) < params.max_tokens:
                rows = self._logprobs([*ids, *said], extra)
        text = self.processor.tokenizer.decode(said, skip_special_tokens=True)
        completion = CompletionOutput(0, text, said, None, entries if any(entries) else None, finish)
        return RequestOutput(ids, scored, [completion])

    @staticmethod
    def _drawn(row, params, rng):
        probabilities = torch.softmax(row / params.temperature, 0)
        ranked, order = probabilities.sort(descending=True)
        if params.top_k:
            ranked[params.top_k :] = 0.0
        ranked[ranked.cumsum(0) - ranked >= params.top_p] = 0.0
        return int(order[torch.multinomial(ranked, 1, generator=rng)])

    def _expanded(self, ids, images):
        """Each mark of a picture as many times as the picture has pieces."""
        mark = self.network.config.image_token_id
        assert ids.count(mark) == len(images)
        if not images:
            return list(ids), {}
        word = self.processor.tokenizer.convert_ids_to_tokens(mark)
        whole = self.processor(text=[word * len(images)], images=[images], return_tensors="pt")
        pieces = int((whole["input_ids"] == mark).sum()) // len(images)
        return [i for token in ids for i in ([token] * pieces if token == mark else [token])], {"pixel_values": whole["pixel_values"]}

    def _logprobs(self, ids, extra):
        with torch.inference_mode():
            logits = self.network(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), **extra).logits[
                0
            ]
        return torch.log_softmax(logits.float(), -1)


def module(old=False):
    """What `import vllm` gives."""
    made = types.ModuleType("vllm")
    made.LLM, made.SamplingParams = LLM, OldSamplingParams if old else SamplingParams
    return made
