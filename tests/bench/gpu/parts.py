"""Run parts of the GPU check in this process. Started by `tests/bench/gpu_check.py`, whose docstring has the commands."""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
import transformers

from qualm.compiler.project.model_sizes import size_of_hub_model
from tests.bench.bench_infer import rates
from tests.bench.gpu.sections import (
    compare_answers,
    compare_answers_without_tf32,
    compare_memory,
    halve_batches,
    profile_decoding,
    time_signals,
    train_lora,
)
from tests.bench.gpu.subject import FULL, QUICK, Rates, Report, Subject
from tests.bench.gpu.suspicions import check_device_map, check_pinned_memory, check_repeated_keys, check_stored_logits
from tests.support.models.full_size import SIZES, full_size

Section = tuple[Callable[[Subject], None], int]
"""What it does, and about how many seconds it takes for the largest model."""
ON_EVERY_MODEL: tuple[Section, ...] = (
    (compare_answers, 20),
    (time_signals, 40),
    (profile_decoding, 20),
    (compare_memory, 10),
    (train_lora, 10),
)
IN_FLOAT32: tuple[Section, ...] = ((compare_answers, 20), (compare_answers_without_tf32, 20))
SUSPICIONS: tuple[Section, ...] = (
    (check_device_map, 10),
    (check_repeated_keys, 20),
    (check_stored_logits, 15),
    (check_pinned_memory, 10),
    (halve_batches, 20),
)
SUSPECT = "qwen2-vl-2b"
"""The model on which suspicions and halvings are checked: its keys have fewer heads than its queries."""
EXACT = ("smolvlm-256m", "qwen2-vl-2b")
"""Models whose answers are compared in float32 too."""


def build(name: str, folder: Path, device: str, dtype: str, report: Report, quick: bool) -> Subject:
    """Make a model on a device, its other files in a folder, and measure what the device reaches."""
    start = time.monotonic()
    model, size = full_size(name, folder, device, dtype, shrunk=quick), size_of_hub_model(SIZES[name].hub)
    assert size is not None, name
    operations, *_, copied = rates(device, getattr(torch, dtype))
    parameters = sum(p.numel() for p in model.module.parameters())
    report.model, report.section = name, "build"
    report.add(
        f"{parameters:,} parameters in {dtype}, made in {time.monotonic() - start:.0f} s; measured {operations / 1e12:.3g} TFLOP/s of "
        f"`torch.matmul`, {copied / 1e9:.0f} GB/s of copies",
        parameters=parameters, dtype=dtype, operations_per_second=operations, bytes_per_second=copied,
    )  # fmt: skip
    return Subject(model, size, Rates(operations, copied), QUICK if quick else FULL, device, report)


def run_sections(subject: Subject, sections: Sequence[Section]) -> None:
    """Run sections one after the other, as far as time allows."""
    report = subject.report
    for section, seconds in sections:
        report.section = section.__name__
        if report.seconds_left < seconds:
            report.add(f"{report.seconds_left:.0f} s left, needs about {seconds} s", "skipped")
            continue
        attempt(report, partial(section, subject))
        free_memory()


def attempt(report: Report, work: Callable[[], None]) -> None:
    """Do some work; an error becomes a line and sets the exit status, and what follows still runs."""
    start, name = time.monotonic(), f"{report.model} | {report.section}"
    try:
        work()
    except Exception as error:  # noqa: BLE001 - reported
        traceback.print_exc()
        report.add(f"{type(error).__name__}: {error}", "problem", traceback=traceback.format_exc())
    print(f"{name} | took {time.monotonic() - start:.1f} s", flush=True)


def free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def run_part(part: str, device: str, report: Report, quick: bool) -> None:
    """Run one model, or the suspicions."""
    name, sections = (SUSPECT, SUSPICIONS) if part == "suspicions" else (part, ON_EVERY_MODEL)
    if part in EXACT and not quick:
        with tempfile.TemporaryDirectory() as folder:
            run_sections(build(name, Path(folder), device, "float32", report, quick), IN_FLOAT32)
        free_memory()
    with tempfile.TemporaryDirectory() as folder:
        run_sections(build(name, Path(folder), device, "float32" if quick else "bfloat16", report, quick), sections)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="+", choices=[*SIZES, "suspicions"])
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    report = Report(chosen.out, time.monotonic() + chosen.seconds, chosen.parts[0], "machine")
    if not chosen.quick and not torch.cuda.is_available():
        report.add("no CUDA device; `--quick` runs tiny models on the CPU", "problem")
        return 1
    device = "cpu" if chosen.quick else "cuda"
    name = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}" if device == "cuda" else "CPU"
    versions = {"python": sys.version.split()[0], "torch": torch.__version__, "transformers": transformers.__version__}
    report.add(f"{name}; " + ", ".join(f"{library} {version}" for library, version in versions.items()), device=name, **versions)
    for part in chosen.parts:
        report.model, report.section = part, "part"
        attempt(report, partial(run_part, part, device, report, chosen.quick))
    return int(any(finding["kind"] == "problem" for finding in report.findings))


if __name__ == "__main__":
    sys.exit(main())
