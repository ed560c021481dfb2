"""Sections of the GPU check that every model goes through: answers, speed, kernels, memory, a training step."""

from __future__ import annotations

import gc
import importlib.util
import statistics
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from qualm.compiler.project.resources import memory
from qualm.runners.contracts.models import Request
from qualm.runners.inference.batch_size import largest_batch
from qualm.runners.inference.devices import out_of_memory
from qualm.runners.inference.hf.model import HfVlm
from qualm.runners.training.weights import matching_modules
from tests.bench.bench_infer import SIGNALS, naive, plan_workload, timed
from tests.bench.gpu.subject import GIB, PassCounter, Report, Subject
from tests.support.models.plain_vlm import Plain

ROUNDING = 4.0
"""Tokens are tied if their logit gap is at most this many times the largest difference of equal tokens' log-probabilities."""
EXACT_GAP = 1e-3
"""Logit gap up to which two tokens are tied in float32."""
LORA_TARGETS = "[qkvo]_proj|gate_proj|up_proj|down_proj"
"""The default of `runners/plugins/tunings/lora.py`."""


def compare_answers(subject: Subject) -> None:
    """Compare greedy answers of a batch with `generate` on each question alone."""
    report, dtype = subject.report, subject.model.dtype
    asked = subject.asked(("answer",), subject.scale.compared)
    found = [parts["answer"] for parts in subject.model.answer(subject.model.encode(asked), subject.decoding)]
    equal, largest, apart = 0, 0.0, []
    for request, answer in zip(asked, found, strict=True):
        expected, logits = generate_plainly(subject.model, request, subject.scale.tokens)
        tokens, logprobs = answer.tokens or [], answer.logprobs or []
        same = next((i for i, (a, b) in enumerate(zip(tokens, expected, strict=False)) if a != b), min(len(tokens), len(expected)))
        known = logits.double().log_softmax(-1)
        largest = max([largest, *(abs(logprobs[i] - float(known[i, tokens[i]])) for i in range(same))])
        if tokens == expected:
            equal += 1
        else:
            gap = float(logits[same].max() - logits[same, tokens[same]]) if same < len(tokens) and same < len(logits) else float("inf")
            apart.append((same, gap))
    distinct = len({tuple(answer.tokens or ()) for answer in found})
    detail = "; first differing position and logit gap: " + ", ".join(f"{at}: {gap:.3g}" for at, gap in apart) if apart else ""
    report.add(
        f"{dtype}: {equal} of {len(asked)} answers equal to `generate`, {distinct} distinct; "
        f"log-probabilities of equal tokens differ by at most {largest:.2g}{detail}",
        dtype=dtype, equal=equal, asked=len(asked), distinct=distinct, largest_difference=largest, apart=apart,
    )  # fmt: skip
    tie = EXACT_GAP if dtype == "float32" else ROUNDING * largest
    if unexplained := [gap for _, gap in apart if gap > tie]:
        report.add(f"{len(unexplained)} answers differ at logit gaps above {tie:.2g}, which rounding does not explain", "problem")


def compare_answers_without_tf32(subject: Subject) -> None:
    """Compare once more with convolutions in full float32: by default cuDNN computes those of the vision tower in TF32."""
    usual = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        compare_answers(subject)
    finally:
        torch.backends.cudnn.allow_tf32 = usual


def generate_plainly(model: HfVlm, request: Request, tokens: int) -> tuple[list[int], torch.Tensor]:
    """Return the greedy tokens of `generate` and their raw logits (tokens, vocabulary)."""
    made = Plain(model).inputs(request.prompt, request.image)
    inputs = {n: v.to(model.module.device, model.module.dtype if v.is_floating_point() else None) for n, v in made.items()}
    with torch.inference_mode():
        out = model.module.generate(**inputs, max_new_tokens=tokens, do_sample=False, output_logits=True, return_dict_in_generate=True)
    return out.sequences[0, inputs["input_ids"].shape[1] :].tolist(), torch.stack(out.logits, 1)[0].float()


def time_signals(subject: Subject) -> None:
    """Time all signals in one pass, against one `generate` or forward pass per signal, and against the roofline."""
    scale, model = subject.scale, subject.model
    for kind, parts, draws in (
        ("all signals", (*SIGNALS, *subject.draws()), scale.draws),
        ("greedy answer", ("answer",), 0),
        ("multiple choice", ("options",), 0),
    ):
        encoding, encoded = timed(subject.encoded, subject.device, parts, scale.batch)
        model.answer(encoded, subject.decoding)  # warm up
        with PassCounter(model.module) as passes:
            answering, answers = timed(model.answer, subject.device, encoded, subject.decoding)
        few = encoded.requests[: scale.naive_samples]
        slow, calls = timed(naive, subject.device, model, few, subject.decoding, draws)
        tokens = sum(len(part.tokens or ()) for row in answers for part in row.values())
        speed, naive_speed = scale.batch / (answering + encoding), len(few) / slow
        share = passes.least_seconds(subject.rates) / answering
        work = f"{sum(passes.operations) / 1e12:.3g} TFLOP and {sum(passes.bytes) / 1e9:.3g} GB in {len(passes.bytes)} passes"
        subject.report.add(
            f"{kind}: {scale.batch / answering:.2f} samples/s, {tokens / answering:.0f} generated tokens/s, {share:.0%} of the roofline "
            f"({work}); with encoding in the same thread {speed:.2f} samples/s, {speed / naive_speed:.1f} times as fast as one call per "
            f"signal ({calls} calls for {len(few)} samples); batch {scale.batch}: answering {answering:.2f} s, encoding {encoding:.2f} s",
            asked=kind, samples=scale.batch, samples_per_second=speed, naive_samples_per_second=naive_speed, roofline_share=share,
            tokens_per_second=tokens / answering, answering=answering, encoding=encoding, passes=len(passes.bytes),
        )  # fmt: skip


def profile_decoding(subject: Subject) -> None:
    """Report host synchronisations, float64 work and attention kernels of answers that are decoded side by side."""
    scale, model, report = subject.scale, subject.model, subject.report
    encoded = subject.encoded(("answer", *subject.draws()), scale.batch)
    answer = partial(model.answer, encoded, subject.decoding)
    with PassCounter(model.module) as passes:
        answer()  # warm up
    steps = len(passes.bytes)
    if subject.on_gpu:
        places = synchronisations(answer)
        top = ", ".join(f"{place} {count}" for place, count in places.most_common(8))
        total = sum(places.values())
        report.add(
            f"{total} host synchronisations in {steps} passes, {total / steps:.1f} a pass (one token of all answers): {top}",
            synchronisations=total, passes=steps, places=dict(places),
        )  # fmt: skip
    seconds, _ = timed(answer, subject.device)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if subject.on_gpu else [])]
    with profile(activities=activities) as measured:
        answer()
    averages = measured.key_averages()
    attention = {a.key: a.count for a in averages if a.key.startswith("aten::_scaled_dot_product") and a.device_type.name == "CPU"}
    report.add("attention operators: " + (", ".join(f"{name} {count}" for name, count in attention.items()) or "none"), operators=attention)
    if not subject.on_gpu:
        report.add("host synchronisations, float64 kernels and attention kernels: no GPU", "skipped")
        return
    kernels = [(a.key, a.self_device_time_total / 1e6, a.count) for a in averages if a.device_type.name == "CUDA"]
    report_kernels(report, kernels, seconds, steps)


def synchronisations(work: Callable[[], Any]) -> Counter[str]:
    """Return how often each line of Python waits for the GPU."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            work()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    waits = [w for w in caught if "synchroniz" in str(w.message)]
    return Counter(f"{Path(w.filename).name}:{w.lineno}" for w in waits)


def report_kernels(report: Report, kernels: Sequence[tuple[str, float, int]], seconds: float, steps: int) -> None:
    """Report what the GPU did, from (name, seconds, count) of each kernel."""
    copies = {name: count for name, _, count in kernels if name.startswith("Memcpy")}
    computed = [(name, spent, count) for name, spent, count in kernels if not name.startswith(("Memcpy", "Memset"))]
    total = sum(spent for _, spent, _ in computed)
    double = sum(spent for name, spent, _ in computed if "double" in name)
    launches = sum(count for *_, count in computed)
    report.add(
        f"kernels run {total:.3f} s of {seconds:.3f} s ({total / seconds:.0%}), {launches / steps:.0f} launches a pass; "
        f"float64 kernels take {double / max(total, 1e-9):.1%} of the kernel time",
        kernel_seconds=total, seconds=seconds, float64_seconds=double, launches=launches,
    )  # fmt: skip
    shares: dict[str, float] = {}
    for name, spent, _ in computed:
        if kind := attention_kind(name):
            shares[kind] = shares.get(kind, 0.0) + spent / max(total, 1e-9)
    report.add(
        "attention kernels: " + (", ".join(f"{kind} {share:.1%} of the kernel time" for kind, share in shares.items()) or "math only"),
        shares=shares,
    )
    longest = sorted(computed, key=lambda kernel: -kernel[1])[:8]
    report.add("longest kernels: " + "; ".join(f"{spent / max(total, 1e-9):.1%} {name[:90]}" for name, spent, _ in longest))
    report.add("copies: " + ", ".join(f"{name} {count}" for name, count in sorted(copies.items())), copies=copies)


def attention_kind(kernel: str) -> str:
    """Return which fused attention a kernel's name belongs to; empty for any other kernel."""
    name = kernel.lower()
    if "cudnn" in name and ("sdpa" in name or "flash" in name or "mha" in name):
        return "cudnn"
    if "fmha" in name or "efficient_attention" in name or "attentionkernel" in name:
        return "memory-efficient"
    return "flash" if "flash" in name else ""


def compare_memory(subject: Subject) -> None:
    """Compare peak memory with the estimate of `qualm plan`."""
    scale, model = subject.scale, subject.model
    for batch in (max(1, scale.batch // 4), scale.batch):
        estimate = memory(subject.size, plan_workload(subject.size, scale.tokens, scale.draws), batch, model.dtype)
        text = (
            f"batch {batch}: `qualm plan` estimates {estimate.total / GIB:.2f} GiB (weights {estimate.weights / GIB:.2f}, cache "
            f"{estimate.cache / GIB:.2f}, activations {estimate.activations / GIB:.2f}, logits {estimate.logits / GIB:.2f})"
        )
        if not subject.on_gpu:
            subject.report.add(f"{text}; peak: no GPU", "skipped")
            continue
        encoded = subject.encoded((*SIGNALS, *subject.draws()), batch)
        weights = torch.cuda.memory_allocated()
        peak = subject.peak(partial(model.answer, encoded, subject.decoding))
        tokens = int(encoded.tensors["attention_mask"].sum(1).max())
        subject.report.add(
            f"{text}; peak {peak / GIB:.2f} GiB, {peak / estimate.total:.0%} of it (weights {weights / GIB:.2f}); longest prompt {tokens} "
            f"tokens, estimated as {subject.size.image_tokens + 64}",
            batch=batch, estimate=estimate.total, peak=peak, weights=weights,
        )  # fmt: skip


def halve_batches(subject: Subject) -> None:
    """Limit the device's memory, ask a batch that does not fit and halve it as `runners/inference/local.py` does."""
    if not subject.on_gpu:
        subject.report.add("halvings of the batch: no GPU", "skipped")
        return
    parts, most = (*SIGNALS, *subject.draws()), subject.scale.batch
    used = torch.cuda.memory_allocated()

    def peak_of(count: int) -> int:
        return subject.peak(partial(subject.model.answer, subject.encoded(parts, count), subject.decoding))

    fits = max(1, most // 4)
    room = used + int(1.3 * (peak_of(fits) - used))
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(room / torch.cuda.get_device_properties(0).total_memory)
    try:
        count, halvings = most, 0
        while count > 1 and not fits_in_memory(partial(peak_of, count)):
            count, halvings = count // 2, halvings + 1
            gc.collect()
            torch.cuda.empty_cache()
        chosen = largest_batch(peak_of, used, room, most)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    left = torch.cuda.memory_allocated() - used
    subject.report.add(
        f"memory limited to {room / GIB:.2f} GiB, room for {fits} prompts: {halvings} halvings from {most} to {count}; "
        f"`largest_batch` chooses {chosen}; {left / 2**20:.0f} MiB more in use afterwards",
        halvings=halvings, batch=count, grown=chosen, left=left,
    )  # fmt: skip
    if count < fits // 2 or halvings == 0:
        subject.report.add(f"expected 1 or 2 halvings to {fits}, got {halvings} to {count}", "problem")


def fits_in_memory(work: Callable[[], Any]) -> bool:
    try:
        work()
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        return False
    return True


def train_lora(subject: Subject) -> None:
    """Time LoRA steps with the targets that `qualm` trains by default. The model keeps its adapter: run this section last."""
    if importlib.util.find_spec("peft") is None:
        subject.report.add("LoRA step: peft is not installed", "skipped")
        return
    from peft import LoraConfig, get_peft_model

    model = subject.model
    targets = matching_modules(model.module, LORA_TARGETS, vision=False, linear=True)
    network: Any = get_peft_model(model.module, LoraConfig(r=8, lora_alpha=16, target_modules=targets))
    encoded = subject.encoded(("answer",), subject.scale.training_batch)
    batch = model.on_device(encoded)
    labels = torch.full_like(batch["input_ids"], -100)
    labels[:, -4:] = batch["input_ids"][:, -4:]
    optimizer = torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], lr=2e-4)
    network.train()

    def step() -> float:
        loss = network(**batch, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    losses = [step()]
    if subject.on_gpu:
        torch.cuda.reset_peak_memory_stats()
    spent = []
    for _ in range(3):
        seconds, loss = timed(step, subject.device)
        spent.append(seconds)
        losses.append(loss)
    rate = int(batch["attention_mask"].sum()) / statistics.median(spent)
    peak = torch.cuda.max_memory_allocated() if subject.on_gpu else 0
    memory_text = f"peak {peak / GIB:.2f} GiB without gradient checkpointing; " if subject.on_gpu else ""
    subject.report.add(
        f"LoRA of rank 8 on {len(targets)} layers, batch {len(labels)}: {rate:.0f} tokens/s, {memory_text}"
        f"loss {losses[0]:.3f} to {losses[-1]:.3f}",
        tokens_per_second=rate, peak=peak, losses=losses,
    )  # fmt: skip
    if not losses[-1] < losses[0]:
        subject.report.add(f"the loss does not fall: {losses}", "problem")
