"""The inference engine beside the naive way, and beside the limit of the machine.

    python tests/bench/bench_infer.py --model registry/data/scene-vlm-base --samples 240 --threads 1
    python tests/bench/bench_infer.py --shape qwen2-vl-7b --device cuda --dtype bfloat16 --samples 256 --batch 32

Asked of every sample: the whole signal set of VLM-UQBench (greedy answer with log-probabilities and entropies, ten answers at
temperature .7, P(True), P(yes), and the three priors), and multiple choice beside it. Three ways, with the same weights in the
same process:

  ours         batches, one look at each picture
  per signal   one `generate` of batch 1 per signal, the draws by `num_return_sequences`: how lm-polygraph goes about it
  per answer   the same, but every draw and each of text, log-probabilities and entropies by a `generate` of its own

Questions are batched by length, as the planner does it. Every way is timed in turn, several rounds; printed are medians of the rounds'
ratios. On a CPU seconds are seconds of CPU, for other work may share the cores; on a GPU they are those of the clock.

The limit: for every forward pass that was made, the larger of its arithmetic over the rate of `torch.matmul`, measured in the same round,
and its bytes (weights once, cache and logits) over the measured memory rate; their sum over the measured time is the share of the limit.
Sampled answers that are equal so far are read once and counted once; padding is not counted. It is a bound that no network reaches: at the
rate of large products, without attention's exponentials, norms, rotations or Python.

The network alone: the same passes again, as the module of transformers makes them when it is called by itself with the same tokens, in
batches of the same size, on a cache of the same length, without masks, sampling or assembling of prompts and caches; its time over the
measured time. The rest up to 100% is what the engine adds.
"""

from __future__ import annotations

import argparse
import io
import resource
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import PIL.Image
import torch
from transformers import DynamicCache

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.synthetic_scenes import synthetic_scenes
from qualm.registry.sample import Image
from qualm.runners.contracts.models import PARTS, Decoding, ModelContext, Request, draw_part
from qualm.runners.inference.devices import settle_cpu
from qualm.runners.inference.hf.rows import Network, cache_argument
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import messages, p_true_prompt, verification
from tests.support.models.tiny_qwens import tiny_qwen2_vl

QWEN2_VL_7B = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
               "num_key_value_heads": 4, "vocab_size": 152064}  # fmt: skip
SHAPES = {
    "qwen2-vl-7b": (QWEN2_VL_7B, {"embed_dim": 1280, "depth": 32, "num_heads": 16, "mlp_ratio": 4}, [16, 24, 24]),
    "qwen2-vl-2b": (
        {**QWEN2_VL_7B, "hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12, "num_key_value_heads": 2,
         "vocab_size": 151936}, {"embed_dim": 1280, "depth": 32, "num_heads": 16, "mlp_ratio": 4}, [16, 24, 24]),
    "qwen2-vl-135m": (  # the decoder of SmolLM2-135M
        {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
         "vocab_size": 49152}, {"embed_dim": 384, "depth": 12, "num_heads": 6, "mlp_ratio": 4}, [8, 12, 12]),
    "small": (
        {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 8000}, {"embed_dim": 128, "depth": 2, "num_heads": 4, "mlp_ratio": 4}, [8, 12, 12]),
}  # fmt: skip
WORDS = ["what", "color", "is", "the", "large", "metal", "cube", "left", "of", "red", "sphere", "how", "many", "things", "are", "there"]
SIGNALS = tuple(name for name in PARTS if name != "options")


@dataclass
class Meter:
    """Every forward pass as it is made: what it must at least compute and move."""

    network: Network
    flops: list[float] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)
    calls: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    """Entries of the cache before, positions whose logits are kept, inputs."""

    def __post_init__(self) -> None:
        module = self.network.module
        text = module.config.get_text_config()
        size = next(module.parameters()).element_size()
        head = text.hidden_size * text.vocab_size
        named = dict(module.named_parameters())
        vision = sum(p.numel() for n, p in named.items() if "visual" in n or "vision" in n or "projector" in n)
        body = sum(p.numel() for n, p in named.items() if "embed_tokens" not in n and "lm_head" not in n) - vision
        kv = 2 * text.num_hidden_layers * text.num_key_value_heads * (text.hidden_size // text.num_attention_heads) * size
        network, inner = self.network, type(self.network).__call__

        def measured(cache, mask, positions, keep, **inputs):
            before = cache.get_seq_length()
            rows, new = inputs["input_ids"].shape
            self.calls.append((before, keep, dict(inputs)))
            patches = self._patches(inputs.get("pixel_values"))
            tokens = int((mask[:, -new:] if mask.ndim == 2 else (mask == 0).any(dim=-1)).sum())  # without those that fill the batch
            attention = 4 * text.hidden_size * text.num_hidden_layers * tokens * (before + new / 2)
            self.flops.append(2 * body * tokens + 2 * head * rows * keep + 2 * vision * patches + attention)
            weights = body + head + (vision if patches else 0)
            self.bytes.append(weights * size + kv * rows * (before + 2 * new) + 4 * rows * keep * text.vocab_size)
            return inner(network, cache, mask, positions, keep, **inputs)

        self.network.__class__ = type("Measured", (type(network),), {"__call__": lambda _, *a, **k: measured(*a, **k)})

    def alone(self, device: str) -> float:
        """Seconds of the module alone for the same passes."""
        text, total = self.network.module.config.get_text_config(), 0.0
        heads, width = text.num_key_value_heads, text.hidden_size // text.num_attention_heads
        for before, keep, inputs in self.calls:
            cache, module = DynamicCache(), self.network.module if "pixel_values" in inputs else self.network.reader
            entries = torch.zeros(len(inputs["input_ids"]), heads, before, width, device=module.device, dtype=module.dtype)
            for layer in range(text.num_hidden_layers if before else 0):
                cache.update(entries, entries, layer)
            with torch.inference_mode():
                total += timed(partial(module, logits_to_keep=keep, **{cache_argument(module): cache}, **inputs), device)[0]
        return total

    def _patches(self, pixels: torch.Tensor | None) -> int:
        """Tokens of the vision part: rows of patches as Qwen has them, or whole pictures."""
        if pixels is None or pixels.ndim == 2:
            return 0 if pixels is None else pixels.shape[0]
        side = self.network.module.config.vision_config.patch_size
        return pixels.numel() // (3 * side * side)

    def limit(self, rate: float, bandwidth: float) -> float:
        """Seconds that these passes take at least."""
        return sum(max(f / rate, b / bandwidth) for f, b in zip(self.flops, self.bytes, strict=True))


def synchronise(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def timed(function, device: str, *arguments):
    clock = time.process_time if device == "cpu" else time.perf_counter
    synchronise(device)
    start = clock()
    result = function(*arguments)
    synchronise(device)
    return clock() - start, result


def rates(device: str, dtype: torch.dtype) -> tuple[float, float]:
    """Return the floating point operations a second of `torch.matmul` on large matrices and the bytes a second of copies, the best of 8."""
    n = 8192 if device != "cpu" else 1024
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    with torch.inference_mode():
        seconds = min(timed(torch.matmul, device, a, b)[0] for _ in range(8))
    many = torch.empty(2**30 if device != "cpu" else 2**26, dtype=torch.uint8, device=device)
    other = torch.empty_like(many)
    copy = min(timed(other.copy_, device, many)[0] for _ in range(8))
    return 2 * n**3 / seconds, 2 * many.numel() / copy


def shaped(name: str, folder: Path, device: str, dtype: str):
    """A randomly initialised model of a published shape, with a small tokenizer and the family's own image processor."""
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    model = hf_vlm(ModelContext(name, tiny_qwen2_vl(folder)), dtype=dtype)
    model.load()
    text, vision, sections = SHAPES[name]
    small = model.module.config
    layers = {name: value for name, value in small.text_config.to_dict().items() if name != "layer_types"}
    config = Qwen2VLConfig(**{
        **small.to_dict(),
        "text_config": {**layers, **text, "max_position_embeddings": 32768, "initializer_range": 0.02,
                        "rope_parameters": {"rope_type": "default", "mrope_section": sections, "rope_theta": 1e6}},
        "vision_config": {**small.vision_config.to_dict(), **vision, "hidden_size": text["hidden_size"]},
    })  # fmt: skip
    with torch.device(device):
        torch.set_default_dtype(getattr(torch, dtype))
        module = Qwen2VLForConditionalGeneration(config)
        torch.set_default_dtype(torch.float32)
    module.generation_config = model.module.generation_config
    model.module = module.eval()
    model.network = Network(model.module)
    model.processor.image_processor.size = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}
    return model


def scenes(samples: int, per_picture: int, choices: bool) -> list[tuple[str, PIL.Image.Image, str, tuple[str, ...]]]:
    """Picture's name, picture, question and options: rendered scenes of the kind that the base model was trained on."""
    kind = "multiple_choice" if choices else "open"
    with tempfile.TemporaryDirectory() as folder:
        items = list(synthetic_scenes(AdapterContext(Path(folder), seed=3), format=kind, test=samples, questions=per_picture))
    pictures = {i.image_id: PIL.Image.open(io.BytesIO(i.data)).convert("RGB") for i in items if isinstance(i, Image)}
    made = [(i.image_id or "", i.question, i.choices) for i in items if not isinstance(i, Image)]
    return [(name, pictures[name], question, options) for name, question, options in made]


def noise(samples: int, per_picture: int, choices: bool, side: tuple[int, int], words: int) -> list[Any]:
    """The same of noise, with questions of so many words."""
    rng = np.random.default_rng(0)
    options = ("red", "blue", "green", "gray", "I don't know", "None of the above") if choices else ()
    made = []
    for number in range(samples):
        if number % per_picture == 0:
            picture = PIL.Image.fromarray(rng.integers(0, 256, (side[1], side[0], 3), dtype=np.uint8))
        made.append((str(number // per_picture), picture, " ".join(rng.choice(WORDS, words)) + " ?", options))
    return made


def requests(model, asked: list[Any], parts: tuple[str, ...]) -> list[Request]:
    prompts = [model.render(messages(question, options)) for _, _, question, options in asked]
    return [
        Request(prompt, picture, len(options), question, parts, number, name)
        for number, (prompt, (name, picture, question, options)) in enumerate(zip(prompts, asked, strict=True))
    ]


def ours(model, asked: list[Request], batch: int, decoding: Decoding):
    made = []
    with ThreadPoolExecutor(1) as loader:
        pieces = [asked[start : start + batch] for start in range(0, len(asked), batch)]
        waiting = loader.submit(model.encode, pieces[0])
        for following in [*pieces[1:], None]:
            encoded = waiting.result()
            if following:
                waiting = loader.submit(model.encode, following)
            made += model.answer(encoded, decoding)
    return made


def naive(model, asked: list[Request], decoding: Decoding, draws: int, each: bool) -> int:
    """One `generate` of batch 1 per signal; the number of calls."""
    calls = 0

    def inputs(prompt: str, image):
        made = model.processor(text=[prompt], images=None if image is None else [[image]], return_tensors="pt")
        return {n: v.to(model.module.device, model.module.dtype if v.is_floating_point() else None) for n, v in made.items()}

    def generate(prompt: str, image, steps: int, **more):
        nonlocal calls
        calls += 1
        given = inputs(prompt, image)
        more = {"do_sample": False, "output_logits": True, **more}
        out = model.module.generate(**given, max_new_tokens=steps, return_dict_in_generate=True, **more)
        return out.sequences[:, given["input_ids"].shape[1] :], torch.stack(out.logits, 1).float().log_softmax(-1)

    def prior(prompt: str, image, tokens):
        nonlocal calls
        calls += 1
        given = inputs(prompt, image)
        for name, value in list(given.items()):
            if value.shape == given["attention_mask"].shape and name != "attention_mask":
                tail = tokens if name == "input_ids" else torch.zeros_like(tokens)
                given[name] = torch.cat([value, tail], 1)
        given["attention_mask"] = torch.ones_like(given["input_ids"])
        return model.module(**given).logits[:, -tokens.shape[1] - 1 : -1].float().log_softmax(-1).gather(2, tokens.unsqueeze(2))

    sampled = {"do_sample": True, "temperature": decoding.temperature, "top_k": 0}
    with torch.inference_mode():
        for request in asked:
            steps = 1 if request.options else decoding.max_new_tokens
            for _ in range(3 if each else 1):  # text, log-probabilities, entropies
                tokens, known = generate(request.prompt, request.image, steps)
                known.gather(2, tokens.unsqueeze(2)), torch.special.entr(known.exp()).sum(-1)
            if not draws:
                continue
            for _ in range(draws if each else 1):
                generate(request.prompt, request.image, steps, **sampled, num_return_sequences=1 if each else draws)
            text = model.tokenizer.decode(tokens[0], skip_special_tokens=True)
            generate(model.render(messages(p_true_prompt(request.question, text))), request.image, 1)
            generate(model.render(verification(request.question, text)), request.image, 1)
            prior(model.render(messages(request.question, n_images=False)), None, tokens)
            prior(model.render(messages("")), request.image, tokens)
            prior(model.render(messages("", n_images=False)), None, tokens)
    return calls


def peak(device: str) -> str:
    if device == "cpu":
        return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MiB resident"
    return f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB on the device"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, default=Path("registry/data/scene-vlm-base"))
    parser.add_argument("--shape", choices=sorted(SHAPES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=240)
    parser.add_argument("--naive-samples", type=int, default=24, help="the naive ways are slow; they are timed on fewer")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--picture", type=int, nargs=2, default=(640, 480))
    parser.add_argument("--words", type=int, default=30, help="of a question")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=16, help="of an answer, at most")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    device, dtype = chosen.device, getattr(torch, chosen.dtype)
    with tempfile.TemporaryDirectory() as folder:
        if chosen.shape:
            model = shaped(chosen.shape, Path(folder), device, chosen.dtype)
        else:
            model = hf_vlm(ModelContext("bench", chosen.model.resolve()), dtype=chosen.dtype)
            model.load().to(device)
        measure(model, chosen, device, dtype)


def measure(model, chosen, device: str, dtype: torch.dtype) -> None:
    if device == "cpu":
        settle_cpu()  # for both ways
    rate, bandwidth = rates(device, dtype)
    name = torch.cuda.get_device_name() if device != "cpu" else f"{chosen.threads} thread(s) of the CPU"
    print(f"{model.label}: {sum(p.numel() for p in model.module.parameters()):,} parameters, {chosen.dtype}, batch {chosen.batch}; {name}")
    print(f"measured: {rate / 1e12:.3f} TFLOP/s of `torch.matmul`, {bandwidth / 1e9:.1f} GB/s of memory")
    decoding = Decoding(chosen.tokens)
    signals = (*SIGNALS, *map(draw_part, range(1, chosen.draws + 1)))
    for kind, parts, per_picture in (
        ("greedy answer", ("answer",), 1),
        ("all signals", signals, 1),
        ("all signals, 4 questions on a picture", signals, 4),
        ("multiple choice", ("options",), 1),
        ("multiple choice, 4 questions on a picture", ("options",), 4),
    ):
        shape = (chosen.samples, per_picture, parts == ("options",))
        seen = noise(*shape, tuple(chosen.picture), chosen.words) if chosen.shape else scenes(*shape)
        by_length: dict[str, int] = {}
        for name, _, question, _ in seen:
            by_length[name] = max(by_length.get(name, 0), len(question))
        asked = requests(model, sorted(seen, key=lambda one: -by_length[one[0]]), parts)
        few = [replace(r, parts=("answer",)) for r in asked[:: max(1, len(asked) // chosen.naive_samples)]]
        draws = chosen.draws if len(parts) > 1 else 0
        pieces = [asked[start : start + chosen.batch] for start in range(0, len(asked), chosen.batch)]
        ours(model, asked[: 2 * chosen.batch], chosen.batch, decoding)  # warm
        rounds = [one_round(model, asked, pieces, few, draws, decoding, chosen, device, dtype) for _ in range(chosen.rounds)]
        typical = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
        spread = {
            name: f"{min(r[name] for r in rounds):.1f} to {max(r[name] for r in rounds):.1f}" for name in ("per signal", "per answer")
        }
        print(f"\n{kind}: {typical['ours']:.2f} samples/s; peak {peak(device)}", flush=True)
        for way in ("per signal", "per answer"):
            others = f"({spread[way]}), which makes {typical[f'{way} rate']:.2f} samples/s"
            print(f"  ours is {typical[way]:.1f} times as fast as one `generate` {way} {others}")
        print(f"  loader alone: {typical['loader']:.1f} times as fast as what it feeds")
        work = f"{typical['tflop']:.3f} TFLOP, {typical['gb']:.1f} GB in {typical['passes']:.0f} passes"
        print(f"  limit: {work}: {typical['share']:.0%} of it; the network alone takes {typical['alone']:.0%} of the time")


def one_round(model, asked, pieces, few, draws, decoding, chosen, device: str, dtype: torch.dtype) -> dict[str, float]:
    """Every way once, one after the other."""
    rate, bandwidth = rates(device, dtype)
    seconds, _ = timed(ours, device, model, asked, chosen.batch, decoding)
    encoding, encoded = timed(lambda: [model.encode(piece) for piece in pieces], device)
    plain = type(model.network)
    meter = Meter(model.network)
    answering, _ = timed(lambda: [model.answer(e, decoding) for e in encoded], device)
    model.network.__class__ = plain
    speed = len(asked) / seconds
    found = {"ours": speed, "loader": answering / encoding, "share": meter.limit(rate, bandwidth) / answering}
    found["alone"] = meter.alone(device) / answering
    found |= {"tflop": sum(meter.flops) / 1e12, "gb": sum(meter.bytes) / 1e9, "passes": len(meter.flops)}
    for way, some in (("per signal", few), ("per answer", few[:: 4 if draws else 1])):
        slow, _ = timed(naive, device, model, some, decoding, draws, way == "per answer")
        found |= {way: speed * slow / len(some), f"{way} rate": len(some) / slow}
    return found


if __name__ == "__main__":
    main()
