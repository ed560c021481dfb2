"""Models that read every prompt whole, with and without keeping what they make of a picture until the batch ends.

    python tests/bench/bench_infer_whole.py

Tiny random models of the families that plain passes read, and PaliGemma: four questions on two pictures, answers of at most 12 tokens,
five draws, three signals. Both ways in turn; seconds of CPU, medians of the rounds' ratios. Answers are compared to the bit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from qualm.runners.contracts.models import Decoding, ModelContext, Request, draw_part
from qualm.runners.inference.hf import model as hf_model
from qualm.runners.inference.hf.once import shared_encoders
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.prompts.question import messages
from tests.support.models.plain_vlm import picture
from tests.support.models.tiny_models import FAMILIES, PLAIN, TEMPLATES

QUESTIONS = ("What color is the cube ?", "How many are there ?", "Is it red ?", "What is left of it ?")
SIGNALS = ("answer", "without_question", "p_true", "p_yes", *map(draw_part, range(1, 6)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    for family in (*PLAIN, "paligemma"):
        with tempfile.TemporaryDirectory() as folder:
            template = {"template": TEMPLATES[family]} if family in TEMPLATES else {}
            model = hf_vlm(ModelContext(family, {**FAMILIES, **PLAIN}[family](Path(folder))), **template)
            model.load()
            compare(model, rounds)


def compare(model: Any, rounds: int) -> None:
    asked = [Request(model.render(messages(q)), picture(n // 2), 0, q, SIGNALS, 9 + n) for n, q in enumerate(QUESTIONS)]
    encoded, seconds, numbers = model.encode(asked), {False: [], True: []}, {}
    for number in range(2 * (rounds + 1)):
        keeping = bool(number % 2)
        hf_model.shared_encoders = shared_encoders if keeping else lambda module: []
        start = time.process_time()
        answers = model.answer(encoded, Decoding(12))
        seconds[keeping].append(time.process_time() - start)
        numbers[keeping] = [{n: (p.tokens, p.logprobs, p.entropies, p.numbers) for n, p in parts.items()} for parts in answers]
    assert numbers[False] == numbers[True], "not the same to the bit"
    without, kept = (seconds[way][1:] for way in (False, True))  # the first round warms up
    ratio = statistics.median(a / b for a, b in zip(without, kept, strict=True))
    print(f"{model.label}: {statistics.median(without):.2f} s without, {statistics.median(kept):.2f} s kept: {ratio:.2f} times as fast")


if __name__ == "__main__":
    main()
