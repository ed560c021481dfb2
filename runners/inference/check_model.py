"""`qualm doctor model`: check a model's port against plain forward passes: files, processor, weights, checks, time, memory and drift.

Published ports differ in the place of images, the end of prompts, padding, caches and overflow, which gives plausible wrong numbers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.registry.machine import peak_memory
from qualm.registry.system.versions import installed_version
from qualm.runners.contracts.models import ANSWER, PARTS, ModelContext, ModelError, draw_part
from qualm.runners.inference.check_cases import text_cases
from qualm.runners.inference.model_under_test import Check, CheckResult, ModelUnderTest, judge_difference, run_check, unexpected_error
from qualm.runners.runtime.settings import read_settings

if TYPE_CHECKING:
    from qualm.runners.inference.check_cases import Case
    from qualm.runners.inference.hf.model import HfVlm


def checks() -> dict[str, Check]:
    """Return the checks by name, in order: of prompts and words, then of numbers."""
    from qualm.runners.inference import check_numbers, check_words

    return {**check_words.CHECKS, **check_numbers.CHECKS}


def examine(tested: ModelUnderTest) -> Iterator[CheckResult]:
    """Run all checks on a loaded model, in order; yield the result of each."""
    for name, check in checks().items():
        yield run_check(name, check, tested)


SIGNALS = tuple(name for name in PARTS if name != "options")


UNREADABLE = (ModelError, OSError, ValueError, ImportError, KeyError, TypeError, AttributeError)
"""Errors for folders that transformers cannot read: remote code (`auto_map`), incomplete configurations."""


@dataclass(frozen=True)
class DoctorOptions:
    """Model to examine, and options of `qualm doctor model`."""

    label: str
    plugin: str
    args: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    device: str = "auto"
    drift: bool = False
    """Also load the model as bfloat16, and count answers that change with the batch."""
    against: str = ""
    """Another model plugin for the same weights, whose log-probabilities are compared."""


def check_model(options: DoctorOptions, cases: Sequence[Case]) -> Iterator[CheckResult]:
    """Load and check a model as `qualm doctor model` does; yield results until one is fatal.

    Speed and drift are skipped if a check failed. A text-only model gets the cases without an image.
    """
    try:
        model = open_model(options)
    except UNREADABLE as error:
        yield CheckResult("files", "fail", _line(error), advice=f"the message says which file or setting it is{_other_cause(error)}")
        return
    except Exception as error:  # noqa: BLE001 - a fault of ours is a result too
        yield unexpected_error("files", error)
        return
    yield _files(model)
    begun = time.perf_counter()
    try:
        load_onto_device(model, options.device)
    except UNREADABLE as error:
        yield CheckResult("weights", "fail", _line(error), advice=f"load what the message names, or another dtype{_other_cause(error)}")
        return
    except Exception as error:  # noqa: BLE001 - a fault of ours is a result too
        yield unexpected_error("weights", error)
        return
    yield _weights(model, time.perf_counter() - begun)
    if model.text_only:
        cases = [case for case in cases if case.image is None] or text_cases(len(cases))
    tested = ModelUnderTest(model, cases)
    findings = []
    for finding in examine(tested):
        findings.append(finding)
        yield finding
    if options.against:
        findings.append(
            run_check(
                f"against {options.against}", lambda tested: check_backend(tested, options.against, options.folder, options.args), tested
            )
        )
        yield findings[-1]
    if any(f.verdict in ("fail", "error") for f in findings):
        return  # the speed of wrong numbers is of no interest
    yield speed(tested)
    if options.drift:
        yield check_drift(tested, options)


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, ModelError) else f"{type(error).__name__}: {text}"


def _other_cause(error: Exception) -> str:
    """Return advice that blames transformers; "" if the error already blames the files."""
    if isinstance(error, ModelError | OSError):
        return ""
    return f"; if the files are as published, transformers {installed_version('transformers')} cannot read them"


def open_model(options: DoctorOptions, **changes: Any) -> HfVlm:
    """Create the transformers model without its weights; ModelError if the plugin is another.

    `changes` override plugin arguments.
    """
    from qualm.registry.plugins.registry import load

    model = load("models", options.plugin)(ModelContext(options.label, options.folder), **{**options.args, **changes})
    if not hasattr(model, "processor"):
        raise ModelError(f"model '{options.label}': {options.plugin} has no weights here to examine; the doctor is for models of hf_vlm")
    return model  # type: ignore[no-any-return]


def load_onto_device(model: HfVlm, device: str) -> None:
    """Load a model's weights onto the device; the model keeps them."""
    from qualm.runners.inference.devices import torch_device

    module = model.load()
    module.to(torch_device(device, model.dtype))
    model.network = type(model.network)(module)  # it caches the module's device


def _files(model: HfVlm) -> CheckResult:
    where = model.base.folder or f"{model.base.hub}@{model.base.revision}"
    parts = (model.tokenizer,) if model.text_only else (model.processor, model.processor.image_processor, model.tokenizer)
    names = [type(part).__name__ for part in parts]
    plain = f"; read by plain passes, slower by about the length of an answer: {model.plain}" if model.plain else ""
    adapters = f", {len(model.base.adapters)} adapters merged in" if model.base.adapters else ""
    return CheckResult("files", "ok", f"{where}: safetensors, {', '.join(names)}{adapters}{plain}", numbers={"digest": model.digest})


def _weights(model: HfVlm, seconds: float) -> CheckResult:
    import torch

    module = model.module
    count = sum(_count_elements(p) for p in module.parameters())
    size = sum(_count_bytes(p) for p in module.parameters())
    plain = {name: p for name, p in module.named_parameters() if type(p) is torch.nn.Parameter}
    bad = [name for name, p in plain.items() if p.is_floating_point() and not bool(p.isfinite().all())]
    numbers = {"parameters": count, "bytes": size, "seconds": seconds}
    if bad:
        return CheckResult(
            "weights", "fail", f"not numbers in {', '.join(bad[:3])}", "all", "the files are damaged, or overflow at this dtype", numbers
        )
    form = model.dtype if model.quantization == "none" else f"{model.quantization} and {model.dtype}"
    summary = f"{type(module).__name__}, {count / 1e6:,.3f} million parameters, {size / 2**20:,.1f} MiB as {form}, read in {seconds:.1f} s"
    return CheckResult("weights", "ok", summary, numbers=numbers)


def _count_bytes(weight: Any) -> int:
    """Return the bytes that a weight takes, with its quantisation scales."""
    if hasattr(weight, "__tensor_flatten__"):  # torchao: a tensor of tensors
        return sum(int(getattr(weight, name).nbytes) for name in weight.__tensor_flatten__()[0])
    scales = getattr(getattr(weight, "quant_state", None), "absmax", None)  # bitsandbytes
    return int(weight.nbytes) + (0 if scales is None else int(scales.nbytes))


def _count_elements(weight: Any) -> int:
    """Return the number of elements of a weight, also if it is packed."""
    shape = getattr(getattr(weight, "quant_state", None), "shape", weight.shape)
    return math.prod(shape)


def speed(tested: ModelUnderTest) -> CheckResult:
    """Measure seconds per sample with all signals and ten draws, and peak memory in bytes."""
    import torch

    signals = [name for name in SIGNALS if _gives(tested, name)]
    requests = tested.requests((*signals, *map(draw_part, range(1, 11))))
    device = tested.model.module.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    begun = time.perf_counter()
    tested.answers(requests)
    seconds = (time.perf_counter() - begun) / len(requests)
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_memory()
    summary = (
        f"{seconds:.3g} s a sample with all signals and 10 draws, in a batch of {len(requests)} on {device}; {peak / 2**30:.2f} GiB at most"
    )
    return CheckResult("speed and memory", "ok", summary, numbers={"seconds": seconds, "peak_bytes": peak, "device": str(device)})


def _gives(tested: ModelUnderTest, signal: str) -> bool:
    try:
        tested.model.encode(tested.requests((signal,), tested.cases[:1]))
    except ModelError:
        return False
    return True


def check_drift(tested: ModelUnderTest, options: DoctorOptions) -> CheckResult:
    """Load the model as bfloat16 too; count answers that change with batch size or dtype."""
    other = open_model(options, dtype="bfloat16")
    load_onto_device(other, options.device)
    half = ModelUnderTest(other, tested.cases, tested.decoding)
    alone = [half.answers([r])[0][ANSWER].tokens for r in half.requests()]
    together = [parts[ANSWER].tokens for parts in half.answers(half.requests())]
    reference = [parts[ANSWER].tokens for parts in tested.baseline]
    n = len(reference)
    by_batch = sum(a != b for a, b in zip(alone, together, strict=True))
    by_dtype = sum(a != b for a, b in zip(together, reference, strict=True))
    return CheckResult(
        "drift", "warn" if by_batch else "ok",
        f"as bfloat16 {by_batch} of {n} answers differ between batches of 1 and {n}, {by_dtype} of {n} from those as {tested.model.dtype}",
        "0 between batches", "results at bfloat16 depend on the batch in so many samples; say so, or use float32" if by_batch else "",
        {"samples": n, "by_batch": by_batch, "by_dtype": by_dtype},
    )  # fmt: skip


def check_backend(tested: ModelUnderTest, backend: str, folder: Path | None, parameters: Mapping[str, Any]) -> CheckResult:
    """Compare another backend's log-probabilities with plain passes over its own tokens.

    Tokens are forced, so different answers are compared too; they are counted, since rounding decides near ties.

    Args:
        parameters: arguments of hf_vlm; the backend gets those that it has too.

    Raises:
        ModelError: the other backend cannot read these weights.
    """
    from qualm.registry.plugins.registry import get, load

    check, names = f"against {backend}", {parameter.name for parameter in get("models", backend).parameters}
    args = {name: value for name, value in parameters.items() if name in names}
    other = load("models", backend)(ModelContext(tested.model.label, folder, settings=read_settings()), **args)
    requests = tested.requests()
    prompts = [other.render(turns) for turns in tested.conversations()]
    if prompts != [request.prompt for request in requests]:
        return CheckResult(check, "fail", "it renders other prompts", "the same", "give both the same `template`")
    other.load()
    answers = [parts[ANSWER] for parts in other.answer(other.encode(requests), tested.decoding)]
    forced = [tested.plain.forced(r.prompt, r.image, a.tokens or [])[0] for r, a in zip(requests, answers, strict=True)]
    pairs = [pair for answer, own in zip(answers, forced, strict=True) for pair in zip(answer.logprobs or [], own, strict=True)]
    differ = sum(a.tokens != parts[ANSWER].tokens for a, parts in zip(answers, tested.baseline, strict=True))
    what = f"log-probabilities of {len(pairs)} tokens by {backend} against plain forward passes"
    if not pairs:
        return CheckResult(check, "skip", "every answer is empty", "tokens to compare", "ask questions that the model answers: `--spec`")
    advice = "" if tested.model.dtype == "float32" else "try `--dtype float32`, or "
    result = judge_difference(
        check, max(abs(a - b) for a, b in pairs), tested.limits, what,
        f"do not compare numbers of {backend} with those of hf_vlm; {advice}tell the developers of {backend}",
    )  # fmt: skip
    count = f"; {differ} of {len(answers)} answers differ from those of hf_vlm"
    return replace(result, found=result.found + count, numbers={**result.numbers, "tokens": len(pairs), "differ": differ})
