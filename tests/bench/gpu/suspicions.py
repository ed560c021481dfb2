"""Suspicions from reading the code that only a GPU can settle. Each ends in one line with its verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.profiler import ProfilerActivity, profile

from qualm.compiler.project.resources import memory
from qualm.runners.contracts.models import Decoding, Encoded
from tests.bench.bench_infer import noise, plan_workload, requests, timed
from tests.bench.gpu.subject import GIB, PassCounter, Subject
from tests.support.models.full_size import full_size

CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE = "confirmed", "not confirmed", "not testable here"
MIB = 2**20


def check_device_map(subject: Subject) -> None:
    """Spread a tiny model over two devices and compare its answers with those of one device."""
    text = "`batch_select_indices` fails where layers lie on several devices (`device_map`)"
    try:
        from accelerate import dispatch_model
    except ImportError:
        subject.report.suspicion(text, NOT_TESTABLE, "accelerate is not installed")
        return
    if not subject.on_gpu:
        subject.report.suspicion(text, NOT_TESTABLE, "there is no GPU")
        return
    # With one GPU the first layer stays on the CPU and computes there: then the cache lies on two devices all the same.
    first, second = (0, 1) if torch.cuda.device_count() > 1 else ("cpu", 0)
    places = {
        "model.visual": first, "model.language_model.embed_tokens": first, "model.language_model.rotary_emb": first,
        "model.language_model.layers.0": first, "model.language_model.layers.1": second, "model.language_model.norm": second,
        "lm_head": second,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        model = full_size("qwen2-vl-2b", Path(folder), "cpu", "float32", shrunk=True)
        # Two questions on each picture, so that rows are picked from the cache; answers end one by one, so that rows leave it.
        asked = requests(model, noise(8, 2, False, (64, 48), 6), ("answer", *subject.draws(3)))
        before = [parts["answer"].tokens for parts in model.answer(model.encode(asked), Decoding(8))]
        dispatch_model(model.module, places, main_device=first)
        try:
            after = [parts["answer"].tokens for parts in model.answer(model.encode(asked), Decoding(8))]
        except RuntimeError as error:
            subject.report.suspicion(text, CONFIRMED, f"on {first} and {second}: {str(error).splitlines()[0]}")
            return
    equal = sum(a == b for a, b in zip(before, after, strict=True))
    subject.report.suspicion(
        text, NOT_CONFIRMED, f"{equal} of {len(before)} answers on {first} and {second} are equal to those on the CPU", equal=equal
    )


@contextmanager
def recorded_attention(calls: list[tuple[int, int, int, bool]]) -> Iterator[None]:
    """Record of every attention call: key heads, cached positions, bytes of keys and values, and whether a mask is given."""
    attend = torch.nn.functional.scaled_dot_product_attention

    def record(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, *args: Any, **named: Any
    ) -> Any:
        calls.append(
            (key.shape[1], key.shape[2], key.numel() * key.element_size() + value.numel() * value.element_size(), attn_mask is not None)
        )
        return attend(query, key, value, attn_mask, *args, **named)

    with patch.object(torch.nn.functional, "scaled_dot_product_attention", record):
        yield


def check_repeated_keys(subject: Subject) -> None:
    """See how many heads the keys have when attention with a mask begins, and how memory grows with the sampled answers."""
    text = "keys and values are repeated for all heads in attention of sampled answers side by side"
    scale, model = subject.scale, subject.model
    config = model.module.config.get_text_config()
    model_stops, model.stops = model.stops, set()  # answers of full length
    try:
        calls: list[tuple[int, int, int, bool]] = []
        encoded = subject.encoded(("answer", *subject.draws()), scale.batch)
        with recorded_attention(calls):
            model.answer(encoded, subject.decoding)
        peaks = {}
        if subject.on_gpu:
            for draws in (1, scale.draws, 3 * scale.draws):
                some = subject.encoded(("answer", *subject.draws(draws)), scale.batch)
                peaks[draws] = subject.peak(partial(model.answer, some, subject.decoding))
    finally:
        model.stops = model_stops
    decoding = [call for call in calls[-config.num_hidden_layers :] if call[3]]
    if not decoding:
        subject.report.suspicion(text, NOT_CONFIRMED, "no attention call has a mask")
        return
    heads, cached, size, _ = max(decoding, key=lambda call: call[2])
    step = size * config.num_hidden_layers
    because = (
        f"keys of {config.num_key_value_heads} heads arrive as {heads}: {size / MIB:.1f} MiB of keys and values a layer at {cached} cached "
        f"positions, {step / GIB:.2f} GiB written and read a pass"
    )
    if peaks:
        least, most = min(peaks), max(peaks)
        growth = (peaks[most] - peaks[least]) / (most - least)
        estimates = [
            memory(subject.size, plan_workload(subject.size, scale.tokens, n, ()), scale.batch, model.dtype).total for n in (least, most)
        ]
        planned = (estimates[1] - estimates[0]) / (most - least)
        because += f"; each sampled answer more adds {growth / MIB:.1f} MiB, `qualm plan` expects {planned / MIB:.1f} MiB"
    verdict = CONFIRMED if heads > config.num_key_value_heads else NOT_CONFIRMED
    subject.report.suspicion(text, verdict, because, heads=heads, bytes_a_pass=step, peaks=peaks)


def check_stored_logits(subject: Subject) -> None:
    """Measure how memory grows with the length of answers whose logits are kept for divergences, against the formula of `qualm plan`."""
    text = "the memory estimate lacks the logits that are kept for divergences"
    scale, model = subject.scale, subject.model
    signals = ("answer", "image_divergence")
    estimates = [
        memory(subject.size, plan_workload(subject.size, tokens, 0, signals), scale.batch, model.dtype).total
        for tokens in (scale.tokens, scale.long_tokens)
    ]
    planned = (estimates[1] - estimates[0]) / (scale.long_tokens - scale.tokens)
    if not subject.on_gpu:
        subject.report.suspicion(text, NOT_TESTABLE, f"there is no GPU; the formula counts {planned / MIB:.2f} MiB a token")
        return
    stops, model.stops = model.stops, set()
    try:
        encoded = subject.encoded(signals, scale.batch)
        peaks = [subject.peak(partial(model.answer, encoded, Decoding(tokens))) for tokens in (scale.tokens, scale.long_tokens)]
    finally:
        model.stops = stops
    growth = (peaks[1] - peaks[0]) / (scale.long_tokens - scale.tokens)
    verdict = CONFIRMED if growth > 1.5 * planned else NOT_CONFIRMED
    because = (
        f"with divergences each token more of an answer adds {growth / MIB:.1f} MiB at batch {scale.batch}, the formula counts "
        f"{planned / MIB:.1f}; with {scale.long_tokens} tokens the peak is {peaks[1] / GIB:.2f} GiB, the estimate {estimates[1] / GIB:.2f}"
    )
    subject.report.suspicion(text, verdict, because, growth=growth, planned=planned, peaks=peaks, estimates=estimates)


def check_pinned_memory(subject: Subject) -> None:
    """Count copies from pageable memory while pinned tensors are answered, and time both kinds of copy."""
    text = "tensors reach the GPU from pageable memory although the loader pins them"
    if not subject.on_gpu:
        subject.report.suspicion(text, NOT_TESTABLE, "there is no GPU")
        return
    model = subject.model
    encoded = subject.encoded(("answer", *subject.draws()), subject.scale.batch)
    pinned = pin(encoded)
    with PassCounter(model.module) as passes:
        model.answer(pinned, subject.decoding)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as measured:
        model.answer(pinned, subject.decoding)
    copies = {a.key: a.count for a in measured.key_averages() if a.device_type.name == "CUDA" and a.key.startswith("Memcpy HtoD")}
    pageable = sum(count for name, count in copies.items() if "Pageable" in name)
    ways = {"pageable": encoded, "pinned": pinned}
    seconds = {name: min(timed(model.on_device, subject.device, tensors)[0] for _ in range(5)) for name, tensors in ways.items()}
    pixels = pinned.tensors["pixel_values"]
    with_cast_there = min(
        timed(lambda: pixels.to(subject.device, non_blocking=True).to(model.module.dtype), subject.device)[0] for _ in range(5)
    )
    copied = ", ".join(f"{name} {count}" for name, count in copies.items())
    because = (
        f"{pageable} copies from pageable memory in {len(passes.bytes)} passes ({copied}); `on_device` takes "
        f"{1e3 * seconds['pageable']:.1f} ms from pageable and {1e3 * seconds['pinned']:.1f} ms from pinned memory, the pixels alone "
        f"{1e3 * with_cast_there:.1f} ms pinned and cast on the GPU ({pixels.numel() * pixels.element_size() / MIB:.0f} MiB)"
    )
    subject.report.suspicion(text, CONFIRMED if pageable else NOT_CONFIRMED, because, copies=copies, seconds=seconds)


def pin(encoded: Encoded) -> Encoded:
    """Return the batch as the loader of `runners/inference/local.py` hands it over."""
    return replace(encoded, tensors={n: t.pin_memory() if hasattr(t, "pin_memory") else t for n, t in encoded.tensors.items()})
