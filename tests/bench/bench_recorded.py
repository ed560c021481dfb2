"""Many recorded samples: memory and processor time of every stage, by the number of samples.

    python tests/bench/bench_recorded.py --samples 100000 300000
    python tests/bench/bench_recorded.py --samples 1000000 --without score report
    python tests/bench/bench_recorded.py --samples 1000000 --tables

Writes logs of lm-evaluation-harness, half of them open questions and half of four options, for some models (five by default), runs each
stage as DVC does, and prints its peak memory, its seconds of the processor, and both per 100,000 answers: linear is where the last two do
not grow. The floor is `json.loads` of every line of one model's log.

With `--tables` the stages `data` and `infer` run on PART samples of one model, and what they made is written over and over, under other ids
and with answers moved on, until there are so many samples and models: the stages behind them can then be measured by themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = """\
qualm: 1
name: large
datasets: {{d: {{card: lm_eval_samples, source: logs, task: t}}}}
models:
{models}
judges: [rules]
metrics: [accuracy, auroc, ece]
estimators: [max_sequence_probability]
compare: {{interval: {{bootstrap: {bootstrap}}}}}
"""
FLOOR = "import json, sys\nfor line in open(sys.argv[1], 'rb'):\n    json.loads(line)\n"
PART = 50_000
"""Samples of which `--tables` makes the others."""
WORDS = ["red", "green", "blue", "small", "large", "round", "flat", "old", "new", "open"]


def log(path: Path, samples: int, model: int) -> None:
    """What one model answered."""
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8") as file:
        for i in range(samples):
            file.write(json.dumps(row(i, model)) + "\n")


def row(i: int, model: int) -> dict[str, object]:
    number = (i * 2_654_435_761 + model * 97) % 1_000_003
    question = f"Question {i}: what is the {WORDS[i % 10]} thing beside the {WORDS[i // 10 % 10]} one in picture {i // 4}?"
    facts = {"question": question, "category": f"kind {i % 5}", "subject": WORDS[i % 7]}
    common = {"doc_id": i, "filter": "none", "doc_hash": "0" * 64, "prompt_hash": "0" * 64, "target_hash": "0" * 64}
    if i % 2:
        choices = [WORDS[(i + k) % 10] for k in range(4)]
        numbers = [-0.1 - (number * (k + 1) % 977) / 100 for k in range(4)]
        return {
            **common,
            "doc": {**facts, "choices": choices},
            "target": str(i % 4),
            "arguments": {f"gen_args_{k}": {"arg_0": question, "arg_1": f" {c}"} for k, c in enumerate(choices)},
            "resps": [[[str(n), "False"]] for n in numbers],
            "filtered_resps": [[str(n), "False"] for n in numbers],
        }
    said = f"the {WORDS[number % 10]} one" if number % 3 else WORDS[i % 10]
    return {
        **common,
        "doc": {**facts, "answer": WORDS[i % 10]},
        "target": WORDS[i % 10],
        "arguments": {"gen_args_0": {"arg_0": question, "arg_1": {"until": ["\n"]}}},
        "resps": [[said]],
        "filtered_resps": [said],
    }


def cost(command: list[str], cwd: Path) -> tuple[float, float, float]:
    """Seconds on the clock and of the processor, and peak MiB, of a command."""
    environment = {**os.environ, "QUALM_PROGRESS": "false", "DVC_NO_ANALYTICS": "true", "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} exited {process.returncode}")
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, nargs="+", default=[20_000, 60_000])
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--bootstrap", type=int, default=100, help="resamples of intervals")
    parser.add_argument("--tables", action="store_true", help="write the tables of `data` and `infer` without these stages")
    parser.add_argument("--without", nargs="*", default=[], help="kinds of stages that are left out")
    chosen = parser.parse_args()
    print(f"{'samples':>9} {'stage':<22} {'s':>8} {'s of CPU':>9} {'peak MiB':>9} {'CPU / 100,000':>14} {'MiB / 100,000':>14}", flush=True)
    for samples in chosen.samples:
        with tempfile.TemporaryDirectory() as scratch:
            measured(Path(scratch), samples, chosen)


def measured(project: Path, samples: int, chosen: argparse.Namespace) -> None:
    part = min(samples, PART) if chosen.tables else samples
    for model in range(1 if chosen.tables else chosen.models):
        log(project / f"registry/data/logs/m{model}/samples_t_2026-01-01T00-00-00.jsonl", part, model)
    (project / "specs").mkdir()
    models = "\n".join(f"  m{i}: {{recorded: {{source: logs, run: m{i}}}}}" for i in range(chosen.models))
    (project / "specs/large.yaml").write_text(SPEC.format(models=models, bootstrap=chosen.bootstrap))
    (project / "params.yaml").write_text("default: large\n")
    for command in (["git", "init", "-q"], [sys.executable, "-m", "qualm", "compile", "large"]):
        subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)})
    first = next((project / "registry/data/logs/m0").iterdir())
    show(part, "floor: json.loads", cost([sys.executable, "-c", FLOOR, str(first)], project))
    order = ["data", "infer", "judge", "estimate", "calibrate", "score", "report"]
    stages = sorted((project / "specs/large/stages").glob("*.json"), key=lambda path: order.index(path.stem.partition("-")[0]))
    for stage in stages:
        kind = stage.stem.partition("-")[0]
        command = [sys.executable, "-m", "qualm.runners", f"large/{stage.stem}"]
        if (kind not in chosen.without and not stage.stem.startswith("infer-m")) or stage.stem.startswith("infer-m0"):
            show(part if kind in ("data", "infer") else samples, stage.stem, cost(command, project))
        elif kind == "infer" and not chosen.tables:
            cost(command, project)
        if stage.stem.startswith("infer-m0") and chosen.tables:
            multiply(project / "results/large", chosen.models, samples // part)


def multiply(results: Path, models: int, copies: int) -> None:
    """Samples `copies` times under other ids, and answers to them of all models: those of the first one, moved on by some questions."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    def write(path: Path, table: pa.Table, rows: int, shift: int | None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
            for copy in range(copies):
                own = {name: table[name] for name in table.column_names}
                for name in ("sample_id", "question") if copy else ():
                    if name in own:
                        own[name] = pc.binary_join_element_wise(own[name], str(copy), "-")
                if shift is not None:
                    place = (np.arange(len(table)) + 2 * (shift * 601 + copy * 37)) % len(table)  # even: open questions stay open ones
                    own |= {name: table[name].combine_chunks().take(pa.array(place)) for name in ("text", "option_logits")}
                writer.write_table(pa.table(own, schema=table.schema), rows)

    samples, answers = results / "data/d/samples.parquet", results / "generations/m0/d.parquet"
    write(samples, pq.read_table(samples), 512, None)
    table = pq.read_table(answers)
    for model in range(models):
        write(results / f"generations/m{model}/d.parquet", table, 65_536, model)


def show(samples: int, what: str, of: tuple[float, float, float]) -> None:
    seconds, cpu, peak = of
    share = samples / 100_000
    print(f"{samples:>9,} {what:<22} {seconds:8.1f} {cpu:9.1f} {peak:9.0f} {cpu / share:14.1f} {peak / share:14.0f}", flush=True)


if __name__ == "__main__":
    main()
