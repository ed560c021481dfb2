"""Samples per second of the infer stage beside naive loops of Hugging Face `generate`, in the same process.

    python tests/bench/bench_infer.py [--model FOLDER] [--samples 240] [--batch 32] [--threads 2]

Two naive loops, both one sample at a time: `per signal` generates anew for the text, the log-probabilities, the
entropies and the option logits, as toolkits that compute each signal by itself do; `one pass` generates once and reads
all of them from it. Ours includes everything but reading the weights: looking up, decoding, storing, writing the table.
"""

import argparse
import os
import sys
import tempfile
import time
from contextlib import chdir
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the runner has it; both sides gain

import lightning  # noqa: F401 - importing it is no part of what is measured
import torch

from runners.inputs import Dataset
from runners.models import ModelContext
from runners.models.hf_vlm import HfVlm, hf_vlm
from runners.prompts import messages
from tests.tiny_models import tiny_llava
from tests.tiny_project import Project

LIMIT = 16


def generate(model, dataset, row):
    """One sample, one `generate` call: its answer's tokens and the raw logits of every step."""
    sample = dataset.samples[row]
    prompt = model.render(messages(sample["question"], sample["choices"] or ()))
    inputs = model.processor(text=[prompt], images=[[dataset.image(row)]], return_tensors="pt")
    steps = 1 if sample["choices"] else LIMIT
    out = model.module.generate(**inputs, do_sample=False, max_new_tokens=steps, output_logits=True, return_dict_in_generate=True)
    return out.sequences[0, inputs["input_ids"].shape[1] :], torch.stack(out.logits, dim=1)[0].log_softmax(-1)


def text(model, tokens, logp):
    return model.tokenizer.decode(tokens, skip_special_tokens=True)


def logprobs(model, tokens, logp):
    return logp.gather(1, tokens[:, None])


def entropies(model, tokens, logp):
    return torch.special.entr(logp.exp()).sum(-1)


def options(model, tokens, logp):
    return logp[0, model.option_ids(6)]


def naive(model, dataset, per_signal):
    signals = [text, logprobs, entropies, *([options] if dataset.samples[0]["choices"] else [])]
    with torch.inference_mode():
        for row in range(len(dataset)):
            if per_signal:
                for signal in signals:
                    signal(model, *generate(model, dataset, row))
            else:
                out = generate(model, dataset, row)
                for signal in signals:
                    signal(model, *out)


def timed(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    parser.add_argument("--samples", type=int, default=240)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        weights = chosen.model.resolve() if chosen.model else tiny_llava(place / "model", width=128, layers=3)
        project = Project(place / "project", weights)
        model = hf_vlm(ModelContext("bench", weights))
        module = model.load()
        HfVlm.load = lambda self: self.__dict__.update(module=module, _stops=model._stops) or module
        print(f"{weights.name}: {sum(p.numel() for p in module.parameters()):,} parameters, batch {chosen.batch}, {chosen.threads} threads")
        print(f"{'':16}{'ours':>10}{'again':>12}{'per signal':>14}{'one pass':>12}   samples/s")
        for name, choices in (("open-ended", False), ("multiple choice", True)):
            project.dataset("d", chosen.samples, choices, side=64, seed=int(choices))
            project.stage(["d"], max_new_tokens=LIMIT)
            ours, again = (timed(lambda: project.run(chosen.batch, workers=2, threads=chosen.threads)) for _ in range(2))
            with chdir(project.folder):
                dataset = Dataset("d", Path("results/t/data/d"))
            loops = [timed(naive, model, dataset, per_signal) for per_signal in (True, False)]
            rates = [chosen.samples / s for s in (ours, again, *loops)]
            print(f"{name:16}{rates[0]:>10.1f}{rates[1]:>12.0f}{rates[2]:>14.1f}{rates[3]:>12.1f}")
            print(f"{'':16}ours / per signal = {rates[0] / rates[2]:.1f}, ours / one pass = {rates[0] / rates[3]:.1f}")


if __name__ == "__main__":
    main()
