"""Judging by a language model beside one prompt at a time, in the same process.

    python tests/bench/bench_judge.py [--answers 240] [--different 0.4] [--threads 1]

The judge is `lave` with its own prompts over a Llama of eight layers with random weights, whose replies are cut at 16 tokens. The naive
way generates a reply to every answer's prompt by transformers' `generate`, one after the other. `every answer` is ours with equal answers
asked anew, `one at a time` ours without batches; `ours` is both, and everything: opening, looking up, batching, keeping on disk; `again`
is answered from there. The answers of a benchmark repeat, since models and variants agree; `--different` is the share that does not.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import chdir
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the runner has it; both sides gain

import numpy as np
import torch

from qualm.runners.contracts.generators import GeneratorContext, chat
from qualm.runners.inference.generator import open_generator
from qualm.runners.plugins.generators.hf import hf
from qualm.runners.plugins.judges.lave import _refusal_prompts
from qualm.runners.runtime.settings import Settings
from qualm.runners.scoring.apply_judge import Answered, judge
from tests.support.models.tiny_models import tiny_llm

LIMIT = 16
WORDS = ["red", "blue", "gray", "a small cube", "two", "3", "yes", "no", "there is no sphere", "rubber", "I cannot tell", "metal", "left"]


def answers(number, different):
    rng = np.random.default_rng(0)
    every = [Answered(f"What is {i} in the picture?", ("red",), str(rng.choice(WORDS))) for i in range(max(1, int(number * different)))]
    return [every[i] for i in rng.permutation(np.arange(number) % len(every))]


def naive(engine, prompts):
    """A reply to each prompt."""
    tokenizer, model, found = engine._tokenizer, engine._model, []
    with torch.inference_mode():
        for prompt in prompts:
            turns = [{"role": "user", "content": prompt}]
            batch = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
            out = model.generate(**batch, do_sample=False, max_new_tokens=LIMIT)
            found.append(tokenizer.decode(out[0, batch["input_ids"].shape[1] :], skip_special_tokens=True).strip())
    return found


def timed(function, *arguments):
    """Seconds of this process's CPU, which others on the machine do not lengthen, and the result."""
    start = time.process_time()
    result = function(*arguments)
    return max(time.process_time() - start, 1e-6), result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--answers", type=int, default=240)
    parser.add_argument("--different", type=float, default=0.4)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    settings = Settings(device="cpu", progress=False)
    with tempfile.TemporaryDirectory() as place, chdir(place):
        folder = tiny_llm(Path(place) / "llm", width=256, layers=8)
        engine = hf(GeneratorContext(settings), artifact=str(folder))
        engine._open()
        asked = answers(chosen.answers, chosen.different)
        prompts = _refusal_prompts([a.question for a in asked], [a.prediction for a in asked], None)
        length = len(engine._tokenizer(prompts[0])["input_ids"])
        print(
            f"{len(asked)} answers, {len(set(asked))} different; prompts of {length} tokens, replies of {LIMIT}; {chosen.threads} threads"
        )
        by = {"plugin": "hf", "args": {"artifact": str(folder), "dtype": None}}
        ref = {"label": "lave", "plugin": "lave", "args": {"by": by, "max_new_tokens": LIMIT}}
        loop, expected = timed(naive, engine, prompts)
        generator = open_generator(by, settings, Path("every"))
        generator.engine._open()
        every, _ = timed(lambda: [generator.complete([chat(p) for p in prompts], max_new_tokens=LIMIT, seeds=range(len(prompts)))])
        single = open_generator(by, Settings(device="cpu", progress=False, batch_size=1), Path("singly"))
        single.engine._open()
        singly, _ = timed(lambda: single.complete([chat(p) for p in dict.fromkeys(prompts)], max_new_tokens=LIMIT))
        ours, judged = timed(judge, ref, asked, settings, Counter())
        again, _ = timed(judge, ref, asked, settings, Counter())
        assert [j.reply for j in judged] == expected, "the replies differ from the naive loop's"
    print(f"{'':18}{'CPU s':>9}{'answers/s':>11}{'times naive':>13}")
    rows = (("naive loop", loop), ("every answer", every), ("one at a time", singly), ("ours", ours), ("again", again))
    for label, seconds in rows:
        print(f"  {label:16}{seconds:>9.2f}{len(asked) / seconds:>11.0f}{loop / seconds:>13.1f}")


if __name__ == "__main__":
    main()
