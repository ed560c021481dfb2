"""The inference engine beside lm-polygraph's calculators for vision-language models, on the same questions.

    pip install lm-polygraph==0.7.0        # into an environment that has Qualm
    python tests/bench/bench_polygraph.py --samples 16 --polygraph-samples 2 --rounds 3

Both answer greedily with log-probabilities, sample ten answers, and ask for P(True), with the same weights in the same process: a
SmolVLM-256M with random weights, as in `bench_infer.py`. lm-polygraph takes one question at a time: it calls `generate` once for the greedy
answer, once for each sampled answer and once for P(True). Attentions and hidden states, which its calculators can store, are switched off
where they can be. Seconds are seconds of CPU per question; printed are the medians of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from lm_polygraph.model_adapters.visual_whitebox_model import VisualWhiteboxModel
from lm_polygraph.stat_calculators.greedy_visual_probs import GreedyProbsVisualCalculator
from lm_polygraph.stat_calculators.prompt_visual import PromptVisualCalculator
from lm_polygraph.stat_calculators.sample_visual import SamplingGenerationVisualCalculator
from lm_polygraph.utils.generation_parameters import GenerationParameters

from qualm.runners.contracts.models import Decoding, Request, draw_part
from qualm.runners.inference.devices import speed_up_cpu
from tests.bench.bench_infer import noise, requests, smollm2_tokenizer, timed
from tests.support.models.full_size import full_size

DRAWS = 10


def polygraph(model: Any, asked: list[Request], tokens: int) -> None:
    """Compute the three signals of each question by lm-polygraph."""
    parameters = GenerationParameters(temperature=0.7, top_k=0, max_new_tokens=tokens, allow_newlines=True)
    adapter = VisualWhiteboxModel(model.module, model.processor, generation_parameters=parameters)
    greedy = GreedyProbsVisualCalculator(output_attentions=False, output_hidden_states=True)
    calculators = (greedy, SamplingGenerationVisualCalculator(DRAWS), PromptVisualCalculator())
    for request in asked:
        known: dict[str, Any] = {"images": [[request.image]], "input_texts": [request.prompt]}
        for calculator in calculators:
            known |= calculator(known, [request.prompt], adapter, max_new_tokens=tokens)
        # Where `generate` fails, the adapter makes ten random tokens up instead.
        assert len(known["greedy_tokens"][0]) in (*range(1, 10), tokens) and len(known["sample_texts"][0]) == DRAWS


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--polygraph-samples", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--longest-edge", type=int, default=512)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    speed_up_cpu()  # for both
    with tempfile.TemporaryDirectory() as folder:
        model = full_size("smolvlm-256m", Path(folder), "cpu", "float32", tokenizer=smollm2_tokenizer())
        model.processor.image_processor.size = {"longest_edge": chosen.longest_edge}
        questions = noise(chosen.samples, 1, False, (640, 480), 30)
        asked = requests(model, questions, ("answer", "p_true", *map(draw_part, range(1, DRAWS + 1))))
        decoding, few = Decoding(chosen.tokens), asked[: chosen.polygraph_samples]
        model.answer(model.encode(asked[:1]), decoding)  # warm
        ratios, seconds = [], []
        for _ in range(chosen.rounds):
            one_pass = 0.0
            for start in range(0, len(asked), chosen.batch):
                one_pass += timed(lambda some: model.answer(model.encode(some), decoding), "cpu", asked[start : start + chosen.batch])[0]
            theirs = timed(polygraph, "cpu", model, few, chosen.tokens)[0]
            seconds.append((one_pass / len(asked), theirs / len(few)))
            ratios.append(seconds[-1][1] / seconds[-1][0])
        ours, others = (statistics.median(column) for column in zip(*seconds, strict=True))
        print(f"Qualm {ours:.2f} s per question, lm-polygraph {others:.2f} s: {statistics.median(ratios):.2f} times", end=" ")
        print(f"({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
