"""A project folder with small datasets, a small model and an `infer` stage, to run for real."""

import io
import json
import os
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow.parquet as pq

from qualm.registry.sample import GENERATIONS, IMAGES, SAMPLES
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, read_stage
from tests.support.data.scenes_folder import write_card_of
from tests.support.processes.forks import Fork, forks

ROOT = Path(__file__).resolve().parents[3]
CLEAN = {"variant": "clean", "plugin": None, "args": {}}
BLUR = {"variant": "blur@radius=2.0", "plugin": "blur", "modality": "image", "args": {"radius": 2.0}}
NOISE = {"variant": "gaussian_noise@sigma=25.0", "plugin": "gaussian_noise", "modality": "image", "args": {"sigma": 25.0}}
NEEDS = ["text", "token_logprobs", "token_entropies", "option_logits"]
NOUNS = ["cube", "sphere", "cylinder", "cone"]
COLORS = ["red", "green", "blue", "yellow", "purple", "gray"]


def write_dataset(folder: Path, n: int, choices: bool, seed: int = 0, side: int = 32) -> None:
    """n samples on n/3 pictures; the first samples of a longer dataset are those of a shorter one."""
    pictures = []
    for i in range(0, n, 3):
        pixels = np.random.default_rng([seed, i]).integers(0, 256, (side, side, 3), dtype=np.uint8)
        data = io.BytesIO()
        PIL.Image.fromarray(pixels).save(data, "PNG")
        pictures.append({"image_id": f"image{i:04d}", "image": {"bytes": data.getvalue(), "path": f"{i}.png"}})
    samples = [
        {
            "sample_id": f"s{i:04d}", "image_id": f"image{i - i % 3:04d}", "references": [], "category": "",
            "answerable": True, "split": "test",
            "question": f"What color is the {'big ' * (i % 4)}{NOUNS[i % 4]} {i % 10} ?", "source": "test", "group": "", "meta": {},
            "choices": COLORS if choices else [], "answer_index": i % 6 if choices else None,
        }
        for i in range(n)
    ]  # fmt: skip
    write_table(folder / "samples.parquet", samples, SAMPLES)
    write_table(folder / "images" / "00000.parquet", pictures, IMAGES)


class Project:
    """Writes stage files and runs them, in this process or in another."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder = folder
        (folder / "registry" / "data").mkdir(parents=True, exist_ok=True)
        if not (folder / "registry" / "data" / "tiny").exists():
            (folder / "registry" / "data" / "tiny").symlink_to(model)

    def dataset(self, name: str, n: int, choices: bool = False, **more) -> None:
        write_dataset(self.folder / "results" / "t" / "data" / name, n, choices, **more)

    def stage(self, datasets, variants=(CLEAN,), needs=NEEDS, max_new_tokens: int = 4, seed: int = 7, args=None, **more) -> None:
        data = {name: f"results/t/data/{name}" for name in datasets}
        out = {name: f"results/t/generations/base/{name}.parquet" for name in datasets}
        model = {"label": "base", "plugin": "hf_vlm", "args": args or {"artifact": "registry/data/tiny"}, "dtype": "float32"}
        params = {"model": model, "variants": list(variants), "needs": list(needs), "max_new_tokens": max_new_tokens, **more}
        inputs = {"datasets": data, "model": "registry/data/tiny"}
        made = [v["variant"] for v in variants if v.get("made")]
        if made:
            inputs["perturbed"] = {label: {name: f"results/t/perturbed/{label}/{name}" for name in datasets} for label in made}
        stage = {"kind": "infer", "seed": seed, "params": params, "inputs": inputs, "outputs": {"generations": out}}
        path = self.folder / "specs" / "t" / "stages" / "infer.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stage))

    def run(self, batch_size: int = 4, workers: int = 2, key: str = "t/infer", threads: int = 1):
        """In this process; returns the stage with its counters."""
        import torch

        from qualm.runners.stages import infer

        torch.set_num_threads(threads)  # a small model is no faster with more, and much slower where cores are shared
        with chdir(self.folder):
            stage = read_stage(key, Settings(device="cpu", batch_size=batch_size, workers=workers, progress=False))
            infer.run(stage)
        return stage

    def perturb(self, variant, datasets, seed: int = 7, servers=None, **more):
        """Run the `perturb` stage of one variant; returns it with its counters."""
        from qualm.runners.stages import perturb

        data = {name: f"results/t/data/{name}" for name in datasets}
        out = {name: f"results/t/perturbed/{variant['variant']}/{name}" for name in datasets}
        with chdir(self.folder):
            settings = Settings(device="cpu", workers=2, progress=False, servers=servers or {})
            params = {**variant, **more}
            inputs = {"datasets": data, "cards": {name: write_card_of(Path(f"{path}.md")) for name, path in data.items()}}
            outputs = {"perturbed": out, "cards": {name: f"{path}.md" for name, path in out.items()}}
            stage = Stage("t/perturb", "t", "perturb", "perturb", params, inputs, outputs, seed, settings)
            perturb.run(stage)
        return stage

    def command(self, key: str = "t/infer") -> list[str]:
        return [sys.executable, "-m", "qualm.runners", key]

    def environment(self, batch_size: int = 4) -> dict[str, str]:
        own = {
            "QUALM_BATCH_SIZE": str(batch_size),
            "QUALM_DEVICE": "cpu",
            "QUALM_PROGRESS": "0",
            "QUALM_WORKERS": "2",
            "OMP_NUM_THREADS": "1",
        }
        return {**inherited(), "PYTHONPATH": str(ROOT), **own}

    def start(self, batch_size: int = 4, **more) -> subprocess.Popen:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(self.command(), cwd=self.folder, env=self.environment(batch_size), **{**pipes, **more})

    def fork(self, batch_size: int = 4, **environment: str) -> Fork:
        """As `start`, and at once."""
        own = {**self.environment(batch_size), **environment}
        return forks().start("qualm.runners", "t/infer", folder=self.folder, environment=own)

    def output(self, name: str) -> Path:
        return self.folder / "results" / "t" / "generations" / "base" / f"{name}.parquet"

    def rows(self, name: str) -> list[dict]:
        return read_table(self.output(name), GENERATIONS).to_pylist()

    def segments(self) -> list[Path]:
        return sorted((self.folder / ".qualm" / "store").rglob("*.segment"))

    def stored(self) -> list[tuple[bytes, ...]]:
        """The keys of every segment, in the order written: the batches that were computed. One computed twice shows twice."""
        from qualm.runners.data.answers import open_segments

        return [tuple(open_segments(path.parent).read(path.name)["key"].to_pylist()) for path in self.segments()]


def inherited() -> dict[str, str]:
    """This process's environment without what would tell another that it is one of several."""
    ranks = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {name: value for name, value in os.environ.items() if name not in ranks}


def provenance(path: Path) -> dict:
    return json.loads(pq.read_schema(path).metadata[b"qualm"])
