"""Inference between sampled answers beside the loop of usual toolkits, in the same process.

    python tests/bench/bench_nli.py [--model registry/data/scene-vlm-base] [--samples 12] [--threads 1]

The classifier has DeBERTa-v3-xsmall's shape and random weights. The naive way asks it about every ordered pair of the ten draws of
every sample, one pair at a time. `batched` is ours with equal pairs asked anew; `different pairs` ours with one pair at a time; `ours` is
both, and everything: looking up, batching, keeping on disk; `again` is answered from there. `clusters` is what semantic entropy asks.

Draws: of a small VLM that answers questions about scenes, clean, blurred and noisy, at temperature .7 (without the model a random one's);
and made-up sentences of which half, or none, repeat another of their sample, no two samples sharing any.
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import chdir
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the runner has it; both sides gain

import lightning  # noqa: F401 - importing it is no part of what is measured
import numpy as np
import torch

from qualm.runners.contracts.nli import NliContext
from qualm.runners.inference.nli import open_nli
from qualm.runners.plugins.estimators._likeness import infer_all_pairs
from qualm.runners.plugins.estimators._meanings import clusters
from qualm.runners.runtime.settings import Settings
from tests.support.data.scenes_folder import scenes_folder
from tests.support.models.tiny_models import tiny_llava
from tests.support.models.tiny_nli import nli_model
from tests.support.projects.tiny_project import BLUR, CLEAN, NEEDS, NOISE, Project

DRAWS = 10


def draws_of(project, samples):
    """The drawn answers of samples, some of them clean, some blurred, some noisy."""
    with chdir(project.folder):
        made = scenes_folder(project.folder, test=10 * samples)
    place = project.folder / "results" / "t" / "data"
    place.mkdir(parents=True, exist_ok=True)
    (place / "scenes").symlink_to(made)
    project.stage(["scenes"], [CLEAN, BLUR, NOISE], [*NEEDS, "draws"], 16, draws=DRAWS, temperature=0.7, top_p=1.0)
    project.run(32, threads=torch.get_num_threads())
    found = {}
    for row in project.rows("scenes"):
        if row["draw"]:
            found.setdefault((row["sample_id"], row["variant"]), []).append(row["text"])
    every = list(found.values())
    return [every[i] for i in np.linspace(0, len(every) - 1, samples).astype(int)]


def made_up(samples, different):
    """Sentences that no two samples share."""
    rng = np.random.default_rng(different)
    parts = [
        ["red", "blue", "gray", "green", "brown"],
        ["rubber", "metal"],
        ["cube", "sphere", "cylinder"],
        ["left of", "right of", "behind"],
    ]
    found = []
    for sample in range(samples):
        every = [f"It is the {a} {b} {c} {d} object {sample}." for a, b, c, d in itertools.product(*parts)]
        chosen = rng.choice(every, different, replace=False).tolist()
        found.append(rng.permutation(chosen * (DRAWS // different)).tolist())
    return found


def naive(model, tokenizer, texts):
    """Every ordered pair of draws, one after the other; (N, N) entailment logits of each sample."""
    found = []
    with torch.inference_mode():
        for own in texts:
            matrix = np.full((len(own), len(own)), np.nan)
            for i, premise in enumerate(own):
                for j, hypothesis in enumerate(own):
                    if i != j:
                        matrix[i, j] = model(**tokenizer(premise, hypothesis, return_tensors="pt")).logits[0, 2]
            found.append(matrix)
    return found


def timed(function, *arguments):
    """Seconds of this process's CPU, which others on the machine do not lengthen, and the result."""
    start = time.process_time()
    result = function(*arguments)
    return max(time.process_time() - start, 1e-6), result


def opened(folder, cache):
    settings = Settings(device="cpu", progress=False)
    nli = open_nli({"plugin": "hf", "args": {"artifact": str(folder)}}, NliContext(settings, Counter()), cache)
    nli.engine.load()
    return nli


def bench_nli(folder, work, name, texts):
    n = len(texts) * DRAWS * (DRAWS - 1)
    first = opened(folder, work / name / "first")
    model, tokenizer = first.engine._model, first.engine._tokenizer
    loop, expected = timed(naive, model, tokenizer, texts)
    whole, matrices = timed(infer_all_pairs, first, texts)
    asked = first.counters["nli pairs computed"]
    differ = [abs(a[..., 0] - e)[~np.eye(DRAWS, dtype=bool)] for a, e, t in zip(matrices, expected, texts, strict=True)]
    same = [np.array([[a == b for b in t] for a in t])[~np.eye(DRAWS, dtype=bool)] for t in texts]
    error = max(d[~s].max(initial=0) for d, s in zip(differ, same, strict=True))
    again, _ = timed(infer_all_pairs, opened(folder, work / name / "first"), texts)
    pairs = [(a, b) for t in texts for i, a in enumerate(t) for j, b in enumerate(t) if i != j]
    engine = opened(folder, work / name).engine
    batched, _ = timed(lambda: list(engine.infer(pairs)))
    different = list(dict.fromkeys(p for p in pairs if p[0] != p[1]))
    engine.tokens = 1
    singly, _ = timed(lambda: list(engine.infer(different)))
    meaning = opened(folder, work / name / "meaning")
    grouped, _ = timed(clusters, meaning, texts)
    repeats = np.mean([1 - len(set(t)) / len(t) for t in texts])
    print(f"{name}: {len(texts)} samples x {DRAWS} draws, {repeats:.0%} repeat another of their sample; {n} pairs, {asked} asked")
    print(f"  logits differ from the naive loop's by at most {error:.0e}")
    print(f"{'':24}{'CPU s':>9}{'pairs/s':>10}{'times naive':>13}")
    rows = (
        ("naive loop", loop),
        ("batched", batched),
        ("different pairs", singly),
        ("ours", whole),
        ("again", again),
        ("clusters", grouped),
    )
    for label, seconds in rows:
        print(f"  {label:22}{seconds:>9.2f}{n / seconds:>10.0f}{loop / seconds:>13.1f}")
    print(f"  (clusters asked {meaning.counters['nli pairs computed']} pairs)", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, default=Path(__file__).parents[2] / "registry" / "data" / "scene-vlm-base")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        weights = chosen.model.resolve() if chosen.model.is_dir() else tiny_llava(work / "model")
        folder = nli_model(work / "nli", hidden=384, layers=12)
        print(f"{weights.name}, {chosen.threads} threads")
        bench_nli(folder, work, "drawn", draws_of(Project(work / "project", weights), chosen.samples))
        bench_nli(folder, work, "half repeat", made_up(chosen.samples, DRAWS // 2))
        bench_nli(folder, work, "none repeat", made_up(chosen.samples, DRAWS))


if __name__ == "__main__":
    main()
